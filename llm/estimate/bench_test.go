package estimate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/estimate"
)

// repeated returns size bytes of the texts of one kind, as they stand in a request.
func repeated(b *testing.B, kind string, size int) []byte {
	b.Helper()
	var text bytes.Buffer
	for _, p := range corpus(b, "held-out") {
		if strings.HasPrefix(p.File, kind) {
			text.Write(p.quoted())
		}
	}
	return bytes.Repeat(text.Bytes(), size/text.Len()+1)[:size]
}

var sink int64

// BenchmarkAdd counts 100 KB, all of which is read. The row "bytes" is a loop that adds up
// the bytes and does nothing else: what reading costs here.
func BenchmarkAdd(b *testing.B) {
	const size = 100_000
	run := func(name string, text []byte, f func([]byte) int64) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				sink += f(text)
			}
		})
	}
	add := func(text []byte) int64 {
		var c estimate.Counter
		c.Add(text)
		return c.Tokens()
	}
	run("bytes", repeated(b, "english", size), func(text []byte) (sum int64) {
		for _, c := range text {
			sum += int64(c)
		}
		return sum
	})
	for _, kind := range []string{"english", "go", "tools", "records", "base64", "russian", "chinese", "thai"} {
		run(kind, repeated(b, kind, size), add)
	}
	for _, hostile := range []string{"a", " ", `\`, `\u`, `\ud83d`, "1\\n", "\x80", "aA1."} {
		run(fmt.Sprintf("L-132 %q", hostile), bytes.Repeat([]byte(hostile), size/len(hostile)), add)
	}
	b.Run("L-132 50 MB", func(b *testing.B) { // of which 128 KiB are read
		text := repeated(b, "records", 50<<20)
		b.ReportAllocs()
		for b.Loop() {
			sink += add(text)
		}
	})
}

// BenchmarkInput estimates a chat of 20 messages, 20 KB in all, whose key is known.
func BenchmarkInput(b *testing.B) {
	q := &dialect.Request{Route: dialect.Route{Dialect: dialect.OpenAI}}
	text := repeated(b, "english", 20_000)
	for i := range 20 {
		q.Parts = append(q.Parts, dialect.Part{Kind: dialect.Turn}, dialect.Part{Kind: dialect.Text, Raw: text[i*1000 : i*1000+1000]})
	}
	e := estimate.New(estimate.Options{})
	key := estimate.Key{Tenant: "acme", Model: "gpt-5"}
	e.Learn(key, estimate.Input{Counted: 5000}, 5100, 300)
	b.ReportAllocs()
	for b.Loop() {
		sink += e.Input(key, q).Reserve + e.Output(key, -1)
	}
}

// BenchmarkLearn learns from an answer of a known key.
func BenchmarkLearn(b *testing.B) {
	e := estimate.New(estimate.Options{})
	key := estimate.Key{Tenant: "acme", Model: "gpt-5"}
	b.ReportAllocs()
	for b.Loop() {
		e.Learn(key, estimate.Input{Counted: 5000}, 5100, sink%2000)
		sink += 7
	}
}
