package estimate

import (
	"bytes"
	"encoding/base64"
	"image"
	_ "image/gif"  // the size of a picture
	_ "image/jpeg" // the size of a picture
	_ "image/png"  // the size of a picture

	"github.com/sluicegate/sluice/llm/dialect"
)

// pictures counts the pictures of one request.
type pictures struct {
	dialect dialect.Name
	unknown int64 // tokens of one whose size cannot be seen

	seen, sum int64 // pictures that were looked at, and their tokens
}

const (
	mostSeen  = 32 // pictures of a request that are looked at; more are like those
	lowDetail = 85 // tokens of a picture of OpenAI's that is looked at in little detail
)

// tokens returns the tokens of a picture: by its size in pixels, if the beginning of its data
// is there and says so.
func (s *pictures) tokens(p *dialect.Part) int64 {
	if p.Detail == "low" {
		return lowDetail
	}
	if len(p.Raw) == 0 {
		return s.unknown
	}
	if s.seen == mostSeen {
		return s.sum / s.seen
	}
	n := s.unknown
	in := base64.NewDecoder(base64.StdEncoding, bytes.NewReader(p.Raw))
	if c, _, err := image.DecodeConfig(in); err == nil && c.Width > 0 && c.Height > 0 {
		n = s.bySize(float64(c.Width), float64(c.Height))
	}
	s.seen++
	s.sum += n
	return n
}

// bySize follows what the providers' guides to images said in November 2026. Other models
// of the same provider count differently; what they count is learned.
func (s *pictures) bySize(w, h float64) int64 {
	switch s.dialect {
	case dialect.OpenAI: // made to fit a square, then its shorter side, then cut into tiles
		by := min(1, 2048/max(w, h))
		by = min(by, 768/min(w, h))
		return lowDetail + 170*tiles(w*by, h*by, 512)
	case dialect.Anthropic: // made to fit a square and a number of pixels
		by := min(1, 1568/max(w, h))
		return int64(min(max(w*by*h*by/750, 1), 1600))
	case dialect.Gemini: // one tile, or as many as cover it
		if w <= 384 && h <= 384 {
			return 258
		}
		return 258 * min(tiles(w, h, 768), mostTiles)
	}
	return s.unknown
}

const mostTiles = 16 // of a picture: what says that it is larger is not believed

// tiles returns how many squares cover a picture. One that is a thousandth over is not.
func tiles(w, h, side float64) int64 { return ceil(w/side) * ceil(h/side) }

func ceil(x float64) int64 {
	n := int64(x)
	if x-float64(n) > 1e-3 || n == 0 {
		n++
	}
	return n
}
