package wire

import (
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

// discard is a ResponseWriter that costs nothing but its header.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkAnnotate is beside its floor: the same five fields from values that somebody
// has formatted before.
func BenchmarkAnnotate(b *testing.B) {
	h := make(http.Header, 8)
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			clear(h)
			for _, key := range [...]field{xLimit, xRemaining, xReset, rateLimit, policy} {
				h[names[key]] = []string{"1700000000"}
			}
		}
	})
	w := mustNew(b, Options{})
	for _, bb := range []struct {
		name   string
		levels []sluice.Level
	}{{"one", []sluice.Level{tier}}, {"four", []sluice.Level{tier, daily, inside, tokens}}} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				clear(h)
				w.Annotate(h, bb.levels, now)
			}
		})
	}
}

// BenchmarkRefuse is beside the answer of a bare handler.
func BenchmarkRefuse(b *testing.B) {
	rw := &discard{make(http.Header, 8)}
	r, err := http.NewRequest("GET", "http://example.com/a/b", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("floor", func(b *testing.B) {
		body := make([]byte, 350)
		b.ReportAllocs()
		for b.Loop() {
			clear(rw.h)
			rw.h["Content-Type"] = []string{"text/plain"}
			rw.WriteHeader(200)
			_, _ = rw.Write(body)
		}
	})
	w := mustNew(b, Options{})
	ref := rate(6612*time.Millisecond, tier, burst)
	for _, bb := range []struct {
		name   string
		refuse func()
	}{
		{"problem", func() { w.Refuse(rw, r, ref) }},
		{"rpc", func() { w.RefuseRPC(rw, r, ref, RPC{}) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				clear(rw.h)
				bb.refuse()
			}
		})
	}
}
