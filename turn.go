package sluice

import (
	"context"
	"slices"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// ahead returns the rule in whose line somebody stands who came before ticket, nil if
// nobody does. It does not look at the lines in which it is the call's turn.
func (c *Controller) ahead(d *Decision, ticket uint64, turns []*waitLine) *match {
	for i := range d.matched {
		m := &d.matched[i]
		if m.rule.line == nil || m.rule.line.waiting.Load() == 0 {
			continue
		}
		c.room.mu.Lock()
		l := m.rule.line.byKey[m.lineKey()]
		ahead := l != nil && !slices.Contains(turns, l) && l.queue.Ahead(ticket)
		c.room.mu.Unlock()
		if ahead {
			return m
		}
	}
	return nil
}

// standBehind decides about a call that may not overtake those in the line of m. It asks
// the store and takes nothing: a call that can never pass, or that a rule without a queue
// refuses, does not wait for that answer.
func (c *Controller) standBehind(ctx context.Context, d *Decision, m *match) (bool, error) {
	ok, err := d.apply(ctx, ledger.Peek)
	if d.local && ok && err == nil { // nobody waits for a share
		return d.apply(ctx, ledger.Take)
	}
	if err != nil || d.degraded {
		return ok, err
	}
	d.behind = m
	if ok {
		d.wait = 0
		d.refusal = Refusal{
			Reason: reasonOf(&m.rule.limits[0], new(limit.Verdict)), Rule: m.rule.ID,
			Violated: append(d.refusal.Violated[:0], m.rule.ID), Levels: d.levels,
		}
	}
	return false, nil
}

// remembered reports whether the store has a record of the call's ID: one that was
// admitted before needs no turn.
func (d *Decision) remembered(ctx context.Context) bool {
	if d.id.Zero() {
		return false
	}
	d.cmd[0] = ledger.Command{Op: ledger.Find, ID: d.id}
	err := d.c.store.Apply(ctx, d.cmd[:], d.res[:])
	return err == nil && d.res[0].Status == ledger.Done
}

// mayWait returns the match in whose line a refused call may wait. It returns nil, with
// the refusal as it is to be answered, unless every refusing rule lets the call wait
// and the wait can end in time.
func (c *Controller) mayWait(ctx context.Context, d *Decision, arrived time.Time) *match {
	switch r := d.Refusal(); {
	case r.Permanent:
		return nil
	case r.Reason == ReasonRate, r.Reason == ReasonConcurrency, r.Reason == ReasonBudget, r.Reason == ReasonCooldown:
	default:
		return nil
	}
	first := d.behind
	for i := range d.matched {
		m := &d.matched[i]
		switch {
		case m.rule.Shadow || !d.refusedBy(m.rule):
		case m.rule.line == nil:
			return nil
		case first == nil:
			first = m
		}
	}
	if first == nil {
		return nil
	}
	if left, bounded := d.timeLeft(ctx, arrived); bounded && d.wait.Duration() > left {
		d.refusal.Reason, d.refusal.Rule = ReasonQueueTimeout, first.rule.ID
		return nil
	}
	return first
}

// refusedBy reports whether r is among the refusing rules.
func (d *Decision) refusedBy(r *rule) bool {
	for _, id := range d.refusal.Violated {
		if id == r.ID {
			return true
		}
	}
	return false
}

// timeLeft is how long the call may still wait by ctx and by the refusing rules.
func (d *Decision) timeLeft(ctx context.Context, arrived time.Time) (left time.Duration, bounded bool) {
	if at, ok := ctx.Deadline(); ok {
		left, bounded = time.Until(at), true
	}
	if t := d.timeout(); t > 0 {
		if l := t - time.Since(arrived); !bounded || l < left {
			left, bounded = l, true
		}
	}
	return left, bounded
}

// timeout is the shortest time-out of the rules that keep the call waiting; 0 is none.
func (d *Decision) timeout() time.Duration {
	var t time.Duration
	for i := range d.matched {
		m := &d.matched[i]
		if q := m.rule.Queue; q != nil && q.Timeout > 0 && (t == 0 || q.Timeout < t) && (m == d.behind || d.refusedBy(m.rule)) {
			t = q.Timeout
		}
	}
	return t
}
