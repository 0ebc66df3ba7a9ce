package gate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/identity"
)

func TestClientAddress(t *testing.T) {
	trusted := gate.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	xff := func(addr, value string) *http.Request {
		return from(addr, request("GET", "/", "X-Forwarded-For", value))
	}
	for _, c := range []struct {
		name     string
		client   gate.ClientIP
		requests []*http.Request
		want     []int
	}{
		{"I-001 B-W3 a header of an untrusted peer does not choose the bucket", gate.ClientIP{},
			[]*http.Request{xff(peer, "1.1.1.1"), xff(peer, "2.2.2.2"), xff(peer, "3.3.3.3")}, []int{200, 200, 429}},
		{"I-002 B-20 no header is believed without a trust list", gate.ClientIP{},
			[]*http.Request{
				request("GET", "/", "X-Real-IP", "9.9.9.9"), request("GET", "/", "True-Client-IP", "9.9.9.8"),
				request("GET", "/", "CF-Connecting-IP", "9.9.9.7"),
			}, []int{200, 200, 429}},
		{"B-W3 behind a trusted proxy the rightmost untrusted hop counts", trusted,
			[]*http.Request{
				xff("10.0.0.1:1", "6.6.6.1, 198.51.100.7"), xff("10.0.0.2:1", "6.6.6.2, 198.51.100.7, 10.0.0.9"),
				xff("10.0.0.1:1", "6.6.6.3, 198.51.100.7"), xff("10.0.0.1:1", "198.51.100.8"),
			}, []int{200, 200, 429, 200}},
		{"I-005 I-012 junk in the header is the proxy's own bucket", trusted,
			[]*http.Request{
				xff("10.0.0.1:1", "198.51.100.7, junk"), xff("10.0.0.1:1", "23189987"), xff("10.0.0.1:1", "zz"),
				xff("10.0.0.1:1", "198.51.100.7"),
			}, []int{200, 200, 429, 200}},
		{"I-014 an IPv4 address in IPv6 spelling is itself", gate.ClientIP{},
			[]*http.Request{
				from("[::ffff:198.51.100.7]:1", request("GET", "/")), from("198.51.100.7:2", request("GET", "/")),
				from("[::ffff:198.51.100.7]:3", request("GET", "/")), from("[::ffff:203.0.113.9]:1", request("GET", "/")),
			}, []int{200, 200, 429, 200}},
		{"B-W3 IPv6 is grouped by /64", gate.ClientIP{},
			[]*http.Request{
				from("[2001:db8::1]:1", request("GET", "/")), from("[2001:db8::2]:1", request("GET", "/")),
				from("[2001:db8::3]:1", request("GET", "/")), from("[2001:db8:0:1::3]:1", request("GET", "/")),
			}, []int{200, 200, 429, 200}},
		{"I-009 peers without an address share one bucket", gate.ClientIP{},
			[]*http.Request{from("@", request("GET", "/")), from("", request("GET", "/")), from("@", request("GET", "/"))},
			[]int{200, 200, 429}},
		{"I-030 other headers are no part of the key", gate.ClientIP{},
			[]*http.Request{
				request("GET", "/", "User-Agent", "a"), request("GET", "/", "User-Agent", "b"), request("GET", "/", "User-Agent", "c"),
			}, []int{200, 200, 429}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, open(t, perHour("ip", 2, "http")), gate.Options{ClientIP: c.client})
			expectList(t, "statuses", statuses(g.Handler(ok), c.requests...), c.want)
		})
	}
}

