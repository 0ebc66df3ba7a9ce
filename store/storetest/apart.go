package storetest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// apart is n units of l in the cell of a group of its own, or of the group of all if it is
// zero. A store that keeps groups in several places decides in all of them.
func apart(group, cell uint64, l limit.Limit, n int64) ledger.Step {
	return ledger.Step{Key: key(group, cell), Limit: l, N: n, Pool: cell}
}

// apartCases are about commands whose cells are of several groups.
var apartCases = []testCase{
	{"P-073 P-074 all are taken or none, wherever the one that refuses stands", func(c *client) {
		cell := uint64(0)
		for n := 2; n <= 5; n++ {
			for refusing := range n {
				var steps []ledger.Step
				for i := range n {
					cell++
					steps = append(steps, apart(uint64(i), cell, every[i%len(every)], 1))
				}
				full := steps[refusing]
				full.N = 5
				c.want(ledger.Done, take(full))
				cmd := take(slices.Clone(steps)...)
				cmd.Levels = true
				res := c.want(ledger.Refused, cmd)
				for i, v := range res.Outcomes {
					if v.OK != (i != refusing) || !v.OK && v.Never {
						c.Errorf("step %d was told %+v", i, v)
					}
					if want := map[bool]int64{true: 0, false: 5}[i == refusing]; res.Levels[i].Left != want {
						c.Errorf("step %d has %+v left, want %d", i, res.Levels[i], want)
					}
				}
				for i, s := range steps {
					if i != refusing {
						c.left(5, s)
					}
				}
			}
		}
	}},
	{"every limit that refuses is named", func(c *client) {
		var steps []ledger.Step
		for i := range uint64(6) {
			steps = append(steps, apart(i, i, limit.Window(5, limit.Day), 5))
		}
		c.want(ledger.Done, take(steps[1], steps[3], steps[5]))
		for _, cmd := range []ledger.Command{take(slices.Clone(steps)...), named(1, take(slices.Clone(steps)...)), {Op: ledger.Peek, Steps: steps}} {
			res := c.want(ledger.Refused, cmd)
			for i, v := range res.Outcomes {
				if v.OK != (i%2 == 0) || !v.OK && (v.Wait <= 23*limit.Hour || v.Wait > limit.Day) {
					c.Errorf("step %d was told %+v", i, v)
				}
			}
		}
		c.want(ledger.Unknown, named(1, ledger.Command{Op: ledger.Find}))
	}},
	{"P-060 what was not used comes back, from each where it was taken", func(c *client) {
		slot := apart(3, 9, limit.Slots(5), 2)
		for i, l := range every[:3] {
			a, b, all := apart(1, uint64(3*i), l, 5), apart(2, uint64(3*i+1), l, 4), apart(0, uint64(3*i+2), l, 3)
			a.Keep = i == 0
			for id := range uint64(2) {
				cmd := take(a, slot, b, all)
				if id > 0 {
					cmd = named(uint64(i+1), cmd)
				}
				end := ledger.Command{Op: ledger.Settle, ID: cmd.ID, Used: []int64{1, -1, 2, 3}, Steps: []ledger.Step{a, slot, b, all}}
				end.At = c.want(ledger.Done, cmd).At
				c.left(3, slot)
				c.want(ledger.Done, end)
				c.left(map[bool]int64{true: 0, false: 4}[a.Keep], a)
				c.left(3, b)
				c.left(2, all)
				end.Op = ledger.Release
				c.want(ledger.Done, end)
				c.left(5, slot)
				c.left(3, b)
				c.want(ledger.Done, ledger.Command{Op: ledger.Reset, All: true})
			}
		}
	}},
	{"a part of what was taken is given back by itself", func(c *client) {
		l := limit.Window(5, limit.Day)
		a, b, all := apart(1, 1, l, 5), apart(2, 2, l, 4), apart(0, 3, l, 3)
		at := c.want(ledger.Done, take(a, b, all)).At
		for i, s := range []ledger.Step{b, a, all} {
			cmd := settle(1)
			if i > 0 {
				cmd = ledger.Command{Op: ledger.Void}
			}
			cmd.Steps, cmd.At = []ledger.Step{s}, at
			c.want(ledger.Done, cmd)
		}
		c.left(5, a)
		c.left(4, b)
		c.left(5, all)
	}},
	{"void gives everything back and forgets", func(c *client) {
		for id := range uint64(2) {
			var steps []ledger.Step
			for i, l := range every {
				steps = append(steps, apart(uint64(i), uint64(i), l, 5))
			}
			cmd := take(slices.Clone(steps)...)
			if id > 0 {
				cmd = named(id, cmd)
			}
			at := c.want(ledger.Done, cmd).At
			c.want(ledger.Done, ledger.Command{Op: ledger.Void, ID: cmd.ID, Steps: steps, At: at})
			for _, s := range steps {
				c.left(5, s)
			}
			if id > 0 {
				c.want(ledger.Unknown, named(id, ledger.Command{Op: ledger.Find}))
				c.want(ledger.Done, named(id, take(steps...)))
			}
		}
	}},
	{"slots are freed one by one, and once", func(c *client) {
		a, b := apart(1, 1, limit.Slots(5), 1), apart(2, 2, limit.Slots(5), 1)
		c.want(ledger.Done, take(a, b))
		for id := range uint64(2) {
			cmd := take(a, b)
			if id > 0 {
				cmd = named(id, cmd)
			}
			at := c.want(ledger.Done, cmd).At
			c.want(ledger.Done, ledger.Command{Op: ledger.Free, ID: cmd.ID, Steps: []ledger.Step{b}, At: at})
			c.left(3, a)
			c.left(4, b)
			freed := b
			freed.N = 0
			c.want(ledger.Done, ledger.Command{Op: ledger.Release, ID: cmd.ID, Steps: []ledger.Step{a, freed}, At: at})
			c.left(4, a)
			c.left(4, b)
		}
	}},
	{"C-69 P-094 an ID is one grant, from its first take to its last release", func(c *client) {
		steps := []ledger.Step{apart(1, 1, limit.Slots(5), 1), apart(0, 2, limit.Window(9, limit.Day), 2), apart(2, 3, limit.Slots(5), 2)}
		cmd := named(1, take(slices.Clone(steps)...))
		cmd.Call = 7
		first := c.want(ledger.Done, cmd)
		again := c.want(ledger.Replayed, cmd)
		if again.At != first.At || !slices.Equal(again.Steps, steps) || again.Released || again.Settled {
			c.Errorf("replayed %+v", again)
		}
		other := cmd
		other.Call = 8
		c.want(ledger.Conflict, other)
		c.want(ledger.Done, named(1, settle(-1, 1, -1)))
		c.want(ledger.Replayed, named(1, settle(-1, 1, -1)))
		c.want(ledger.Conflict, named(1, settle(-1, 2, -1)))
		c.want(ledger.Conflict, named(1, ledger.Command{Op: ledger.Void}))
		c.want(ledger.Done, named(1, release()))
		c.want(ledger.Replayed, named(1, release()))
		if found := c.want(ledger.Done, named(1, ledger.Command{Op: ledger.Find})); !found.Released || !found.Settled {
			c.Errorf("found %+v", found)
		}
		c.want(ledger.Replayed, cmd)
		c.left(5, steps[0])
		c.left(8, steps[1])
		c.left(5, steps[2])
	}},
	{"P-076 a shadow set takes all its own or none, and refuses nobody", func(c *client) {
		enforced := apart(1, 1, limit.Slots(10), 1)
		a, b, other := apart(2, 2, limit.Slots(1), 1), apart(3, 3, limit.Slots(9), 1), apart(0, 4, limit.Slots(9), 1)
		a.Set, b.Set, other.Set = 1, 1, 2
		for i := range uint64(3) {
			cmd := take(enforced, a, b, other)
			if i == 2 {
				cmd = named(1, cmd)
			}
			c.want(ledger.Done, cmd)
			if taken := cmd.Steps[1].N + cmd.Steps[2].N; taken != map[bool]int64{true: 2, false: 0}[i == 0] {
				c.Errorf("the set took %d", taken)
			}
		}
		c.left(7, enforced)
		c.left(0, a)
		c.left(8, b)
		c.left(6, other)
		if res := c.do(take(enforced, a, b, other)); len(res.Outcomes) != 4 || res.Outcomes[1].OK || !res.Outcomes[2].OK {
			c.Errorf("told %+v", res.Outcomes)
		}
		c.want(ledger.Done, named(1, release()))
		c.left(0, a)
		c.left(8, b)
	}},
	{"P-045 P-077 no more pass than the limits let, and in the end as many", func(c *client) {
		for i, l := range every {
			wide := apart(0, uint64(100+i), limit.Window(40, limit.Day), 1)
			narrow := apart(uint64(i+1), uint64(i), l, 1)
			passed := c.count(16, 8, wide, narrow)
			if passed > 5 {
				c.Errorf("%v: %d passed, want at most 5", l, passed)
			}
			for ; passed < 5; passed++ {
				c.want(ledger.Done, take(wide, narrow))
			}
			c.want(ledger.Refused, take(wide, narrow))
			c.left(35, wide)
		}
	}},
	{"P-092 P-097 slots are neither lost nor made", func(c *client) {
		a, b := apart(1, 1, limit.Slots(3), 1), apart(2, 2, limit.Slots(5), 1)
		together(16, func(i int) {
			steps := []ledger.Step{a, b}
			if i%2 == 0 {
				steps = []ledger.Step{b, a}
			}
			for k := range uint64(20) {
				cmd := take(slices.Clone(steps)...)
				if i%3 == 0 {
					cmd = named(1000*uint64(i)+k+1, cmd)
				}
				if res := c.do(cmd); res.Status == ledger.Done {
					c.want(ledger.Done, ledger.Command{Op: ledger.Release, ID: cmd.ID, Steps: cmd.Steps, At: res.At})
				}
			}
		})
		c.left(3, a)
		c.left(5, b)
	}},
	{"one of many with the same ID takes, one of them ends it", func(c *client) {
		const rounds, callers, ids = 10, 16, 2
		a, b := apart(1, 1, limit.Slots(1000), 1), apart(0, 2, limit.Slots(1000), 1)
		for round := range uint64(rounds) {
			var tally [6]int
			var mu sync.Mutex
			together(callers, func(i int) {
				id := round*ids + uint64(i%ids) + 1
				first := c.do(named(id, take(a, b))).Status
				end := c.do(named(id, release())).Status
				mu.Lock()
				defer mu.Unlock()
				tally[first]++
				tally[end]++
			})
			if tally[ledger.Done] != 2*ids || tally[ledger.Replayed] != 2*(callers-ids) {
				c.Errorf("%v, want %d done and %d replayed", tally, 2*ids, 2*(callers-ids))
			}
		}
		c.left(1000, a)
		c.left(1000, b)
	}},
	{"many with the same few IDs and too few slots lose none and make none", func(c *client) {
		a, b := apart(1, 1, limit.Slots(2), 1), apart(0, 2, limit.Slots(1), 1)
		together(12, func(i int) {
			for range 15 {
				cmd := named(uint64(i%4)+1, take(a, b))
				if s := c.do(cmd).Status; s == ledger.Done {
					c.want(ledger.Done, named(uint64(i%4)+1, ledger.Command{Op: ledger.Void}))
				}
			}
		})
		c.left(2, a)
		c.left(1, b)
	}},
	{"concurrent grants are linearizable", func(c *client) {
		cell := uint64(0)
		c.rounds(10, func(r *rand.Rand) {
			cell += counters
			c.checkGrants(r, cell)
		})
	}},
}

// grants is linear, but for a refusal, which may stand anywhere: a store that decides in
// one place after the other may refuse for what another call gives back in a moment.
var grants = porcupine.Model{
	Init: linear.Init, Equal: linear.Equal,
	Step: func(state, input, output any) (bool, any) {
		if in := input.(call); !in.give && !output.(bool) {
			return true, state
		}
		return linear.Step(state, input, output)
	},
}

// checkGrants is checkLinearizable for cells of several groups.
func (c *client) checkGrants(r *rand.Rand, cell uint64) {
	history := c.record(r, func(r *rand.Rand, in call) ledger.Command { return in.command(r, cell, true) })
	if result := porcupine.CheckOperationsTimeout(grants, history, 10*time.Second); result == porcupine.Illegal {
		c.Errorf("no order of these calls explains what was granted: %+v", history)
	}
}
