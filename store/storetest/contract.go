package storetest

import (
	"fmt"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// every is one limit of each kind, of five units, none of which comes back by itself while
// the suite looks. The second bucket is of numbers too large for a packed cell.
var every = []limit.Limit{
	limit.Bucket(5, limit.Day, 5),
	limit.Bucket(1009, 300*limit.Day+1, 5),
	limit.Window(5, limit.Day),
	limit.Slots(5),
}

// limitCases are about one cell.
var limitCases = []testCase{
	{"every kind passes its capacity and no more", func(c *client) {
		for i, l := range every {
			s := step(uint64(i), l, 2)
			c.want(ledger.Done, take(s))
			c.want(ledger.Done, take(s))
			res := c.want(ledger.Refused, take(s))
			if v := res.Outcomes[0]; v.OK || v.Never || (v.Wait > 0) == l.OnRelease() {
				c.Errorf("%v: refused with %+v", l, v)
			}
			c.left(1, s)
			s.N = 1
			c.want(ledger.Done, take(s))
			c.want(ledger.Refused, take(s))
			c.left(0, s)
		}
	}},
	{"P-008 P-009 P-062 never is said of what no wait brings, and takes nothing", func(c *client) {
		for i, l := range every {
			for _, n := range []int64{6, 1 << 40, 1<<63 - 1, -1, -1 << 63} {
				s := step(uint64(i), l, n)
				if res := c.want(ledger.Refused, take(s)); len(res.Outcomes) != 1 || !res.Outcomes[0].Never {
					c.Errorf("%v: %d was told %+v", l, n, res.Outcomes)
				}
				c.left(5, s)
			}
		}
	}},
	{"P-010 P-080 a limit of zero denies everything", func(c *client) {
		for i, l := range []limit.Limit{limit.Bucket(0, limit.Second, 5), limit.Bucket(5, limit.Second, 0), limit.Window(0, limit.Second), limit.Slots(0)} {
			for _, n := range []int64{0, 1} {
				if res := c.want(ledger.Refused, take(step(uint64(i), l, n))); !res.Outcomes[0].Never {
					c.Errorf("%v: told %+v", l, res.Outcomes)
				}
			}
		}
	}},
	{"P-081 the last of ten passes, whoever looked before, and the eleventh does not", func(c *client) {
		for i, l := range []limit.Limit{limit.Bucket(10, limit.Day, 10), limit.Window(10, limit.Day), limit.Slots(10)} {
			for j, looked := range []bool{false, true} {
				s := step(uint64(2*i+j), l, 1)
				for n := int64(10); n > 0; n-- {
					if looked {
						c.left(n, s)
						c.want(ledger.Done, ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{s}})
					}
					c.want(ledger.Done, take(s))
				}
				c.want(ledger.Refused, take(s))
				c.want(ledger.Refused, take(s))
			}
		}
	}},
	{"zero units pass while there is one and leave nothing", func(c *client) {
		for i, l := range every {
			s := step(uint64(i), l, 0)
			c.want(ledger.Done, take(s))
			c.left(5, s)
		}
	}},
	{"the wait is the least: its end passes, and nothing does before", func(c *client) {
		for i, l := range []limit.Limit{
			limit.Bucket(20, limit.Second, 2), limit.Pace(40 * limit.Millisecond), limit.Window(2, 60*limit.Millisecond),
			limit.Bucket(100_003, 3*limit.Second, 2000), limit.Window(5000, 40*limit.Millisecond),
		} {
			s := step(uint64(i), l, l.Capacity())
			c.want(ledger.Done, take(s))
			s.N = 1
			res := c.do(take(s))
			if res.Status == ledger.Done {
				continue // the machine stood still for longer than the limit takes
			}
			due := res.At + res.Outcomes[0].Wait
			for {
				res := c.do(take(s))
				if res.Status == ledger.Done {
					if res.At < due {
						c.Errorf("%v: passed at %d, before %d", l, res.At, due)
					}
					break
				}
				if res.At >= due {
					c.Errorf("%v: refused at %d, although due at %d", l, res.At, due)
				}
				if c.Failed() {
					break
				}
			}
		}
	}},
	{"A-21 A-24 a cooldown ends with its latest end, and is never shortened", func(c *client) {
		s := step(1, limit.Cooldown(0), 1)
		c.want(ledger.Done, take(s))
		res := c.want(ledger.Done, ledger.Command{Op: ledger.Cool, Steps: []ledger.Step{s}, Delay: 80 * limit.Millisecond})
		c.want(ledger.Done, ledger.Command{Op: ledger.Cool, Steps: []ledger.Step{s}, Delay: limit.Millisecond})
		if at := c.await(s); at < res.At+80*limit.Millisecond {
			c.Errorf("passed at %d, cooled for 80 ms at %d", at, res.At)
		}
		c.want(ledger.Done, take(s))
		c.want(ledger.Done, ledger.Command{Op: ledger.Cool, Steps: []ledger.Step{s}, Delay: limit.Hour})
		if v := c.want(ledger.Refused, take(s)).Outcomes[0]; v.Never || v.Wait <= 59*limit.Minute || v.Wait > limit.Hour {
			c.Errorf("told %+v", v)
		}
	}},
	{"a cooldown moves no other kind", func(c *client) {
		for i, l := range every {
			s := step(uint64(i), l, 1)
			c.want(ledger.Done, ledger.Command{Op: ledger.Cool, Steps: []ledger.Step{s}, Delay: limit.Hour})
			c.left(5, s)
		}
	}},
	{"P-086 P-088 P-089 new numbers hold at once for what is used", func(c *client) {
		for i, l := range []limit.Limit{limit.Bucket(100, limit.Day, 100), limit.Window(100, limit.Day), limit.Slots(100)} {
			more, less := l, l
			more.Max, less.Max = 200, 10
			if l.Kind == limit.KindBucket {
				more, less = limit.Bucket(100, limit.Day, 200), limit.Bucket(100, limit.Day, 10)
			}
			s := step(uint64(i), l, 60)
			c.want(ledger.Done, take(s))
			for _, now := range []limit.Limit{more, less, l, less, more} {
				s.Limit, s.N = now, 1
				c.left(max(0, now.Capacity()-60), s)
			}
			s.N = 140
			c.want(ledger.Done, take(s))
			s.N = 1
			c.want(ledger.Refused, take(s))
		}
	}},
	{"P-090 another algorithm keeps what is used", func(c *client) {
		for i, from := range every {
			for j, to := range every {
				s := step(uint64(i*10+j), from, 4)
				c.want(ledger.Done, take(s))
				s.Limit = to
				if to.OnRelease() && !from.OnRelease() {
					c.left(5, s) // nobody will release what time would have brought back
					continue
				}
				c.left(1, s)
				s.N = 1
				c.want(ledger.Done, take(s))
				c.want(ledger.Refused, take(s))
			}
		}
	}},
}

