package sluice_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// TestMaxHoldIsAboutOneGrant uses a Decision again while the time of its last call under a
// rule with MaxHold, which held nothing, is not over yet.
func TestMaxHoldIsAboutOneGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate, slots := kinds(one("rate", limit.Window(9, limit.Hour)), "rate"), kinds(one("slots", limit.Slots(1)), "slots")
		rate.MaxHold, slots.MaxHold = 10*second, 2*second
		c := engine(t, rate, slots)
		var d sluice.Decision
		for _, kind := range []string{"rate", "slots"} {
			if ok, err := c.Try(background, &sluice.Call{Kind: kind}, &d); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if kind == "rate" {
				sleepUntil(9500 * ms)
			}
		}
		sleepUntil(11 * second)
		if n := left(t, c, "slots", sluice.Call{Kind: "slots"}); n != 0 {
			t.Error("the slot was freed after 1.5 s, by the timer of the call before")
		}
		sleepUntil(12 * second)
		if n := left(t, c, "slots", sluice.Call{Kind: "slots"}); n != 1 {
			t.Error("the slot was not freed after 2 s")
		}
	})
}

// TestMaxHoldOfTheResumed has a process that ends while it holds a slot, and another that
// resumes the call and forgets it again.
func TestMaxHoldOfTheResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		rule := one("r", limit.Slots(1))
		open := func() *sluice.Controller {
			c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{rule}}, store, sluice.Options{KeySecret: make([]byte, 16)})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		admit(t, open(), sluice.Call{ID: "job"}) // nobody watches this one
		rule.MaxHold = 5 * second
		c := open()
		if _, err := c.Resume(background, "job"); err != nil {
			t.Fatal(err)
		}
		sleepUntil(5 * second)
		if n := left(t, c, "r", sluice.Call{}); n != 1 {
			t.Error("the slot is held for ever")
		}
		admit(t, c, sluice.Call{})
		if n := c.Held()["r"]; n != 1 {
			t.Errorf("%d slots held by this process, want 1: it never held the other's", n)
		}
	})
}

// A stubborn store does not carry out a Free.
type stubborn struct{ *memory.Store }

func (s stubborn) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	if cmds[0].Op == ledger.Free {
		return errBroken
	}
	return s.Store.Apply(ctx, cmds, res)
}

// TestFreeThatFailed has slots that the store did not free ahead of the release. The
// release frees those of a grant with an ID: the store knows what it has freed.
func TestFreeThatFailed(t *testing.T) {
	store := stubborn{memory.New(memory.Options{})}
	defer store.Close()
	rule := one("r", limit.Slots(1))
	rule.OnTimeout = sluice.Free
	c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{rule}}, store, sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	adm := admit(t, c, sluice.Call{ID: "named"})
	adm.Abandon()
	if n := c.Held()["r"]; n != 1 {
		t.Errorf("%d held after a Free that failed, want 1", n)
	}
	adm.Release()
	if n := left(t, c, "r", sluice.Call{}); n != 1 || c.Held()["r"] != 0 {
		t.Errorf("%d slots left and %d held, want 1 and 0", n, c.Held()["r"])
	}
}
