package storetest

import (
	"context"
	"slices"
	"strings"

	sluice "github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// noted is a take with an ID and a note, of a slot of one group and five tokens of another.
func noted(id uint64, note string) ledger.Command {
	cmd := named(id, take(apart(1, 11, limit.Slots(1000), 1), apart(2, 12, limit.Window(100_000, limit.Day), 5)))
	cmd.Note = []byte(note)
	return cmd
}

// held is a take whose ID is remembered while it is held.
func held(id uint64) ledger.Command {
	cmd := noted(id, "held")
	cmd.WhileHeld = true
	return cmd
}

func settleAs(outcome uint8, used ...int64) ledger.Command {
	cmd := settle(used...)
	cmd.Outcome = outcome
	return cmd
}

// recordCases are about what a record says besides what was taken, how it ends, and the list
// of all.
var recordCases = []testCase{
	{"C-68 the note of a take is told with its record, as it was", func(c *client) {
		for i, note := range []string{"", "text", "\x00\xff{}\n", strings.Repeat("n", ledger.MaxNote)} {
			id := uint64(i + 1)
			cmd := noted(id, note)
			if res := c.want(ledger.Done, cmd); len(res.Note) > 0 {
				c.Errorf("a new grant is told its note: %q", res.Note)
			}
			copy(cmd.Note, "overwritten")
			again := c.want(ledger.Replayed, noted(id, "another"))
			found := c.want(ledger.Done, named(id, find))
			settled := c.want(ledger.Done, named(id, settle(-1, 2)))
			freed := c.want(ledger.Done, named(id, ledger.Command{Op: ledger.Free, Steps: cmd.Steps[:1]}))
			released := c.want(ledger.Done, named(id, release()))
			after := c.want(ledger.Done, named(id, find))
			for k, res := range []ledger.Result{again, found, settled, freed, released, after} {
				if string(res.Note) != note {
					c.Errorf("answer %d has the note %q, want %q", k, res.Note, note)
				}
			}
		}
	}},
	{"C-76 the outcome of a settlement is part of it", func(c *client) {
		c.want(ledger.Done, noted(1, ""))
		if res := c.want(ledger.Done, named(1, find)); res.Settled || res.Outcome != 0 || len(res.Used) != 0 {
			c.Errorf("before it was settled it is found as %+v", res)
		}
		c.want(ledger.Done, named(1, settleAs(200, -1, 2)))
		for range 2 {
			c.want(ledger.Replayed, named(1, settleAs(200, -1, 2)))
			c.want(ledger.Conflict, named(1, settleAs(0, -1, 2)))
			c.want(ledger.Conflict, named(1, settleAs(200, -1, 3)))
			for _, cmd := range []ledger.Command{named(1, find), noted(1, "")} {
				res := c.do(cmd)
				if !res.Settled || res.Outcome != 200 || !slices.Equal(res.Used, []int64{-1, 2}) {
					c.Errorf("it is told as %+v", res)
				}
			}
			c.do(named(1, release()))
		}
		c.left(99_998, apart(2, 12, limit.Window(100_000, limit.Day), 0))
	}},
	{"C-76 what took nothing is settled too", func(c *client) {
		c.want(ledger.Done, named(1, take()))
		c.want(ledger.Done, named(1, settleAs(3)))
		c.want(ledger.Replayed, named(1, settleAs(3)))
		c.want(ledger.Conflict, named(1, settleAs(4)))
	}},
	{"C-W2 what is remembered while it is held is unknown when it has been released", func(c *client) {
		slot, window := held(1).Steps[0], held(1).Steps[1]
		c.want(ledger.Done, held(1))
		if res := c.want(ledger.Replayed, held(1)); !res.WhileHeld {
			c.Errorf("replayed as %+v", res)
		}
		if res := c.want(ledger.Done, named(1, settleAs(2, -1, 1))); !res.WhileHeld || res.Released {
			c.Errorf("settled as %+v", res)
		}
		c.want(ledger.Done, named(1, ledger.Command{Op: ledger.Free, Steps: []ledger.Step{slot}}))
		c.left(1000, slot)
		c.want(ledger.Done, named(1, release()))
		for _, cmd := range []ledger.Command{find, settleAs(2, -1, 1), {Op: ledger.Free, Steps: []ledger.Step{slot}}, {Op: ledger.Void}, release()} {
			c.want(ledger.Unknown, named(1, cmd))
		}
		c.left(1000, slot)
		c.left(99_999, window)
	}},
	{"C-W2 and a void forgets it as any other", func(c *client) {
		c.want(ledger.Done, held(1))
		c.want(ledger.Done, named(1, ledger.Command{Op: ledger.Void}))
		c.want(ledger.Done, noted(1, "anew"))
		c.want(ledger.Done, named(1, release()))
		if res := c.want(ledger.Done, named(1, find)); res.WhileHeld || string(res.Note) != "anew" {
			c.Errorf("found as %+v", res)
		}
	}},
	{"C-100 the list has what is not released, and what expires", func(c *client) { c.list() }},
	{"C-100 a long list is whole", func(c *client) {
		const n = 600
		for id := range uint64(n) {
			c.want(ledger.Done, named(id+1, take(step(1, limit.Slots(n), 1))))
		}
		seen := map[ledger.ID]bool{}
		for _, r := range c.records() {
			seen[r.ID] = true
		}
		if len(seen) != n {
			c.Errorf("%d records, want %d", len(seen), n)
		}
		for range c.store.(sluice.Recorder).Records(context.Background()) {
			break // whoever has seen enough may go
		}
	}},
}

// records are those that the store lists.
func (c *client) records() (list []ledger.Remembered) {
	c.Helper()
	for r, err := range c.store.(sluice.Recorder).Records(context.Background()) {
		if err != nil {
			c.Fatalf("listing: %v", err)
		}
		list = append(list, r)
	}
	return list
}

// list takes under many IDs, ends some of the grants, and looks at the list.
func (c *client) list() {
	c.want(ledger.Done, take(step(9, limit.Slots(9), 1))) // without an ID
	open := noted(1, "open")
	open.Call, open.Calls = 77, 7
	c.want(ledger.Done, open)
	c.want(ledger.Done, noted(2, "released"))
	c.want(ledger.Done, named(2, release()))
	c.want(ledger.Done, held(3))
	c.want(ledger.Done, held(4))
	c.want(ledger.Done, named(4, release()))
	expired := expiring(5, moment)
	c.want(ledger.Done, expired)
	ended := expiring(6, limit.Hour)
	c.want(ledger.Done, ended)
	c.want(ledger.Done, named(6, settleAs(9, 4, 3)))
	at := c.want(ledger.Done, named(6, release())).At
	c.want(ledger.Done, named(7, take()))
	c.want(ledger.Done, named(7, ledger.Command{Op: ledger.Void}))
	c.want(ledger.Done, noted(8, "freed"))
	c.want(ledger.Done, named(8, ledger.Command{Op: ledger.Free, Steps: open.Steps[:1]}))

	got := map[uint64]ledger.Remembered{}
	for _, r := range c.records() {
		if r.ID.Hi != 1 || r.Now < at || r.At > r.Now || r.At < 1 || (r.Ended > 0) != r.Released {
			c.Errorf("a record of no time: %+v", r)
		}
		got[r.ID.Lo] = r
	}
	if n := len(got); n != 5 {
		c.Errorf("%d records, want 5: %+v", n, got)
	}
	freed := slices.Clone(open.Steps)
	freed[0].N = 0
	for id, want := range map[uint64]ledger.Record{
		1: {Call: 77, Calls: 7, Note: []byte("open"), Steps: open.Steps},
		3: {Note: []byte("held"), Steps: open.Steps, WhileHeld: true},
		5: {Calls: 7, Expires: got[5].At + moment, Steps: expired.Steps},
		6: {Calls: 7, Expires: got[6].At + limit.Hour, Steps: ended.Steps, Settled: true, Used: []int64{4, 3}, Outcome: 9, Released: true},
		8: {Note: []byte("freed"), Steps: freed},
	} {
		r := got[id].Record
		if !slices.Equal(r.Steps, want.Steps) || !slices.Equal(r.Used, want.Used) || string(r.Note) != string(want.Note) ||
			r.Call != want.Call || r.Calls != want.Calls || r.Expires != want.Expires || r.Outcome != want.Outcome ||
			r.Settled != want.Settled || r.Released != want.Released || r.WhileHeld != want.WhileHeld {
			c.Errorf("record %d is %+v, want %+v", id, r, want)
		}
	}
	if n, ok := c.store.(sluice.Recorder).Recorded(); ok && n != 6 {
		c.Errorf("it counts %d records, want the released one besides", n)
	}
}