// togetherCases are about several cells in one command.
var togetherCases = []testCase{
	{"P-073 P-074 all are taken or none, wherever the one that refuses stands", func(c *client) {
		cell := uint64(0)
		for n := 1; n <= 8; n++ {
			for refusing := range n {
				var steps []ledger.Step
				for i := range n {
					cell++
					steps = append(steps, step(cell, every[i%len(every)], 1))
				}
				full := steps[refusing]
				full.N = 5
				c.want(ledger.Done, take(full))
				res := c.want(ledger.Refused, take(append([]ledger.Step(nil), steps...)...))
				for i, v := range res.Outcomes {
					if v.OK != (i != refusing) {
						c.Errorf("step %d was told %+v", i, v)
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
	{"a command without limits passes", func(c *client) { c.want(ledger.Done, take()) }},
	{"one cell named twice takes the sum or nothing", func(c *client) {
		for i, l := range every {
			s := step(uint64(i), l, 3)
			two := s
			two.N = 2
			c.want(ledger.Refused, take(s, s))
			c.left(5, s)
			c.want(ledger.Done, take(s, two))
			c.left(0, s)
		}
	}},
	{"P-076 a shadow set takes all its own or none, and refuses nobody", func(c *client) {
		enforced := step(1, limit.Slots(10), 1)
		a, b, other := step(2, limit.Slots(1), 1), step(3, limit.Slots(9), 1), step(4, limit.Slots(9), 1)
		a.Set, b.Set, other.Set = 1, 1, 2
		for range 3 {
			c.want(ledger.Done, take(enforced, a, b, other))
		}
		c.left(7, enforced)
		c.left(0, a)
		c.left(8, b)
		c.left(6, other)
		res := c.do(take(enforced, a, b, other))
		if len(res.Outcomes) != 4 || res.Outcomes[1].OK || !res.Outcomes[2].OK {
			c.Errorf("told %+v", res.Outcomes)
		}
	}},
	{"a peek answers as a take and takes nothing", func(c *client) {
		a, b := step(1, limit.Slots(2), 2), step(2, limit.Window(1, limit.Day), 1)
		for range 3 {
			c.want(ledger.Done, ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{a, b}})
		}
		c.want(ledger.Done, take(a, b))
		c.want(ledger.Refused, ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{a, b}})
	}},
	{"levels stand in the order of the steps", func(c *client) {
		cmd := take(step(1, limit.Slots(3), 1), step(2, limit.Slots(5), 2), step(3, limit.Slots(7), 3))
		cmd.Levels = true
		if res := c.want(ledger.Done, cmd); fmt.Sprint(res.Levels) != "[{3 2 0 0} {5 3 0 0} {7 4 0 0}]" || len(res.Outcomes) != 0 {
			c.Errorf("%+v", res)
		}
	}},
}
