package gate_test

import (
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
