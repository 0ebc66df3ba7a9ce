package storetest

import (
	"context"
	"iter"
	"maps"
	"math"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// hostile are keys that a careless store takes for one another, or for none.
var hostile = []ledger.Key{
	{}, {Cell: 1}, {Cell: 2}, {Cell: 3}, {Cell: 64}, {Cell: 128}, {Cell: 1 << 32}, {Cell: 1 << 63}, {Cell: math.MaxUint64},
	key(1, 0), key(1, 1), key(1, 2), key(2, 0), key(2, 1), key(2, 2), key(1<<31, 1),
	{Group: math.MaxUint64, Cell: math.MaxUint64}, {Group: math.MaxUint64}, {Group: math.MaxUint64, Cell: 1},
}

// keyCases are about cells being told apart.
var keyCases = []testCase{
	{"hostile keys are told apart", func(c *client) {
		for _, l := range every {
			for i, k := range hostile {
				s := ledger.Step{Key: k, Limit: l, N: int64(i%5) + 1}
				c.want(ledger.Done, take(s))
			}
			for i, k := range hostile {
				s := ledger.Step{Key: k, Limit: l, N: int64(i%5) + 1}
				c.left(4-int64(i%5), s)
				c.want(ledger.Done, ledger.Command{Op: ledger.Void, Steps: []ledger.Step{s}, At: c.do(take()).At})
			}
			c.want(ledger.Done, ledger.Command{Op: ledger.Reset, All: true})
		}
	}},
	{"hostile keys in one command", func(c *client) {
		for i := range hostile {
			var steps []ledger.Step
			for j := range 8 {
				steps = append(steps, ledger.Step{Key: hostile[(i+j)%len(hostile)], Limit: limit.Slots(1000), N: 1})
			}
			c.want(ledger.Done, take(steps...))
		}
		for _, k := range hostile {
			c.left(1000-8, ledger.Step{Key: k, Limit: limit.Slots(1000)})
		}
	}},
	{"hostile IDs are told apart", func(c *client) {
		s := step(1, limit.Slots(1000), 1)
		ids := []ledger.ID{{Lo: 1}, {Hi: 1}, {Hi: 1, Lo: 1}, {Lo: 2}, {Hi: 2}, {Lo: math.MaxUint64}, {Hi: math.MaxUint64}, {Hi: math.MaxUint64, Lo: math.MaxUint64}}
		for _, id := range ids {
			c.want(ledger.Done, ledger.Command{Steps: []ledger.Step{s}, ID: id})
		}
		for _, id := range ids {
			c.want(ledger.Replayed, ledger.Command{Steps: []ledger.Step{s}, ID: id})
		}
		c.left(1000-int64(len(ids)), s)
	}},
	{"thousands of keys keep what each has used", func(c *client) {
		const n = 5000
		for i := range uint64(n) {
			c.want(ledger.Done, take(step(i, every[i%4], 1+int64(i%5))))
		}
		for i := range uint64(n) {
			c.left(4-int64(i%5), step(i, every[i%4], 0))
		}
	}},
}

// scan returns the cells of a group by their Cell.
func (c *client) scan(group uint64) map[uint64]ledger.Entry {
	found := map[uint64]ledger.Entry{}
	for e, err := range c.store.Scan(context.Background(), group) {
		if err != nil {
			c.Fatalf("scan: %v", err)
		}
		if _, twice := found[e.Key.Cell]; twice {
			c.Errorf("%+v was found twice", e)
		}
		found[e.Key.Cell] = e
	}
	return found
}

// fillGroups uses two units of one cell of every kind in each of groups 1 and 2.
func (c *client) fillGroups() {
	for group := range uint64(2) {
		for i, l := range every {
			s := ledger.Step{Key: key(group+1, group*100+uint64(i)), Limit: l, N: 2}
			c.want(ledger.Done, take(s))
		}
	}
}

// scanCases are about what an operator sees and does.
var scanCases = []testCase{
	{"a scan finds the cells of a group, and all of them", func(c *client) {
		c.fillGroups()
		for group := range uint64(2) {
			found := c.scan((group + 1) << 32)
			if len(found) != len(every) {
				c.Errorf("%d cells of group %d, want %d", len(found), group+1, len(every))
			}
			for i, l := range every {
				e := found[group*100+uint64(i)]
				if e.Limit != l || e.Level.Left != 3 || e.Level.Max != 5 || e.Key.Group>>32 != group+1 {
					c.Errorf("%v was found as %+v", l, e)
				}
			}
		}
		if found := c.scan(0); len(found) != 2*len(every) {
			c.Errorf("%d cells, want %d", len(found), 2*len(every))
		}
		if found := c.scan(9 << 32); len(found) != 0 {
			c.Errorf("a group of nobody has %v", found)
		}
	}},
	{"a scan leaves out what is as good as new, and can be left", func(c *client) {
		s := step(1, limit.Slots(5), 1)
		c.want(ledger.Done, take(s, step(2, limit.Window(5, limit.Day), 1), step(3, limit.Window(5, limit.Day), 1)))
		c.want(ledger.Done, release(s))
		c.left(5, step(4, limit.Window(5, limit.Day), 1))
		if found := c.scan(0); len(found) != 2 {
			c.Errorf("found %v, want two cells", found)
		}
		next, stop := iter.Pull2(c.store.Scan(context.Background(), 0))
		if _, err, ok := next(); !ok || err != nil {
			c.Errorf("nothing was found: %v", err)
		}
		stop()
	}},
	{"a reset makes the cells of a group full, and what is held stays held", func(c *client) {
		c.fillGroups()
		cool := ledger.Step{Key: key(1, 77), Limit: limit.Cooldown(0)}
		c.want(ledger.Done, ledger.Command{Op: ledger.Cool, Steps: []ledger.Step{cool}, Delay: limit.Hour})
		if res := c.want(ledger.Done, ledger.Command{Op: ledger.Reset, Group: 1 << 32}); res.Count != 4 {
			c.Errorf("%d cells were reset, want 4", res.Count)
		}
		c.left(1, cool)
		if found := c.scan(1 << 32); len(found) != 1 || found[3].Level.Left != 3 {
			c.Errorf("the group still has %v, want its slots", found)
		}
		if found := c.scan(2 << 32); len(found) != len(every) {
			c.Errorf("the other group has %v", found)
		}
		c.want(ledger.Done, take(ledger.Step{Key: key(1, 0), Limit: every[0], N: 5}))
	}},
	{"a reset of everything counts every cell that it changed", func(c *client) {
		c.fillGroups()
		if res := c.want(ledger.Done, ledger.Command{Op: ledger.Reset, All: true}); res.Count != 6 {
			c.Errorf("%d cells were reset, want 6", res.Count)
		}
		held := 0
		for e := range maps.Values(c.scan(0)) {
			if !e.Limit.OnRelease() {
				c.Errorf("%+v is still there", e)
			}
			held++
		}
		if held != 2 {
			c.Errorf("%d slots are held, want 2", held)
		}
		if res := c.want(ledger.Done, ledger.Command{Op: ledger.Reset, All: true}); res.Count != 0 {
			c.Errorf("%d cells were reset again, want none", res.Count)
		}
	}},
	{"a refund of what was reset away takes nothing from others", func(c *client) {
		s := step(1, limit.Window(5, limit.Hour), 5)
		at := c.want(ledger.Done, take(s)).At
		c.want(ledger.Done, ledger.Command{Op: ledger.Reset, All: true})
		for c.do(take()).At < at+limit.Second { // beyond what a log may merge
			if c.Failed() {
				return
			}
		}
		c.want(ledger.Done, take(s))
		cmd := settle(0)
		cmd.Steps, cmd.At = []ledger.Step{s}, at
		c.want(ledger.Done, cmd)
		c.left(0, s)
	}},
}
