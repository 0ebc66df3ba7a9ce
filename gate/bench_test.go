package gate_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/identity"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/wire"
)

// discard is an answer that nobody reads.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(b []byte) (int, error) { return len(b), nil }

func BenchmarkMiddleware(b *testing.B) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	fast := func(kind string) sluice.Rule {
		r := perHour("tier-"+kind, 1, kind)
		r.Limits = []sluice.Limit{{Limit: limit.Bucket(1e9, limit.Second, 1e6)}}
		return r
	}
	raw, line := newKey(b, identity.KeyRecord{})
	for name, h := range map[string]http.Handler{
		"bare":       hello,
		"gate":       newGate(b, open(b, fast("preauth"), fast("http")), gate.Options{}).Handler(hello),
		"no headers": newGate(b, open(b, fast("preauth"), fast("http")), gate.Options{Headers: gate.Headers{Families: []wire.Family{}}}).Handler(hello),
		"api key":    newGate(b, open(b, fast("http")), gate.Options{Identity: identity.Options{Keys: keys(b, line)}}).Handler(hello),
		"refused":    newGate(b, open(b, perHour("none", 0, "http")), gate.Options{}).Handler(hello),
	} {
		b.Run(name, func(b *testing.B) {
			r := request("GET", "/api/v1/things?x=1", "X-API-Key", raw, "Accept", "*/*", "User-Agent", "bench")
			w := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				h.ServeHTTP(w, r)
			}
		})
	}
}
