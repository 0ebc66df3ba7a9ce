package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// rule makes a rule written by hand.
func (k *compiler) rule(r *Rule) {
	ls := k.measures(r)
	if len(ls) == 0 {
		return
	}
	out := sluice.Rule{ID: r.ID, Match: match(&r.Match), GroupBy: k.dimensions(&r.GroupBy, r.GroupBy), Limits: ls,
		Weights: shares(r.Weights), Queue: k.queue(r.Queue, ls), AllowOverrun: r.AllowOverrun, MaxHold: r.MaxHold,
		OnStoreError: failModes[r.OnStoreError], Lease: k.lease(&r.Lease, ls, r.Shadow), Shadow: r.Shadow}
	out.Missing = map[string]sluice.Missing{"ip": sluice.MissingIP, "skip": sluice.MissingSkip, "deny": sluice.MissingDeny}[r.Missing]
	out.Settle = map[string]sluice.SettleMode{"refund": sluice.Refund, "keep": sluice.Keep}[r.Settle]
	out.OnTimeout = map[string]sluice.AbandonMode{"hold": sluice.Hold, "release": sluice.Free}[r.OnTimeout]
	if r.MaxHoldMs != nil {
		if r.MaxHold != 0 {
			k.problem(&r.MaxHoldMs, CodeConflict, "the time is given already by maxHold; keep one")
		}
		out.MaxHold = k.milliseconds(&r.MaxHoldMs, *r.MaxHoldMs)
	}
	if !ls.hold() {
		k.needsSlots(&r.OnTimeout, r.OnTimeout == "release")
		k.needsSlots(&r.MaxHold, r.MaxHold != 0)
		k.needsSlots(&r.MaxHoldMs, r.MaxHoldMs != nil)
	}
	if r.AllowOverrun && r.Settle == "refund" && k.given(&r.Settle) {
		k.problem(&r.AllowOverrun, CodeConflict, "settle: refund debits an overrun anyway; remove one")
	}
	if len(r.Match.Kind) == 0 {
		out.Match.Not = aboutWork(out.Match.Not)
	}
	k.add(&r.ID, surviving(out, r.Volatile))
}

// lease returns how many percent of the limits may be given up, none by default, and warns if
// nothing is gained by that.
func (k *compiler) lease(field *string, ls limits, shadow bool) int {
	percent, err := strconv.Atoi(strings.TrimSuffix(*field, "%"))
	if err != nil {
		return 0 // there is none, or its format has been refused
	}
	cannot := slices.IndexFunc(ls, func(l sluice.Limit) bool {
		_, ok := l.Limit.Lease(percent)
		return !ok
	})
	switch b := k.c.Store.Backend; {
	case shadow:
		k.problem(field, WarnMissing, "a shadow rule takes nothing ahead; the lease begins when shadow is removed")
	case cannot >= 0:
		k.problem(field, WarnMissing, "nothing of %s can be taken ahead, but only of buckets and windows that are not very small or fast; so every call asks the store", ls[cannot].Limit)
	case b == "in-memory" || b == "file":
		k.problem(field, WarnMissing, "nothing is taken ahead, because the store is %s, and its one process need not ask anybody", b)
	}
	return percent
}

// asides are the kinds of calls that a surface makes beside the call for the work itself, and
// requests of MCP that are not counted unless a rule names them.
var asides = []string{KindPreAuth, KindPreAuthSite, KindAuthFailure, KindStream, KindFrame, KindMethod}

// aboutWork excludes the asides from a rule that names no kind: a request shall take one
// unit of it, not another for each phase that it goes through.
func aboutWork(not map[sluice.Dimension][]string) map[sluice.Dimension][]string {
	if not == nil {
		not = map[sluice.Dimension][]string{}
	}
	not[sluice.Kind] = slices.Concat(not[sluice.Kind], asides)
	return not
}

func (k *compiler) needsSlots(field any, set bool) {
	if set {
		k.problem(field, CodeConflict, "is about slots, and the rule has none; add slots, or remove it")
	}
}

// hold reports whether one of the limits is held until a release.
func (ls limits) hold() bool {
	for _, l := range ls {
		if l.OnRelease() {
			return true
		}
	}
	return false
}

