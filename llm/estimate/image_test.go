package estimate_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/estimate"
)

// formats write a picture in one colour.
var formats = map[string]func(io.Writer, image.Image) error{
	"png":  func(w io.Writer, i image.Image) error { return png.Encode(w, i) },
	"jpeg": func(w io.Writer, i image.Image) error { return jpeg.Encode(w, i, nil) },
	"gif":  func(w io.Writer, i image.Image) error { return gif.Encode(w, i, nil) },
}

// picture returns a picture of this size in base64. Of one that is large, only the head says so.
func picture(t testing.TB, format string, w, h int) string {
	t.Helper()
	if w*h > 1<<20 {
		head := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16([]byte("GIF89a"), uint16(w)), uint16(h))
		return base64.StdEncoding.EncodeToString(append(head, 0, 0, 0))
	}
	var b bytes.Buffer
	if err := formats[format](&b, image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.White, color.Black})); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// shown is a request that shows one picture, in each dialect.
func shown(t testing.TB, d dialect.Name, format, detail, data string) *dialect.Request {
	t.Helper()
	switch d {
	case dialect.Anthropic:
		return read(t, "/v1/messages", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/%s","data":"%s"}}]}]}`, format, data))
	case dialect.Gemini:
		return read(t, "/v1beta/models/m:generateContent", fmt.Sprintf(`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/%s","data":"%s"}}]}]}`, format, data))
	case dialect.Ollama:
		return read(t, "/api/chat", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"","images":["%s"]}]}`, data))
	}
	return read(t, "/v1/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/%s;base64,%s","detail":"%s"}}]}]}`, format, data, detail))
}

const framed = 7 // tokens around the message that shows a picture

func TestPicturesBySize(t *testing.T) {
	for _, c := range []struct {
		dialect dialect.Name
		w, h    int
		want    int64
	}{
		// The examples of OpenAI's guide, and sizes around a tile.
		{dialect.OpenAI, 1024, 1024, 765},
		{dialect.OpenAI, 2048, 4096, 1105},
		{dialect.OpenAI, 512, 512, 255},
		{dialect.OpenAI, 513, 512, 425},
		{dialect.OpenAI, 1, 1, 255},
		// The examples of Anthropic's guide; larger pictures are made smaller.
		{dialect.Anthropic, 200, 200, 53},
		{dialect.Anthropic, 1000, 1000, 1333},
		{dialect.Anthropic, 1092, 1092, 1589},
		{dialect.Anthropic, 3000, 3000, 1600},
		{dialect.Anthropic, 4000, 100, 81},
		{dialect.Anthropic, 1, 1, 1},
		// One tile, or as many as cover it.
		{dialect.Gemini, 384, 384, 258},
		{dialect.Gemini, 385, 384, 258},
		{dialect.Gemini, 1000, 1000, 4 * 258},
		{dialect.Gemini, 4000, 4000, 16 * 258},
		// Of others nothing is known.
		{dialect.Ollama, 1000, 1000, 1100},
	} {
		t.Run(fmt.Sprintf("%s %dx%d", c.dialect, c.w, c.h), func(t *testing.T) {
			for format := range formats {
				in := estimate.New(estimate.Options{}).Input(acme, shown(t, c.dialect, format, "high", picture(t, format, c.w, c.h)))
				if got := in.Counted - framed; got != c.want {
					t.Errorf("%s: %d tokens, want %d", format, got, c.want)
				}
			}
		})
	}
}

func TestPicturesWhoseSizeCannotBeSeen(t *testing.T) {
	whole := picture(t, "png", 600, 600)
	for _, c := range []struct {
		name, detail, data string
		want               int64
	}{
		{"little detail", "low", whole, 85},
		{"no data", "", "", 1100},
		{"no base64", "", "####", 1100},
		{"no picture", "", base64.StdEncoding.EncodeToString([]byte(strings.Repeat("not a picture ", 1000))), 1100},
		{"cut in its head", "", whole[:24], 1100},
		{"cut after its head", "", whole[:80], 765},
		{"a format that is not read", "", base64.StdEncoding.EncodeToString([]byte("RIFF\x00\x00\x00\x00WEBPVP8 ")), 1100},
		{"no pixels", "", base64.StdEncoding.EncodeToString([]byte("GIF89a\x00\x00\x00\x00\x00\x00\x00")), 1100},
		{"more pixels than there are", "", base64.StdEncoding.EncodeToString([]byte("GIF89a\xff\xff\xff\xff\x00\x00\x00")), 765},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := estimate.New(estimate.Options{}).Input(acme, shown(t, dialect.OpenAI, "png", c.detail, c.data))
			if got := in.Counted - framed; got != c.want {
				t.Errorf("%d tokens, want %d", got, c.want)
			}
		})
	}
	t.Run("what is configured", func(t *testing.T) {
		e := estimate.New(estimate.Options{ImageTokens: 400})
		q := read(t, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`)
		if got := e.Input(acme, q).Counted - framed; got != 400 {
			t.Errorf("%d tokens, want 400", got)
		}
	})
}

// TestPictureInAResultOfATool holds that where a picture stands does not matter, and that the
// length of its data never does.
func TestPictureInAResultOfATool(t *testing.T) {
	data := picture(t, "png", 1000, 1000)
	data += strings.Repeat("A", 400_000) // as long as a photograph
	source := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`
	e := estimate.New(estimate.Options{})
	direct := e.Input(acme, read(t, "/v1/messages", `{"model":"m","messages":[{"role":"user","content":[`+source+`]}]}`))
	for name, content := range map[string]string{
		"L-124 in a result":             `{"type":"tool_result","tool_use_id":"t","content":[` + source + `]}`,
		"L-124 in a result of a result": `{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_result","content":[` + source + `]}]}`,
	} {
		in := e.Input(acme, read(t, "/v1/messages", `{"model":"m","messages":[{"role":"user","content":[`+content+`]}]}`))
		if in != direct || in.Counted-framed != 1333 {
			t.Errorf("%s: %+v, want %+v, which is 1333 and its frame", name, in, direct)
		}
	}
}

// TestManyPictures holds that a request's work has a bound, however many pictures it shows:
// those that are not looked at count like those that were.
func TestManyPictures(t *testing.T) {
	q := &dialect.Request{Route: dialect.Route{Dialect: dialect.Anthropic}}
	small := dialect.Part{Kind: dialect.Image, Raw: []byte(picture(t, "gif", 750, 10))}
	large := dialect.Part{Kind: dialect.Image, Raw: []byte(picture(t, "gif", 750, 30))}
	for range 16 {
		q.Parts = append(q.Parts, small, large)
	}
	e := estimate.New(estimate.Options{})
	if in := e.Input(acme, q); in.Counted != 16*10+16*30 {
		t.Errorf("32 pictures are %d tokens, want %d", in.Counted, 16*10+16*30)
	}
	for range 1000 {
		q.Parts = append(q.Parts, large)
	}
	if in := e.Input(acme, q); in.Counted != 1032*20 {
		t.Errorf("1032 pictures are %d tokens, want 20 each", in.Counted)
	}
}
