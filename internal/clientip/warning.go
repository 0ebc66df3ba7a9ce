package clientip

import (
	"net/http"
	"net/netip"
	"strings"
)

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// A Warning is a likely mistake in the options that requests have brought to light.
type Warning struct {
	Code string // stable: "SLUICE_W101" to "SLUICE_W104"
	Text string // what was seen and what to do
}

const (
	w101 = iota
	w102
	w103
	w104
	warnings
)

var texts = [warnings]Warning{
	w101: {"SLUICE_W101", "a peer with a private address that is not trusted sends forwarding headers: " +
		"all users behind it share its limit; if it is your proxy, add its address to the trusted proxies"},
	w102: {"SLUICE_W102", "the trusted proxies include every address: " +
		"anybody can choose the address that is limited; list only the proxies"},
	w103: {"SLUICE_W103", "a trusted proxy sends X-Forwarded-For and Forwarded and they disagree: " +
		"only the configured one is believed; have the proxy remove the other"},
	w104: {"SLUICE_W104", "the configured header never came from a trusted proxy in 1000 requests: " +
		"all users share the proxy's limit; check the name of the header and what the proxy sends"},
}

// unsentMax is how many requests of trusted peers come without the header, health checks
// among them, before that is remarkable.
const unsentMax = 1000

func (r *Resolver) warn(code int) {
	if r.warned[code].CompareAndSwap(false, true) && r.o.Warn != nil {
		r.o.Warn(texts[code])
	}
}

// checkUntrusted looks for forwarding headers of a private peer that is not trusted.
func (r *Resolver) checkUntrusted(h http.Header) {
	if r.warned[w101].Load() {
		return
	}
	if h[r.o.Header] != nil || h[forwardedFor] != nil || h[forwarded] != nil {
		r.warn(w101)
	}
}

// checkAgreement compares the client with the one that the other standard header names.
func (r *Resolver) checkAgreement(client, peer netip.Addr, h http.Header) {
	other := forwarded
	if r.forwarded {
		other = forwardedFor
	}
	lines := h[other]
	if lines == nil || r.o.Hops > 0 || r.warned[w103].Load() {
		return
	}
	if a, _ := r.walk(peer, lines, other == forwarded, nil); a != client {
		r.warn(w103)
	}
}

func (r *Resolver) countSent() {
	if !r.sent.Load() { // the line stays shared between processors
		r.sent.Store(true)
	}
}

func (r *Resolver) countUnsent() {
	if !r.sent.Load() && !r.warned[w104].Load() && r.unsent.Add(1) >= unsentMax {
		r.warn(w104)
	}
}

// claims are the headers by which somebody may claim an address for a client.
var claims = map[string]bool{
	"forwarded": true, "x-forwarded-for": true, "x-real-ip": true, "true-client-ip": true,
	"cf-connecting-ip": true, "cf-connecting-ipv6": true, "fastly-client-ip": true,
	"x-client-ip": true, "x-cluster-client-ip": true, "x-original-forwarded-for": true,
	"x-envoy-external-address": true, "x-azure-clientip": true, "fly-client-ip": true,
}

// Claims reports whether a header of this name claims an address for the client. A proxy
// removes such headers of a peer that is not trusted. An underscore counts as a hyphen,
// because servers of the CGI family do not tell them apart.
func (r *Resolver) Claims(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return claims[name] || strings.EqualFold(name, r.o.Header)
}
