package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/route"
)

// unserved are sections of surfaces that are recognised, checked and compiled, and have
// nothing yet that listens.
var unserved = []string{"sources", "channels", "connectors", "listen.decide"}

// listeners checks who listens where, and that administration is not open to the world.
func (k *compiler) listeners() {
	c := k.c
	taken := map[string]string{}
	for _, l := range []struct {
		field *string
		name  string
	}{{&c.Listen.Gate, "gate"}, {&c.Listen.LLM, "llm"}, {&c.Listen.MCP, "mcp"}, {&c.Listen.Decide, "decide"}, {&c.Listen.Admin, "admin"}} {
		address := *l.field
		if address == "" {
			continue
		}
		if first, twice := taken[address]; twice && !strings.HasSuffix(address, ":0") {
			k.problem(l.field, CodeConflict, "%s is taken by listen.%s; give each surface an address of its own", address, first)
		}
		taken[address] = l.name
		k.served(l.field, "listen."+l.name)
	}
	k.plainListener(&c.Listen.LLM)
	k.plainListener(&c.Listen.MCP)
	k.served(&c.LLM, pick(c.LLM != nil, "llm", ""))
	k.served(&c.Sources, pick(len(c.Sources) > 0, "sources", ""))
	k.served(&c.Channels, pick(c.Channels != nil, "channels", ""))
	k.served(&c.Connectors, pick(c.Connectors != nil, "connectors", ""))
	k.admin()
	t := &c.TLS
	if (t.CertFile == "") != (t.KeyFile == "") {
		k.problem(pick(t.CertFile == "", &t.CertFile, &t.KeyFile), CodeRequired, "is missing; a certificate needs certFile and keyFile")
	}
	if t.ClientCAFile != "" && t.CertFile == "" {
		k.problem(&t.ClientCAFile, CodeConflict, "client certificates need TLS; give certFile and keyFile")
	}
}

// plainListener warns of a listener that others reach and that has no TLS, where a certificate
// suggests that all have.
func (k *compiler) plainListener(field *string) {
	if k.c.TLS.CertFile != "" && *field != "" && !loopback(*field) {
		k.problem(field, WarnTrust, "speaks plain HTTP, tokens included; tls is the gate's certificate alone: put a proxy with TLS in front, or listen on 127.0.0.1")
	}
}

// served warns of a section that is checked and compiled, and not served.
func (k *compiler) served(field any, section string) {
	if slices.Contains(unserved, section) {
		k.problem(field, WarnUnserved, "recognised, not served by this version")
	}
}

func (k *compiler) admin() {
	c := k.c
	a := &c.Admin
	hasToken := !a.Token.IsZero() || a.TokenSHA256 != "" || !a.ReaderToken.IsZero() || a.ReaderTokenSHA256 != ""
	if c.Listen.Admin != "" && !loopback(c.Listen.Admin) && !hasToken {
		k.problem(&c.Listen.Admin, CodeExposed, "everybody who reaches %s could reset limits; listen on 127.0.0.1, or set admin.token", c.Listen.Admin)
	}
	if !a.Token.IsZero() && a.TokenSHA256 != "" {
		k.problem(&a.TokenSHA256, CodeConflict, "the token is given already by admin.token; keep one")
	}
	if !a.ReaderToken.IsZero() && a.ReaderTokenSHA256 != "" {
		k.problem(&a.ReaderTokenSHA256, CodeConflict, "the token is given already by admin.readerToken; keep one")
	}
	if !a.Token.IsZero() && a.Token == a.ReaderToken || a.TokenSHA256 != "" && a.TokenSHA256 == a.ReaderTokenSHA256 {
		k.problem(pick[any](a.ReaderToken.IsZero(), &a.ReaderTokenSHA256, &a.ReaderToken), CodeConflict, "the reader has the token of the administrator; make another")
	}
}

func (k *compiler) clientIP(ip *ClientIP) {
	for i := range ip.TrustedProxies {
		if p := &ip.TrustedProxies[i]; p.Bits() == 0 {
			k.problem(p, WarnTrust, "%v trusts everybody, so that every client can claim any address; name your proxies", p.Prefix)
		}
	}
	if ip.Hops > 0 && len(ip.TrustedProxies) > 0 {
		k.problem(&ip.Hops, CodeConflict, "proxies are counted or known by address, not both; keep hops or trustedProxies")
	}
	if k.given(&ip.Header) && !k.given(&ip.TrustedProxies) && ip.Hops == 0 && !ip.TrustUnix {
		k.problem(&ip.Header, WarnMissing, "no proxy is trusted, so %s is never read; name the proxies in trustedProxies", ip.Header)
	}
}

