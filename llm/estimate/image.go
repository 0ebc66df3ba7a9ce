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

// image returns the tokens of a picture: 85 if little detail is asked for, and else by its
// size in pixels if its data is there, at one token for 750 of them, as Anthropic's
// documentation says; OpenAI's count in tiles comes to about the same.
func (e *Estimator) image(p *dialect.Part) int64 {
	if p.Detail == "low" {
		return lowDetail
	}
	if len(p.Raw) == 0 {
		return e.o.ImageTokens
	}
	in := base64.NewDecoder(base64.StdEncoding, bytes.NewReader(p.Raw))
	c, _, err := image.DecodeConfig(in)
	if err != nil || c.Width <= 0 || c.Height <= 0 {
		return e.o.ImageTokens
	}
	return min(max(int64(c.Width)*int64(c.Height)/pixels, lowDetail), mostOfImage)
}

const (
	lowDetail   = 85
	pixels      = 750
	mostOfImage = 1600 // a larger picture is made smaller
)