// measures returns the limits of a rule: its own keys, or its list.
func (k *compiler) measures(r *Rule) limits {
	var ls limits
	single := r.Measure != Measure{}
	switch {
	case single && len(r.Limits) > 0:
		k.problem(&r.Limits, CodeConflict, "the rule has a limit of its own beside the list; move it into the list")
		return nil
	case single:
		ls.add(k.measure(r, &r.Measure))
		return ls
	case len(r.Limits) == 0:
		k.problem(&r.ID, CodeRequired, "the rule has no limit; give one of bucket, pace, window, slots, cooldown, or limits")
		return nil
	}
	seen := map[string]int{}
	for i := range r.Limits {
		n := &r.Limits[i]
		l, ok := k.measure(n, &n.Measure)
		if !ok {
			continue
		}
		l.Name = n.Name
		name := pick(n.Name != "", n.Name, l.Kind.String())
		if first, twice := seen[name]; twice {
			k.problem(n, CodeDuplicate, "two limits of the rule are called %q; the other is at %s; give this one a name", name, k.c.places[&r.Limits[first]].pos)
		}
		seen[name] = i
		ls = append(ls, l)
	}
	return ls
}

// measure returns the one limit that m gives; at is what has m.
func (k *compiler) measure(at any, m *Measure) (out sluice.Limit, ok bool) {
	var given []string
	var l limit.Limit
	var field any
	take := func(name string, f any, present bool, make func() limit.Limit) {
		if present {
			given, field, l = append(given, name), f, make()
		}
	}
	take("bucket", &m.Bucket, m.Bucket != nil, func() limit.Limit { return m.Bucket.bucket() })
	take("pace", &m.Pace, m.Pace != nil, func() limit.Limit { return limit.Pace(limit.MicrosOf(*m.Pace)) })
	take("window", &m.Window, m.Window != nil, func() limit.Limit { return limit.Window(m.Window.Max, m.Window.Per) })
	take("slots", &m.Slots, m.Slots != nil, func() limit.Limit { return limit.Slots(*m.Slots) })
	take("cooldown", &m.Cooldown, m.Cooldown != nil, func() limit.Limit { return limit.Cooldown(limit.MicrosOf(*m.Cooldown)) })
	switch {
	case len(given) == 0:
		k.problem(at, CodeRequired, "has no limit; give one of bucket, pace, window, slots, cooldown")
		return out, false
	case len(given) > 1:
		k.problem(field, CodeConflict, "%s stand in one limit; write them as a list under limits", strings.Join(given, " and "))
		return out, false
	case m.Window != nil && m.Window.Burst != nil:
		k.problem(&m.Window, CodeConflict, "a window has no burst: its whole count may come at once; use bucket for a rate with a burst")
		return out, false
	case m.Window != nil && m.Window.Per < limit.Second:
		k.problem(&m.Window, WarnPrecision, "a window below a second cannot be told in RateLimit headers, which count whole seconds")
	}
	return k.limit(field, l, m.Unit)
}

func match(m *Match) sluice.Match {
	out := sluice.Match{Is: m.Selectors.dimensions()}
	if m.Not != nil {
		out.Not = m.Not.dimensions()
	}
	return out
}

// dimensions returns the selectors that are given, as the engine keeps them.
func (s *Selectors) dimensions() map[sluice.Dimension][]string {
	out := map[sluice.Dimension][]string{}
	for d, values := range map[sluice.Dimension][]string{
		sluice.Kind: s.Kind, sluice.Subject: s.Subject, sluice.Tenant: s.Tenant, sluice.Tier: s.Tier, sluice.IP: s.IP,
		sluice.Provider: s.Provider, sluice.Capability: s.Capability, sluice.Resource: resources(s.Resource), sluice.Method: s.Method,
		sluice.Route: s.Route, sluice.Model: s.Model, sluice.Credential: s.Credential, sluice.Channel: s.Channel,
	} {
		if len(values) > 0 {
			out[d] = values
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// resources writes ** alone as the absolute pattern that it means.
func resources(patterns []string) []string {
	var out []string
	for _, p := range patterns {
		out = append(out, pick(p == "**", "/**", p))
	}
	return out
}
