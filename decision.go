package sluice

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A Decision is the memory of one decision: what matched, what was taken, what was
// answered. [Controller.Try] fills one that the caller brings, so that a caller who
// keeps it for its next call decides without allocating. The zero Decision is ready.
//
// A Decision is used by one goroutine at a time and must not be copied. It must not be
// used for another Try while an admission that it made holds slots.
type Decision struct {
	// WantLevels asks Try to compute Levels; without it a decision costs a few
	// nanoseconds less.
	WantLevels bool

	c       *Controller
	policy  *compiled
	matched []match
	steps   []ledger.Step
	places  []place
	cmd     [1]ledger.Command
	res     [1]ledger.Result
	id      ledger.ID
	call    uint64 // fingerprint of a call with an ID
	named   bool   // the last call had an ID: what is about it is to be looked after
	memo    memo
	calls   int64 // that the call costs, before weights
	refusal Refusal
	levels  []Level
	event   Event
	waited  time.Duration
	watch   limit.Micros // for how long to be told of the cells that refuse
	pooled  bool
	asked   Call // of a pooled Decision
	fresh   bool // the last call was under another policy
	refused bool // refusal is still to be made from res
	failed  bool // Try returned an error: there is neither admission nor refusal
	lent    bool // an Admission is about, so that the next call needs a new generation

	degraded bool
	local    bool // the grant is in this process's share
	echo     echo
	replayed bool
	wait     limit.Micros // least time until the refusing limits may all pass
	behind   *match       // the rule in whose line others stand before the call

	nsums   int // hashed values
	sumDims [4]Dimension
	sums    [4]digest

	// generation is bumped when the decision stops being about its call, so that an
	// Admission that outlives it does nothing.
	generation atomic.Uint64
	mu         sync.Mutex // of what follows, and of settling and releasing
	taken      bool       // something was taken and has not been released
	holding    bool       // the store must be told of the release
	at         limit.Micros
	settled    bool    // to used, with this outcome
	used       []int64 // by step; see figures
	outcome    uint8
	timer      *time.Timer // of MaxHold

	matchedArr [4]match
	stepsArr   [4]ledger.Step
	placesArr  [4]place
}

// A match is a rule that is about the call.
type match struct {
	rule *rule
	// group and base are the hash of the grouping values; see Key.
	group, base uint64
}

// reset makes d ready for a call.
func (d *Decision) reset(c *Controller, p *compiled) {
	if d.fresh = d.policy != p; d.fresh {
		if d.c == nil {
			d.matched, d.steps, d.places = d.matchedArr[:0], d.stepsArr[:0], d.placesArr[:0]
		}
		clear(d.steps[:cap(d.steps)]) // addStep shall find none of the old policy
		d.c, d.policy = c, p
		d.WantLevels = d.WantLevels || c.observe != nil
	}
	if d.local {
		clear(d.steps[:cap(d.steps)]) // nor any of a share
		d.local = false
	}
	d.matched, d.steps, d.places, d.levels = d.matched[:0], d.steps[:0], d.places[:0], d.levels[:0]
	d.echo.steps = d.echo.steps[:0]
	d.taken, d.degraded, d.replayed = false, false, false
	d.waited, d.watch, d.behind, d.nsums = 0, 0, nil, 0
	d.refused, d.failed, d.refusal.Reason = false, false, ReasonNone
	d.res[0].Outcomes = d.res[0].Outcomes[:0]
}

// plan finds the rules of p that match call and lays out the steps to take. It reports
// false, with the refusal filled in, if the call cannot be decided by the store.
func (d *Decision) plan(p *compiled, call *Call) bool {
	d.calls = 1
	if call.Cost != nil {
		if call.Cost.negative() {
			d.refusePermanent(ReasonInvalid, "")
			return false
		}
		d.calls = call.Cost.Of(Calls)
	}
	for _, r := range p.candidates(call.Kind) {
		if !r.match(call) {
			continue
		}
		m := match{rule: r}
		if missing := d.group(call, &m); missing != MissingIP {
			if missing == MissingDeny && !r.Shadow {
				d.matched = append(d.matched, m)
				d.refusePermanent(ReasonMissing, r.ID)
				return false
			}
			continue
		}
		d.matched = append(d.matched, m)
		base := m.base
		if r.Calendar != nil {
			base = r.inPeriod(base)
		}
		for i := range r.limits {
			l := &r.limits[i]
			n := int64(1)
			if call.Cost != nil || !l.single {
				n = r.cost(l, call)
			}
			s := d.addStep(r, l)
			s.Key, s.N = ledger.Key{Group: m.group, Cell: mix(l.salt, base)}, n
		}
	}
	return true
}

