package sluice_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// tokens is a cost of n tokens.
func tokens(n int64) sluice.Cost { return sluice.Cost{{Unit: sluice.Tokens, N: n}} }

// tokenRule is a rule of 1000 tokens in an hour.
func tokenRule(change func(*sluice.Rule)) sluice.Rule {
	r := one("r", limit.Window(1000, limit.Hour))
	r.Limits[0].Unit = sluice.Tokens
	if change != nil {
		change(&r)
	}
	return r
}

func admit(t *testing.T, c *sluice.Controller, call sluice.Call) sluice.Admission {
	t.Helper()
	adm, err := c.Admit(background, call)
	if err != nil {
		t.Fatal(err)
	}
	return adm
}

func TestSettle(t *testing.T) {
	keep := func(r *sluice.Rule) { r.Settle = sluice.Keep }
	over := func(r *sluice.Rule) { r.Settle, r.AllowOverrun = sluice.Keep, true }
	for _, x := range []struct {
		name   string
		change func(*sluice.Rule)
		used   int64
		left   int64
		err    error
	}{
		{"B-29 less comes back", nil, 150, 850, nil},
		{"B-29, D14 more is debited", nil, 700, 300, nil},
		{"B-30, B-W15 more than there is leaves nothing", nil, 5000, 0, nil},
		{"exactly", nil, 600, 400, nil},
		{"D13 a budget keeps what was not used", keep, 150, 400, nil},
		{"D14 a budget allows no overrun", keep, 601, 400, sluice.ErrOverrun},
		{"D14 unless it says so", over, 700, 300, nil},
		{"a negative figure", nil, -1, 400, sluice.ErrOverrun},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := engine(t, tokenRule(x.change))
			adm := admit(t, c, sluice.Call{Cost: tokens(600)})
			if err := adm.Settle(background, tokens(x.used)); !errors.Is(err, x.err) {
				t.Fatalf("error %v, want %v", err, x.err)
			}
			if n := left(t, c, "r", sluice.Call{}); n != x.left {
				t.Errorf("%d left, want %d", n, x.left)
			}
			if x.err != nil {
				return
			}
			if err := adm.Settle(background, tokens(x.used)); err != nil {
				t.Errorf("the same again: %v", err)
			}
			if err := adm.Settle(background, tokens(x.used+1)); !errors.Is(err, sluice.ErrSettled) {
				t.Errorf("other figures: %v, want ErrSettled", err)
			}
			if n := left(t, c, "r", sluice.Call{}); n != x.left {
				t.Errorf("settling again has changed %d into %d", x.left, n)
			}
			adm.Release()
			if err := adm.Settle(background, tokens(1)); !errors.Is(err, sluice.ErrReleased) {
				t.Errorf("after the release: %v, want ErrReleased", err)
			}
		})
	}
	t.Run("B-W29 calls are settled by their weight", func(t *testing.T) {
		r := one("r", limit.Window(20, limit.Hour))
		r.Weights = map[string]int64{"search": 3, "ping": 0}
		two := sluice.Cost{{Unit: sluice.Calls, N: 2}}
		one := sluice.Cost{{Unit: sluice.Calls, N: 1}}
		for capability, want := range map[string]int64{"search": 17, "ping": 20, "other": 19} {
			c := engine(t, r)
			adm := admit(t, c, sluice.Call{Capability: capability, Cost: two})
			if err := adm.Settle(background, one); err != nil {
				t.Fatal(err)
			}
			if n := left(t, c, "r", sluice.Call{}); n != want {
				t.Errorf("%s: %d left, want %d", capability, n, want)
			}
		}
	})
	t.Run("B-W29 also when they are taken up again", func(t *testing.T) {
		r := one("r", limit.Window(20, limit.Hour))
		r.Weights = map[string]int64{"search": 3}
		c := engine(t, r)
		admit(t, c, sluice.Call{ID: "id", Capability: "search", Cost: sluice.Cost{{Unit: sluice.Calls, N: 5}}})
		adm, err := c.Resume(background, "id")
		if err != nil {
			t.Fatal(err)
		}
		if err := adm.Settle(background, sluice.Cost{{Unit: sluice.Calls, N: 2}}); err != nil {
			t.Fatal(err)
		}
		if n := left(t, c, "r", sluice.Call{}); n != 14 {
			t.Errorf("%d left, want 14", n)
		}
	})
	t.Run("no unit is calls", func(t *testing.T) {
		c := engine(t, one("r", limit.Window(20, limit.Hour)))
		adm := admit(t, c, sluice.Call{Cost: sluice.Cost{{N: 5}}})
		if err := adm.Settle(background, sluice.Cost{{N: 2}}); err != nil {
			t.Fatal(err)
		}
		if n := left(t, c, "r", sluice.Call{}); n != 18 {
			t.Errorf("%d left, want 18", n)
		}
	})
	t.Run("B-31 what is not listed stays", func(t *testing.T) {
		c := engine(t, tokenRule(nil))
		adm := admit(t, c, sluice.Call{Cost: tokens(600)})
		if err := adm.Settle(background, nil); err != nil {
			t.Fatal(err)
		}
		if n := left(t, c, "r", sluice.Call{}); n != 400 {
			t.Errorf("%d left, want 400", n)
		}
	})
	t.Run("B-W14 a refund lets the next in line go", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(tokenRule(nil), sluice.Queue{}))
			adm := admit(t, c, sluice.Call{Cost: tokens(1000)})
			x := send(background, c, sluice.Call{Cost: tokens(300)})
			sleepUntil(second)
			if err := adm.Settle(background, tokens(100)); err != nil {
				t.Fatal(err)
			}
			wantAt(t, []*caller{x}, second)
		})
	})
	t.Run("B-W15 an overdrawn bucket makes the next wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := one("r", limit.Bucket(10, limit.Second, 10))
			r.Limits[0].Unit = sluice.Tokens
			c := engine(t, r)
			adm := admit(t, c, sluice.Call{Cost: tokens(10)})
			if err := adm.Settle(background, tokens(30)); err != nil {
				t.Fatal(err)
			}
			d, _ := try(t, c, sluice.Call{Cost: tokens(1)})
			if wait := d.Refusal().RetryAfter.Round(time.Millisecond); wait != 2100*time.Millisecond {
				t.Errorf("retry after %v, want 2.1 s: 20 owed and one more", wait)
			}
		})
	})
}

