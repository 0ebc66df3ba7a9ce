package gate_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/cost"
	"github.com/sluicegate/sluice/identity"
)

// kindsOf returns the calls that an explanation is about.
func kindsOf(e *gate.Explanation) string {
	var kinds []string
	for _, a := range e.Asked {
		kinds = append(kinds, a.Kind)
	}
	return strings.Join(kinds, " ")
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
	if len(e.ClientHops) != 1 || kindsOf(e) != "preauth http" || len(e.Asked[1].Rules) != 3 {
		t.Errorf("hops %q, asked %+v", e.ClientHops, e.Asked)
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
	t.Run("a body that is too large, and a stream", func(t *testing.T) {
		o := gate.Options{Bounds: gate.Bounds{BodyBytes: new(int64(3))}}
		g := newGate(t, open(t, perHour("tier", 5, "http"), slots("streams", 0, "stream")), o)
		for _, c := range []struct {
			r      *http.Request
			status int
			kinds  string
		}{
			{withBody("/", "long"), 413, ""},
			{request("GET", "/"), 0, "http"},
			{request("GET", "/", "Accept", "text/event-stream"), 403, "http stream"},
		} {
			e, err := g.Explain(t.Context(), c.r)
			if err != nil || e.Status != c.status || kindsOf(e) != c.kinds {
				t.Errorf("got %v, %d and calls of %q, want %d and %q", err, e.Status, kindsOf(e), c.status, c.kinds)
			}
		}
	})
	t.Run("I-018 the site is asked as for a request, and only if a rule names it", func(t *testing.T) {
		g := newGate(t, open(t, perHour("site", 1, "preauth-site", sluice.IP), perHour("tier", 5, "http")), gate.Options{})
		six := func() *http.Request { return from("[2001:db8::1]:1", request("GET", "/")) }
		for r, kinds := range map[*http.Request]string{six(): "preauth-site http", request("GET", "/"): "http"} {
			e, err := g.Explain(t.Context(), r)
			if err != nil || kindsOf(e) != kinds {
				t.Errorf("got %v and calls of %q, want %q", err, kindsOf(e), kinds)
			}
		}
		do(g.Handler(ok), six())
		e, err := g.Explain(t.Context(), six())
		if err != nil || e.Status != 429 || kindsOf(e) != "preauth-site" {
			t.Errorf("got %v, %d and calls of %q, want 429 by preauth-site", err, e.Status, kindsOf(e))
		}
	})
	t.Run("I-101 an address that has used up its failed credentials", func(t *testing.T) {
		o := gate.Options{Identity: identity.Options{Keys: keys(t, line)}}
		g := newGate(t, open(t, perHour("auth", 1, "auth-failure", sluice.IP)), o)
		bad := request("GET", "/", "X-API-Key", "x")
		do(g.Handler(ok), bad)
		for _, r := range []*http.Request{bad, request("GET", "/", "X-API-Key", raw)} {
			e, err := g.Explain(t.Context(), r)
			if err != nil || e.Status != 429 || kindsOf(e) != "auth-failure" {
				t.Errorf("got %v, %d and calls of %q, want 429 by auth-failure", err, e.Status, kindsOf(e))
			}
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
