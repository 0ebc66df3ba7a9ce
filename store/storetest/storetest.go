// Package storetest is the contract of a [sluice.Store]: one suite and one benchmark that
// every store runs, against the real thing.
//
// A store tells its own time, so the suite sets no clock: it compares the store with
// [ledger.Books] at the times the store says, uses spans so long that nothing comes back
// while it looks, or waits until the store says that a time has come. What needs a
// clock to be set belongs to the tests of the store that has one.
//
// Random histories print their seed when they fail; SEED=n in the environment repeats one.
package storetest

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	sluice "github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// Run checks that the stores that open returns keep the contract. Each call of open
// returns an empty store with room for at least ten thousand cells and a thousand grants,
// which are remembered for a minute or longer after their release. It is a sluice.Recorder.
// Run closes it.
func Run(t *testing.T, open func(t *testing.T) sluice.Store) {
	for _, part := range []struct {
		name  string
		cases []testCase
	}{
		{"limits", limitCases}, {"together", togetherCases}, {"grants", grantCases}, {"expiry", expiryCases}, {"records", recordCases},
		{"apart", apartCases}, {"keys", keyCases}, {"scan and reset", scanCases}, {"store", storeCases},
		{"model", modelCases}, {"concurrent", concurrentCases},
	} {
		t.Run(part.name, func(t *testing.T) { runCases(t, part.cases, open) })
	}
}

// RunConcurrent checks only what the contract says of many callers at once. It is for
// stores that are several processes' views of the same books: their clocks may differ by
// a moment between one command and the next.
func RunConcurrent(t *testing.T, open func(t *testing.T) sluice.Store) {
	runCases(t, concurrentCases, open)
}

func runCases(t *testing.T, cases []testCase, open func(t *testing.T) sluice.Store) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			c.check(&client{T: t, store: store})
		})
	}
}

type testCase struct {
	name  string
	check func(c *client)
}

// A client sends commands to one store. It is safe for concurrent use.
type client struct {
	*testing.T
	store sluice.Store
}

// do carries out one command. The steps of cmd are the caller's own afterwards.
func (c *client) do(cmd ledger.Command) ledger.Result {
	c.Helper()
	cmds, res := []ledger.Command{cmd}, make([]ledger.Result, 1)
	if err := c.store.Apply(context.Background(), cmds, res); err != nil {
		c.Errorf("apply: %v", err)
	}
	return res[0]
}

// want carries out cmd and fails the test unless it ends with status.
func (c *client) want(status ledger.Status, cmd ledger.Command) ledger.Result {
	c.Helper()
	res := c.do(cmd)
	if res.Status != status {
		c.Errorf("%+v: %s, want %s", cmd, statusName(res.Status), statusName(status))
	}
	return res
}

func statusName(s ledger.Status) string {
	return []string{"done", "refused", "replayed", "conflict", "unknown", "full"}[s]
}

// level says where the cell of s stands, without taking anything.
func (c *client) level(s ledger.Step) limit.Level {
	c.Helper()
	s.N = 0
	res := c.do(ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{s}, Levels: true})
	if len(res.Levels) != 1 {
		c.Fatalf("%d levels for one step", len(res.Levels))
	}
	return res.Levels[0]
}

// left fails the test unless so many units are left in the cell of s.
func (c *client) left(want int64, s ledger.Step) {
	c.Helper()
	if got := c.level(s).Left; got != want {
		c.Errorf("%d left of %v, want %d", got, s.Limit, want)
	}
}

// await peeks at s until it would pass, and returns the store's time of that.
func (c *client) await(s ledger.Step) limit.Micros {
	c.Helper()
	for {
		res := c.do(ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{s}})
		if res.Status == ledger.Done || c.Failed() {
			return res.At
		}
	}
}

// key is the i-th of many cells of one caller. Groups differ in their high half, which
// is all that a store need keep of them.
func key(group, cell uint64) ledger.Key { return ledger.Key{Group: group << 32, Cell: cell} }

// step is n units of l, in a cell of its own.
func step(cell uint64, l limit.Limit, n int64) ledger.Step {
	return ledger.Step{Key: key(1, cell), Limit: l, N: n, Pool: cell}
}

func take(steps ...ledger.Step) ledger.Command { return ledger.Command{Steps: steps} }

func release(steps ...ledger.Step) ledger.Command {
	return ledger.Command{Op: ledger.Release, Steps: steps}
}

func named(id uint64, cmd ledger.Command) ledger.Command {
	cmd.ID = ledger.ID{Hi: 1, Lo: id}
	return cmd
}

// together runs f(0) to f(n-1) at the same time and returns when all have ended.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// rounds runs f with n sources of randomness, or with the one that SEED names.
func (c *client) rounds(n uint64, f func(r *rand.Rand)) {
	first := rand.Uint64()
	if s := os.Getenv("SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			c.Fatalf("SEED: %v", err)
		}
		first, n = seed, 1
	}
	for seed := first; seed-first < n; seed++ {
		f(rand.New(rand.NewPCG(seed, 2)))
		if c.Failed() {
			c.Fatalf("SEED=%d repeats it", seed)
		}
	}
}
