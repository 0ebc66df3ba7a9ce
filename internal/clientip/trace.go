package clientip

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// A Trace says how a client was found, for people.
type Trace struct {
	Client   Client
	Identity string
	Peer     string   // who connected, and whether its headers are believed
	Header   string   // the header that was read; empty if none was
	Hops     []Hop    // its elements from the right, as far as they were read
	Ignored  []string // other headers that claim an address, by name
	Why      string   // the outcome in a sentence
}

// A Hop is one element of the header.
type Hop struct {
	Element string // as it was sent
	Verdict string // what was made of it
}

// The verdicts.
const (
	trusted   = "a trusted proxy"
	untrusted = "not a trusted proxy: the client"
	counted   = "one of the hops"
	lastHop   = "the last of the hops: the client"
	noAddress = "no address: it and what stands left of it is not believed"
	unread    = "not read: the header is too long"
)

// Explain is Resolve with a record of every step. It may hold text that the caller sent.
func (r *Resolver) Explain(peer string, h http.Header) Trace {
	var t Trace
	r.resolve(peer, h, &t)
	return t
}

// The methods of a nil Trace record nothing.

func (t *Trace) peer(a netip.Addr, believed bool) {
	if t == nil {
		return
	}
	who := "a unix socket"
	if a.IsValid() {
		who = a.String()
	}
	t.Peer = who + ", not a trusted proxy"
	if believed {
		t.Peer = who + ", " + trusted
	}
}

func (t *Trace) hop(element, verdict string) {
	if t != nil {
		t.Hops = append(t.Hops, Hop{strings.Trim(element, " \t"), verdict})
	}
}

func (t *Trace) end(r *Resolver, c Client, h http.Header) {
	if t == nil {
		return
	}
	t.Client, t.Identity = c, r.Identity(c.Addr)
	if c.Trusted && h[r.o.Header] != nil {
		t.Header = r.o.Header
	}
	for name := range h {
		if r.Claims(name) && name != t.Header {
			t.Ignored = append(t.Ignored, name)
		}
	}
	slices.Sort(t.Ignored)
	t.Why = t.why(c, r.o.Header)
}

func (t *Trace) why(c Client, header string) string {
	switch {
	case !c.Trusted:
		return "the peer is not a trusted proxy, so it is the client"
	case t.Header == "":
		return "the peer is trusted but sent no " + header + ", so it is the client"
	case c.Fallback == Unparsable:
		return "an element of " + header + " is no address, so the client is the last hop that is trusted"
	case c.Fallback == TooLong:
		return header + " is longer than is read, so the client is the last hop that was read"
	case c.Fallback == TooFew:
		return header + " has fewer elements than there should be hops, so the peer is the client"
	case t.Hops[len(t.Hops)-1].Verdict == lastHop:
		return fmt.Sprintf("the client is the address %d from the right in %s", len(t.Hops), header)
	case t.Hops[len(t.Hops)-1].Verdict == trusted:
		return "all addresses in " + header + " are trusted, so the client is the leftmost"
	}
	return "the client is the rightmost address in " + header + " that is not a trusted proxy"
}
