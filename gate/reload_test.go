package gate_test

import (
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/cost"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/identity"
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

// TestRememberedRefusals is about what a gate keeps in mind between requests.
func TestRememberedRefusals(t *testing.T) {
	raw, line := newKey(t, identity.KeyRecord{})
	o := gate.Options{Identity: identity.Options{Keys: keys(t, line), Unverified: identity.Reject}}
	change := func(ctl *sluice.Controller, rules ...sluice.Rule) {
		t.Helper()
		if err := ctl.SetPolicy(&sluice.Policy{Rules: rules}); err != nil {
			t.Fatal(err)
		}
	}
	good, bad := request("GET", "/", "X-API-Key", raw), request("GET", "/", "X-API-Key", "wrong")
	t.Run("P-085 an address that has used up its failures may go on as soon as it may have more", func(t *testing.T) {
		ctl := open(t, perHour("auth", 1, "auth-failure", sluice.IP))
		h := newGate(t, ctl, o).Handler(ok)
		expectList(t, "before", statuses(h, bad, good), []int{401, 429})
		change(ctl, perHour("auth", 3, "auth-failure", sluice.IP))
		expectList(t, "after", statuses(h, good, bad, bad, good), []int{200, 401, 401, 429})
	})
	t.Run("P-085 a phase that no rule was about is asked as soon as one is", func(t *testing.T) {
		ctl := open(t, perHour("ip", 9, "http"))
		h := newGate(t, ctl, gate.Options{}).Handler(ok)
		expectList(t, "before", statuses(h, good), []int{200})
		change(ctl, perHour("ip", 9, "http"), perHour("preauth", 1, "preauth"))
		expectList(t, "with a rule", statuses(h, good, good), []int{200, 429})
		change(ctl, perHour("ip", 9, "http"))
		expectList(t, "without it again", statuses(h, good), []int{200})
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
