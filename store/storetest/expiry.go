package storetest

import (
	"context"

	sluice "github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// expiring is a take with an ID that stands for seven calls and is good for a time, of five
// tokens of one group, out of ten, and five of another.
func expiring(id uint64, good limit.Micros) ledger.Command {
	cmd := named(id, take(apart(1, 1, limit.Window(10, limit.Day), 5), apart(2, 2, limit.Bucket(1, limit.Day, 10), 5)))
	cmd.Calls, cmd.Expires = 7, good
	return cmd
}

// moment is how long a grant is good that expires at once, in microseconds.
const moment limit.Micros = 1

var find = ledger.Command{Op: ledger.Find}

// expiryCases are about what a record says of its grant, and about grants that expire.
// When their records leave is for the tests of each store: its clock cannot be set here.
var expiryCases = []testCase{
	{"C-68 C-70 a record says what its grant stands for, and how long it is good", func(c *client) {
		taken := c.want(ledger.Done, expiring(1, limit.Hour))
		if taken.Left != ledger.Forever || taken.Calls != 0 {
			c.Errorf("a new grant is described: %+v", taken)
		}
		for range 2 {
			found := c.want(ledger.Done, named(1, find))
			if want := taken.At + limit.Hour - found.At; found.Calls != 7 || found.Left != want {
				c.Errorf("%d left of %d calls, want %d of 7", found.Left, found.Calls, want)
			}
			again := c.want(ledger.Replayed, expiring(1, limit.Minute)) // the first one counts
			if again.Calls != 7 || again.Left > found.Left || again.Left < limit.Minute {
				c.Errorf("replayed with %d left of %d calls, and found with %d", again.Left, again.Calls, found.Left)
			}
		}
		for _, cmd := range []ledger.Command{settle(5, 2), {Op: ledger.Free}, {Op: ledger.Release}} {
			if res := c.want(ledger.Done, named(1, cmd)); res.Calls != 7 || res.Left > limit.Hour || res.Left < limit.Minute {
				c.Errorf("op %d says %d left of %d calls", cmd.Op, res.Left, res.Calls)
			}
		}
		if found := c.want(ledger.Done, named(1, find)); found.Calls != 7 || !found.Settled || !found.Released {
			c.Errorf("after its end it is found as %+v", found)
		}
	}},
	{"C-77 C-78 what has expired stays taken, and is settled all the same", func(c *client) {
		cmd := expiring(1, moment)
		taken := c.want(ledger.Done, cmd)
		for {
			found := c.want(ledger.Done, named(1, find))
			if found.Left != taken.At+moment-found.At {
				c.Fatalf("%d left at %d, taken at %d", found.Left, found.At, taken.At)
			}
			if found.Left <= 0 {
				break
			}
		}
		c.want(ledger.Replayed, expiring(1, moment))
		c.left(5, cmd.Steps[0])
		c.left(5, cmd.Steps[1])
		c.want(ledger.Done, named(1, settle(2, 9)))
		c.want(ledger.Replayed, named(1, settle(2, 9)))
		c.left(8, cmd.Steps[0])
		c.left(1, cmd.Steps[1])
	}},
	{"C-99 an expired grant is remembered for the retention at least", func(c *client) {
		for id := range uint64(100) {
			cmd := expiring(id+1, moment)
			cmd.Steps = []ledger.Step{step(id, limit.Bucket(1, limit.Second, 1), 1)}
			c.want(ledger.Done, cmd)
		}
		for id := range uint64(100) {
			c.want(ledger.Done, named(id+1, find))
		}
	}},
	{"what does not say so never expires, and its ID may serve again after a void", func(c *client) {
		for _, good := range []limit.Micros{0, limit.Hour, 0} {
			c.want(ledger.Done, expiring(1, good))
			if found := c.want(ledger.Done, named(1, find)); (found.Left == ledger.Forever) != (good == 0) {
				c.Errorf("one of %d is good for %d", good, found.Left)
			}
			c.want(ledger.Done, named(1, ledger.Command{Op: ledger.Void}))
			c.want(ledger.Unknown, named(1, find))
		}
	}},
	{"B-29 B-W29 calls that are taken up again are settled by their weight", func(c *client) {
		rule := sluice.Rule{ID: "r", Limits: []sluice.Limit{{Limit: limit.Window(20, limit.Hour)}}, Weights: map[string]int64{"search": 3}}
		calls := func(n int64) sluice.Cost { return sluice.Cost{{Unit: sluice.Calls, N: n}} }
		ctx := context.Background()
		first, second := c.controller(rule), c.controller(rule)
		if _, err := first.Admit(ctx, sluice.Call{ID: "id", Capability: "search", Cost: calls(5)}); err != nil {
			c.Fatal(err)
		}
		adm, err := second.Resume(ctx, "id")
		if err != nil {
			c.Fatal(err)
		}
		if err := adm.Settle(ctx, calls(2)); err != nil {
			c.Fatal(err)
		}
		said, err := first.Check(ctx, sluice.Call{Capability: "search"})
		if err != nil {
			c.Fatal(err)
		}
		if got := said.Rules[0].Limits[0].Level.Remaining; got != 14 {
			c.Errorf("%d left, want 14", got)
		}
	}},
}

// controller returns a controller of one rule, as each of several processes on the store
// has one.
func (c *client) controller(rule sluice.Rule) *sluice.Controller {
	c.Helper()
	ctl, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{rule}}, c.store, sluice.Options{KeySecret: []byte("sixteen bytes or more")})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = ctl.Close() })
	return ctl
}
