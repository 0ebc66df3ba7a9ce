package config

import (
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/route"
	"github.com/sluicegate/sluice/limit"
)

// identity makes the rules that stand before a caller is known.
func (k *compiler) identity() {
	id := &k.c.Identity
	k.clientIP(&id.ClientIP)
	k.credentials(id)
	if p := &id.PreAuth; p.Enabled {
		l, ok := k.allowance(&p.Allowance)
		if !ok {
			l = sluice.Limit{Limit: defaultPreAuth}
		}
		k.add(p, sluice.Rule{ID: "preauth", Match: sluice.Match{Is: is(KindPreAuth)}, GroupBy: []sluice.Dimension{sluice.IP},
			Limits: limits{l}, OnStoreError: failModes[p.OnStoreError], Lease: k.lease(&p.Lease, limits{l}, false), Volatile: true})
		k.hidden(p, l.Limit)
		k.site(p, l.Limit)
	}
	if f := &id.AuthFailures; f.Enabled {
		l, ok := k.allowance(&f.Allowance)
		if !ok {
			l = sluice.Limit{Limit: defaultAuthFailures}
		}
		k.add(f, sluice.Rule{ID: "auth-failures", Match: sluice.Match{Is: is(KindAuthFailure)}, GroupBy: []sluice.Dimension{sluice.IP},
			Limits: limits{l}, OnStoreError: sluice.FailOpen, Volatile: true})
	}
}

// site makes the rule of an IPv6 site, and warns if one network alone cannot reach its own.
func (k *compiler) site(p *PreAuth, network limit.Limit) {
	l, ok := k.rate(&p.Site, p.Site)
	if !ok {
		return
	}
	k.add(&p.Site, sluice.Rule{ID: "preauth-site", Match: sluice.Match{Is: is(KindPreAuthSite)}, GroupBy: []sluice.Dimension{sluice.IP},
		Limits: limits{l}, OnStoreError: failModes[p.OnStoreError], Lease: k.lease(&p.Lease, limits{l}, false), Volatile: true})
	if faster(network, l.Limit) {
		k.problem(&p.Site, WarnShadowed, "the limit of a site, %v, is below that of one network in it, %v, which can therefore never be reached", l.Limit, network)
	}
}

// What an address may do before anything is verified, if the file does not say: more than
// the largest tier of the ADR, so that it hides none, and less than a flood.
var (
	defaultPreAuth      = limit.Bucket(5000, limit.Second, 10_000)
	defaultAuthFailures = limit.Bucket(60, limit.Minute, 60)
)

// hidden warns of a tier that nobody can use up from one address: of the fastest.
func (k *compiler) hidden(p *PreAuth, pre limit.Limit) {
	probe := compiler{c: k.c, report: func(Problem) {}} // what is wrong with a tier is reported with the tiers
	name, most := "", pre
	for i := range k.c.Tiers {
		t := &k.c.Tiers[i]
		if l, ok := probe.allowance(&t.Allowance); ok && faster(l.Limit, most) {
			name, most = t.Name, l.Limit
		}
	}
	if name != "" {
		k.problem(p, WarnShadowed, "the limit of an address, %v, is below that of tier %q, %v, which one address can therefore never reach", pre, name, most)
	}
}

// faster reports whether a lets more pass than b in the long run.
func faster(a, b limit.Limit) bool {
	return float64(a.Max)/float64(a.Per) > float64(b.Max)/float64(b.Per)
}

// tiers makes a rule for each tier.
func (k *compiler) tiers() {
	for i := range k.c.Tiers {
		t := &k.c.Tiers[i]
		var ls limits
		ls.add(k.allowance(&t.Allowance))
		ls.add(k.slots(&t.InFlight, t.InFlight))
		if len(ls) == 0 {
			k.problem(t, WarnMissing, "the tier has no limit, so it is unlimited; give requestsPerSecond or another rate")
			continue
		}
		r := sluice.Rule{ID: "tier-" + t.Name, Match: sluice.Match{Is: is(KindHTTP, sluice.Tier, []string{t.Name})},
			GroupBy: []sluice.Dimension{sluice.Subject}, Limits: ls, Queue: k.queue(t.Queue, ls),
			Shadow: t.Shadow, OnStoreError: failModes[t.OnStoreError], Lease: k.lease(&t.Lease, ls, t.Shadow)}
		if len(k.replace) > 0 {
			r.Match.Not = map[sluice.Dimension][]string{sluice.Route: k.replace}
		}
		k.add(t, surviving(r, t.Volatile))
	}
	k.tierNames()
}