func TestRelease(t *testing.T) {
	c := engine(t, one("r", limit.Slots(1)))
	t.Run("P-094 of copies, twice, late", func(t *testing.T) {
		first := admit(t, c, sluice.Call{})
		second := first
		first.Release()
		held := admit(t, c, sluice.Call{})
		first.Release()
		second.Release()
		second.Abandon()
		if n := passes(t, c, 1, sluice.Call{}); n != 0 {
			t.Error("an old admission has freed another's slot")
		}
		held.Release()
	})
	t.Run("P-093 two rules, each its own slot", func(t *testing.T) {
		c := engine(t, one("outer", limit.Slots(50)), one("inner", limit.Slots(10)))
		for range 1000 {
			admit(t, c, sluice.Call{}).Release()
		}
		if a, b := left(t, c, "outer", sluice.Call{}), left(t, c, "inner", sluice.Call{}); a != 50 || b != 10 {
			t.Errorf("%d and %d left, want 50 and 10", a, b)
		}
	})
	t.Run("P-101 refusals leave no trace in slots", func(t *testing.T) {
		held := admit(t, c, sluice.Call{})
		passes(t, c, 100, sluice.Call{})
		held.Release()
		if n := passes(t, c, 1, sluice.Call{}); n != 1 {
			t.Error("the slot is not free")
		}
	})
	t.Run("the zero admission", func(t *testing.T) {
		var none sluice.Admission
		none.Release()
		none.Abandon()
		if err := none.Settle(background, nil); !errors.Is(err, sluice.ErrReleased) {
			t.Errorf("Settle: %v", err)
		}
		if err := none.Cool(background, second); !errors.Is(err, sluice.ErrReleased) {
			t.Errorf("Cool: %v", err)
		}
		if none.Levels() != nil || none.Waited() != 0 || none.Degraded() || none.Replayed() {
			t.Error("it knows something")
		}
	})
}

func TestDecisionReuse(t *testing.T) {
	c := engine(t, one("r", limit.Slots(2)), one("w", limit.Window(100, limit.Hour)))
	var d sluice.Decision
	call := sluice.Call{}
	if d.Admission() != (sluice.Admission{}) || d.Refusal() != nil {
		t.Error("the zero Decision has an answer")
	}
	if ok, err := c.Try(background, &call, &d); !ok || err != nil {
		t.Fatal(ok, err)
	}
	old := d.Admission()
	if ok, err := c.Try(background, &call, &d); ok || !errors.Is(err, sluice.ErrInUse) {
		t.Errorf("a Decision that holds slots: %v, %v, want ErrInUse", ok, err)
	}
	old.Release()
	if ok, err := c.Try(background, &call, &d); !ok || err != nil {
		t.Fatal(ok, err)
	}
	old.Release()
	if err := old.Settle(background, nil); !errors.Is(err, sluice.ErrReleased) {
		t.Errorf("Settle of a stale admission: %v", err)
	}
	if n := left(t, c, "r", call); n != 1 {
		t.Errorf("%d slots left, want 1: a stale admission has given one back", n)
	}
	d.Admission().Release()
}

