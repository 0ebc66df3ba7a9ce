package sluice

import (
	"context"
	"slices"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// An Admission is permission for one call. Its methods are safe for concurrent use, and
// copies stand for the same permission. The zero Admission holds nothing: Release and
// Abandon do nothing, Settle and Cool return [ErrReleased].
type Admission struct {
	d          *Decision
	generation uint64
}

// lock returns the decision behind a, locked, or nil if a's memory serves another call.
func (a Admission) lock() *Decision {
	if a.d == nil {
		return nil
	}
	a.d.mu.Lock()
	if a.d.generation.Load() != a.generation {
		a.d.mu.Unlock()
		return nil
	}
	return a.d
}

// Release says that the work has ended: what comes back then comes back. It is
// idempotent, also between copies and goroutines. Settle before Release.
func (a Admission) Release() {
	d := a.lock()
	if d == nil {
		return
	}
	d.release()
	pooled := d.pooled
	d.generation.Add(1) // a second Release finds nothing, whoever has the memory by then
	d.mu.Unlock()
	if pooled {
		decisions.Put(d)
	}
}

// release gives back what is held. The caller holds d.mu.
func (d *Decision) release() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if !d.taken {
		return
	}
	d.taken = false
	if !d.holding {
		return
	}
	d.holding = false
	d.giveAll(ledger.Release)
}

// giveAll ends the grant by a Release or a Void. What the store has given back before,
// at another admission of the same ID, is counted once.
func (d *Decision) giveAll(op ledger.Op) {
	d.renew()
	status, err := d.give(context.Background(), ledger.Command{Op: op})
	if err == nil && status == ledger.Done {
		count(d.steps, d.places, -1)
	}
}

// give sends a command about the grant and wakes whoever may now be admitted. A store
// that does not answer leaves the grant to its bounds: it reports the error.
func (d *Decision) give(ctx context.Context, cmd ledger.Command) (ledger.Status, error) {
	cmd.ID, cmd.Steps, cmd.At = d.id, d.steps, d.at
	d.cmd[0] = cmd
	d.unmirror(cmd.Op)
	if err := d.books().Apply(ctx, d.cmd[:], d.res[:]); err != nil {
		d.c.logger.Error("sluice: the store did not take a "+opName(cmd.Op), "error", err)
		return 0, err
	}
	d.wake()
	return d.res[0].Status, nil
}

// renew gives the steps of a grant the limits of the policy in force: by those of an
// older one the store would carry the cell back to it, and forget what counts now. A
// step that has nothing to give back any more has no place. The caller holds d.mu.
func (d *Decision) renew() {
	p := d.c.policy.Load()
	if p == d.policy {
		return
	}
	for i := range d.steps {
		s := &d.steps[i]
		at, ok := p.pools[s.Pool]
		if !ok {
			continue
		}
		now := at.limit.step.Limit
		if d.local {
			now = at.limit.share
		}
		was := [1]ledger.Step{*s}
		if s.Limit != now && !s.Renew(now) {
			count(was[:], d.places[i:i+1], -1)
			d.places[i] = place{}
		}
	}
}

func opName(op ledger.Op) string {
	switch op {
	case ledger.Settle:
		return "settlement"
	case ledger.Void:
		return "void"
	}
	return "release"
}

// Abandon says that the caller has gone although the work may run on. Slots of rules
// with OnTimeout Free come back; those of the others stay taken until Release, or for
// MaxHold.
func (a Admission) Abandon() {
	d := a.lock()
	if d == nil {
		return
	}
	defer d.mu.Unlock()
	if !d.taken || !d.holding {
		return
	}
	d.giveSlots(func(r *rule) bool { return r.OnTimeout == Free })
}

// Settle corrects the admission to what was really used. Only the units that used lists
// are corrected: with [Refund] rules unused units come back and an overrun is debited,
// below zero if need be; with [Keep] rules unused units stay debited and an overrun is
// [ErrOverrun] unless the rule allows it. Slots are not touched.
//
// Settling again with the same figures returns nil and changes nothing; with others it
// returns [ErrSettled]. After an error of the store it is unknown whether it has settled:
// only for a call with an ID is it safe to say the same again.
func (a Admission) Settle(ctx context.Context, used Cost) error { return a.SettleAs(ctx, used, 0) }