func (k *compiler) tierNames() {
	c := k.c
	known := func(field any, name, what string) {
		if name == "" || slices.Contains(k.names(), name) {
			return
		}
		k.problem(field, CodeReference, "%s %q is not among the tiers%s", what, name, suggestion(name, k.names()))
	}
	for _, t := range []struct {
		field      *string
		name, what string
	}{{&c.DefaultTier, c.DefaultTier, "a verified caller without a tier"}, {&c.AnonymousTier, c.AnonymousTier, "a caller known by its address alone"}} {
		switch {
		case k.given(t.field):
			known(t.field, t.name, "the tier")
		case len(c.Tiers) > 0 && !slices.Contains(k.names(), t.name):
			k.problem(t.field, WarnMissing, "there is no tier %q, so %s has no tier's limit; add the tier, or name another one here", t.name, t.what)
		}
	}
	known(&c.Identity.Tenant.Tier, c.Identity.Tenant.Tier, "the tier")
	for i := range c.Identity.JWT {
		for j := range c.Identity.JWT[i].Roles {
			role := &c.Identity.JWT[i].Roles[j]
			known(&role.Tier, role.Tier, "the tier")
		}
	}
}

// names returns the names of the tiers.
func (k *compiler) names() []string {
	var names []string
	for _, t := range k.c.Tiers {
		names = append(names, t.Name)
	}
	return names
}

// endpoints makes a rule for each endpoint. The gate chooses the most specific endpoint
// for a request, so two that tie are an error here.
func (k *compiler) endpoints() {
	var routes []route.Route
	for i := range k.c.Endpoints {
		e := &k.c.Endpoints[i]
		if e.ID == "" {
			e.ID = endpointID(e)
		}
		routes = append(routes, k.route(&e.PathPattern, e.PathPattern, e.Methods, e.Hosts))
		if e.PathPattern != "" { // else it is reported as missing, and its id means nothing
			k.endpoint(e)
		}
	}
	for _, tie := range route.Ties(routes) {
		first, second := &k.c.Endpoints[tie.First], &k.c.Endpoints[tie.Second]
		k.problem(&second.PathPattern, CodeTie, "%q and %q at %s can match the same request and neither is more specific; change one, or tell them apart by methods or hosts",
			second.PathPattern, first.PathPattern, k.c.places[&first.PathPattern].pos)
	}
}

func (k *compiler) endpoint(e *Endpoint) {
	var ls limits
	ls.add(k.allowance(&e.Allowance))
	ls.add(k.slots(&e.InFlight, e.InFlight))
	if e.Headers != nil {
		k.headers(e.Headers)
	}
	k.cost(&e.Cost)
	k.bypassed(e)
	if e.Replace {
		k.replace = append(k.replace, e.ID)
	}
	if len(ls) == 0 {
		if !e.Replace {
			k.problem(e, WarnMissing, "the endpoint has no limit; give a rate or inFlight, or replace: true to free it from the tier")
		}
		return
	}
	if _, err := checkID(e.ID); err != nil {
		k.problem(&e.PathPattern, CodeID, "no id can be made of %q; give the endpoint an id of letters, digits and ._:/*- in ASCII", e.PathPattern)
		return
	}
	r := sluice.Rule{ID: e.ID, Match: sluice.Match{Is: is(KindHTTP, sluice.Route, []string{e.ID})},
		GroupBy: k.dimensions(&e.GroupBy, e.GroupBy), Limits: ls, Queue: k.queue(e.Queue, ls),
		Shadow: e.Shadow, OnStoreError: failModes[e.OnStoreError], Lease: k.lease(&e.Lease, ls, e.Shadow)}
	k.add(pick[any](k.given(&e.ID), &e.ID, e), surviving(r, e.Volatile))
}