func TestPreAuth(t *testing.T) {
	raw, line := newKey(t, identity.KeyRecord{Name: "ci"})
	o := gate.Options{Identity: identity.Options{Keys: keys(t, line)}}
	t.Run("B-W1 I-022 10 000 random keys from one address meet its own limit", func(t *testing.T) {
		h := newGate(t, open(t, perHour("preauth", 50, "preauth", sluice.IP)), o).Handler(ok)
		n := admitted(h, 10_000, func(i int) *http.Request {
			return request("GET", "/", "X-API-Key", "junk-"+strconv.Itoa(i))
		})
		expect(t, "admitted", n, 50)
	})
	t.Run("I-022 a good credential does not skip it", func(t *testing.T) {
		h := newGate(t, open(t, perHour("preauth", 3, "preauth", sluice.IP)), o).Handler(ok)
		n := admitted(h, 5, func(int) *http.Request { return request("GET", "/", "X-API-Key", raw) })
		expect(t, "admitted", n, 3)
	})
	t.Run("B-19 the two phases are two mount points", func(t *testing.T) {
		ctl := open(t, perHour("preauth", 3, "preauth", sluice.IP), perHour("user", 2, "http"))
		g := newGate(t, ctl, gate.Options{})
		asked := 0
		app := g.PreAuth(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++ // the application's own authentication
			ctx := gate.WithPrincipal(r.Context(), identity.Principal{Subject: "user:" + r.Header.Get("X-User")})
			g.Identity(ok).ServeHTTP(w, r.WithContext(ctx))
		}))
		got := statuses(app,
			request("GET", "/", "X-User", "ann"), request("GET", "/", "X-User", "bob"),
			request("GET", "/", "X-User", "ann"), request("GET", "/", "X-User", "ann"))
		expectList(t, "statuses", got, []int{200, 200, 200, 429})
		expect(t, "times the application was asked", asked, 3)
		got = statuses(app, from("198.51.100.1:1", request("GET", "/", "X-User", "ann")))
		expectList(t, "ann from elsewhere", got, []int{429})
	})
	t.Run("Identity alone brings the first phase with it", func(t *testing.T) {
		h := newGate(t, open(t, perHour("preauth", 2, "preauth", sluice.IP)), gate.Options{}).Identity(ok)
		expectList(t, "statuses", statuses(h, request("GET", "/"), request("GET", "/"), request("GET", "/")), []int{200, 200, 429})
	})
}

