package sluice

import (
	"context"

	"github.com/sluicegate/sluice/ledger"
)

// What is here lets rules that fail local be decided by this process's own share while
// the store fails.
//
// The share is warm: what the store admits is taken from it too, as far as it is there, so
// that an outage finds it as used as this process has used the whole. What a settlement
// gives back is not noted there: in an outage a share is rather too small.

// books is the store that d's grant is in.
func (d *Decision) books() Store {
	if d.local {
		return d.c.local
	}
	return d.c.store
}

// storeFailed decides by the rules when the store did not answer: nothing passes a rule
// that fails closed, and those that fail local are asked for their share.
func (d *Decision) storeFailed(ctx context.Context, op ledger.Op, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	d.degraded = true
	shares := false
	for _, m := range d.matched {
		if m.rule.Shadow || m.rule.OnStoreError == FailOpen {
			continue
		}
		if m.rule.OnStoreError == FailClosed || d.local || d.c.local == nil {
			d.refusal = Refusal{
				Reason: ReasonStore, Rule: m.rule.ID, Degraded: true, Err: err,
				Violated: append(d.refusal.Violated[:0], m.rule.ID),
			}
			return false, nil
		}
		shares = true
	}
	if !shares {
		return true, nil
	}
	d.local = true
	d.keepShares()
	return d.apply(ctx, op)
}

// keepShares leaves of the steps those that have a share, at its size.
func (d *Decision) keepShares() {
	n := 0
	for i := range d.steps {
		if at := d.places[i]; at.shared() {
			d.steps[n], d.places[n] = d.steps[i], at
			d.steps[n].Limit = at.limit.share
			n++
		}
	}
	d.steps, d.places = d.steps[:n], d.places[:n]
}

// shared reports whether each process has a share of the limit.
func (p place) shared() bool {
	return p.rule != nil && p.rule.OnStoreError == FailLocal && !p.rule.Shadow
}

// mirror takes from the shares what the store has admitted, each as far as it is there.
func (d *Decision) mirror(ctx context.Context) {
	d.echo.steps = d.echo.steps[:0]
	for i := range d.steps {
		if at := d.places[i]; at.shared() && len(d.echo.steps) < maxShadowSets {
			s := d.steps[i]
			s.Limit, s.Set = at.limit.share, uint8(len(d.echo.steps)+1) // a set of its own is never refused
			d.echo.steps = append(d.echo.steps, s)
		}
	}
	d.echo.cmd[0] = ledger.Command{Op: ledger.Take, Steps: d.echo.steps}
	if len(d.echo.steps) == 0 || d.c.local.Apply(context.WithoutCancel(ctx), d.echo.cmd[:], d.echo.res[:]) != nil {
		d.echo.steps = d.echo.steps[:0]
		return
	}
	d.echo.cmd[0].At = d.echo.res[0].At
}

// unmirror gives back to the shares what a Release or a Void gives back.
func (d *Decision) unmirror(op ledger.Op) {
	if len(d.echo.steps) == 0 || op != ledger.Release && op != ledger.Void {
		return
	}
	d.echo.cmd[0].Op = op
	if err := d.c.local.Apply(context.Background(), d.echo.cmd[:], d.echo.res[:]); err != nil {
		d.c.logger.Error("sluice: the local store did not take a "+opName(op), "error", err)
	}
	d.echo.steps = d.echo.steps[:0]
}

// An echo is what a grant of the store has taken from this process's shares.
type echo struct {
	steps []ledger.Step
	cmd   [1]ledger.Command
	res   [1]ledger.Result
}
