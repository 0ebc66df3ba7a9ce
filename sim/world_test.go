package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// A world draws what happens.
type world struct{ *rand.Rand }

// chance is true once in n times.
func (w world) chance(n int) bool { return w.IntN(n) == 0 }

// span is a time of some microseconds up to most, seldom the same twice.
func (w world) span(most time.Duration) time.Duration {
	return time.Duration(1+w.Int64N(int64(most/time.Microsecond))) * time.Microsecond
}

func (w world) micros(most time.Duration) limit.Micros { return limit.MicrosOf(w.span(most)) }

// pick is one of from.
func pick[T any](w world, from ...T) T { return from[w.IntN(len(from))] }

// shape is what a reload leaves alone: which rules there are, about what, and how they
// count. The numbers are drawn anew every time.
type shape struct {
	id      string
	kind    limit.Kind
	unit    sluice.Unit
	about   string // the kind of call, empty for all
	groupBy []sluice.Dimension
	shadow  bool
	settle  sluice.SettleMode
	overrun bool
	free    bool
	queue   bool
	fair    bool
	weights map[string]int64
}

// shapes draws one to five rules.
func (w world) shapes() []shape {
	var all []shape
	for i := range 1 + w.IntN(5) {
		s := shape{
			id:    fmt.Sprintf("r%d", i),
			kind:  pick(w, limit.KindBucket, limit.KindPace, limit.KindWindow, limit.KindSlots, limit.KindCooldown),
			about: pick(w, "", "", "http", "llm"),
			groupBy: pick(w, nil, []sluice.Dimension{sluice.Subject}, []sluice.Dimension{sluice.Tenant},
				[]sluice.Dimension{sluice.Subject, sluice.Tenant}),
			settle: pick(w, sluice.Refund, sluice.Keep), overrun: w.chance(2), free: w.chance(2),
			queue: !w.chance(3), fair: w.chance(4),
		}
		switch s.kind {
		case limit.KindWindow, limit.KindBucket:
			s.unit = pick(w, sluice.Calls, sluice.Tokens)
			// Which of several calls of one instant a shadow would have refused shows only
			// if they take different amounts, or give them back.
			s.shadow = s.kind == limit.KindWindow && s.unit == sluice.Calls && w.chance(3)
		}
		if s.unit == sluice.Calls && !s.shadow && w.chance(3) {
			s.weights = map[string]int64{"heavy": 2, "ping": 0}
		}
		all = append(all, s)
	}
	return all
}

// policy draws numbers for the rules.
func (w world) policy(shapes []shape) *sluice.Policy {
	p := new(sluice.Policy)
	for _, s := range shapes {
		r := sluice.Rule{
			ID: s.id, GroupBy: s.groupBy, Shadow: s.shadow, Settle: s.settle, AllowOverrun: s.overrun, Weights: s.weights,
			Limits: []sluice.Limit{{Limit: w.limit(s), Unit: s.unit}},
		}
		if s.about != "" {
			r.Match.Is = map[sluice.Dimension][]string{sluice.Kind: {s.about}}
		}
		if s.free {
			r.OnTimeout = sluice.Free
		}
		if s.kind == limit.KindSlots && w.chance(3) {
			r.MaxHold = w.span(20 * time.Second)
		}
		if s.queue {
			r.Queue = w.queue(s)
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

func (w world) queue(s shape) *sluice.Queue {
	q := new(sluice.Queue)
	if w.chance(2) {
		q.Depth = new(w.IntN(6))
	}
	if w.chance(2) {
		q.Timeout = w.span(20 * time.Second)
	}
	if s.fair {
		q.FairBy, q.Shares = new(sluice.Tenant), map[string]int64{"t1": 3}
	}
	return q
}

func (w world) limit(s shape) limit.Limit {
	units := int64(1)
	if s.unit == sluice.Tokens {
		units = 20
	}
	switch s.kind {
	case limit.KindBucket:
		return limit.Bucket(units*(1+w.Int64N(5)), w.micros(5*time.Second), units*(2+w.Int64N(8)))
	case limit.KindPace:
		return limit.Pace(w.micros(2 * time.Second))
	case limit.KindWindow:
		return limit.Window(units*(2+w.Int64N(8)), w.micros(10*time.Second))
	case limit.KindSlots:
		return limit.Slots(1 + w.Int64N(4))
	}
	return limit.Cooldown(w.micros(10 * time.Second))
}

// text is a policy in words, for the history.
func text(rules []sluice.Rule) string {
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&b, "\n\t%s: %v of %s, match %v, by %v, settle %v, overrun %v, on time-out %v, hold %v, shadow %v",
			r.ID, r.Limits[0].Limit, r.Limits[0].Unit, r.Match.Is, r.GroupBy, r.Settle, r.AllowOverrun, r.OnTimeout, r.MaxHold, r.Shadow)
		if q := r.Queue; q != nil {
			fmt.Fprintf(&b, ", queue for %v", q.Timeout)
			if q.Depth != nil {
				fmt.Fprintf(&b, ", %d deep", *q.Depth)
			}
			if q.FairBy != nil {
				b.WriteString(", fair")
			}
		}
	}
	return b.String()
}

// call draws a call; about one in four has an ID.
func (w world) call(step int) sluice.Call {
	c := sluice.Call{
		Kind:       pick(w, "http", "llm"),
		Subject:    pick(w, "alice", "bob", "eve"),
		Tenant:     pick(w, "t1", "t2"),
		Capability: pick(w, "", "", "heavy", "ping"),
	}
	if w.chance(2) {
		c.Cost = sluice.Cost{{Unit: sluice.Tokens, N: w.Int64N(30)}}
	}
	if w.chance(4) {
		c.ID = fmt.Sprint("id", step)
	}
	return c
}