func TestAbandon(t *testing.T) {
	for _, id := range []string{"", "named"} {
		free, hold := one("free", limit.Slots(2)), one("hold", limit.Slots(2))
		free.OnTimeout = sluice.Free
		c := engine(t, free, hold)
		slots := func() [2]int64 {
			return [2]int64{left(t, c, "free", sluice.Call{}), left(t, c, "hold", sluice.Call{})}
		}
		other := admit(t, c, sluice.Call{})
		adm := admit(t, c, sluice.Call{ID: id})
		adm.Abandon()
		adm.Abandon()
		if got := slots(); got != [2]int64{1, 0} {
			t.Errorf("P-098, id %q: %v left after Abandon, want one free and the other held", id, got)
		}
		adm.Release()
		adm.Abandon()
		if got := slots(); got != [2]int64{1, 1} {
			t.Errorf("P-098, id %q: %v left after Release, want 1 and 1: nothing twice", id, got)
		}
		other.Release()
		if got := slots(); got != [2]int64{2, 2} {
			t.Errorf("id %q: %v left at the end, want all", id, got)
		}
	}
}

// TestDeadline is a caller that gives up after 50 ms on work of 300 ms.
func TestDeadline(t *testing.T) {
	for _, x := range []struct {
		name string
		mode sluice.AbandonMode
		at   time.Duration
	}{
		{"P-098 hold: the next starts when the work has ended", sluice.Hold, 300 * ms},
		{"P-098 free: the next starts at the deadline", sluice.Free, 50 * ms},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := queued(one("r", limit.Slots(1)), sluice.Queue{})
				r.OnTimeout = x.mode
				c := engine(t, r)
				adm := admit(t, c, sluice.Call{})
				next := send(background, c, sluice.Call{})
				sleepUntil(50 * ms)
				adm.Abandon()
				sleepUntil(300 * ms)
				adm.Release()
				sleepUntil(time.Second)
				wantAt(t, []*caller{next}, x.at)
				if n := passes(t, c, 1, sluice.Call{}); n != 0 {
					t.Error("the end of the work has freed the slot of the next")
				}
			})
		})
	}
}

func TestMaxHold(t *testing.T) {
	for _, id := range []string{"", "named"} {
		synctest.Test(t, func(t *testing.T) {
			short, long := one("short", limit.Slots(1)), one("long", limit.Slots(2))
			short.MaxHold, long.MaxHold = 5*second, 8*second
			c := engine(t, queued(short, sluice.Queue{}), long)
			adm := admit(t, c, sluice.Call{ID: id})
			x := send(background, c, sluice.Call{})
			sleepUntil(20 * second)
			wantAt(t, []*caller{x}, 5*second)
			if n := left(t, c, "long", sluice.Call{}); n != 2 {
				t.Errorf("id %q: %d left of long at 20 s, want 2", id, n)
			}
			y := admit(t, c, sluice.Call{})
			adm.Release()
			if n := left(t, c, "short", sluice.Call{}); n != 0 {
				t.Errorf("id %q: a late Release has freed another's slot", id)
			}
			y.Release()
		})
	}
}

