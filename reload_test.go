package sluice_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

func reload(t *testing.T, c *sluice.Controller, rules ...sluice.Rule) {
	t.Helper()
	if err := c.SetPolicy(&sluice.Policy{Rules: rules}); err != nil {
		t.Fatal(err)
	}
}

func TestReload(t *testing.T) {
	call := sluice.Call{Subject: "user:alice", Tenant: "acme"}
	window := func(n int64) sluice.Rule { return one("r", limit.Window(n, limit.Hour)) }
	for _, x := range []struct {
		name           string
		before, after  sluice.Rule
		used           int
		passes, offers int
	}{
		{"I-116 the same file again", window(10), window(10), 10, 0, 5},
		{"I-117, B-57, B-W26 a lower limit holds at once", window(100), window(10), 50, 0, 5},
		{"P-086 used 10, set to 1", window(1_000_000), window(1), 10, 0, 5},
		{"P-084 doubled after refusals", window(10), window(20), 50, 10, 11},
		{"P-088 what was used stays used", window(100), window(200), 60, 140, 150},
		{"P-090 another algorithm", window(10), one("r", limit.Bucket(10, limit.Hour, 10)), 10, 0, 5},
		{"another unit of state: slots", one("r", limit.Slots(5)), one("r", limit.Slots(3)), 4, 0, 5},
		{"C-W17 the dimensions in another order", each(window(10), sluice.Subject, sluice.Tenant),
			each(window(10), sluice.Tenant, sluice.Subject), 10, 0, 5},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := engine(t, x.before)
			if x.before.Limits[0].Name == "" { // state hangs on the name of a limit too
				x.before.Limits[0].Name, x.after.Limits[0].Name = "it", "it"
				c = engine(t, x.before)
			}
			passes(t, c, x.used, call)
			reload(t, c, x.after)
			if n := passes(t, c, x.offers, call); n != x.passes {
				t.Errorf("%d of %d pass, want %d", n, x.offers, x.passes)
			}
		})
	}
	t.Run("I-118 what time has paid back is settled at the old rate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, one("r", limit.Bucket(1, limit.Second, 100)))
			passes(t, c, 100, sluice.Call{})
			time.Sleep(10 * second)
			reload(t, c, one("r", limit.Bucket(10, limit.Second, 100)))
			if n := passes(t, c, 100, sluice.Call{}); n != 10 && n != 11 {
				t.Errorf("%d pass, want the 10 of the old rate", n)
			}
		})
	})
	t.Run("B-W27, I-048, I-065 state outlives its idle time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, one("day", limit.Window(1, limit.Day)), one("bucket", limit.Bucket(1, limit.Second, 100)))
			passes(t, c, 1, sluice.Call{})
			time.Sleep(301 * second)
			if n := passes(t, c, 1, sluice.Call{}); n != 0 {
				t.Error("the window was forgotten")
			}
			reload(t, c, one("bucket", limit.Bucket(1, limit.Second, 100)))
			passes(t, c, 100, sluice.Call{})
			time.Sleep(3 * second)
			if n := passes(t, c, 100, sluice.Call{}); n != 3 && n != 4 {
				t.Errorf("%d pass after 3 s, want 3", n)
			}
		})
	})
	t.Run("a Decision that was used for part of the old rules", func(t *testing.T) {
		a, b := kinds(one("a", limit.Slots(100)), "both", "a"), kinds(one("b", limit.Window(100, limit.Hour)), "both")
		c := engine(t, a, b)
		var d sluice.Decision
		ask := func(kind string) bool {
			ok, err := c.Try(background, &sluice.Call{Kind: kind}, &d)
			if err != nil {
				t.Fatal(err)
			}
			d.Admission().Release()
			return ok
		}
		ask("both")
		reload(t, c, a, kinds(one("b", limit.Window(1, limit.Hour)), "both"))
		ask("a")
		if ask("both") {
			t.Error("C-W16 the step of the old rule was used again")
		}
	})
	t.Run("a settlement of before forgets nothing of the longer window", func(t *testing.T) {
		for _, id := range []string{"", "named"} {
			synctest.Test(t, func(t *testing.T) {
				short, long := tokenRule(nil), tokenRule(nil)
				short.Limits[0].Limit = limit.Window(1000, limit.Second)
				c := engine(t, short)
				adm := admit(t, c, sluice.Call{Cost: tokens(500), ID: id})
				reload(t, c, long)
				if n := left(t, c, "r", sluice.Call{}); n != 500 {
					t.Fatalf("%d left after the reload, want 500", n)
				}
				time.Sleep(5 * second)
				if err := adm.Settle(background, tokens(500)); err != nil {
					t.Fatal(err)
				}
				if n := left(t, c, "r", sluice.Call{}); n != 500 {
					t.Errorf("id %q: %d left after the settlement, want 500", id, n)
				}
			})
		}
	})
	t.Run("what was taken of another kind gives nothing back", func(t *testing.T) {
		named := func(l limit.Limit) sluice.Rule {
			r := one("r", l)
			r.Limits[0].Name = "it"
			return r
		}
		for _, id := range []string{"", "named"} {
			for _, x := range []struct{ before, after limit.Limit }{
				{limit.Slots(9), limit.Bucket(9, limit.Hour, 9)},
				{limit.Slots(9), limit.Window(9, limit.Hour)},
				{limit.Cooldown(0), limit.Window(9, limit.Hour)},
				{limit.Bucket(9, limit.Hour, 9), limit.Slots(9)},
			} {
				c := engine(t, named(x.before), one("slots", limit.Slots(99)))
				old := admit(t, c, sluice.Call{ID: id})
				reload(t, c, named(x.after), one("slots", limit.Slots(99)))
				passes(t, c, 4, sluice.Call{})
				before := left(t, c, "r", sluice.Call{})
				if err := old.Cool(background, second); err != nil {
					t.Fatal(err)
				}
				if err := old.Settle(background, sluice.Cost{{N: 0}}); err != nil {
					t.Fatal(err)
				}
				old.Release()
				if n := left(t, c, "r", sluice.Call{}); n != before {
					t.Errorf("id %q: %v left of %v after the end of one that took %v, want %v", id, n, x.after, x.before, before)
				}
				if n := c.Held()["r"]; n > 4 {
					t.Errorf("%d slots held, want those of four at most", n)
				}
			}
		}
	})
	t.Run("C-W16 a policy that cannot be leaves the old one", func(t *testing.T) {
		c := engine(t, window(1))
		old := c.Policy()
		if err := c.SetPolicy(&sluice.Policy{Rules: []sluice.Rule{one("bad")}}); err == nil || c.Policy() != old {
			t.Errorf("error %v, policy changed: %v", err, c.Policy() != old)
		}
		if err := c.SetPolicy(nil); err != nil {
			t.Error("no policy admits everything:", err)
		}
	})
}

