package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/cost"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/internal/route"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/wire"
)

// What follows turns sections of the file into options of packages, which know no file.
// Values have been checked by package config; what needs a file of its own, such as
// keys, is read here and may fail.

func gateOptions(c *config.Config, log *slog.Logger) (gate.Options, error) {
	who, err := identityOptions(c, log)
	if err != nil {
		return gate.Options{}, err
	}
	o := gate.Options{
		Disabled:         !c.Enabled,
		ClientIP:         clientIPOptions(&c.Identity.ClientIP),
		Identity:         who,
		AnonymousTier:    c.AnonymousTier,
		DistinctFailures: c.Identity.AuthFailures.Distinct,
		Paths: gate.Paths{
			EncodedSlash:     slashes[c.Paths.Options().EncodedSlash],
			FoldCase:         c.Paths.CaseInsensitive,
			RefuseUnclean:    c.Paths.Unclean == "reject",
			ForwardCanonical: c.Paths.Forward == "canonical",
		},
		Excluded: c.ExcludedPaths,
		Bounds:   boundsOptions(&c.Bounds),
		Problem:  problemOptions(c.Problem.Type),
		CORS:     wire.CORS{Origins: c.CORS.Origins, Expose: c.CORS.Expose},
		Streams: gate.Streams{
			CloseOverLimit:  c.Streams.CloseOverLimit,
			AcceptThenClose: c.Streams.WSRefusal == "accept-then-close",
			RetryEvents:     c.Streams.SSERefusal == "retry",

			SSE:       gate.Stream{MaxDuration: shorter(c.Streams.MaxDuration, c.Streams.SSE.MaxDuration)},
			MCP:       gate.Stream{MaxDuration: shorter(c.Streams.MaxDuration, c.Streams.MCP.MaxDuration)},
			WebSocket: gate.Stream{MaxDuration: shorter(c.Streams.MaxDuration, c.Streams.WebSocket.MaxDuration)},
		},
		MethodOverride: overrides[c.MethodOverride],
		Upstreams:      upstreamOptions(c.Upstreams),
		Logger:         log,
	}
	if o.Headers, err = headersOptions(&c.Headers); err != nil {
		return o, err
	}
	for i := range c.Endpoints {
		e, err := endpointOptions(&c.Endpoints[i], &c.Bounds)
		if err != nil {
			return o, err
		}
		o.Endpoints = append(o.Endpoints, e)
	}
	for _, m := range c.MCPPaths {
		path := gate.MCP{Pattern: m.Path, Status: int(m.Status)}
		if m.JSONRPCCode != nil {
			path.Code = int(*m.JSONRPCCode)
		}
		o.MCP = append(o.MCP, path)
	}
	return o, nil
}

var slashes = map[route.EncodedSlash]gate.EncodedSlash{
	route.Separator: gate.SlashSeparates, route.Literal: gate.SlashLiteral, route.Reject: gate.SlashRefused,
}

var overrides = map[string]gate.MethodOverride{"strip": gate.StripOverride, "honour": gate.HonourOverride}

// shorter returns the shorter of two bounds, of which zero is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func clientIPOptions(ip *config.ClientIP) gate.ClientIP {
	return gate.ClientIP{
		Header: ip.Header, Trusted: prefixes(ip.TrustedProxies), Hops: int(ip.Hops), TrustUnix: ip.TrustUnix,
		IPv4Prefix: int(ip.IPv4Prefix), IPv6Prefix: int(ip.IPv6Prefix), NAT64: prefixes(ip.NAT64Prefixes),
	}
}

func prefixes(list []config.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		out = append(out, p.Prefix)
	}
	return out
}

var (
	unverified = map[string]identity.Unverified{"ignore": identity.Ignore, "reject": identity.Reject, "accept": identity.Accept}
	tenantFrom = map[string]identity.TenantSource{"verified": identity.FromVerified, "trusted-proxy": identity.FromTrusted, "anyone": identity.FromAnyone}
)