func TestIDs(t *testing.T) {
	rule := one("r", limit.Window(10, limit.Hour), limit.Slots(5))
	call := sluice.Call{ID: "order-1", Subject: "a"}
	t.Run("the same again takes nothing", func(t *testing.T) {
		c := engine(t, rule)
		first, again := admit(t, c, call), admit(t, c, call)
		if first.Replayed() || !again.Replayed() || left(t, c, "r", sluice.Call{}) != 9 {
			t.Errorf("replayed %v and %v, %d left", first.Replayed(), again.Replayed(), left(t, c, "r", sluice.Call{}))
		}
		again.Release()
		first.Release()
		if n := passes(t, c, 9, sluice.Call{}); n != 5 {
			t.Errorf("%d slots are free, want 5", n)
		}
	})
	t.Run("without a rule too", func(t *testing.T) {
		c := engine(t)
		if first, again := admit(t, c, call), admit(t, c, call); first.Replayed() || !again.Replayed() {
			t.Errorf("replayed %v and %v", first.Replayed(), again.Replayed())
		}
	})
	t.Run("a replay of what was released holds nothing", func(t *testing.T) {
		c := engine(t, rule)
		for range 10 {
			admit(t, c, call).Release()
		}
		var d sluice.Decision
		for range 3 {
			if ok, err := c.Try(background, &call, &d); !ok || err != nil {
				t.Fatal("the Decision of a replay cannot be used again:", ok, err)
			}
		}
		admit(t, c, sluice.Call{}).Release()
	})
	t.Run("for another call it is refused", func(t *testing.T) {
		c := engine(t, rule)
		admit(t, c, call)
		other := call
		other.Cost = sluice.Cost{{Unit: sluice.Calls, N: 2}}
		d, ok := try(t, c, other)
		if r := d.Refusal(); ok || r.Reason != sluice.ReasonInvalid || !r.Permanent {
			t.Errorf("%v, %+v", ok, r)
		}
		if n := left(t, c, "r", sluice.Call{}); n != 9 {
			t.Errorf("%d left, want 9", n)
		}
	})
	t.Run("P-070 nobody settles it: the debit stands to the end of its window, and the ID is used", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := tokenRule(nil)
			r.MaxHold = 60 * second
			held := one("held", limit.Slots(1))
			held.MaxHold = 60 * second
			c := engine(t, r, held)
			reserve := sluice.Call{ID: "reservation", Cost: tokens(400)}
			admit(t, c, reserve)
			sleepUntil(61 * second)
			if n := left(t, c, "held", sluice.Call{}); n != 1 {
				t.Errorf("%d slots left, want the one that it may hold no longer", n)
			}
			if again := admit(t, c, reserve); !again.Replayed() {
				t.Error("the ID has bought a second reservation")
			}
			sleepUntil(time.Hour - ms)
			if n := left(t, c, "r", sluice.Call{}); n != 600 {
				t.Errorf("%d tokens left just before the window ends, want 600", n)
			}
			sleepUntil(time.Hour)
			if n := left(t, c, "r", sluice.Call{}); n != 1000 {
				t.Errorf("%d tokens left after the window, want 1000", n)
			}
		})
	})
	t.Run("P-100 each of two holders gives back its own, also to the next controller", func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		policy := &sluice.Policy{Rules: []sluice.Rule{one("r", limit.Slots(5), limit.Slots(5))}}
		policy.Rules[0].Limits[0].Name, policy.Rules[0].Limits[1].Name = "a", "b"
		next := func() *sluice.Controller {
			c, err := sluice.Open(policy, store, sluice.Options{KeySecret: []byte("the secret of both")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		units := func(n int64) sluice.Cost { return sluice.Cost{{Unit: sluice.Calls, N: n}} }
		c := next()
		admit(t, c, sluice.Call{ID: "one", Cost: units(1)})
		admit(t, c, sluice.Call{ID: "three", Cost: units(3)})
		c = next()
		for _, x := range []struct {
			id   string
			left int64
		}{{"three", 4}, {"three", 4}, {"one", 5}, {"one", 5}} {
			adm, err := c.Resume(background, x.id)
			if err != nil {
				t.Fatal(err)
			}
			adm.Release()
			if n := left(t, c, "r", sluice.Call{}); n != x.left {
				t.Errorf("%d left after the release of %s, want %d", n, x.id, x.left)
			}
		}
	})
	t.Run("a reload does not make it another call", func(t *testing.T) {
		c := engine(t, rule)
		admit(t, c, call)
		if err := c.SetPolicy(&sluice.Policy{Rules: []sluice.Rule{rule, one("new", limit.Window(1, limit.Hour))}}); err != nil {
			t.Fatal(err)
		}
		if again := admit(t, c, call); !again.Replayed() {
			t.Error("not replayed")
		}
	})
	t.Run("resume", func(t *testing.T) {
		c := engine(t, rule, tokenRule(func(r *sluice.Rule) { r.ID = "tokens" }))
		call := call
		call.Cost = tokens(600)
		admit(t, c, call)
		adm, err := c.Resume(background, call.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := adm.Settle(background, tokens(100)); err != nil {
			t.Fatal(err)
		}
		adm.Release()
		if n := left(t, c, "tokens", sluice.Call{}); n != 900 {
			t.Errorf("%d tokens left, want 900", n)
		}
		if n := passes(t, c, 9, sluice.Call{}); n != 5 {
			t.Errorf("%d slots are free, want 5", n)
		}
		for _, id := range []string{"", "nobody"} {
			if _, err := c.Resume(background, id); !errors.Is(err, sluice.ErrUnknown) {
				t.Errorf("Resume(%q): %v, want ErrUnknown", id, err)
			}
		}
	})
	t.Run("a store that remembers none says so", func(t *testing.T) {
		c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{rule}}, memory.New(memory.Options{MaxGrants: -1}), sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := try(t, c, call); ok || d.Refusal().Reason != sluice.ReasonFull {
			t.Errorf("%v, %+v", ok, d.Refusal())
		}
	})
}
