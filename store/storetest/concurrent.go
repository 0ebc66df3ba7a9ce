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

// concurrentCases are about many callers at once.
var concurrentCases = []testCase{
	{"P-045 P-077 as many pass as the limits let, and no more", func(c *client) {
		for i, l := range every {
			wide := step(uint64(100+i), limit.Window(40, limit.Day), 1)
			narrow := step(uint64(i), l, 1)
			passed := c.count(50, 4, wide, narrow)
			if passed != 5 {
				c.Errorf("%v: %d of 200 passed, want 5", l, passed)
			}
			c.left(35, wide)
		}
	}},
	{"every unit that is there passes", func(c *client) {
		for i, l := range []limit.Limit{limit.Bucket(1, limit.Day, 800), limit.Window(800, limit.Day), limit.Slots(800), limit.Bucket(1009, 300*limit.Day+1, 800)} {
			if passed := c.count(32, 25, step(uint64(i), l, 1)); passed != 800 {
				c.Errorf("%v: %d of 800 passed", l, passed)
			}
		}
	}},
	{"in no window more than its limit", func(c *client) {
		for i, l := range []limit.Limit{limit.Window(50, 20*limit.Millisecond), limit.Pace(2 * limit.Millisecond), limit.Window(5000, 300*limit.Millisecond)} {
			c.checkWindows(l, step(uint64(i), l, 1))
		}
	}},
	{"P-092 P-097 slots are neither lost nor made", func(c *client) {
		a, b := step(1, limit.Slots(3), 1), step(2, limit.Slots(5), 1)
		together(16, func(i int) {
			steps := []ledger.Step{a, b}
			if i%2 == 0 {
				steps = []ledger.Step{b, a}
			}
			for range 50 {
				if c.do(take(slices.Clone(steps)...)).Status == ledger.Done {
					c.want(ledger.Done, release(steps...))
				}
			}
		})
		c.left(3, a)
		c.left(5, b)
	}},
	{"one of many with the same ID takes, one of them ends it", func(c *client) {
		const rounds, callers, ids = 20, 32, 4
		s := step(1, limit.Slots(1000), 1)
		for round := range uint64(rounds) {
			var tally [6]int
			var mu sync.Mutex
			together(callers, func(i int) {
				id := round*ids + uint64(i%ids) + 1
				first := c.do(named(id, take(s))).Status
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
		c.left(1000, s)
	}},
	{"P-089 limits that change under load lose nothing", func(c *client) {
		passed := make(chan int64, 64)
		together(8, func(i int) {
			n := int64(0)
			for k := range 100 {
				l := []limit.Limit{limit.Window(100, limit.Day), limit.Window(50, limit.Day), limit.Bucket(1, limit.Day, 100)}[(i+k)%3]
				if c.do(take(step(1, l, 1))).Status == ledger.Done {
					n++
				}
			}
			passed <- n
		})
		close(passed)
		sum := int64(0)
		for n := range passed {
			sum += n
		}
		if sum != 100 {
			c.Errorf("%d passed, want 100", sum)
		}
	}},
	{"concurrent histories are linearizable", func(c *client) {
		cell := uint64(0)
		c.rounds(20, func(r *rand.Rand) {
			cell += counters
			c.checkLinearizable(r, cell)
		})
	}},
}

// count lets n callers try a number of times each to take steps, and returns how many
// times one did.
func (c *client) count(n, tries int, steps ...ledger.Step) (passed int) {
	var mu sync.Mutex
	together(n, func(int) {
		for range tries {
			if c.do(take(slices.Clone(steps)...)).Status == ledger.Done {
				mu.Lock()
				passed++
				mu.Unlock()
			}
		}
	})
	return passed
}

// checkWindows lets many callers take as fast as they can for several windows of l, and
// fails the test if more than its capacity passed in one, by the store's own times.
func (c *client) checkWindows(l limit.Limit, s ledger.Step) {
	var times []limit.Micros
	var mu sync.Mutex
	start := c.do(take()).At
	together(16, func(int) {
		for {
			res := c.do(take(s))
			if res.Status == ledger.Done { // on a busy machine it may be the first in six windows
				mu.Lock()
				times = append(times, res.At)
				mu.Unlock()
			}
			if res.At > start+6*l.Per || c.Failed() {
				return
			}
		}
	})
	slices.Sort(times)
	most := int(l.Capacity())
	for i := most; i < len(times); i++ {
		if span := times[i] - times[i-most]; span < l.Per {
			c.Errorf("%v: %d passed within %d µs", l, most+1, span)
			return
		}
	}
	if len(times) == 0 {
		c.Errorf("%v: nothing passed", l)
	}
}

const (
	counters    = 3 // cells that a history is about
	perCounter  = 4 // units of each
	callers     = 6
	callsOfEach = 10
)

// A call is what a caller of a history asked: n units of each cell, or to give back.
type call struct {
	units [counters]int64
	give  bool
}

// linear says what one caller after another would be told: the states are the units in
// use.
var linear = porcupine.Model{
	Init: func() any { return [counters]int64{} },
	Step: func(state, input, output any) (bool, any) {
		used, in := state.([counters]int64), input.(call)
		fits, next := true, used
		for i, n := range in.units {
			if in.give {
				n = -n
			}
			next[i] += n
			fits = fits && next[i] <= perCounter
		}
		switch {
		case in.give || fits && output.(bool):
			return true, next
		case !fits && !output.(bool):
			return true, used
		}
		return false, used
	},
	Equal: func(a, b any) bool { return a == b },
}

// checkLinearizable records what a few callers do at the same time to cells whose units
// come back on release alone, and asks for an order in which one after another would
// have been told the same.
func (c *client) checkLinearizable(r *rand.Rand, cell uint64) {
	history := c.record(r, func(r *rand.Rand, in call) ledger.Command { return in.command(r, cell, false) })
	if result := porcupine.CheckOperationsTimeout(linear, history, 10*time.Second); result == porcupine.Illegal {
		c.Errorf("no order of these calls explains their answers: %+v", history)
	}
}

// record lets a few callers take and give back at random, by commands of what they call.
func (c *client) record(r *rand.Rand, command func(*rand.Rand, call) ledger.Command) []porcupine.Operation {
	var history [callers][]porcupine.Operation
	epoch := time.Now()
	seeds := [2]uint64{r.Uint64(), r.Uint64()}
	together(callers, func(me int) {
		r := rand.New(rand.NewPCG(seeds[0], seeds[1]+uint64(me)))
		var held []call
		for range callsOfEach {
			in := call{}
			if len(held) > 0 && r.IntN(2) == 0 {
				in = held[0]
				in.give, held = true, held[1:]
			} else {
				for i := range counters {
					in.units[i] = r.Int64N(3)
				}
			}
			began := time.Since(epoch)
			ok := c.do(command(r, in)).Status == ledger.Done
			history[me] = append(history[me], porcupine.Operation{
				ClientId: me, Input: in, Call: int64(began), Output: ok, Return: int64(time.Since(epoch)),
			})
			if ok && !in.give {
				held = append(held, in)
			}
		}
	})
	return slices.Concat(history[:]...)
}

// command asks for the units of in, its steps in any order, in cells of one group or of
// several.
func (in call) command(r *rand.Rand, cell uint64, several bool) ledger.Command {
	var steps []ledger.Step
	for _, i := range r.Perm(counters) {
		if in.units[i] > 0 {
			s := step(cell+uint64(i), limit.Slots(perCounter), in.units[i])
			if several {
				s.Key.Group = uint64(i) << 32
			}
			steps = append(steps, s)
		}
	}
	if in.give {
		return release(steps...)
	}
	return take(steps...)
}
