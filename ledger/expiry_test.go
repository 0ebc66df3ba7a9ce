package ledger_test

import (
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// expiring is a take that is good for a minute.
func expiring(id uint64, steps ...ledger.Step) ledger.Command {
	cmd := named(id, take(steps...))
	cmd.Expires, cmd.Calls = limit.Minute, 7
	return cmd
}

// TestExpiry is about reservations, whose grants expire unless they are settled. The
// desk's retention is an hour.
func TestExpiry(t *testing.T) {
	budget := step(1, limit.Window(100, 3*limit.Hour), 20)
	tokens := step(2, limit.Bucket(1, limit.Hour, 100), 20)
	settle := func(id uint64, used ...int64) ledger.Command {
		return named(id, ledger.Command{Op: ledger.Settle, Used: used})
	}
	t.Run("C-68, C-70 it says how long it is good, and expires inclusively", func(t *testing.T) {
		d := newDesk(t)
		cmd := expiring(1, budget)
		if res := d.want(ledger.Done, cmd); res.Left != ledger.Forever {
			t.Errorf("a new grant has %d left; it is the caller who knows", res.Left)
		}
		d.now += limit.Minute - 1
		if res := d.want(ledger.Replayed, cmd); res.Left != 1 || res.Calls != 7 {
			t.Errorf("%d left of %d calls, want 1 of 7", res.Left, res.Calls)
		}
		d.now++
		if res := d.want(ledger.Replayed, cmd); res.Left != 0 {
			t.Errorf("%d left, want 0", res.Left)
		}
		if res := d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Find})); res.Left != 0 || res.Settled {
			t.Errorf("found %+v", res)
		}
	})
	t.Run("C-78 what was taken stays taken", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, expiring(1, budget))
		d.now += 2 * limit.Minute
		d.left(80, budget)
	})
	t.Run("C-77 it is settled after it has expired", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, expiring(1, budget))
		d.now += 2 * limit.Hour
		d.want(ledger.Done, settle(1, 5))
		d.want(ledger.Replayed, settle(1, 5))
		d.left(95, budget)
	})
	for name, c := range map[string]struct {
		step  ledger.Step
		stays limit.Micros
	}{
		"C-98, C-99 it leaves after the window":    {budget, 3 * limit.Hour},
		"C-98, C-99 it leaves after the retention": {tokens, limit.Hour},
	} {
		for _, settled := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				d := newDesk(t)
				d.want(ledger.Done, expiring(1, c.step))
				if settled {
					d.want(ledger.Done, settle(1, 5))
				}
				d.now += c.stays - 1
				d.want(ledger.Replayed, expiring(1, c.step))
				d.now++
				d.want(ledger.Unknown, settle(1, 5))
				if n := d.grants.Len(); n != 0 {
					t.Errorf("%d records, want none", n)
				}
			})
		}
	}
	t.Run("C-99 it makes room for others then, and not before", func(t *testing.T) {
		d := newDesk(t)
		for id := range uint64(100) {
			d.want(ledger.Done, expiring(id+1, step(1, limit.Bucket(1, limit.Hour, 1000), 1)))
		}
		d.now += limit.Hour - 1
		d.want(ledger.Full, expiring(101, tokens))
		d.now++
		for id := range uint64(100) {
			d.want(ledger.Done, expiring(id+101, step(1, limit.Bucket(1, limit.Hour, 1000), 1)))
		}
	})
	t.Run("C-98 while it holds a slot it stays", func(t *testing.T) {
		d := newDesk(t)
		slot := step(3, limit.Slots(1), 1)
		d.want(ledger.Done, expiring(1, tokens, slot))
		d.now += 100 * limit.Day
		d.want(ledger.Replayed, expiring(1, tokens, slot))
		d.left(0, slot)
		d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Free, Steps: []ledger.Step{slot}}))
		d.want(ledger.Unknown, named(1, ledger.Command{Op: ledger.Find}))
		d.left(1, slot)
	})
	t.Run("C-98 a window that becomes shorter lets it leave sooner", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, expiring(1, budget))
		shorter := budget
		shorter.Limit = limit.Window(100, 2*limit.Hour)
		cmd := settle(1, 5)
		cmd.Steps = []ledger.Step{shorter}
		d.want(ledger.Done, cmd)
		d.now += 2*limit.Hour - 1
		d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Find}))
		d.now++
		d.want(ledger.Unknown, named(1, ledger.Command{Op: ledger.Find}))
	})
	t.Run("C-99 what is taken and voided all the time takes no room", func(t *testing.T) {
		d := newDesk(t)
		for range 10_000 {
			d.want(ledger.Done, expiring(1, tokens))
			d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Void}))
		}
		if n := ledger.Leaving(d.grants); n > 0 {
			t.Errorf("%d times are kept of a grant that is no more", n)
		}
	})
	t.Run("a released or voided one leaves once", func(t *testing.T) {
		d := newDesk(t)
		for round := range 3 {
			d.want(ledger.Done, expiring(1, tokens))
			d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Void}))
			d.want(ledger.Done, expiring(2, tokens))
			d.want(ledger.Done, named(2, ledger.Command{Op: ledger.Release}))
			d.now += limit.Hour
			d.want(ledger.Unknown, named(2, ledger.Command{Op: ledger.Find}))
			if n := d.grants.Len(); n != 0 {
				t.Errorf("round %d: %d records, want none", round, n)
			}
		}
		for id := range uint64(100) { // and the bound on open ones has not moved
			d.want(ledger.Done, named(id+10, take(step(4, limit.Slots(1000), 1))))
		}
		d.want(ledger.Full, named(500, take(tokens)))
	})
}
