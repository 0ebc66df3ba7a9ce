package sluice

import (
	"context"
	"slices"
	"time"

	"github.com/sluicegate/sluice/ledger"
)

// What is here gives slots back before the call that holds them is released.

// holdsSlots reports whether the i-th step has slots to give back and a rule that says
// when.
func (d *Decision) holdsSlots(i int) bool {
	return d.steps[i].Limit.OnRelease() && d.steps[i].N > 0 && d.places[i].rule != nil
}

// Holds returns the IDs of the rules whose slots the admission still holds, in
// configuration order. The slice is the caller's.
func (a Admission) Holds() []string {
	d := a.lock()
	if d == nil {
		return nil
	}
	defer d.mu.Unlock()
	var rules []string
	for i := range d.steps {
		if d.taken && d.holdsSlots(i) && !slices.Contains(rules, d.places[i].rule.ID) {
			rules = append(rules, d.places[i].rule.ID)
		}
	}
	return rules
}

// held is how many steps have slots to give back, whoever says when.
func (d *Decision) held() (n int) {
	for i := range d.steps {
		if d.steps[i].Limit.OnRelease() && d.steps[i].N > 0 {
			n++
		}
	}
	return n
}

// startMaxHold arms the timer that frees slots whose holder keeps them too long.
func (d *Decision) startMaxHold() {
	generation, start := d.generation.Load(), time.Now()
	d.mu.Lock() // the timer may fire before it is noted
	defer d.mu.Unlock()
	if first := d.nextHold(0); first > 0 {
		d.timer = time.AfterFunc(first, func() { d.expireHolds(generation, start) })
	}
}

// nextHold is the least MaxHold above held of the rules whose slots d holds, 0 if there
// is none.
func (d *Decision) nextHold(held time.Duration) time.Duration {
	var next time.Duration
	for i := range d.steps {
		if !d.taken || !d.holdsSlots(i) {
			continue
		}
		if h := d.places[i].rule.MaxHold; h > held && (next == 0 || h < next) {
			next = h
		}
	}
	return next
}

// expireHolds frees the slots of rules whose MaxHold has passed and waits for the next.
func (d *Decision) expireHolds(generation uint64, start time.Time) {
	a := Admission{d, generation}
	if a.lock() == nil {
		return
	}
	defer d.mu.Unlock()
	if d.timer == nil {
		return
	}
	held := time.Since(start)
	d.giveSlots(func(r *rule) bool { return r.MaxHold > 0 && r.MaxHold <= held })
	if next := d.nextHold(held); next > 0 {
		d.timer.Reset(next - held)
	}
}

// giveSlots releases the slots of the rules for which free is true, ahead of the rest.
// The caller holds d.mu.
func (d *Decision) giveSlots(free func(*rule) bool) {
	d.renew()
	var steps []ledger.Step
	var places []place
	var which []int
	for i := range d.steps {
		if d.holdsSlots(i) && free(d.places[i].rule) {
			steps, places, which = append(steps, d.steps[i]), append(places, d.places[i]), append(which, i)
		}
	}
	if len(steps) == 0 {
		return
	}
	if d.memo.whileHeld && len(steps) == d.held() {
		d.release()
		return
	}
	cmds, res := [1]ledger.Command{{Op: ledger.Free, ID: d.id, Steps: steps, At: d.at}}, [1]ledger.Result{}
	if err := d.books().Apply(context.Background(), cmds[:], res[:]); err != nil {
		d.c.logger.Error("sluice: the store did not take a release", "error", err)
		if !d.id.Zero() {
			return // the store knows by the release whether it has
		}
	}
	count(steps, places, -1)
	for _, i := range which { // what may be free already is never given back again
		d.steps[i].N = 0
	}
	d.wake()
}
