package bench

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// The gate as it is served: the limit of the address that always runs first, then the
// caller's own, and all its headers. Only the second is what the workload is about.
func gateOf(q quota, o gate.Options) *gate.Gate {
	rule := func(id, kind string, by sluice.Dimension, l limit.Limit) sluice.Rule {
		return sluice.Rule{
			ID:      id,
			Match:   sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {kind}}},
			GroupBy: []sluice.Dimension{by},
			Limits:  []sluice.Limit{{Limit: l}},
		}
	}
	policy := &sluice.Policy{Rules: []sluice.Rule{
		rule("preauth", "preauth", sluice.IP, limit.Bucket(free.n, limit.Second, free.burst)),
		rule("tier-anonymous", "http", sluice.Subject, limit.Bucket(q.n, limit.MicrosOf(q.per), q.burst)),
	}}
	ctl := must(sluice.Open(policy, memory.New(memory.Options{}), sluice.Options{}))
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	return must(gate.New(ctl, o))
}

func init() {
	enter(contestant{
		name:  "sluice",
		guard: func(q quota, next http.Handler) http.Handler { return gateOf(q, gate.Options{}).Handler(next) },
		proxy: func(q quota, to *url.URL) http.Handler {
			return gateOf(q, gate.Options{Upstreams: []upstream.Options{{Name: "app", URL: to.String()}}}).Proxy()
		},
	})
}
