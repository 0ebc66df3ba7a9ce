package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// mixed are limits whose units come back while a history runs, and others.
var mixed = []limit.Limit{
	limit.Bucket(2000, limit.Second, 4), limit.Bucket(5, limit.Hour, 5), limit.Bucket(100_003, limit.Second, 7),
	limit.Pace(300), limit.Window(4, 2*limit.Millisecond), limit.Window(5, limit.Hour), limit.Window(5000, 3*limit.Millisecond),
	limit.Slots(3), limit.Slots(1), limit.Cooldown(0), limit.Cooldown(limit.Millisecond), limit.Window(0, limit.Second),
}

// modelCases compare a store with books that are told the store's times.
var modelCases = []testCase{
	{"random histories have the answers of the books", func(c *client) {
		base := uint64(0)
		c.rounds(20, func(r *rand.Rand) {
			base += 1000
			c.compare(r, base, 300)
		})
	}},
}

// compare sends n random commands about the cells and grants from base on.
func (c *client) compare(r *rand.Rand, base uint64, n int) {
	books := ledger.NewBooks(ledger.NewGrants(1<<20, limit.Hour))
	var taken []ledger.Command // grants without an ID, as they are to be given back
	now := limit.Micros(0)
	held := uint64(0) // the last ID of a grant that is remembered while it is held
	for i := range n {
		cmd := anyCommand(r, base)
		switch ofID := !cmd.ID.Zero() && r.IntN(3) == 0; {
		case ofID && cmd.Op == ledger.Take: // which may be answered late, so that no ID is used twice
			held++
			cmd.WhileHeld, cmd.ID.Lo = true, 100+held
		case ofID:
			cmd.ID.Lo = 100 + held - r.Uint64N(min(held, 3)+1)
		}
		if len(taken) > 0 && r.IntN(4) == 0 {
			k := r.IntN(len(taken))
			cmd = taken[k]
			taken = slices.Delete(taken, k, k+1)
			cmd.Op = []ledger.Op{ledger.Settle, ledger.Release, ledger.Void}[r.IntN(3)]
		}
		theirs := cmd
		theirs.Steps = slices.Clone(cmd.Steps)
		got, want := c.do(cmd), ledger.Result{}
		now = max(now, got.At) // a replayed Take answers with the time of the first
		books.Apply(now, &theirs, &want)
		timed := slices.ContainsFunc(cmd.Steps, func(s ledger.Step) bool { return !s.Limit.OnRelease() })
		if got.Status == ledger.Replayed || got.At == 0 && !timed {
			want.At = got.At
		}
		if text, model := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); text != model {
			c.Errorf("command %d, %+v:\nthe store: %s\nthe books: %s", i, cmd, text, model)
			return
		}
		if cmd.Op == ledger.Take && cmd.ID.Zero() && got.Status == ledger.Done {
			taken = append(taken, ledger.Command{Steps: cmd.Steps, Used: cmd.Used, At: got.At})
		}
	}
	for e := range books.Scan(now, 0) {
		s := ledger.Step{Key: e.Key, Limit: e.Limit}
		if got := c.level(s); got.Left < e.Level.Left {
			c.Errorf("%+v: the store has %+v, the books %+v", s, got, e.Level)
		}
	}
}

// anyCommand returns a command about a few cells and grants, so that they meet.
func anyCommand(r *rand.Rand, base uint64) ledger.Command {
	cmd := ledger.Command{Op: ledger.Take, Call: r.Uint64N(2), Levels: r.IntN(2) == 0}
	switch r.IntN(12) {
	case 0:
		cmd.Op, cmd.Group = ledger.Reset, base<<32
	case 1:
		cmd.Op, cmd.Delay = ledger.Cool, limit.Micros(r.IntN(2000))
	case 2, 3:
		cmd.Op = ledger.Peek
	case 4:
		cmd.Op = []ledger.Op{ledger.Find, ledger.Settle, ledger.Release, ledger.Void}[r.IntN(4)]
	}
	unnamed := cmd.Op == ledger.Peek || cmd.Op == ledger.Cool || cmd.Op == ledger.Reset
	if ends := cmd.Op > ledger.Peek && !unnamed; ends || cmd.Op == ledger.Take && r.IntN(3) == 0 {
		cmd.ID = ledger.ID{Hi: base, Lo: r.Uint64N(6) + 1}
		cmd.Note, cmd.Outcome = make([]byte, max(0, r.IntN(4)-1)), uint8(r.IntN(2))
	}
	changed := r.Uint64N(160) // the cell, if it is one of the eight, whose rule has been changed
	other := mixed[r.IntN(len(mixed))]
	for range r.IntN(5) {
		i := r.Uint64N(8)
		l := mixed[(i+base/1000)%uint64(len(mixed))]
		if i == changed {
			l = other
		}
		cmd.Steps = append(cmd.Steps, ledger.Step{
			Key: key(base, base+i), Limit: l, N: r.Int64N(4),
			Set: uint8(max(0, r.IntN(8)-5)), Keep: r.IntN(3) == 0, Pool: i,
		})
		cmd.Used = append(cmd.Used, r.Int64N(6)-1)
	}
	return cmd
}
