package clientip

import "net/netip"

// Unix is the identity of peers that have no address.
const Unix = "ip:unix"

// Identity returns the name under which an address stands in the books: "ip:203.0.113.9"
// for a whole address, "ip:2001:db8:1:2::/64" for a prefix, [Unix] for none.
func (r *Resolver) Identity(a netip.Addr) string { return Identity(a, r.o.IPv4Bits, r.o.IPv6Bits) }

// Identity is [Resolver.Identity] with the bits of the prefix given, as for a second,
// looser limit over a wider prefix.
func Identity(a netip.Addr, ipv4Bits, ipv6Bits int) string {
	if !a.IsValid() {
		return Unix
	}
	var b [len("ip:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")]byte
	return string(appendIdentity(b[:0], plain(a), ipv4Bits, ipv6Bits))
}

func appendIdentity(b []byte, a netip.Addr, ipv4Bits, ipv6Bits int) []byte {
	bits := ipv6Bits
	if a.Is4() {
		bits = ipv4Bits
	}
	b = append(b, "ip:"...)
	if bits < a.BitLen() {
		if p, err := a.Prefix(bits); err == nil {
			return p.AppendTo(b)
		}
	}
	return a.AppendTo(b)
}

// embedOffsets says for each length of a NAT64 prefix where the four bytes of the IPv4
// address are (RFC 6052, 2.2; byte 8 is never one of them).
var embedOffsets = map[int][4]int{
	32: {4, 5, 6, 7},
	40: {5, 6, 7, 9},
	48: {6, 7, 9, 10},
	56: {7, 9, 10, 11},
	64: {9, 10, 11, 12},
	96: {12, 13, 14, 15},
}

// translate returns the IPv4 address that a NAT64 address embeds, or a as it is. Trust
// is decided before, so that nobody is trusted for an address that only looks like one.
func (r *Resolver) translate(a netip.Addr) netip.Addr {
	for _, p := range r.o.NAT64 {
		if !p.Contains(a) {
			continue
		}
		from, b := embedOffsets[p.Bits()], a.As16()
		return netip.AddrFrom4([4]byte{b[from[0]], b[from[1]], b[from[2]], b[from[3]]})
	}
	return a
}