// addStep appends the step of a limit, all but its key and number of units. A caller
// who asks the same again and again finds the step of its last call there, and is spared
// the copy: under one policy a pool belongs to one limit.
func (d *Decision) addStep(r *rule, l *ruleLimit) *ledger.Step {
	d.places = append(d.places, place{r, l})
	n := len(d.steps)
	if n == cap(d.steps) {
		d.steps = append(d.steps, l.step)
		return &d.steps[n]
	}
	d.steps = d.steps[:n+1]
	s := &d.steps[n]
	if d.fresh || s.Pool != l.salt {
		*s = l.step
	}
	return s
}

// sum hashes the value v of a dimension, each dimension at most once a call.
func (d *Decision) sum(dim Dimension, v string) digest {
	for i := range d.nsums {
		if d.sumDims[i] == dim {
			return d.sums[i]
		}
	}
	s := d.c.hash.sum(v)
	if d.nsums < len(d.sums) {
		d.sumDims[d.nsums], d.sums[d.nsums] = dim, s
		d.nsums++
	}
	return s
}

// group fills in the group of a match. The first dimension's value alone makes the Group
// half of the key, whatever the dimension, so that everything kept about "ip:…" is found
// by that text.
func (d *Decision) group(call *Call, m *match) Missing {
	for i, dim := range m.rule.group {
		from, v := dim, call.Get(dim)
		if v == "" {
			if m.rule.Missing != MissingIP {
				return m.rule.Missing
			}
			from, v = IP, call.IP
		}
		s := d.sum(from, v)
		if i == 0 {
			m.group = s.hi
		}
		m.base = mix(m.base+uint64(from)+1, s.lo)
	}
	return MissingIP
}

// noRefusal empties the refusal and keeps its memory.
func (d *Decision) noRefusal() {
	r := &d.refusal
	r.Reason, r.RetryAfter, r.Permanent, r.Degraded, r.Waited = ReasonNone, 0, false, false, 0
	r.Violated = r.Violated[:0]
	if r.Levels != nil || r.Err != nil {
		r.Levels, r.Err = nil, nil
	}
}

func (d *Decision) refusePermanent(reason Reason, rule string) {
	d.refusal = Refusal{Reason: reason, Rule: rule, Permanent: true, Violated: d.refusal.Violated[:0]}
	if rule != "" {
		d.refusal.Violated = append(d.refusal.Violated, rule)
	}
}

// apply sends the steps to the store. It reports whether they were taken; if not, the
// refusal is filled in.
func (d *Decision) apply(ctx context.Context, op ledger.Op) (bool, error) {
	cmd, res := &d.cmd[0], &d.res[0]
	cmd.Op, cmd.ID, cmd.Call, cmd.Steps, cmd.Levels, cmd.Watch = op, d.id, d.call, d.steps, d.WantLevels, d.watch
	cmd.Calls = d.calls
	if d.named {
		d.memo.tell(cmd)
	}
	if err := d.books().Apply(ctx, d.cmd[:], d.res[:]); err != nil {
		return d.storeFailed(ctx, op, err)
	}
	if d.policy.calendars {
		d.clampToPeriods(res)
	}
	switch res.Status {
	case ledger.Done:
		if op == ledger.Take {
			d.grant(res.At)
			if d.policy.holds {
				count(d.steps, d.places, 1)
			}
			if d.policy.shares && !d.local && d.c.local != nil {
				d.mirror(ctx)
			}
		}
	case ledger.Replayed:
		d.adopt(res)
	case ledger.Refused:
		d.refused = true
		return false, nil
	case ledger.Conflict:
		d.refusePermanent(ReasonInvalid, "")
		return false, nil
	default:
		d.refusal = Refusal{Reason: ReasonFull, Violated: d.refusal.Violated[:0]}
		return false, nil
	}
	if d.WantLevels {
		d.fillLevels(res)
	}
	return true, nil
}

// grant notes that the steps were taken at time at.
func (d *Decision) grant(at limit.Micros) {
	d.at, d.taken, d.holding = at, true, !d.id.Zero()
	d.settled = false
	for i := 0; d.policy.holds && i < len(d.matched); i++ {
		d.holding = d.holding || d.matched[i].rule.holds
	}
}

