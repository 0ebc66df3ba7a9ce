package sluice_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// A failing store answers until it is told to fail.
type failing struct {
	*memory.Store
	down atomic.Bool
}

func (s *failing) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	if s.down.Load() {
		return errBroken
	}
	return s.Store.Apply(ctx, cmds, res)
}

// node returns a controller that is one of several processes on a shared store.
func node(t *testing.T, shared *failing, processes int, rules ...sluice.Rule) *sluice.Controller {
	t.Helper()
	local := memory.New(memory.Options{})
	t.Cleanup(func() { local.Close() })
	for i := range rules {
		if rules[i].OnStoreError == sluice.FailClosed {
			rules[i].OnStoreError = sluice.FailLocal
		}
	}
	c, err := sluice.Open(&sluice.Policy{Rules: rules}, shared, sluice.Options{
		Shares: local, Processes: processes, KeySecret: []byte("sixteen bytes or more"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sharedStore(t *testing.T) *failing {
	s := &failing{Store: memory.New(memory.Options{})}
	t.Cleanup(func() { s.Store.Close() })
	return s
}

// getThrough counts how many of n calls are admitted and released at once.
func getThrough(c *sluice.Controller, n int) (passed int) {
	for range n {
		if adm, err := c.Admit(background, sluice.Call{}); err == nil {
			adm.Release()
			passed++
		}
	}
	return passed
}

func TestLocalShare(t *testing.T) {
	t.Run("P-157 four processes together stay within the limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			shared := sharedStore(t)
			var nodes []*sluice.Controller
			for range 4 {
				nodes = append(nodes, node(t, shared, 4, one("r", limit.Bucket(100, limit.Second, 100))))
			}
			shared.down.Store(true)
			for _, c := range nodes {
				if n := getThrough(c, 200); n != 25 {
					t.Errorf("a share let %d pass at once, want its burst of 25", n)
				}
			}
			time.Sleep(time.Second)
			for _, c := range nodes {
				if n := getThrough(c, 200); n != 25 {
					t.Errorf("a share let %d pass after a second, want 25", n)
				}
			}
		})
	})
	t.Run("P-158 an outage finds the share as used as the whole", func(t *testing.T) {
		shared := sharedStore(t)
		c := node(t, shared, 1, one("r", limit.Window(100, limit.Hour)))
		if n := getThrough(c, 100); n != 100 {
			t.Fatalf("%d passed", n)
		}
		shared.down.Store(true)
		_, err := c.Admit(background, sluice.Call{})
		r, ok := errors.AsType[*sluice.Refusal](err)
		if !ok || r.Reason != sluice.ReasonRate || !r.Degraded || r.Rule != "r" || r.RetryAfter <= 0 {
			t.Errorf("told %+v", err)
		}
	})
	t.Run("slots of a share are held and come back", func(t *testing.T) {
		shared := sharedStore(t)
		c := node(t, shared, 2, one("r", limit.Slots(4)))
		before := admit(t, c, sluice.Call{})
		shared.down.Store(true)
		during := admit(t, c, sluice.Call{})
		if !during.Degraded() || before.Degraded() {
			t.Errorf("degraded before %v, during %v", before.Degraded(), during.Degraded())
		}
		if _, err := c.Admit(background, sluice.Call{}); err == nil {
			t.Error("a third passed a share of two")
		}
		shared.down.Store(false)
		before.Release()
		shared.down.Store(true)
		again := admit(t, c, sluice.Call{})
		during.Release()
		again.Release()
		if n := getThrough(c, 5); n != 5 {
			t.Errorf("%d of 5 passed one after the other", n)
		}
		shared.down.Store(false)
		if n := left(t, c, "r", sluice.Call{}); n != 4 {
			t.Errorf("%d of the store's slots are free, want all", n)
		}
	})
	t.Run("a share is settled where it was taken", func(t *testing.T) {
		shared := sharedStore(t)
		r := one("r", limit.Window(10, limit.Hour))
		c := node(t, shared, 1, r)
		shared.down.Store(true)
		adm := admit(t, c, sluice.Call{Cost: sluice.Cost{{Unit: sluice.Calls, N: 10}}})
		if err := adm.Settle(background, sluice.Cost{{Unit: sluice.Calls, N: 4}}); err != nil {
			t.Fatal(err)
		}
		adm.Release()
		if n := getThrough(c, 20); n != 6 {
			t.Errorf("%d passed, want the six that were not used", n)
		}
	})
	t.Run("callers wait for a share as for the whole", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			shared := sharedStore(t)
			c := node(t, shared, 1, queued(one("r", limit.Pace(limit.Second)), sluice.Queue{}))
			shared.down.Store(true)
			began := time.Now()
			if n := getThrough(c, 4); n != 4 || time.Since(began) != 3*time.Second {
				t.Errorf("%d passed in %v, want 4 in 3 s", n, time.Since(began))
			}
		})
	})
	t.Run("a cooldown is known to the share", func(t *testing.T) {
		shared := sharedStore(t)
		c := node(t, shared, 3, one("r", limit.Cooldown(0)))
		adm := admit(t, c, sluice.Call{})
		if err := adm.Cool(background, time.Hour); err != nil {
			t.Fatal(err)
		}
		shared.down.Store(true)
		if _, err := c.Admit(background, sluice.Call{}); err == nil {
			t.Error("a call passed a cooldown")
		}
	})
	t.Run("other modes beside it keep their meaning", func(t *testing.T) {
		shared := sharedStore(t)
		open := one("open", limit.Window(1, limit.Hour))
		open.OnStoreError = sluice.FailOpen
		c := node(t, shared, 1, open, one("local", limit.Window(3, limit.Hour)))
		shared.down.Store(true)
		if n := getThrough(c, 9); n != 3 {
			t.Errorf("%d passed, want the share's three", n)
		}
	})
	t.Run("a check takes nothing from the share", func(t *testing.T) {
		shared := sharedStore(t)
		c := node(t, shared, 1, one("r", limit.Window(1, limit.Hour)))
		shared.down.Store(true)
		for range 3 {
			if x, err := c.Check(background, sluice.Call{}); err != nil || !x.Admitted {
				t.Errorf("%+v, %v", x, err)
			}
		}
		if n := getThrough(c, 3); n != 1 {
			t.Errorf("%d passed, want 1", n)
		}
	})
	t.Run("P-157 without a share it fails closed", func(t *testing.T) {
		shared := sharedStore(t)
		r := one("r", limit.Slots(1))
		r.OnStoreError = sluice.FailLocal
		c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{r}}, shared, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		shared.down.Store(true)
		if _, err := c.Admit(background, sluice.Call{}); !errors.Is(err, errBroken) {
			t.Errorf("%v", err)
		}
	})
}