func identityOptions(c *config.Config, log *slog.Logger) (identity.Options, error) {
	t := &c.Identity.Tenant
	o := identity.Options{
		Tenant:      identity.Tenant{Header: t.Header, From: tenantFrom[t.From], Tier: t.Tier},
		DefaultTier: c.DefaultTier,
		Tiers:       []string{},
		Logger:      log,
	}
	for _, tier := range c.Tiers {
		o.Tiers = append(o.Tiers, tier.Name)
	}
	if k := c.Identity.APIKeys; k != nil {
		o.KeyHeaders, o.NoBearer, o.Unverified = k.Headers, !k.Bearer, unverified[k.Unverified]
		secret := []byte(k.Secret.Reveal())
		if !k.Secret.IsZero() {
			o.Secret = secret
		}
		if k.File != "" {
			var err error
			if o.Keys, err = identity.OpenKeys(k.File, secret); err != nil {
				return o, err
			}
		}
	}
	for i := range c.Identity.JWT {
		o.Issuers = append(o.Issuers, issuerOptions(&c.Identity.JWT[i]))
	}
	return o, nil
}

func issuerOptions(j *config.JWT) identity.Issuer {
	o := identity.Issuer{
		Issuer: j.Issuer, Name: j.Name, Audience: j.Audience, Algorithms: j.Algorithms, JWKS: j.JWKS, Leeway: j.Leeway,
		SubjectClaim: j.SubjectClaim, TierClaim: j.TierClaim, RolesClaim: j.RolesClaim, TenantClaim: j.TenantClaim,
	}
	for _, r := range j.Roles {
		o.RoleTiers = append(o.RoleTiers, identity.RoleTier{Role: r.Role, Tier: r.Tier})
	}
	return o
}

var extractors = map[string]cost.Extractor{
	"": cost.None, "json-array-length": cost.JSONArray, "graphql-aliases": cost.GraphQL, "json-rpc-calls": cost.JSONRPC,
}

func costOptions(c *config.Cost, b *config.Bounds) cost.Options {
	o := cost.Options{
		Calls: &c.Calls, Extractor: extractors[c.Extractor], Pointer: c.Pointer, Class: c.Class, Max: c.Max,
		Inspect: b.InspectBytes, RefuseOversize: c.OnOversize == "refuse",
	}
	if c.Methods != nil { // an empty map weighs everything as one
		o.Methods = map[string]int64{}
	}
	for _, m := range c.Methods {
		o.Methods[m.Name] = m.N
	}
	return o
}

func endpointOptions(e *config.Endpoint, b *config.Bounds) (gate.Endpoint, error) {
	o := gate.Endpoint{ID: e.ID, Pattern: e.PathPattern, Methods: e.Methods, Hosts: e.Hosts, Cost: costOptions(&e.Cost, b)}
	if e.Headers == nil {
		return o, nil
	}
	h, err := headersOptions(e.Headers)
	o.Headers = &h
	return o, err
}

func boundsOptions(b *config.Bounds) gate.Bounds {
	o := gate.Bounds{
		HeaderBytes: int(b.HeaderBytes), BodyBytes: b.BodyBytes,
		HeaderTimeout: b.HeaderTimeout, BodyTimeout: b.BodyTimeout, IdleTimeout: b.IdleTimeout,
		ConcurrentStreams: int(b.ConcurrentStreams),
	}
	if b.ConnectionsPerIP != nil {
		o.ConnectionsPerIP = int(*b.ConnectionsPerIP)
	}
	return o
}

var (
	whens  = map[string]wire.When{"always": wire.Always, "near": wire.Near, "refused": wire.Refused}
	merges = map[string]gate.Merge{"replace": gate.Replace, "keep": gate.Keep, "min": gate.Least}
)

func headersOptions(h *config.Headers) (gate.Headers, error) {
	o := gate.Headers{Families: []wire.Family{}, When: whens[h.When], Merge: merges[h.Upstream]}
	for _, name := range h.Families {
		if name == "off" {
			continue
		}
		f, err := wire.ParseFamily(name)
		if err != nil {
			return o, err
		}
		o.Families = append(o.Families, f)
	}
	return o, nil
}