// SettleAs is Settle with a word of the caller's about how the work ended, which is kept
// with the figures: the same figures with another outcome are [ErrSettled]. Settle says 0.
func (a Admission) SettleAs(ctx context.Context, used Cost, outcome uint8) error {
	d := a.lock()
	if d == nil {
		return ErrReleased
	}
	defer d.mu.Unlock()
	d.renew()
	figures, err := d.figures(used)
	if err != nil {
		return err
	}
	if d.settled {
		if d.outcome == outcome && slices.Equal(d.used, figures) {
			return nil
		}
		return ErrSettled
	}
	if d.booked() {
		status, err := d.give(ctx, ledger.Command{Op: ledger.Settle, Used: figures, Outcome: outcome})
		switch {
		case err != nil:
			return err
		case status == ledger.Conflict:
			return ErrSettled
		case status == ledger.Unknown:
			return ErrUnknown
		}
	}
	d.settled, d.used, d.outcome = true, append(d.used[:0], figures...), outcome
	return nil
}

// booked reports whether a store knows of the grant.
func (d *Decision) booked() bool {
	return (len(d.steps) > 0 || !d.id.Zero()) && (!d.degraded || d.local)
}

// figures is what each step really used; -1 is as taken.
func (d *Decision) figures(used Cost) ([]int64, error) {
	figures := make([]int64, len(d.steps))
	for i := range d.steps {
		at, taken := d.places[i], d.steps[i].N
		figures[i] = -1
		if at.rule == nil || at.limit.OnRelease() {
			continue
		}
		j := used.find(at.limit.unit)
		if j < 0 {
			continue
		}
		n := used[j].N
		if n < 0 {
			return nil, ErrOverrun
		}
		if at.limit.unit == Calls && at.rule.Weights != nil {
			n = satMul(n, taken/max(1, d.calls)) // the weight
		}
		if n > taken && at.rule.Settle == Keep && !at.rule.AllowOverrun && !at.rule.Shadow {
			return nil, ErrOverrun
		}
		figures[i] = n
	}
	return figures, nil
}

// Cool starts the cooldowns among the limits that the admission passed: nothing passes
// them for delay. A longer cooldown that runs already stays. A delay of zero does
// nothing. A negative delay is "unknown" and stands for a second, or for the longest
// pace of the rule if that is longer.
func (a Admission) Cool(ctx context.Context, delay time.Duration) error {
	d := a.lock()
	if d == nil {
		return ErrReleased
	}
	defer d.mu.Unlock()
	d.renew()
	return d.c.cool(ctx, d.steps, d.places, delay)
}

// unknownCooldown is how long an upstream that gave no time is left alone at least.
const unknownCooldown = limit.Second

// cool starts the cooldowns among steps.
func (c *Controller) cool(ctx context.Context, steps []ledger.Step, places []place, delay time.Duration) error {
	if delay == 0 {
		return nil
	}
	var cmds []ledger.Command
	for i := range steps {
		if steps[i].Limit.Kind != limit.KindCooldown || places[i].rule == nil {
			continue
		}
		d := limit.MicrosOf(delay)
		if delay < 0 {
			d = max(unknownCooldown, places[i].rule.pace)
		}
		cmds = append(cmds, ledger.Command{Op: ledger.Cool, Steps: steps[i : i+1 : i+1], Delay: d})
	}
	if len(cmds) == 0 {
		return nil
	}
	res := make([]ledger.Result, len(cmds))
	if c.local != nil {
		if err := c.local.Apply(ctx, cmds, res); err != nil {
			return err
		}
	}
	return c.store.Apply(ctx, cmds, res)
}

// Waited returns how long the call stood in line.
func (a Admission) Waited() time.Duration {
	if d := a.lock(); d != nil {
		defer d.mu.Unlock()
		return d.waited
	}
	return 0
}

// Levels returns where the matching limits stood when the call was admitted, in
// configuration order. The slice is the caller's.
func (a Admission) Levels() []Level {
	if d := a.lock(); d != nil {
		defer d.mu.Unlock()
		return slices.Clone(d.levels)
	}
	return nil
}

// Degraded reports whether the store did not answer and the call was let through by its
// rules' OnStoreError.
func (a Admission) Degraded() bool {
	if d := a.lock(); d != nil {
		defer d.mu.Unlock()
		return d.degraded
	}
	return false
}

// Replayed reports whether the call's ID had been admitted before, so that its work must
// not be run again.
func (a Admission) Replayed() bool {
	if d := a.lock(); d != nil {
		defer d.mu.Unlock()
		return d.replayed
	}
	return false
}
