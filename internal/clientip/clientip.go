// Package clientip says which address a request comes from when proxies stand in front,
// and which identity that address has in the books.
//
// Trust belongs to the peer of the connection, never to a header. From a trusted peer one
// header, the configured one, is read from the right: each trusted proxy has appended the
// address it saw, so the first address that is not a trusted proxy is the client, and
// what stands left of it is the client's own claim.
package clientip

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"sync/atomic"
)

// What is read of a header before it is given up. A walk ends at the first address that
// is not trusted, so only a long chain of proxies could come near.
const (
	maxElements = 64
	maxBytes    = 4 << 10
)

// Options says whom to believe. The zero Options believes nobody: the client is the peer.
type Options struct {
	// Header is the one header that proxies report addresses in. Empty is
	// X-Forwarded-For. "Forwarded" is read as RFC 7239, every other as a comma list.
	Header string

	// Trusted are the addresses of the proxies.
	Trusted []netip.Prefix

	// Hops is how many proxies stand in front, where their addresses cannot be known;
	// then every peer is believed, and the client is the Hops-th address from the right.
	// Zero goes by Trusted. Both together are an error.
	Hops int

	// TrustUnix believes peers on a unix socket, who have no address.
	TrustUnix bool

	// IPv4Bits and IPv6Bits are the prefix that one identity covers: 8 to 32 and 32 to
	// 128. Zero is 32, one address, and 64, one local network.
	IPv4Bits, IPv6Bits int

	// NAT64 are prefixes of RFC 6052 whose addresses stand for the IPv4 address they
	// embed. Nil translates nothing: a whole NAT64 is then one identity.
	NAT64 []netip.Prefix

	// Warn is told of a likely mistake in these options, once for each code. It may be
	// called from any request. Nil tells nobody.
	Warn func(Warning)
}

// A Resolver finds clients. It is safe for concurrent use. Use [New].
type Resolver struct {
	o         Options
	forwarded bool // the header is RFC 7239's

	warned [warnings]atomic.Bool
	sent   atomic.Bool  // some trusted peer has sent the header
	unsent atomic.Int64 // until then: requests of trusted peers without it
}

// New checks the options. Its errors name the option and what it may be.
func New(o Options) (*Resolver, error) {
	o.Header = textproto.CanonicalMIMEHeaderKey(o.Header)
	if o.Header == "" {
		o.Header = forwardedFor
	}
	if o.IPv4Bits == 0 {
		o.IPv4Bits = 32
	}
	if o.IPv6Bits == 0 {
		o.IPv6Bits = 64
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Resolver{o: o, forwarded: o.Header == forwarded}
	for _, p := range o.Trusted {
		if p.Bits() == 0 {
			r.warn(w102)
		}
	}
	return r, nil
}

func (o *Options) check() error {
	switch {
	case o.Hops < 0 || o.Hops > maxElements:
		return fmt.Errorf("clientip: hops is %d; it may be 0 to %d", o.Hops, maxElements)
	case o.Hops > 0 && len(o.Trusted) > 0:
		return errors.New("clientip: hops and trusted are both set; hops is for proxies whose addresses are unknown")
	case o.IPv4Bits < 8 || o.IPv4Bits > 32:
		return fmt.Errorf("clientip: the IPv4 prefix is %d bits; it may be 8 to 32", o.IPv4Bits)
	case o.IPv6Bits < 32 || o.IPv6Bits > 128:
		return fmt.Errorf("clientip: the IPv6 prefix is %d bits; it may be 32 to 128", o.IPv6Bits)
	}
	for _, p := range o.Trusted {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("clientip: trusted prefix %v is no plain IPv4 or IPv6 prefix", p)
		}
	}
	for _, p := range o.NAT64 {
		if _, ok := embedOffsets[p.Bits()]; !ok || !p.Addr().Is6() || p.Addr().Is4In6() {
			return fmt.Errorf("clientip: NAT64 prefix %v is not IPv6 with 32, 40, 48, 56, 64 or 96 bits (RFC 6052)", p)
		}
	}
	return nil
}