// cost checks keys that only some extractors use.
func (k *compiler) cost(c *Cost) {
	const array, rpc = "json-array-length", "json-rpc-calls"
	switch {
	case c.Pointer != "" && c.Extractor != array && c.Extractor != rpc:
		k.problem(&c.Pointer, CodeConflict, "only the extractors %s and %s follow a pointer", array, rpc)
	case c.Class != "" && (c.Pointer == "" || c.Extractor != rpc):
		k.problem(&c.Class, CodeConflict, "a class needs the extractor %s and a pointer", rpc)
	case c.Methods != nil && c.Extractor != rpc:
		k.problem(&c.Methods, CodeConflict, "only the extractor %s knows methods", rpc)
	}
}

// bypassed warns of an endpoint whose one path is excluded from limits.
func (k *compiler) bypassed(e *Endpoint) {
	if strings.ContainsAny(e.PathPattern, "*?{") {
		return
	}
	for _, excluded := range k.c.ExcludedPaths {
		if p, err := route.Parse(excluded, k.routeOptions()); err == nil && p.Match(e.PathPattern) {
			k.problem(&e.PathPattern, WarnShadowed, "%q is never limited, because excludedPaths has %q", e.PathPattern, excluded)
			return
		}
	}
}

// endpointID makes an id from a pattern: ** is any, * one, ? q, and a method or host
// that tells endpoints of one pattern apart is appended.
func endpointID(e *Endpoint) string {
	parts := []string{"endpoint"}
	for _, seg := range strings.Split(strings.Trim(e.PathPattern, "/"), "/") {
		switch seg {
		case "":
		case "**":
			parts = append(parts, "any")
		case "*":
			parts = append(parts, "one")
		default:
			parts = append(parts, strings.NewReplacer("**", "any", "*", "one", "?", "q", "{", "", "}", "").Replace(seg))
		}
	}
	if len(parts) == 1 {
		parts = append(parts, "root")
	}
	for _, m := range e.Methods {
		parts = append(parts, strings.ToLower(m))
	}
	for _, h := range e.Hosts {
		parts = append(parts, strings.ReplaceAll(h, "*.", "any."))
	}
	return strings.Join(parts, "-")
}

// routeOptions are how the gate reads paths.
func (k *compiler) routeOptions() route.Options { return k.c.Paths.Options() }

// Options returns how [route.Canonical] must read the paths of requests.
func (p Paths) Options() route.Options {
	return route.Options{FoldCase: p.CaseInsensitive, EncodedSlash: map[string]route.EncodedSlash{
		"separator": route.Separator, "literal": route.Literal, "reject": route.Reject}[p.EncodedSlash]}
}

func (k *compiler) route(field any, pattern string, methods, hosts []string) route.Route {
	p, err := route.Parse(pattern, k.routeOptions())
	if err != nil {
		k.problem(field, CodePattern, "%s", strings.TrimPrefix(err.Error(), "route: "))
	}
	return route.Route{Pattern: p, Methods: methods, Hosts: hosts}
}

// streams makes the rules of long answers: all together, then each kind.
func (k *compiler) streams() {
	s := &k.c.Streams
	k.stream(&s.Stream, "")
	k.stream(&s.SSE, "sse")
	k.stream(&s.WebSocket, "websocket")
	k.stream(&s.MCP, "mcp")
}

func (k *compiler) stream(s *Stream, capability string) {
	suffix, more := "", []any(nil)
	if capability != "" {
		suffix, more = "-"+capability, []any{sluice.Capability, []string{capability}}
	}
	var open, frames limits
	open.add(k.slots(&s.Slots, s.Slots))
	open.add(k.rate(&s.OpenRate, s.OpenRate))
	frames.add(k.rate(&s.Messages, s.Messages))
	if len(open) > 0 {
		k.add(pick[any](s.Slots != nil, &s.Slots, &s.OpenRate), sluice.Rule{ID: "streams" + suffix, Match: sluice.Match{Is: is(KindStream, more...)},
			GroupBy: []sluice.Dimension{sluice.Subject}, Limits: open, Volatile: true})
	}
	if len(frames) > 0 {
		k.add(&s.Messages, sluice.Rule{ID: "messages" + suffix, Match: sluice.Match{Is: is(KindFrame, more...)},
			GroupBy: []sluice.Dimension{sluice.Subject}, Limits: frames, Volatile: true})
	}
}

// rate returns the bucket of a rate in one text, or false if there is none.
func (k *compiler) rate(field any, r *Rate) (sluice.Limit, bool) {
	if r == nil {
		return sluice.Limit{}, false
	}
	return k.limit(field, r.bucket(), "")
}