// problemOptions names the problem of a refusal. The ADR's type comes with the ADR's
// title and instance.
func problemOptions(name string) wire.Problem {
	if adr := wire.Spector(); name == adr.Type {
		return adr
	}
	return wire.Problem{Type: name}
}

func upstreamOptions(list []config.Upstream) []upstream.Options {
	var out []upstream.Options
	for i := range list {
		u := &list[i]
		o := upstream.Options{
			Name: u.Name, URL: u.URL, Paths: u.Paths, Hosts: u.Hosts, PreserveHost: u.PreserveHost,
			ConnectTimeout: u.ConnectTimeout, ResponseTimeout: u.ResponseTimeout, IdleTimeout: u.IdleTimeout, CAFile: u.CAFile,
		}
		if u.MaxConnections != nil {
			o.MaxConnections = int(*u.MaxConnections)
		}
		if u.URL == demoURL {
			o.URL, o.Handler = "", demo()
		}
		out = append(out, o)
	}
	return out
}

var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

func tlsOptions(t *config.TLS) gate.TLS {
	return gate.TLS{CertFile: t.CertFile, KeyFile: t.KeyFile, ClientCAFile: t.ClientCAFile, MinVersion: tlsVersions[t.MinVersion]}
}

// adminTokens are who may administer from where. None means this machine alone.
func adminTokens(a *config.Admin) (tokens []admin.Token, err error) {
	for _, t := range []struct {
		name   string
		secret config.Secret
		digest string
		role   admin.Role
	}{
		{"admin", a.Token, a.TokenSHA256, admin.Operator},
		{"reader", a.ReaderToken, a.ReaderTokenSHA256, admin.Reader},
	} {
		switch {
		case !t.secret.IsZero():
			tokens = append(tokens, admin.NewToken(t.name, t.secret.Reveal(), t.role))
		case t.digest != "":
			token, err := admin.ParseToken(t.name, t.digest, t.role)
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, token)
		}
	}
	return tokens, nil
}

// recentEvents says none as the administration does: below zero.
func recentEvents(n int64) int {
	if n == 0 {
		return -1
	}
	return int(n)
}

// summary is what the status shows of a configuration. Rates are taken from the rules,
// so that it says what is in force.
func summary(c *config.Config) admin.Summary {
	buckets := map[string]limit.Limit{}
	for i := range c.Policy().Rules {
		r := &c.Policy().Rules[i]
		for _, l := range r.Limits {
			if l.Kind == limit.KindBucket && (l.Unit == "" || l.Unit == sluice.Calls) {
				buckets[r.ID] = l.Limit
				break
			}
		}
	}
	s := admin.Summary{
		Enabled: c.Enabled, DefaultTier: c.DefaultTier, Tiers: map[string]admin.Tier{},
		LLMEnabled: c.LLM != nil, ChannelsEnabled: c.Channels != nil, ConnectorsEnabled: c.Connectors != nil,
	}
	for i := range c.Tiers {
		l := buckets[fmt.Sprintf("tier-%s", c.Tiers[i].Name)]
		s.Tiers[c.Tiers[i].Name] = admin.Tier{RequestsPerSecond: perSpan(l, limit.Second), BurstCapacity: l.Burst}
	}
	for i := range c.Endpoints {
		e := &c.Endpoints[i]
		l := buckets[e.ID]
		s.Endpoints = append(s.Endpoints, admin.Endpoint{PathPattern: e.PathPattern, RequestsPerMinute: perSpan(l, limit.Minute), BurstCapacity: l.Burst})
	}
	return s
}

// perSpan returns how many units a bucket gets back in a span.
func perSpan(l limit.Limit, span limit.Micros) float64 {
	if l.Per == 0 {
		return 0
	}
	return float64(l.Max) * float64(span) / float64(l.Per)
}