func TestReloadJudgesWaitersAgain(t *testing.T) {
	slots := func(n int64) sluice.Rule { return queued(one("r", limit.Slots(n)), sluice.Queue{}) }
	for _, x := range []struct {
		name     string
		after    []sluice.Rule
		admitted int
		reason   sluice.Reason
	}{
		{"more slots", []sluice.Rule{slots(3)}, 2, 0},
		{"the rule has gone", nil, 3, 0},
		{"the queue has gone", []sluice.Rule{one("r", limit.Slots(1))}, 0, sluice.ReasonConcurrency},
		{"nothing may pass any more", []sluice.Rule{slots(0)}, 0, sluice.ReasonDenied},
		{"another key", []sluice.Rule{each(slots(1), sluice.Subject)}, 1, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := engine(t, slots(1))
				send(background, c, sluice.Call{})
				waiters := sendAll(3, c, sluice.Call{})
				sleepUntil(10 * ms)
				reload(t, c, x.after...)
				for i, who := range waiters {
					switch {
					case i < x.admitted && !who.admitted():
						t.Errorf("waiter %d was not admitted: %v", i+1, who.err)
					case i >= x.admitted && x.reason != 0:
						wantReason(t, who, x.reason)
					case i >= x.admitted && !who.waiting():
						t.Errorf("waiter %d does not wait any more: %v", i+1, who.err)
					}
				}
				reload(t, c)
				synctest.Wait()
			})
		})
	}
}

func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := engine(t,
			each(one("a", limit.Window(2, limit.Hour)), sluice.Subject),
			each(one("b", limit.Bucket(1, limit.Hour, 2)), sluice.Subject, sluice.Capability),
			each(queued(one("slots", limit.Slots(9)), sluice.Queue{}), sluice.Subject))
		alice, bob := sluice.Call{Subject: "user:alice"}, sluice.Call{Subject: "user:bob"}
		held := passes(t, c, 3, alice)
		passes(t, c, 3, bob)
		n, err := c.Reset(background, "user:alice")
		if err != nil || n != 2 {
			t.Errorf("B-61, B-W9 Reset: %d, %v, want both limits", n, err)
		}
		if n := passes(t, c, 3, alice); n != 2 {
			t.Errorf("B-61 %d pass after the reset, want 2", n)
		}
		if n := passes(t, c, 3, bob); n != 0 {
			t.Error("B-W9 another caller was reset too")
		}
		if n, err := c.Reset(background, "user:nobody"); n != 0 || err != nil {
			t.Errorf("B-62 Reset of nobody: %d, %v", n, err)
		}
		if n, err := c.ResetAll(background); n != 4 || err != nil {
			t.Errorf("ResetAll: %d, %v, want 4", n, err)
		}
		for _, l := range mustUsage(t, c, "user:alice") {
			if l.Kind == limit.KindSlots && l.Remaining != int64(9-held-2) {
				t.Errorf("%d slots are free, want those that nobody holds", l.Remaining)
			}
		}
	})
}

// TestRefundAfterReset settles a call whose debit was reset away: what others have taken
// since is not its own.
func TestRefundAfterReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := engine(t, tokenRule(nil))
		first := admit(t, c, sluice.Call{Cost: tokens(500)})
		time.Sleep(100 * time.Microsecond)
		if _, err := c.ResetAll(background); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Microsecond)
		admit(t, c, sluice.Call{Cost: tokens(300)})
		if err := first.Settle(background, tokens(0)); err != nil {
			t.Fatal(err)
		}
		if n := left(t, c, "r", sluice.Call{}); n != 700 {
			t.Errorf("%d left, want 700", n)
		}
	})
}

func mustUsage(t *testing.T, c *sluice.Controller, who string) []sluice.Level {
	t.Helper()
	levels, err := c.Usage(background, who)
	if err != nil || len(levels) == 0 {
		t.Fatalf("Usage: %d levels, %v", len(levels), err)
	}
	return levels
}
