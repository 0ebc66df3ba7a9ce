package config

import (
	"cmp"
	"math"
	"reflect"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// sources makes one rule for each group of data sources. A group's limits are one object:
// two manifests that disagree are an error, because the callers of one would silently run
// under the limits of the other.
func (k *compiler) sources() {
	ids, groups := map[string]*string{}, map[string]*Governance{}
	for i := range k.c.Sources {
		s := &k.c.Sources[i]
		if first, twice := ids[s.ID]; twice {
			k.problem(&s.ID, CodeDuplicate, "two sources have this id; the other is at %s", k.c.places[first].pos)
		}
		ids[s.ID] = &s.ID
		g := &s.Governance
		group := g.group(s.ID)
		first, known := groups[group]
		if !known {
			groups[group] = g
			k.source(group, g)
		} else if !reflect.DeepEqual(first.dimensions(), g.dimensions()) {
			k.problem(g, CodeConflict, "the group %q has other limits at %s; all sources of a group must say the same", group, k.c.places[first].pos)
		}
	}
}

// group returns the name under which sources share their limits.
func (g *Governance) group(id string) string {
	if len(g.NetworkHosts) > 0 {
		return cmp.Or(g.RateLimitGroup, g.NetworkHosts[0])
	}
	return cmp.Or(g.RateLimitGroup, id)
}

// dimensions returns what sources of one group must agree on.
func (g *Governance) dimensions() [5]any {
	return [5]any{g.MaxConcurrentRequests, g.MinIntervalMs, g.RateLimitPerSecond, g.MaxQueueDepth, g.QueueTimeoutMs}
}

// longestCooldown bounds what a source may ask for after a 429, so that one hostile answer
// does not silence a group for days.
const longestCooldown = 15 * limit.Minute

func (k *compiler) source(group string, g *Governance) {
	var ls limits
	ls.add(k.slots(&g.MaxConcurrentRequests, g.MaxConcurrentRequests))
	var pace time.Duration
	if g.MinIntervalMs != nil {
		pace = k.milliseconds(&g.MinIntervalMs, *g.MinIntervalMs)
	}
	if g.RateLimitPerSecond != nil {
		pace = max(pace, time.Duration(math.Ceil(1e6 / *g.RateLimitPerSecond))*time.Microsecond)
	}
	if pace > 0 {
		ls.add(k.limit(pick[any](g.MinIntervalMs != nil, &g.MinIntervalMs, &g.RateLimitPerSecond), limit.Pace(limit.MicrosOf(pace)), ""))
	}
	ls = append(ls, sluice.Limit{Limit: limit.Cooldown(longestCooldown)})
	q := Queue{Depth: g.MaxQueueDepth, TimeoutMs: g.QueueTimeoutMs}
	k.c.places[&q.Depth], k.c.places[&q.TimeoutMs] = k.c.places[&g.MaxQueueDepth], k.c.places[&g.QueueTimeoutMs]
	k.add(g, surviving(sluice.Rule{ID: "source-" + group, Match: sluice.Match{Is: is(KindSource, sluice.Provider, []string{group})},
		Limits: ls, Queue: k.queue(&q, ls)}, nil))
}

// channels makes the anti-flood rule of what comes in and the pacing of what goes out.
func (k *compiler) channels() {
	c := k.c.Channels
	if c == nil || !c.Enabled {
		return
	}
	if c.InboundUserRPM != nil {
		a := Allowance{RequestsPerMinute: c.InboundUserRPM, Burst: c.InboundUserBurst}
		k.c.places[&a.RequestsPerMinute], k.c.places[&a.Burst] = k.c.places[&c.InboundUserRPM], k.c.places[&c.InboundUserBurst]
		if l, ok := k.allowance(&a); ok {
			k.add(&c.InboundUserRPM, surviving(sluice.Rule{ID: "channel-inbound-user", Limits: limits{l},
				Match:   sluice.Match{Is: is(KindMessage, sluice.Capability, []string{"inbound"})},
				GroupBy: []sluice.Dimension{sluice.Provider, sluice.Subject}}, nil))
		}
	} else if c.InboundUserBurst != nil {
		k.problem(&c.InboundUserBurst, CodeConflict, "a burst needs inboundUserRpm; without it nothing comes back")
	}
	for i := range c.Outbound {
		p := &c.Outbound[i]
		out := sluice.Match{Is: is(KindMessage, sluice.Capability, []string{"outbound"}, sluice.Provider, []string{p.Name})}
		if l, ok := k.rate(&p.Global, p.Global); ok {
			k.add(&p.Global, surviving(sluice.Rule{ID: "channel-" + p.Name, Match: out, Limits: limits{l}, Queue: &sluice.Queue{}}, nil))
		}
		if l, ok := k.rate(&p.PerChat, p.PerChat); ok {
			k.add(&p.PerChat, surviving(sluice.Rule{ID: "channel-" + p.Name + ":chat", Match: out, Limits: limits{l}, Queue: &sluice.Queue{},
				GroupBy: []sluice.Dimension{sluice.Channel}, Missing: sluice.MissingSkip}, nil))
		}
	}
}

// connectors makes a rule for each connector and one for those that are not listed.
func (k *compiler) connectors() {
	c := k.c.Connectors
	if c == nil || !c.Enabled {
		return
	}
	var listed []string
	for i := range c.Routes {
		r := &c.Routes[i]
		listed = append(listed, r.Name)
		k.throttle(r, &r.Throttle, sluice.Rule{ID: "connector-" + r.Name, Match: sluice.Match{Is: is(KindPoll, sluice.Channel, []string{r.Name})}})
	}
	r := sluice.Rule{ID: "connector:default", Match: sluice.Match{Is: is(KindPoll)}, GroupBy: []sluice.Dimension{sluice.Channel}}
	if len(listed) > 0 {
		r.Match.Not = map[sluice.Dimension][]string{sluice.Channel: listed}
	}
	k.throttle(&c.Requests, &c.Throttle, r)
}

func (k *compiler) throttle(at any, t *Throttle, r sluice.Rule) {
	if t.Requests == nil {
		return
	}
	l, ok := k.limit(&t.Requests, limit.Window(*t.Requests, limit.Micros(t.PeriodMs)*limit.Millisecond), "")
	if !ok {
		return
	}
	r.Limits = limits{l}
	if t.AsyncDelayed {
		r.Queue = &sluice.Queue{}
	}
	k.add(at, surviving(r, nil))
}