// A Client is where a request comes from.
type Client struct {
	// Addr is the client's address without a zone, IPv4 if it is IPv4 by any spelling.
	// It is invalid if the peer is a unix socket and no believed header says more.
	Addr netip.Addr

	// Trusted is true if the peer's headers are believed.
	Trusted bool

	// Fallback says why the header did not lead to the client, and Addr is the last
	// trusted hop instead. Empty if nothing went wrong.
	Fallback Fallback
}

// Fallback is why a header was given up, as metrics spell it.
type Fallback string

// The fallbacks.
const (
	Unparsable Fallback = "unparsable" // an element is no address
	TooLong    Fallback = "too_long"   // more than 64 elements or 4 KiB, all of them trusted
	TooFew     Fallback = "too_few"    // fewer elements than hops
)

// Resolve finds the client of a request from the peer of its connection, as in
// [http.Request.RemoteAddr], and its headers. It allocates nothing unless an address has
// a zone or is malformed. A peer that is no address, as "@", is a unix socket's.
func (r *Resolver) Resolve(peer string, h http.Header) Client { return r.resolve(peer, h, nil) }

func (r *Resolver) resolve(peer string, h http.Header, t *Trace) Client {
	addr := parsePeer(peer)
	c := Client{Addr: addr, Trusted: r.believes(addr)}
	lines := h[r.o.Header]
	t.peer(addr, c.Trusted)
	switch {
	case !c.Trusted:
		if addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
			r.checkUntrusted(h)
		}
	case len(lines) == 0:
		r.countUnsent()
	default:
		r.countSent()
		if r.o.Hops > 0 {
			c.Addr, c.Fallback = r.hop(addr, lines, t)
		} else {
			c.Addr, c.Fallback = r.walk(addr, lines, r.forwarded, t)
		}
		r.checkAgreement(c.Addr, addr, h)
	}
	c.Addr = r.translate(c.Addr)
	t.end(r, c, h)
	return c
}

func parsePeer(peer string) netip.Addr {
	if peer == "" || peer == "@" {
		return netip.Addr{}
	}
	if ap, err := netip.ParseAddrPort(peer); err == nil {
		return plain(ap.Addr())
	}
	a, _ := netip.ParseAddr(peer) // invalid if it is none
	return plain(a)
}

// believes reports whether the headers of a peer count.
func (r *Resolver) believes(peer netip.Addr) bool {
	switch {
	case !peer.IsValid():
		return r.o.TrustUnix
	case r.o.Hops > 0:
		return true
	}
	return r.trusts(peer)
}

func (r *Resolver) trusts(a netip.Addr) bool {
	for _, p := range r.o.Trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// walk goes through the elements from the right to the first that is not trusted. An
// element that is no address ends it: what stands left of it may be anybody's.
func (r *Resolver) walk(last netip.Addr, lines []string, quoted bool, t *Trace) (netip.Addr, Fallback) {
	c := cursor{lines: lines, quoted: quoted}
	for n, size := 1, 0; ; n++ {
		element, ok := c.next()
		if !ok {
			return last, ""
		}
		if size += len(element) + 1; n > maxElements || size > maxBytes {
			t.hop(element, unread)
			return last, TooLong
		}
		a, ok := parseElement(element, quoted)
		switch {
		case !ok:
			t.hop(element, noAddress)
			return last, Unparsable
		case !r.trusts(a):
			t.hop(element, untrusted)
			return a, ""
		}
		t.hop(element, trusted)
		last = a
	}
}

// hop counts elements from the right. Without enough of them, or with one that is no
// address, the client is the peer and never the leftmost, which anybody may write.
func (r *Resolver) hop(peer netip.Addr, lines []string, t *Trace) (netip.Addr, Fallback) {
	c := cursor{lines: lines, quoted: r.forwarded}
	for n := 1; ; n++ {
		element, ok := c.next()
		if !ok {
			return peer, TooFew
		}
		if n < r.o.Hops {
			t.hop(element, counted)
			continue
		}
		a, ok := parseElement(element, r.forwarded)
		if !ok {
			t.hop(element, noAddress)
			return peer, Unparsable
		}
		t.hop(element, lastHop)
		return a, ""
	}
}
