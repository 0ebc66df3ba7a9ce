package gate_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/cost"
	"github.com/sluicegate/sluice/gate/identity"
	"github.com/sluicegate/sluice/gate/upstream"
)

func TestReload(t *testing.T) {
	one, line1 := newKey(t, identity.KeyRecord{})
	two, line2 := newKey(t, identity.KeyRecord{})
	reject := func(lines ...string) gate.Options {
		return gate.Options{Identity: identity.Options{Keys: keys(t, lines...), Unverified: identity.Reject}}
	}
	t.Run("I-116 new options take effect at once and no counter restarts", func(t *testing.T) {
		g := newGate(t, open(t, perHour("key", 1, "http")), reject(line1))
		h := g.Handler(ok)
		first := request("GET", "/", "X-API-Key", one)
		expectList(t, "before", statuses(h, first, request("GET", "/", "X-API-Key", two)), []int{200, 401})
		if err := g.Reload(reject(line1, line2)); err != nil {
			t.Fatal(err)
		}
		expectList(t, "after", statuses(h, first, request("GET", "/", "X-API-Key", two)), []int{429, 200})
	})
	t.Run("on an error the old ones stay", func(t *testing.T) {
		g := newGate(t, open(t), reject(line1))
		if g.Reload(gate.Options{Excluded: []string{"no slash"}}) == nil {
			t.Fatal("a bad pattern was taken")
		}
		expectList(t, "afterwards", statuses(g.Handler(ok), request("GET", "/", "X-API-Key", two)), []int{401})
	})
	t.Run("no request fails while options change", func(t *testing.T) {
		g := newGate(t, open(t), gate.Options{})
		h := g.Handler(ok)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 500 {
					if s := do(h, request("GET", "/")).StatusCode; s != 200 {
						t.Errorf("status %d", s)
					}
				}
			})
		}
		for range 100 {
			if err := g.Reload(gate.Options{Excluded: []string{"/x"}}); err != nil {
				t.Error(err)
			}
		}
		all.Wait()
	})
	t.Run("I-117 B-57 B-W26 a lowered limit holds at once", func(t *testing.T) {
		ctl := open(t, perHour("ip", 100, "http"))
		h := newGate(t, ctl, gate.Options{}).Handler(ok)
		for range 50 {
			do(h, request("GET", "/"))
		}
		if err := ctl.SetPolicy(&sluice.Policy{Rules: []sluice.Rule{perHour("ip", 10, "http")}}); err != nil {
			t.Fatal(err)
		}
		expectList(t, "statuses", statuses(h, request("GET", "/")), []int{429})
	})
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    gate.Options
		want string
	}{
		{"endpoint without ID", gate.Options{Endpoints: []gate.Endpoint{{Pattern: "/x"}}}, "no ID"},
		{"endpoint that cannot match", gate.Options{Endpoints: []gate.Endpoint{{ID: "a", Pattern: "x"}}}, `write "/x"`},
		{"excluded path that cannot match", gate.Options{Excluded: []string{"/x/"}}, `write "/x"`},
		{"cost below zero", gate.Options{Endpoints: []gate.Endpoint{{ID: "a", Pattern: "/x", Cost: cost.Options{Max: -1}}}}, "below zero"},
		{"hops and addresses", gate.Options{ClientIP: gate.ClientIP{Hops: 1, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}, "both set"},
		{"B-W6 weak secret", gate.Options{Identity: identity.Options{Secret: []byte("spector-dev-key!")}}, "spector-dev-key"},
		{"upstream without scheme", gate.Options{Upstreams: []upstream.Options{{Name: "a", URL: "localhost:80"}}}, "begins with none"},
		{"upstreams that tie", gate.Options{Upstreams: []upstream.Options{{Name: "a", URL: "http://a"}, {Name: "b", URL: "http://b"}}}, "neither is more specific"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := gate.New(open(t), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something with %q", err, c.want)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	raw, line := newKey(t, identity.KeyRecord{Name: "ci", Tier: "premium", Tenant: "acme"})
	ctl := open(t, perHour("preauth", 9, "preauth"), perHour("tier", 5, "http"), route("batch", 3))
	g := newGate(t, ctl, gate.Options{
		ClientIP:  gate.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		Identity:  identity.Options{Keys: keys(t, line)},
		Excluded:  []string{"/health"},
		Endpoints: []gate.Endpoint{{ID: "batch", Pattern: "/batch/**", Cost: cost.Options{Extractor: cost.JSONArray}}},
	})
	explain := func(r *http.Request) *gate.Explanation {
		t.Helper()
		e, err := g.Explain(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	batch := func() *http.Request {
		return from("10.0.0.1:1", withBody("//batch/a", ones(2), "X-API-Key", raw, "X-Forwarded-For", "1.1.1.1, 198.51.100.7"))
	}
	e := explain(batch())
	for _, c := range []struct{ what, got, want string }{
		{"path", e.Path, "/batch/a"}, {"client", e.Client, "ip:198.51.100.7"}, {"tenant", e.Tenant, "tenant:acme"},
		{"tier", e.Tier, "premium"}, {"label", e.Label, "ci"}, {"route", e.Route, "batch"},
		{"caller", e.CallerWhy, "verified by X-Api-Key"}, {"remaining", e.Headers.Get("X-RateLimit-Remaining"), "1"},
	} {
		expect(t, c.what, c.got, c.want)
	}
	expect(t, "clean", e.Clean, false)
	expect(t, "admitted", e.Admitted(), true)
	expect(t, "cost", e.Cost, int64(2))
	if len(e.ClientHops) != 1 || e.Identity == nil || len(e.Identity.Rules) != 3 {
		t.Errorf("hops %q, rules %+v", e.ClientHops, e.Identity)
	}
	t.Run("I-096 it takes nothing", func(t *testing.T) {
		for range 20 {
			explain(batch())
		}
		expect(t, "status", do(g.Handler(ok), batch()).StatusCode, 200)
	})
	t.Run("a refusal is told with its status and headers", func(t *testing.T) {
		e := explain(batch())
		expect(t, "status", e.Status, 429)
		if e.Headers.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	})
	t.Run("a failed credential is named, not shown, and not debited", func(t *testing.T) {
		e := explain(request("GET", "/", "X-API-Key", "wrong-key"))
		text, err := json.Marshal(e)
		if err != nil || strings.Contains(string(text), "wrong-key") || !strings.Contains(e.CallerWhy, "no such API key") {
			t.Errorf("got %s, %v", text, err)
		}
	})
	for target, check := range map[string]func(*gate.Explanation) bool{
		"/health": func(e *gate.Explanation) bool { return e.Excluded && e.Client == "" },
		"/a%00":   func(e *gate.Explanation) bool { return e.Status == 400 && e.Problem != "" },
	} {
		t.Run(target, func(t *testing.T) {
			if e := explain(request("GET", target)); !check(e) {
				t.Errorf("got %+v", e)
			}
		})
	}
}
