package storetest

import (
	"context"
	"slices"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

func settle(used ...int64) ledger.Command { return ledger.Command{Op: ledger.Settle, Used: used} }

// grantCases are about what was taken: its settlement, its end, its record.
var grantCases = []testCase{
	{"P-092 P-096 slots come back on release and not before", func(c *client) {
		s := step(1, limit.Slots(1), 1)
		for range 100 {
			c.want(ledger.Done, take(s))
			c.want(ledger.Refused, take(s))
			c.want(ledger.Done, release(s))
		}
		c.left(1, s)
	}},
	{"P-093 outer and inner slots are told apart", func(c *client) {
		outer, inner := step(1, limit.Slots(50), 1), step(2, limit.Slots(10), 1)
		for range 100 {
			c.want(ledger.Done, take(outer, inner))
			c.want(ledger.Done, release(outer, inner))
		}
		c.left(50, outer)
		c.left(10, inner)
	}},
	{"P-094 a second release of a grant frees nobody else's slot", func(c *client) {
		s := step(1, limit.Slots(1), 1)
		c.want(ledger.Done, named(1, take(s)))
		c.want(ledger.Done, named(1, release()))
		c.want(ledger.Done, named(2, take(s)))
		c.want(ledger.Replayed, named(1, release()))
		c.want(ledger.Refused, named(3, take(s)))
	}},
	{"what was freed ahead of the release is not given back again", func(c *client) {
		slot, tokens := step(1, limit.Slots(5), 1), step(2, limit.Window(5, limit.Day), 1)
		c.want(ledger.Done, take(slot))
		at := c.want(ledger.Done, take(tokens, slot)).At
		c.want(ledger.Done, ledger.Command{Op: ledger.Free, Steps: []ledger.Step{slot}, At: at})
		c.left(4, slot)
		freed := slot
		freed.N = 0
		c.want(ledger.Done, ledger.Command{Op: ledger.Release, Steps: []ledger.Step{tokens, freed}, At: at})
		c.left(4, slot)
	}},
	{"a release gives back slots alone", func(c *client) {
		slot, tokens := step(1, limit.Slots(1), 1), step(2, limit.Window(5, limit.Day), 2)
		c.want(ledger.Done, take(slot, tokens))
		c.want(ledger.Done, release(slot, tokens))
		c.left(1, slot)
		c.left(3, tokens)
	}},
	{"P-060 P-061 P-068 a settlement gives back what was not used, and no more", func(c *client) {
		for i, l := range every[:3] {
			s := step(uint64(i), l, 5)
			at := c.want(ledger.Done, take(s)).At
			cmd := settle(2)
			cmd.Steps, cmd.At = []ledger.Step{s}, at
			c.want(ledger.Done, cmd)
			c.left(3, s)
			s.N = 3
			c.want(ledger.Done, take(s))
			s.N = 1
			c.want(ledger.Refused, take(s))
		}
	}},
	{"P-069 use above the reservation is debited, below nothing if need be", func(c *client) {
		for i, l := range every[:3] {
			s := step(uint64(i), l, 2)
			id := uint64(i + 1)
			c.want(ledger.Done, named(id, take(s)))
			c.want(ledger.Done, named(id, settle(9)))
			c.left(0, s)
			c.want(ledger.Replayed, named(id, settle(9)))
			c.want(ledger.Conflict, named(id, settle(8)))
			s.Limit.Max *= 2
			if s.Limit.Kind == limit.KindBucket {
				s.Limit = limit.Bucket(s.Limit.Max, s.Limit.Per, 10)
			}
			c.left(1, s)
		}
	}},
	{"D13 a step that keeps is not given back, and is debited what is above", func(c *client) {
		s := step(1, limit.Window(10, limit.Day), 4)
		s.Keep = true
		c.want(ledger.Done, named(1, take(s)))
		c.want(ledger.Done, named(1, settle(1)))
		c.left(6, s)
		c.want(ledger.Done, named(2, take(s)))
		c.want(ledger.Done, named(2, settle(5)))
		c.left(1, s)
	}},
	{"figures that do not match the steps are a conflict", func(c *client) {
		s := step(1, limit.Window(10, limit.Day), 4)
		c.want(ledger.Done, named(1, take(s)))
		c.want(ledger.Conflict, named(1, settle()))
		c.want(ledger.Conflict, named(1, settle(1, 1)))
		cmd := settle(1, 1)
		cmd.Steps = []ledger.Step{s}
		c.want(ledger.Conflict, cmd)
		c.left(6, s)
	}},
	{"C-69 the same ID again takes nothing and is answered with the record", func(c *client) {
		s := step(1, limit.Window(10, limit.Day), 4)
		cmd := named(1, take(s))
		cmd.Call = 7
		first := c.want(ledger.Done, cmd)
		again := c.want(ledger.Replayed, cmd)
		if again.At != first.At || !slices.Equal(again.Steps, cmd.Steps) {
			c.Errorf("replayed %+v", again)
		}
		cmd.Call = 8
		c.want(ledger.Conflict, cmd)
		c.left(6, s)
	}},
	{"P-078 a refusal leaves no record", func(c *client) {
		s := step(1, limit.Slots(1), 1)
		c.want(ledger.Done, take(s))
		c.want(ledger.Refused, named(1, take(s)))
		c.want(ledger.Unknown, named(1, ledger.Command{Op: ledger.Find}))
		c.want(ledger.Done, release(s))
		c.want(ledger.Done, named(1, take(s)))
	}},
	{"void gives everything back and forgets", func(c *client) {
		slot, tokens := step(1, limit.Slots(1), 1), step(2, limit.Window(5, limit.Day), 5)
		bucket := step(3, limit.Bucket(1, limit.Day, 5), 5)
		c.want(ledger.Done, named(1, take(slot, tokens, bucket)))
		c.want(ledger.Done, named(1, ledger.Command{Op: ledger.Void}))
		c.left(1, slot)
		c.left(5, tokens)
		c.left(5, bucket)
		c.want(ledger.Unknown, named(1, ledger.Command{Op: ledger.Void}))
		at := c.want(ledger.Done, take(slot, tokens, bucket)).At
		c.want(ledger.Done, ledger.Command{Op: ledger.Void, Steps: []ledger.Step{slot, tokens, bucket}, At: at})
		c.left(5, bucket)
	}},
	{"find says what became of a grant", func(c *client) {
		find := ledger.Command{Op: ledger.Find}
		c.want(ledger.Unknown, find)
		c.want(ledger.Unknown, named(1, find))
		s := step(1, limit.Slots(1), 1)
		c.want(ledger.Done, named(1, take(s)))
		if res := c.want(ledger.Done, named(1, find)); !slices.Equal(res.Steps, []ledger.Step{s}) || res.Settled || res.Released {
			c.Errorf("found %+v", res)
		}
		c.want(ledger.Done, named(1, settle(1)))
		c.want(ledger.Done, named(1, release()))
		if res := c.want(ledger.Done, named(1, find)); !res.Settled || !res.Released {
			c.Errorf("found %+v", res)
		}
	}},
	{"what has no record is unknown", func(c *client) {
		for _, op := range []ledger.Op{ledger.Settle, ledger.Release, ledger.Void, ledger.Find} {
			c.want(ledger.Unknown, named(99, ledger.Command{Op: op}))
		}
	}},
	{"settled after its release, while it is remembered", func(c *client) {
		s := step(1, limit.Window(5, limit.Day), 5)
		c.want(ledger.Done, named(1, take(s)))
		c.want(ledger.Done, named(1, release()))
		c.want(ledger.Done, named(1, settle(1)))
		c.left(4, s)
	}},
}

// storeCases are about the store itself.
var storeCases = []testCase{
	{"commands of one call are carried out in order, each answered in its place", func(c *client) {
		s := step(1, limit.Slots(1), 1)
		cmds := []ledger.Command{take(s), take(s), release(s), take(s)}
		res := make([]ledger.Result, len(cmds))
		if err := c.store.Apply(context.Background(), cmds, res); err != nil {
			c.Fatal(err)
		}
		for i, want := range []ledger.Status{ledger.Done, ledger.Refused, ledger.Done, ledger.Done} {
			if res[i].Status != want {
				c.Errorf("command %d: %s, want %s", i, statusName(res[i].Status), statusName(want))
			}
		}
	}},
	{"a result that was used before carries nothing over", func(c *client) {
		s := step(1, limit.Slots(9), 1)
		full := named(1, take(s, step(2, limit.Slots(0), 1)))
		full.Levels = true
		res := make([]ledger.Result, 1)
		for _, cmd := range []ledger.Command{
			full, named(2, take(s)), full, named(2, ledger.Command{Op: ledger.Find}), full, release(s),
			full, named(3, release()), {Op: ledger.Reset, All: true}, take(s),
		} {
			if err := c.store.Apply(context.Background(), []ledger.Command{cmd}, res); err != nil {
				c.Fatal(err)
			}
			if refused := cmd.Levels; !refused && len(res[0].Outcomes)+len(res[0].Levels) > 0 {
				c.Errorf("%+v answered with %+v", cmd, res[0])
			}
			if cmd.Op != ledger.Find && len(res[0].Steps) > 0 {
				c.Errorf("%+v answered with %+v", cmd, res[0])
			}
		}
	}},
	{"a take heeds no time but the store's", func(c *client) {
		for i, l := range every[:3] {
			cmd := take(step(uint64(i), l, 5))
			cmd.At = 1 // left over from the grant that its memory served before
			first := c.want(ledger.Done, cmd)
			cmd.At = 0
			if second := c.want(ledger.Refused, cmd); second.At < first.At || first.At == 1 || second.Outcomes[0].Wait > 300*limit.Day {
				c.Errorf("%v: taken at %d, then refused with %+v", l, first.At, second.Outcomes)
			}
		}
	}},
	{"P-001 its time does not go back", func(c *client) {
		last := limit.Micros(0)
		for i := range 200 {
			at := c.do(take(step(uint64(i%3), limit.Bucket(1000, limit.Second, 1000), 1))).At
			if at < last {
				c.Errorf("it was %d and is %d", last, at)
			}
			last = at
		}
	}},
	{"a closed store refuses to work", func(c *client) {
		if err := c.store.Close(); err != nil {
			c.Fatal(err)
		}
		err := c.store.Apply(context.Background(), []ledger.Command{take()}, make([]ledger.Result, 1))
		if err == nil {
			c.Error("it took a command")
		}
	}},
}