func TestSites(t *testing.T) {
	t.Run("I-018 the networks of one /48 share a looser limit", func(t *testing.T) {
		h := newGate(t, open(t, perHour("net", 10, "preauth"), perHour("site", 200, "preauth-site")), gate.Options{}).Handler(ok)
		n := admitted(h, 300, func(i int) *http.Request {
			return from(fmt.Sprintf("[2001:db8:1:%x::1]:1", i), request("GET", "/"))
		})
		expect(t, "admitted", n, 200)
		expectList(t, "another site", statuses(h, from("[2001:db8:2::1]:1", request("GET", "/"))), []int{200})
		expectList(t, "IPv4", statuses(h, request("GET", "/")), []int{200})
	})
	t.Run("I-016 I-017 zones and NAT64", func(t *testing.T) {
		o := gate.Options{ClientIP: gate.ClientIP{NAT64: []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96")}}}
		h := newGate(t, open(t, perHour("ip", 1, "http")), o).Handler(ok)
		got := statuses(h, from("[fe80::1%eth0]:1", request("GET", "/")), from("[fe80::1%eth1]:1", request("GET", "/")),
			from("[64:ff9b::c633:6407]:1", request("GET", "/")), from("[64:ff9b::cb00:7109]:1", request("GET", "/")),
			from("198.51.100.7:1", request("GET", "/")))
		expectList(t, "statuses", got, []int{200, 429, 200, 200, 429})
	})
	t.Run("a rule for every kind counts a request once", func(t *testing.T) {
		all := perHour("all", 3, "")
		all.Match = sluice.Match{}
		h := newGate(t, open(t, all), gate.Options{}).Handler(ok)
		expect(t, "admitted", admitted(h, 5, func(int) *http.Request { return request("GET", "/") }), 3)
	})
}

func TestMountedTwice(t *testing.T) {
	t.Run("I-040 a request that passes a gate twice is debited once", func(t *testing.T) {
		ctl := open(t, perHour("preauth", 10, "preauth", sluice.IP), perHour("ip", 10, "http"))
		var log strings.Builder
		g := newGate(t, ctl, gate.Options{Logger: textLogger(&log)})
		h := g.Handler(g.Handler(g.PreAuth(g.Identity(ok))))
		expect(t, "admitted", admitted(h, 12, func(int) *http.Request { return request("GET", "/") }), 10)
		expect(t, "warnings", strings.Count(log.String(), "SLUICE_W105"), 1)
	})
	t.Run("I-072 and every field has one value", func(t *testing.T) {
		g := newGate(t, open(t, perHour("ip", 10, "http")), gate.Options{})
		resp := do(g.Handler(g.Handler(ok)), request("GET", "/"))
		for _, name := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit", "Ratelimit-Policy"} {
			expect(t, name+" values", len(resp.Header[name]), 1)
		}
	})
	t.Run("a gate does not take another gate's word for who calls", func(t *testing.T) {
		believing := newGate(t, open(t), gate.Options{Identity: identity.Options{Unverified: identity.Accept}})
		h := believing.Handler(newGate(t, open(t, perHour("ip", 1, "http")), gate.Options{}).Handler(ok))
		got := statuses(h, request("GET", "/", "X-API-Key", "a"), request("GET", "/", "X-API-Key", "b"))
		expectList(t, "statuses", got, []int{200, 429})
	})
	t.Run("two gates are two gates", func(t *testing.T) {
		a := newGate(t, open(t, perHour("ip", 3, "http")), gate.Options{})
		b := newGate(t, open(t, perHour("ip", 2, "http")), gate.Options{})
		expect(t, "admitted", admitted(a.Handler(b.Handler(ok)), 5, func(int) *http.Request { return request("GET", "/") }), 2)
	})
}

func TestPrincipal(t *testing.T) {
	raw, line := newKey(t, identity.KeyRecord{Name: "ci", Tier: "premium", Tenant: "acme"})
	g := newGate(t, open(t), gate.Options{Identity: identity.Options{Keys: keys(t, line)}})
	var seen identity.Principal
	var found bool
	h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, found = gate.PrincipalFrom(r.Context())
	}))
	do(h, request("GET", "/", "X-API-Key", raw))
	if !found || seen.Tier != "premium" || seen.Tenant != "tenant:acme" || seen.Label != "ci" || !strings.HasPrefix(seen.Subject, "apikey:") {
		t.Errorf("the handler saw %+v, %v", seen, found)
	}
	do(h, request("GET", "/"))
	if found {
		t.Errorf("without a credential the handler saw %+v", seen)
	}
	if _, found := gate.PrincipalFrom(context.Background()); found {
		t.Error("an empty context has a principal")
	}
}

func TestDisabledAndExcluded(t *testing.T) {
	none := perHour("none", 0, "http")
	t.Run("B-1 switched off, every request passes without headers", func(t *testing.T) {
		resp := do(newGate(t, open(t, none), gate.Options{Disabled: true}).Handler(ok), request("GET", "/"))
		expect(t, "status", resp.StatusCode, 200)
		expect(t, "limit header", resp.Header.Get("X-RateLimit-Limit"), "")
	})
	g := newGate(t, open(t, none, perHour("preauth", 0, "preauth")), gate.Options{
		Excluded: []string{"/actuator/health/**", "/actuator/info", "/index.html", "/assets/**"},
	})
	for _, path := range []string{"/actuator/health", "/actuator/health/liveness", "/actuator/health/readiness", "/actuator/info", "/assets/a/b.js", "/assets/x?y=1"} {
		t.Run("B-2 B-68 B-71 B-W8 excluded "+path, func(t *testing.T) {
			resp := do(g.Handler(ok), request("GET", path))
			expect(t, "status", resp.StatusCode, 200)
			expect(t, "limit header", resp.Header.Get("X-RateLimit-Limit"), "")
		})
	}
	for _, path := range []string{"/", "/actuator/health/../../admin", "/assets/%2e%2e/admin", "//assets/x", "/assets/;x/../a", "/assets/", "/Assets/x", "/assets%2fx"} {
		t.Run("rule B: not excluded "+path, func(t *testing.T) {
			expect(t, "status", do(g.Handler(ok), request("GET", path)).StatusCode, 403)
		})
	}
}