// adopt takes over a grant that the store remembers.
func (d *Decision) adopt(res *ledger.Result) {
	d.steps = append(d.steps[:0], res.Steps...)
	d.places = d.places[:0]
	for i := range d.steps {
		d.places = append(d.places, d.policy.pools[d.steps[i].Pool])
	}
	if res.Calls > 0 {
		d.calls = res.Calls
	}
	d.grant(res.At)
	d.taken, d.holding, d.replayed = !res.Released, !res.Released, true
	d.settled, d.used, d.outcome = res.Settled, append(d.used[:0], res.Used...), res.Outcome
	d.memo.adopt(res)
	res.Outcomes, res.Levels = res.Outcomes[:0], res.Levels[:0]
	d.policy = nil // the steps are the record's, not the policy's; see addStep
}

// refuse turns the store's refusal into ours, when somebody asks for it. The first
// refusing rule in configuration order is the rule, and the wait is the largest.
func (d *Decision) refuse(res *ledger.Result) {
	d.refused = false
	d.noRefusal()
	d.refusal.Degraded = d.degraded
	byTime := true
	var wait limit.Micros
	for i := range res.Outcomes {
		out := &res.Outcomes[i]
		if out.OK || d.steps[i].Set != 0 {
			continue
		}
		at := d.places[i]
		if d.refusal.Reason == ReasonNone {
			d.refusal.Reason, d.refusal.Rule = reasonOf(at.limit, out), at.rule.ID
		}
		if v := d.refusal.Violated; len(v) == 0 || v[len(v)-1] != at.rule.ID {
			d.refusal.Violated = append(v, at.rule.ID)
		}
		if out.Never && !d.refusal.Permanent {
			d.refusal.Permanent = true
			d.refusal.Reason, d.refusal.Rule = reasonOf(at.limit, out), at.rule.ID
		}
		byTime = byTime && out.Wait > 0
		wait = max(wait, out.Wait)
	}
	d.wait = wait
	if byTime && !d.refusal.Permanent {
		d.refusal.RetryAfter = wait.Duration()
	}
	if d.WantLevels {
		d.fillLevels(res)
		d.refusal.Levels = d.levels
	}
}

func reasonOf(l *ruleLimit, out *limit.Verdict) Reason {
	switch {
	case out.Never && l.Capacity() == 0:
		return ReasonDenied
	case out.Never:
		return ReasonTooLarge
	case l.Kind == limit.KindSlots:
		return ReasonConcurrency
	case l.Kind == limit.KindCooldown:
		return ReasonCooldown
	case l.unit != Calls:
		return ReasonBudget
	}
	return ReasonRate
}

func (d *Decision) fillLevels(res *ledger.Result) {
	d.levels = d.levels[:0]
	for i := range res.Levels {
		at, l := d.places[i], &res.Levels[i]
		d.levels = append(d.levels, Level{
			Rule: at.rule.ID, Name: at.limit.name, Kind: at.limit.Kind, Unit: at.limit.unit,
			Shadow: at.rule.Shadow, Refused: i < len(res.Outcomes) && !res.Outcomes[i].OK,
			Limit: l.Max, Remaining: l.Left, Window: at.limit.window,
			Next: l.Next.Duration(), Full: l.Full.Duration(),
		})
	}
}

// Admission returns the admission that Try has made, and the zero Admission if it
// refused or failed.
func (d *Decision) Admission() Admission {
	if d.c == nil || d.refused || d.failed || d.refusal.Reason != ReasonNone {
		return Admission{}
	}
	d.lent = true
	return Admission{d, d.generation.Load()}
}

// Refusal returns why Try refused, or nil. It is overwritten by the next Try; use
// [Refusal.Clone] to keep it.
func (d *Decision) Refusal() *Refusal {
	if d.refused {
		d.refuse(&d.res[0])
	}
	if d.refusal.Reason == ReasonNone {
		return nil
	}
	return &d.refusal
}

// Levels returns where the matching limits stand after the decision, in configuration
// order, if WantLevels was set. It is overwritten by the next Try.
func (d *Decision) Levels() []Level {
	if d.refused {
		d.refuse(&d.res[0])
	}
	return d.levels
}

// Degraded reports whether the store did not answer and the rules' OnStoreError decided.
func (d *Decision) Degraded() bool { return d.degraded }

// Clone returns a copy of r that shares no memory with it.
func (r *Refusal) Clone() *Refusal {
	c := *r
	c.Violated, c.Levels = slices.Clone(r.Violated), slices.Clone(r.Levels)
	return &c
}
