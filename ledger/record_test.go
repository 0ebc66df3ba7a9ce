package ledger_test

import (
	"slices"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// TestRecord is about what a record says besides what was taken, and about those that are
// remembered while they are held. The desk has room for a hundred open ones.
func TestRecord(t *testing.T) {
	slot, window := step(1, limit.Slots(1000), 1), step(2, limit.Window(1000, limit.Hour), 5)
	find, release := ledger.Command{Op: ledger.Find}, ledger.Command{Op: ledger.Release}
	t.Run("C-68 the note is the record's own and is told with it", func(t *testing.T) {
		d := newDesk(t)
		cmd := named(1, take(slot, window))
		cmd.Note = []byte("note")
		if res := d.want(ledger.Done, cmd); len(res.Note) != 0 {
			t.Errorf("a new grant is told its note %q", res.Note)
		}
		copy(cmd.Note, "gone")
		for _, again := range []ledger.Command{cmd, named(1, find), named(1, release)} {
			if res := d.do(again); string(res.Note) != "note" {
				t.Errorf("op %d is told the note %q", again.Op, res.Note)
			}
		}
		if res := d.want(ledger.Unknown, named(2, find)); len(res.Note) != 0 {
			t.Errorf("another has the note %q", res.Note)
		}
	})
	t.Run("C-76 the same outcome again is nothing, another is a conflict", func(t *testing.T) {
		d := newDesk(t)
		settle := func(outcome uint8, used ...int64) ledger.Command {
			return named(1, ledger.Command{Op: ledger.Settle, Used: used, Outcome: outcome})
		}
		d.want(ledger.Done, named(1, take(slot, window)))
		d.want(ledger.Conflict, settle(3, 2)) // not the figures of two steps
		if res := d.want(ledger.Done, named(1, find)); res.Settled || res.Outcome != 0 {
			t.Errorf("after a conflict it is %+v", res)
		}
		used := []int64{-1, 2}
		d.want(ledger.Done, settle(3, used...))
		used[1] = 9
		d.want(ledger.Replayed, settle(3, -1, 2))
		d.want(ledger.Conflict, settle(0, -1, 2))
		d.want(ledger.Conflict, settle(3, -1, 1))
		if res := d.want(ledger.Done, named(1, find)); !res.Settled || res.Outcome != 3 || !slices.Equal(res.Used, []int64{-1, 2}) {
			t.Errorf("it is found as %+v", res)
		}
	})
	t.Run("C-W1, C-W2 what is remembered while it is held fills nothing", func(t *testing.T) {
		d := newDesk(t)
		for id := range uint64(1000) {
			cmd := named(id+1, take(slot, window))
			cmd.WhileHeld, cmd.Steps[1].N = true, 1
			if id%2 == 0 {
				cmd.Expires = limit.Second
			}
			d.want(ledger.Done, cmd)
			d.want(ledger.Replayed, cmd)
			if res := d.want(ledger.Done, named(id+1, release)); !res.Released || !res.WhileHeld {
				t.Errorf("its end is told as %+v", res)
			}
			if n := d.grants.Len(); n != 0 {
				t.Fatalf("%d records after %d calls", n, id+1)
			}
			for _, op := range []ledger.Op{ledger.Find, ledger.Release, ledger.Settle, ledger.Void, ledger.Free} {
				d.want(ledger.Unknown, named(id+1, ledger.Command{Op: op}))
			}
		}
		d.left(1000, slot)
		d.left(0, window)
	})
	t.Run("C-100 the list has what is not released, and what expires until it leaves", func(t *testing.T) {
		d := newDesk(t)
		for id := range uint64(4) {
			cmd := named(id+1, take(window))
			if id%2 == 0 {
				cmd.Expires = limit.Minute
			}
			d.want(ledger.Done, cmd)
			if id >= 2 {
				d.want(ledger.Done, named(id+1, release))
			}
		}
		for _, x := range []struct {
			after limit.Micros
			want  []uint64
		}{{0, []uint64{1, 2, 3}}, {59 * limit.Minute, []uint64{1, 2, 3}}, {limit.Hour, []uint64{2}}} {
			var got []uint64
			for r := range d.grants.Live(d.now + x.after) {
				if got = append(got, r.ID.Lo); r.Now != d.now+x.after {
					t.Errorf("looked at at %d, want %d", r.Now, d.now+x.after)
				}
			}
			if slices.Sort(got); !slices.Equal(got, x.want) {
				t.Errorf("after %d it lists %d, want %d", x.after, got, x.want)
			}
		}
		for range d.grants.Live(d.now) {
			break // whoever has seen enough may go
		}
	})
}
