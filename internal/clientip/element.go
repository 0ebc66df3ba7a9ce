package clientip

import (
	"net/netip"
	"strings"
)

// A cursor yields the elements of a header from right to left. The lines of a header are
// one list, in order (RFC 9110, 5.3): reading only the first would let a client hide the
// line of the proxy behind its own.
type cursor struct {
	lines  []string
	rest   string // of the last line
	inside bool   // rest still holds an element, perhaps an empty one
	quoted bool   // a comma between quotes separates nothing
}

func (c *cursor) next() (element string, ok bool) {
	if !c.inside {
		if len(c.lines) == 0 {
			return "", false
		}
		last := len(c.lines) - 1
		c.rest, c.lines, c.inside = c.lines[last], c.lines[:last], true
	}
	i := c.comma()
	element = c.rest[i+1:]
	if i < 0 {
		c.inside = false
	} else {
		c.rest = c.rest[:i]
	}
	return element, true
}

// comma returns the index of the last separating comma of rest, or -1. Quotes are
// counted from the right, because only the right is a proxy's and sure to be well formed:
// a quote that a client leaves open must not swallow what the proxy appends.
func (c *cursor) comma() int {
	if !c.quoted {
		return strings.LastIndexByte(c.rest, ',')
	}
	in := false
	for i := len(c.rest) - 1; i >= 0; i-- {
		switch c.rest[i] {
		case '"':
			in = !in
		case ',':
			if !in {
				return i
			}
		}
	}
	return -1
}

// parseElement reads one element of a header: an address, or for RFC 7239 its "for".
func parseElement(element string, forwarded bool) (netip.Addr, bool) {
	if !forwarded {
		return parseNode(strings.Trim(element, " \t"))
	}
	node, ok := forwardedNode(element)
	if !ok {
		return netip.Addr{}, false
	}
	return parseNode(node)
}

// forwardedNode returns the value of the one "for" parameter of a Forwarded element.
// A backslash makes an element unreadable: it may hide a quote from [cursor.comma], and
// no address needs one.
func forwardedNode(element string) (node string, ok bool) {
	if strings.IndexByte(element, '\\') >= 0 {
		return "", false
	}
	for rest := element; rest != ""; {
		name, after, found := strings.Cut(rest, "=")
		if !found {
			return "", false
		}
		var value string
		if strings.HasPrefix(after, `"`) {
			value, after, found = strings.Cut(after[1:], `"`)
			if !found {
				return "", false
			}
			_, rest, _ = strings.Cut(after, ";")
		} else {
			value, rest, _ = strings.Cut(after, ";")
			value = strings.Trim(value, " \t")
		}
		if strings.EqualFold(strings.Trim(name, " \t"), "for") {
			if ok {
				return "", false
			}
			node, ok = value, true
		}
	}
	return node, ok
}

// parseNode reads an address with or without a port: 192.0.2.1, 192.0.2.1:443,
// 2001:db8::1, [2001:db8::1], [2001:db8::1]:443. Nothing else is repaired into one.
func parseNode(s string) (netip.Addr, bool) {
	host, port := s, ""
	bracketed := strings.HasPrefix(s, "[")
	switch {
	case bracketed:
		var closed bool
		host, port, closed = strings.Cut(s[1:], "]")
		if !closed || port != "" && !isPort(port) {
			return netip.Addr{}, false
		}
	case strings.Count(s, ":") == 1:
		i := strings.IndexByte(s, ':')
		host, port = s[:i], s[i:]
		if !isPort(port) {
			return netip.Addr{}, false
		}
	}
	a, err := netip.ParseAddr(host)
	if err != nil || bracketed && !a.Is6() {
		return netip.Addr{}, false
	}
	return plain(a), true
}

// isPort reports whether s is ":" and a port, or a port's disguise as in RFC 7239, 6.3.
func isPort(s string) bool {
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	if s[1] == '_' {
		return true
	}
	return len(s) <= 6 && strings.Trim(s[1:], "0123456789") == ""
}

// plain strips what is no part of who a host is: the IPv6 spelling of an IPv4 address,
// without which all of IPv4 would share the prefix ::/64, and the zone.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
