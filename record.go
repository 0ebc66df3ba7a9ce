package sluice

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// What is here is about the record that a store keeps of an admission with an ID.

// A memo is what a record says, other than what was taken and given back.
type memo struct {
	note      []byte
	expires   limit.Micros // after the take; zero is never
	whileHeld bool
	left      limit.Micros // of that, from sent on
	sent      time.Time    // the store was asked, or a moment later
}

// name gives d the ID of call, and takes that of the call before away. It reports false,
// with the refusal filled in, if what call says of its record is invalid.
func (d *Decision) name(call *Call) bool {
	d.named, d.id, d.memo = call.ID != "", d.c.hash.id(call.ID), memo{}
	if !d.named {
		d.memo.tell(&d.cmd[0])
	}
	if call.Expires < 0 || call.Expires > 0 && (!d.named || call.WhileHeld) || len(call.Note) > MaxNote {
		d.refusePermanent(ReasonInvalid, "")
		return false
	}
	if d.named {
		d.call = d.c.hash.call(call)
		d.memo = memo{note: call.Note, expires: limit.MicrosOf(call.Expires), whileHeld: call.WhileHeld}
	}
	return true
}

// record decides whether call, whose steps are planned, is to have a record. It reports
// false, with the refusal filled in, if it expires and holds slots.
func (d *Decision) record(call *Call) bool {
	for i := range d.steps {
		s := &d.steps[i]
		if call.Expires == 0 || !s.Limit.OnRelease() || s.N == 0 {
			continue
		}
		if s.Set == 0 {
			d.refusePermanent(ReasonInvalid, d.places[i].rule.ID)
			return false
		}
		s.N = 0
	}
	if call.WhileHeld && d.held() == 0 {
		d.id, d.memo = ledger.ID{}, memo{}
	}
	return true
}

// tell puts into cmd what is to be remembered.
func (m *memo) tell(cmd *ledger.Command) {
	cmd.Note, cmd.Expires, cmd.WhileHeld = m.note, m.expires, m.whileHeld
	m.left, m.sent = ledger.Forever, time.Now()
	if m.expires > 0 {
		m.left = m.expires
	}
}

// adopt takes over what the store remembers.
func (m *memo) adopt(res *ledger.Result) {
	m.note, m.whileHeld, m.left = slices.Clone(res.Note), res.WhileHeld, res.Left
}

// Note returns the note of the call that was admitted under the ID, nil if there is none.
// The slice is the caller's.
func (a Admission) Note() []byte {
	if d := a.lock(); d != nil {
		defer d.mu.Unlock()
		return slices.Clone(d.memo.note)
	}
	return nil
}

// Left returns how long the admission is still good for work to begin, by the store's
// clock: zero or less once it has expired. It errs on the short side, by as long as the
// store took to answer. The longest Duration is for ever, as without [Call.Expires].
func (a Admission) Left() time.Duration {
	d := a.lock()
	if d == nil {
		return 0
	}
	defer d.mu.Unlock()
	if !d.named || d.memo.left == ledger.Forever {
		return math.MaxInt64
	}
	return d.memo.left.Duration() - time.Since(d.memo.sent)
}

// A Settlement is what an admission was settled to.
type Settlement struct {
	Outcome uint8 // as [Admission.SettleAs] was told; 0 of Settle
	// Used is what was used, of the units that were settled and that rules in force limit.
	Used Cost
}

// Settlement returns what the admission was settled to, by whomever, and whether it has
// been.
func (a Admission) Settlement() (s Settlement, ok bool) {
	if d := a.lock(); d != nil {
		defer d.mu.Unlock()
		if ok = d.settled; ok {
			s = Settlement{d.outcome, usedCost(d.steps, d.places, d.used, d.calls)}
		}
	}
	return s, ok
}

// usedCost is what the figures of a settlement say in units; see figures. Several rules may
// limit one unit.
func usedCost(steps []ledger.Step, places []place, figures []int64, calls int64) Cost {
	var cost Cost
	for i, n := range figures[:min(len(figures), len(steps))] {
		at := places[i]
		if n < 0 || at.rule == nil || cost.find(at.limit.unit) >= 0 {
			continue
		}
		if at.limit.unit == Calls && at.rule.Weights != nil {
			weight := steps[i].N / max(1, calls)
			if weight == 0 {
				continue
			}
			n /= weight
		}
		cost = append(cost, Amount{at.limit.unit, n})
	}
	return cost
}

// A Recorder is a Store that says what it remembers of admissions with an ID.
type Recorder interface {
	// Recorded returns how many admissions are remembered, released ones included, and
	// whether the store knows without looking at all of them.
	Recorded() (n int, ok bool)
	// Records yields the records of those that have not been released and of those that
	// expire. It is for people: slow, and not a snapshot. They are the caller's.
	Records(ctx context.Context) iter.Seq2[ledger.Remembered, error]
}

// A Record is what a store remembers of an admission with an ID.
type Record struct {
	Note []byte        // of its call
	Age  time.Duration // since it was admitted, by the store's clock
	// Left is how long it is good for work to begin: zero or less once it has expired, the
	// longest Duration if it does not.
	Left       time.Duration
	Settled    bool
	Settlement Settlement // if it is settled
	Released   bool
	Slots      int64 // that it holds
	// Rules are those in force whose slots it holds, in configuration order. Slots of rules
	// that have gone are held without a name.
	Rules []string
}

// Records yields what the store remembers of admissions with an ID, by whatever process,
// that have not been released or that expire. It is for people: slow, and not a snapshot.
// A store that is no [Recorder] is an error that wraps [errors.ErrUnsupported].
func (c *Controller) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		s, ok := c.store.(Recorder)
		if !ok {
			yield(Record{}, fmt.Errorf("sluice: the store does not list what it remembers: %w", errors.ErrUnsupported))
			return
		}
		for r, err := range s.Records(ctx) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			if !yield(c.policy.Load().describe(&r), nil) {
				return
			}
		}
	}
}

// Recorded returns how many admissions with an ID the store remembers, released ones
// included, and whether it can say.
func (c *Controller) Recorded() (n int, ok bool) {
	if s, is := c.store.(Recorder); is {
		return s.Recorded()
	}
	return 0, false
}

// describe says what r means under the policy.
func (p *compiled) describe(r *ledger.Remembered) Record {
	places := make([]place, len(r.Steps))
	x := Record{
		Note: r.Note, Age: (r.Now - r.At).Duration(), Left: math.MaxInt64, Settled: r.Settled, Released: r.Released,
	}
	if r.Expires > 0 {
		x.Left = (r.Expires - r.Now).Duration()
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		places[i] = p.pools[s.Pool]
		if r.Released || !s.Limit.OnRelease() || s.N == 0 {
			continue
		}
		x.Slots += s.N
		if rule := places[i].rule; rule != nil && !slices.Contains(x.Rules, rule.ID) {
			x.Rules = append(x.Rules, rule.ID)
		}
	}
	if r.Settled {
		x.Settlement = Settlement{r.Outcome, usedCost(r.Steps, places, r.Used, r.Calls)}
	}
	return x
}