func (k *compiler) credentials(id *Identity) {
	if a := id.APIKeys; a != nil && a.File == "" && a.Unverified != "accept" {
		k.problem(&id.APIKeys, WarnMissing, "without a key file no key is good; give file, or unverified: accept behind an application that checks keys")
	}
	if a := id.APIKeys; a != nil && a.File != "" && a.Secret.IsZero() {
		k.problem(&a.Secret, CodeRequired, "is missing; a key file needs the secret that its digests were made with")
	}
	k.issuers(id.JWT)
}

// issuers checks that subjects of different issuers cannot be taken for each other.
func (k *compiler) issuers(list []JWT) {
	issuers, scopes := map[string]*string{}, map[string]*string{}
	for i := range list {
		j := &list[i]
		if first, twice := issuers[j.Issuer]; twice {
			k.problem(&j.Issuer, CodeDuplicate, "the issuer stands twice; the other is at %s", k.c.places[first].pos)
			continue
		}
		issuers[j.Issuer] = &j.Issuer
		if len(list) == 1 {
			return
		}
		field, scope := &j.Name, j.Name
		if u, err := url.Parse(j.Issuer); err == nil && scope == "" {
			field, scope = &j.Issuer, u.Hostname()
		}
		first, twice := scopes[scope]
		switch {
		case scope == "":
			k.problem(&j.Issuer, CodeRequired, "has no host that could tell its subjects from those of other issuers; give it a name")
		case twice:
			k.problem(field, CodeDuplicate, "the issuer at %s is called %q too, so that their subjects would be the same callers; give this one another name",
				k.c.places[first].pos, scope)
		}
		scopes[scope] = &j.Issuer
	}
}

// upstreams checks that every request has one upstream at most.
func (k *compiler) upstreams() {
	var routes []route.Route
	var fields []*string
	names := map[string]*string{}
	for i := range k.c.Upstreams {
		u := &k.c.Upstreams[i]
		if first, twice := names[u.Name]; twice {
			k.problem(&u.Name, CodeDuplicate, "two upstreams have this name; the other is at %s", k.c.places[first].pos)
		}
		names[u.Name] = &u.Name
		for j := range u.Paths {
			routes = append(routes, k.route(&u.Paths[j], u.Paths[j], nil, u.Hosts))
			fields = append(fields, &u.Paths[j])
		}
		if len(u.Paths) == 0 {
			routes = append(routes, k.route(&u.Name, "/**", nil, u.Hosts))
			fields = append(fields, &u.Name)
		}
	}
	for _, tie := range route.Ties(routes) {
		k.problem(fields[tie.Second], CodeTie, "a request can match this upstream and the one at %s, and neither is more specific; change paths or hosts",
			k.c.places[fields[tie.First]].pos)
	}
	if len(k.c.Upstreams) == 0 && k.c.Listen.Gate != "" {
		k.problem(&k.c.Listen.Gate, CodeRequired, "the gate listens and has no upstream; add one to upstreams")
	}
}

// answers checks what is said on the wire.
func (k *compiler) answers() {
	k.headers(&k.c.Headers)
	if o := k.c.CORS.Origins; len(o) > 1 && slices.Contains(o, "*") {
		k.problem(&k.c.CORS.Origins, CodeConflict, `"*" is every origin; keep it alone, or name the origins`)
	}
}

// owners are the header fields that each family writes.
var owners = map[string][]string{
	"legacy-epoch": {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"},
	"legacy-delta": {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"},
	"draft-6":      {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy"},
	"draft-7":      {"RateLimit", "RateLimit-Policy"},
	"draft-10":     {"RateLimit", "RateLimit-Policy"},
}

// headers refuses families that would write one field with two meanings.
func (k *compiler) headers(h *Headers) {
	writer := map[string]string{}
	for i, family := range h.Families {
		if family == "off" && len(h.Families) > 1 {
			k.problem(&h.Families, CodeConflict, `"off" stands beside %s; keep one`, h.Families[pick(i == 0, 1, 0)])
			return
		}
		for _, name := range owners[family] {
			if first := writer[name]; first != "" {
				k.problem(&h.Families, CodeConflict, "%s and %s both write %s, in different ways; keep one", first, family, name)
				return
			}
			writer[name] = family
		}
	}
}
