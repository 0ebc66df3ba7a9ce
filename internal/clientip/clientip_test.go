package clientip

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// proxies are the trusted prefixes of the vectors in facts/inbound.md 7.1.
func proxies() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
}

func mustNew(t testing.TB, o Options) *Resolver {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func xff(lines ...string) http.Header { return http.Header{"X-Forwarded-For": lines} }

func rfc7239(lines ...string) http.Header { return http.Header{"Forwarded": lines} }

func TestResolve(t *testing.T) {
	behind := Options{Trusted: proxies()}
	std := Options{Trusted: proxies(), Header: "forwarded"}
	hops2 := Options{Hops: 2}
	const proxy = "10.0.0.1:5000"
	tests := []struct {
		name     string
		o        Options
		peer     string
		h        http.Header
		want     string // identity
		fallback Fallback
	}{
		{"7.1 untrusted peer", behind, "203.0.113.9:5000", xff("198.51.100.1"), "ip:203.0.113.9", ""},
		{"7.1 rightmost untrusted", behind, proxy, xff("1.1.1.1, 198.51.100.7"), "ip:198.51.100.7", ""},
		{"7.1 past a trusted hop", behind, proxy, xff("1.1.1.1, 198.51.100.7, 10.0.0.2"), "ip:198.51.100.7", ""},
		{"7.1 two lines", behind, proxy, xff("1.1.1.1", "198.51.100.7"), "ip:198.51.100.7", ""},
		{"7.1 junk", behind, proxy, xff("198.51.100.7, junk"), "ip:10.0.0.1", Unparsable},
		{"7.1 empty element", behind, proxy, xff("198.51.100.7, "), "ip:10.0.0.1", Unparsable},
		{"7.1 unknown", behind, proxy, xff("unknown"), "ip:10.0.0.1", Unparsable},
		{"7.1 port", behind, proxy, xff("198.51.100.7:443"), "ip:198.51.100.7", ""},
		{"7.1 IPv6 with a port", behind, proxy, xff("[2001:db8::7]:443"), "ip:2001:db8::/64", ""},
		{"7.1 mapped", behind, proxy, xff("::ffff:198.51.100.7"), "ip:198.51.100.7", ""},
		{"7.1 I-009 all trusted", behind, proxy, xff("10.9.9.9, 10.0.0.2"), "ip:10.9.9.9", ""},
		{"7.1 no header", behind, proxy, nil, "ip:10.0.0.1", ""},
		{"7.1 IPv6 peer", behind, "[fd00::1]:5000", xff("2001:db8:1:2:3:4:5:6"), "ip:2001:db8:1:2::/64", ""},
		{"7.1 mapped peer", behind, "[::ffff:10.0.0.1]:5000", xff("198.51.100.7"), "ip:198.51.100.7", ""},
		{"7.1 unix", behind, "@", xff("198.51.100.7"), "ip:unix", ""},
		{"7.1 unix trusted", Options{TrustUnix: true}, "@", xff("198.51.100.7"), "ip:198.51.100.7", ""},
		{"unix trusted, no header", Options{TrustUnix: true}, "", nil, "ip:unix", ""},
		{"unix trusted, junk", Options{TrustUnix: true}, "@", xff("junk"), "ip:unix", Unparsable},

		{"I-001 nobody trusted", Options{}, "203.0.113.9:1", xff("1.1.1.1"), "ip:203.0.113.9", ""},
		{"I-002 vendor header, no trust", Options{Header: "X-Real-IP"}, "203.0.113.9:1",
			http.Header{"X-Real-Ip": {"9.9.9.9"}}, "ip:203.0.113.9", ""},
		{"I-004 one header only", behind, proxy,
			http.Header{"Forwarded": {"for=1.2.3.4"}, "X-Forwarded-For": {"198.51.100.7"}}, "ip:198.51.100.7", ""},
		{"I-004 no falling through", behind, proxy, rfc7239("for=1.2.3.4"), "ip:10.0.0.1", ""},
		{"I-005 victim, garbage", behind, proxy, xff("198.51.100.66, garbage"), "ip:10.0.0.1", Unparsable},
		{"I-008 vendor header of a stranger", Options{Header: "CF-Connecting-IP", Trusted: proxies()}, "9.9.9.9:1",
			http.Header{"Cf-Connecting-Ip": {"1.1.1.1"}}, "ip:9.9.9.9", ""},
		{"I-008 vendor header of the vendor", Options{Header: "CF-Connecting-IP", Trusted: proxies()}, proxy,
			http.Header{"Cf-Connecting-Ip": {"1.1.1.1"}}, "ip:1.1.1.1", ""},
		{"I-012 a number", behind, proxy, xff("23189987"), "ip:10.0.0.1", Unparsable},
		{"I-012 leading zeros", behind, proxy, xff("010.0.0.1"), "ip:10.0.0.1", Unparsable},
		{"I-012 blank inside", behind, proxy, xff("1.1.1.1 2.2.2.2"), "ip:10.0.0.1", Unparsable},
		{"I-013 user behind a component", behind, "10.0.0.7:1", xff("203.0.113.5"), "ip:203.0.113.5", ""},
		{"I-016 zone", behind, "[fe80::1%eth0]:1", nil, "ip:fe80::/64", ""},
		{"I-016 zone in the header", behind, proxy, xff("fe80::1%eth1"), "ip:fe80::/64", ""},
		{"I-016 zone of a trusted peer", Options{Trusted: []netip.Prefix{netip.MustParsePrefix("fe80::/10")}}, "[fe80::1%eth0]:1",
			xff("198.51.100.7"), "ip:198.51.100.7", ""},
		{"P-162 victim named by a stranger", behind, "9.9.9.9:1", xff("198.51.100.66"), "ip:9.9.9.9", ""},
		{"P-164 no address", behind, "", nil, "ip:unix", ""},
		{"P-164 no port", behind, "9.9.9.9", nil, "ip:9.9.9.9", ""},
		{"last trusted hop, not the peer", behind, proxy, xff("1.1.1.1, junk, 10.0.0.2"), "ip:10.0.0.2", Unparsable},
		{"empty line on the right", behind, proxy, xff("1.1.1.1", ""), "ip:10.0.0.1", Unparsable},
		{"bad port", behind, proxy, xff("1.1.1.1:x"), "ip:10.0.0.1", Unparsable},
		{"no port after the colon", behind, proxy, xff("1.1.1.1:"), "ip:10.0.0.1", Unparsable},
		{"IPv4 in brackets", behind, proxy, xff("[1.1.1.1]"), "ip:10.0.0.1", Unparsable},
		{"open bracket", behind, proxy, xff("[2001:db8::7"), "ip:10.0.0.1", Unparsable},
		{"text after the bracket", behind, proxy, xff("[2001:db8::7]x"), "ip:10.0.0.1", Unparsable},

		{"hops", hops2, "203.0.113.9:1", xff("1.1.1.1, 198.51.100.7, 10.0.0.2"), "ip:198.51.100.7", ""},
		{"hops, two lines", hops2, "203.0.113.9:1", xff("1.1.1.1, 198.51.100.7", "10.0.0.2"), "ip:198.51.100.7", ""},
		{"hops, too few", hops2, "203.0.113.9:1", xff("198.51.100.7"), "ip:203.0.113.9", TooFew},
		{"hops, junk", hops2, "203.0.113.9:1", xff("junk, 10.0.0.2"), "ip:203.0.113.9", Unparsable},

		{"Forwarded", std, proxy, rfc7239("for=1.1.1.1, for=198.51.100.7;proto=https;by=10.0.0.1"), "ip:198.51.100.7", ""},
		{"Forwarded, quoted IPv6", std, proxy, rfc7239(`for=1.1.1.1, For="[2001:db8:cafe::17]:4711"`), "ip:2001:db8:cafe::/64", ""},
		{"Forwarded, comma in quotes", std, proxy, rfc7239(`for=1.1.1.1, for=9.9.9.9;host="a,b;for=2.2.2.2"`), "ip:9.9.9.9", ""},
		{"Forwarded, disguised port", std, proxy, rfc7239(`for="9.9.9.9:_gw"`), "ip:9.9.9.9", ""},
		{"Forwarded, client's open quote", std, proxy, rfc7239(`for="1.1.1.1, for=9.9.9.9`), "ip:9.9.9.9", ""},
		{"Forwarded, backslash", std, proxy, rfc7239(`for=9.9.9.9;host="a\", for=6.6.6.6;x=\"b"`), "ip:10.0.0.1", Unparsable},
		{"Forwarded, unknown", std, proxy, rfc7239("for=unknown"), "ip:10.0.0.1", Unparsable},
		{"Forwarded, obfuscated", std, proxy, rfc7239("for=_hidden"), "ip:10.0.0.1", Unparsable},
		{"Forwarded, twice", std, proxy, rfc7239("for=1.1.1.1;for=2.2.2.2"), "ip:10.0.0.1", Unparsable},
		{"Forwarded, none", std, proxy, rfc7239("by=1.1.1.1"), "ip:10.0.0.1", Unparsable},
		{"Forwarded, no value", std, proxy, rfc7239("for"), "ip:10.0.0.1", Unparsable},
		{"Forwarded, unclosed", std, proxy, rfc7239(`by=x;for="1.1.1.1`), "ip:10.0.0.1", Unparsable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := mustNew(t, tt.o)
			c := r.Resolve(tt.peer, tt.h)
			if got := r.Identity(c.Addr); got != tt.want || c.Fallback != tt.fallback {
				t.Errorf("%s, fallback %q; want %s, %q", got, c.Fallback, tt.want, tt.fallback)
			}
			if trace := r.Explain(tt.peer, tt.h); trace.Client != c || trace.Identity != tt.want || trace.Why == "" {
				t.Errorf("explained otherwise: %+v", trace)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	tests := []struct {
		name, addr string
		v4, v6     int
		want       string
	}{
		{"7.1", "198.51.100.7", 32, 64, "ip:198.51.100.7"},
		{"7.1 I-014 mapped", "::ffff:198.51.100.7", 32, 64, "ip:198.51.100.7"},
		{"I-014 another mapped", "::ffff:203.0.113.9", 32, 64, "ip:203.0.113.9"},
		{"7.1 IPv6", "2001:db8:1:2:3:4:5:6", 32, 64, "ip:2001:db8:1:2::/64"},
		{"7.1 I-016 zone", "fe80::1%eth0", 32, 64, "ip:fe80::/64"},
		{"7.1 NAT64 untranslated", "64:ff9b::c633:6407", 32, 64, "ip:64:ff9b::/64"},
		{"7.1 6to4", "2002:c633:6407::1", 32, 64, "ip:2002:c633:6407::/64"},
		{"7.1 loopback", "::1", 32, 64, "ip:::/64"},
		{"I-018 wider", "2001:db8:1:2::9", 32, 48, "ip:2001:db8:1::/48"},
		{"I-018 wider, another /64", "2001:db8:1:3::9", 32, 48, "ip:2001:db8:1::/48"},
		{"whole IPv6", "2001:db8::1", 32, 128, "ip:2001:db8::1"},
		{"I-016 zone of a whole address", "fe80::1%eth0", 32, 128, "ip:fe80::1"},
		{"IPv4 prefix", "198.51.100.7", 24, 64, "ip:198.51.100.0/24"},
	}
	for _, tt := range tests {
		if got := Identity(netip.MustParseAddr(tt.addr), tt.v4, tt.v6); got != tt.want {
			t.Errorf("%s: %s is %s, want %s", tt.name, tt.addr, got, tt.want)
		}
	}
	if got := Identity(netip.Addr{}, 32, 64); got != "ip:unix" {
		t.Errorf("no address is %s", got)
	}
}

func TestNAT64(t *testing.T) {
	tests := []struct{ name, prefix, addr, want string }{
		{"I-017", "64:ff9b::/96", "64:ff9b::c633:6407", "ip:198.51.100.7"},
		{"I-017 another user", "64:ff9b::/96", "64:ff9b::cb00:7109", "ip:203.0.113.9"},
		{"outside", "64:ff9b::/96", "2001:db8::1", "ip:2001:db8::/64"},
		// The examples of RFC 6052, 2.4.
		{"RFC 6052 /32", "2001:db8::/32", "2001:db8:c000:221::", "ip:192.0.2.33"},
		{"RFC 6052 /40", "2001:db8:100::/40", "2001:db8:1c0:2:21::", "ip:192.0.2.33"},
		{"RFC 6052 /48", "2001:db8:122::/48", "2001:db8:122:c000:2:2100::", "ip:192.0.2.33"},
		{"RFC 6052 /56", "2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::", "ip:192.0.2.33"},
		{"RFC 6052 /64", "2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::", "ip:192.0.2.33"},
		{"RFC 6052 /96", "2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33", "ip:192.0.2.33"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := mustNew(t, Options{NAT64: []netip.Prefix{netip.MustParsePrefix(tt.prefix)}})
			c := r.Resolve("["+tt.addr+"]:1", nil)
			if got := r.Identity(c.Addr); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestNAT64MakesNobodyTrusted(t *testing.T) {
	r := mustNew(t, Options{Trusted: proxies(), NAT64: []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96")}})
	c := r.Resolve("10.0.0.1:1", xff("6.6.6.6, 64:ff9b::10.0.0.2"))
	if got := r.Identity(c.Addr); got != "ip:10.0.0.2" {
		t.Errorf("%s: a client inside the NAT64 prefix passed for a trusted proxy", got)
	}
}

func TestRotatingHeaderIsOneIdentity(t *testing.T) {
	r := mustNew(t, Options{})
	seen := map[string]bool{}
	for i := range 200 { // P-161, I-001
		c := r.Resolve(fmt.Sprintf("9.9.9.9:%d", 1+i), xff(fmt.Sprintf("1.2.3.%d", i)))
		seen[r.Identity(c.Addr)] = true
	}
	if len(seen) != 1 || !seen["ip:9.9.9.9"] { // P-164: whatever the port
		t.Errorf("P-161, P-164: identities %v", seen)
	}
}

func TestCaps(t *testing.T) {
	r := mustNew(t, Options{Trusted: proxies()})
	chain := func(n int) string { return "6.6.6.6" + strings.Repeat(", 10.0.0.2", n) }
	tests := []struct {
		name, header, want string
		fallback           Fallback
	}{
		{"63 trusted", chain(63), "ip:6.6.6.6", ""},
		{"64 trusted", chain(64), "ip:10.0.0.2", TooLong},
		{"4 KiB", "6.6.6.6," + strings.Repeat(" ", 4<<10) + "10.0.0.2", "ip:10.0.0.1", TooLong},
		{"long on the client's side", strings.Repeat("x", 1<<20) + ", 6.6.6.6", "ip:6.6.6.6", ""},
	}
	for _, tt := range tests {
		c := r.Resolve("10.0.0.1:1", xff(tt.header))
		if got := r.Identity(c.Addr); got != tt.want || c.Fallback != tt.fallback {
			t.Errorf("%s: %s, %q; want %s, %q", tt.name, got, c.Fallback, tt.want, tt.fallback)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	prefix := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	tests := []struct {
		o    Options
		want string
	}{
		{Options{Hops: -1}, "hops is -1"},
		{Options{Hops: 65}, "hops is 65"},
		{Options{Hops: 1, Trusted: proxies()}, "both set"},
		{Options{IPv4Bits: 7}, "IPv4 prefix is 7 bits"},
		{Options{IPv6Bits: 129}, "IPv6 prefix is 129 bits"},
		{Options{Trusted: []netip.Prefix{{}}}, "trusted prefix"},
		{Options{Trusted: prefix("::ffff:10.0.0.0/104")}, "trusted prefix"},
		{Options{NAT64: prefix("64:ff9b::/95")}, "RFC 6052"},
		{Options{NAT64: prefix("10.0.0.0/32")}, "RFC 6052"},
	}
	for _, tt := range tests {
		if _, err := New(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "clientip: ") {
			t.Errorf("New(%+v): %v; want it to say %q", tt.o, err, tt.want)
		}
	}
}

func TestResolveAllocatesNothing(t *testing.T) {
	r := mustNew(t, Options{Trusted: proxies()})
	h := xff("1.1.1.1, 198.51.100.7, 10.0.0.2")
	for _, peer := range []string{"203.0.113.9:5000", "10.0.0.1:5000", "@"} {
		if n := testing.AllocsPerRun(100, func() { r.Resolve(peer, h) }); n != 0 {
			t.Errorf("%s: %v allocations", peer, n)
		}
	}
	a := netip.MustParseAddr("2001:db8:1:2:3:4:5:6")
	if n := testing.AllocsPerRun(100, func() { _ = r.Identity(a) }); n > 1 {
		t.Errorf("Identity: %v allocations", n)
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("10.0.0.1:1", `for="[::1]:1", 10.0.0.2, x`, `for=1.1.1.1;by=", \"`)
	f.Fuzz(func(t *testing.T, peer, a, b string) {
		for _, header := range []string{"", "Forwarded"} {
			r := mustNew(t, Options{Trusted: proxies(), Header: header, TrustUnix: true})
			h := http.Header{"X-Forwarded-For": {a, b}, "Forwarded": {a, b}}
			c := r.Resolve(peer, h)
			if c.Addr.Is4In6() || c.Addr.Zone() != "" {
				t.Errorf("%v is not plain", c.Addr)
			}
			if !c.Trusted && c.Addr != parsePeer(peer) {
				t.Errorf("untrusted peer %q became %v", peer, c.Addr)
			}
			if trace := r.Explain(peer, h); trace.Client != c {
				t.Errorf("explained %+v as %+v", c, trace.Client)
			}
			// What a client writes left of the proxy's own element changes nothing.
			if header == "" && c.Trusted {
				h["X-Forwarded-For"] = []string{a, b + ", 198.51.100.7"}
				if got := r.Resolve(peer, h).Addr.String(); got != "198.51.100.7" {
					t.Errorf("%q: client %s", h, got)
				}
			}
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	for _, bb := range []struct{ name, peer string }{{"direct", "203.0.113.9:5000"}, {"proxied", "10.0.0.1:5000"}} {
		b.Run(bb.name, func(b *testing.B) {
			r := mustNew(b, Options{Trusted: proxies()})
			h := xff("198.51.100.7, 10.0.0.2")
			b.ReportAllocs()
			for b.Loop() {
				_ = r.Identity(r.Resolve(bb.peer, h).Addr)
			}
		})
	}
}
