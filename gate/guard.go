package gate

import (
	"net/http"
	"net/textproto"
	"strings"
)

// A guard knows the headers by which somebody could make an application believe what
// the gate has not vouched for, besides those that claim an address.
type guard map[string]bool

// newGuard returns the guard for a tenant header.
func newGuard(tenant string) guard {
	g := guard{tenant: true}
	for _, name := range overrides {
		g[name] = true
	}
	return g
}

// usual are headers that nearly every request has.
var usual = []string{
	"Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control", "Content-Length", "Content-Type",
	"Cookie", "If-None-Match", "Origin", "Referer", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "User-Agent",
}

// claimless returns those of the usual headers that claim nothing here, so that nothing
// has to be computed for them.
func (s *setup) claimless() map[string]bool {
	names := map[string]bool{}
	for _, name := range usual {
		if !s.guard[name] && !s.clients.Claims(name) {
			names[name] = true
		}
	}
	return names
}

// scrub removes from h what an upstream must not see: headers that claim an address or
// a tenant, unless the peer is trusted, and overrides of the method unless they are
// honoured. Spellings with underscores go in any case, because servers of the CGI family
// do not tell them from hyphens. It reports whether the peer is trusted.
func (s *setup) scrub(h http.Header, peer string) (trusted bool) {
	trusted = s.clients.Resolve(peer, nil).Trusted
	for name := range h {
		if s.ordinary[name] {
			continue
		}
		proper := name
		if strings.IndexByte(name, '_') >= 0 {
			proper = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
		}
		claims := s.clients.Claims(proper)
		if !claims && !s.guard[proper] {
			continue
		}
		if proper != name || !s.believes(proper, claims, trusted) {
			delete(h, name)
		}
	}
	return trusted
}

// believes reports whether an upstream may see a guarded header.
func (s *setup) believes(name string, claims, trusted bool) bool {
	switch {
	case claims:
		return trusted
	case name == s.callers.TenantHeader():
		return s.callers.BelievesTenant(trusted)
	}
	return s.o.MethodOverride == HonourOverride
}
