package mcp

import (
	"context"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp/audit"
)

// A rule's MaxHold gives a slot back whatever its holder says. For calls of this process the
// engine does it by a timer; what is here tells the audit, and ends calls that hold nothing
// any more. Calls of processes that have ended have no timer, and are freed here.

const (
	// afterHold is when the engine's timer of a slot has surely fired.
	afterHold = 100 * time.Millisecond
	// The ledger is asked for overdue calls of others when the next is due, between these
	// times; graceOfOthers is how long a process that is alive has for its own.
	sweepFirst, sweepLast = time.Second, 30 * time.Second
	graceOfOthers         = 5 * time.Second
)

// holdTimes are the MaxHolds of a policy, by rule.
type holdTimes struct {
	policy *sluice.Policy
	byRule map[string]time.Duration
}

// maxHolds returns the MaxHolds of the rules in force, nil if there are none.
func (b *Broker) maxHolds() map[string]time.Duration {
	p := b.ctl.Policy()
	if h := b.holdTimes.Load(); h != nil && h.policy == p {
		return h.byRule
	}
	h := &holdTimes{policy: p}
	for i := range p.Rules {
		if r := &p.Rules[i]; r.MaxHold > 0 {
			if h.byRule == nil {
				h.byRule = map[string]time.Duration{}
			}
			h.byRule[r.ID] = r.MaxHold
		}
	}
	b.holdTimes.Store(h)
	return h.byRule
}

// watchHolds looks again once a rule has had to give back what the call holds. The caller
// holds c.mu.
func (c *call) watchHolds() {
	most := c.b.maxHolds()
	if most == nil {
		return
	}
	c.kept = c.admission.Holds()
	age, next := time.Since(c.since), time.Duration(0)
	for _, rule := range c.kept {
		if m := most[rule] + afterHold; most[rule] > 0 && m > age && (next == 0 || m < next) {
			next = m
		}
	}
	if next > 0 {
		c.overdue = time.AfterFunc(next-age, c.overstayed)
	}
}

// overstayed notes the slots that have come back since the call was looked at.
func (c *call) overstayed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	now := c.admission.Holds()
	if gone := slices.DeleteFunc(c.kept, func(rule string) bool { return slices.Contains(now, rule) }); len(gone) > 0 {
		c.note(audit.Event{Action: audit.Timeout, Outcome: audit.Released, Reason: "max-hold", ReleasedRules: baseRules(gone)})
	}
	if c.answered && !c.parked && c.task == "" && len(now) == 0 {
		c.release()
		return
	}
	c.watchHolds()
}

// sweep frees the overdue calls of processes that have ended, until the broker stops. It
// begins at once: a process that is started again and again has to free what the one before
// has left.
func (b *Broker) sweep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-timer.C:
		}
		next := sweepLast
		if most := b.maxHolds(); most != nil {
			next = min(max(b.freeOverdue(most), sweepFirst), sweepLast)
		}
		timer.Reset(next)
	}
}

// freeOverdue frees the calls of others that are overdue, and returns when the next will be.
func (b *Broker) freeOverdue(most map[string]time.Duration) time.Duration {
	ctx, cancel := context.WithTimeout(b.ctx, sweepLast)
	defer cancel()
	next := sweepLast
	for r, err := range b.ctl.Records(ctx) {
		if err != nil {
			b.log.Warn("mcp: the ledger does not say which calls are overdue", "error", err)
			return sweepLast
		}
		h, ok := earlier(&r)
		left, bounded := holdLeft(&r, most)
		switch {
		case !ok || !bounded || b.calls.get(h.RequestID) != nil:
			continue
		case left > 0:
			next = min(next, left)
			continue
		}
		if _, err := b.freeEarlier(ctx, h.Slot, h.RequestID, audit.Event{Action: audit.Timeout, Reason: "max-hold"}); err != nil {
			b.log.Warn("mcp: the ledger did not take a release", "slot", h.Slot, "error", err)
		}
	}
	return next
}

// holdLeft returns how long a call of another process may still hold all its slots. A slot of
// a rule without a MaxHold waits for an operator, and the record with it.
func holdLeft(r *sluice.Record, most map[string]time.Duration) (left time.Duration, bounded bool) {
	for _, rule := range r.Rules {
		if most[rule] == 0 {
			return 0, false
		}
		left = max(left, most[rule]+graceOfOthers-r.Age)
	}
	return left, len(r.Rules) > 0
}
