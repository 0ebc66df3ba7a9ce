package sluice_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

func TestCancel(t *testing.T) {
	reason := errors.New("the user pressed stop")
	t.Run("A-16 before anything is touched", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(background)
		cancel(reason)
		c := engine(t, queued(one("r", limit.Window(1, limit.Hour)), sluice.Queue{}))
		if _, err := c.Admit(ctx, sluice.Call{}); !errors.Is(err, reason) {
			t.Errorf("A-17 %v, want the cause", err)
		}
		if _, err := c.Try(ctx, new(sluice.Call), new(sluice.Decision)); !errors.Is(err, reason) {
			t.Errorf("A-17 Try: %v, want the cause", err)
		}
		if n := left(t, c, "r", sluice.Call{}); n != 1 {
			t.Errorf("%d left, want 1", n)
		}
	})
	t.Run("A-15, A-17, B-W14, P-104 while waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Slots(1)), sluice.Queue{Depth: new(1)}), one("w", limit.Window(10, limit.Hour)))
			held := send(background, c, sluice.Call{})
			ctx, cancel := context.WithCancelCause(background)
			x := send(ctx, c, sluice.Call{})
			cancel(reason)
			synctest.Wait()
			if !errors.Is(x.err, reason) {
				t.Errorf("A-17 %v, want the cause", x.err)
			}
			if n := left(t, c, "w", sluice.Call{}); n != 9 {
				t.Errorf("B-W14 %d left of the window, want 9", n)
			}
			next := send(background, c, sluice.Call{})
			held.adm.Release()
			synctest.Wait()
			if !next.admitted() {
				t.Error("P-104 the place or the slot was lost")
			}
		})
	})
	t.Run("I-105, P-109 whoever follows has the original time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Window(1, limit.Second)), sluice.Queue{Depth: new(1)}))
			send(background, c, sluice.Call{})
			ctx, cancel := context.WithCancel(background)
			send(ctx, c, sluice.Call{})
			sleepUntil(200 * time.Millisecond)
			cancel()
			sleepUntil(300 * time.Millisecond)
			x := send(background, c, sluice.Call{})
			sleepUntil(5 * second)
			wantAt(t, []*caller{x}, second)
		})
	})
	t.Run("A-15 the head leaves and the one behind it fits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Slots(2)), sluice.Queue{}))
			held := sendAll(2, c, sluice.Call{})
			ctx, cancel := context.WithCancel(background)
			send(ctx, c, sluice.Call{Cost: sluice.Cost{{Unit: sluice.Calls, N: 2}}})
			x := send(background, c, sluice.Call{})
			held[0].adm.Release()
			if !x.waiting() {
				t.Fatal("overtook the head")
			}
			cancel()
			synctest.Wait()
			if !x.admitted() {
				t.Error("nobody told the next in line")
			}
		})
	})
}

// TestAdmissionOfATryThatFailed asks for the admission although Try said that there is none.
func TestAdmissionOfATryThatFailed(t *testing.T) {
	c := engine(t, tokenRule(nil))
	admit(t, c, sluice.Call{Cost: tokens(500)})
	gone, cancel := context.WithCancel(background)
	cancel()
	var d sluice.Decision
	for range 2 { // the second time the Decision has been used
		if ok, err := c.Try(gone, &sluice.Call{Cost: tokens(500)}, &d); ok || !errors.Is(err, context.Canceled) {
			t.Fatal(ok, err)
		}
		if adm := d.Admission(); adm != (sluice.Admission{}) || d.Refusal() != nil {
			t.Error("neither admitted nor refused, and yet it has an answer")
		}
		if ok, err := c.Try(background, &sluice.Call{}, &d); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if d.Admission() == (sluice.Admission{}) {
			t.Error("admitted without an admission")
		}
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := engine(t, queued(one("r", limit.Slots(1)), sluice.Queue{}))
		x := sendAll(3, c, sluice.Call{})
		c.Close()
		synctest.Wait()
		for _, who := range x[1:] {
			if !errors.Is(who.err, sluice.ErrClosed) {
				t.Errorf("a waiter got %v, want ErrClosed", who.err)
			}
		}
		if _, err := c.Admit(background, sluice.Call{}); !errors.Is(err, sluice.ErrClosed) {
			t.Errorf("Admit: %v, want ErrClosed", err)
		}
		x[0].adm.Release()
		if n := len(c.Waiting()); n != 0 {
			t.Errorf("%d lines are left", n)
		}
	})
}

func TestTenThousandPacedWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, gap = 10_000, time.Millisecond
		c := engine(t, queued(one("r", limit.Pace(limit.Millisecond)), sluice.Queue{}))
		admitted := make(chan time.Duration, n)
		for range n {
			go func() {
				if _, err := c.Admit(background, sluice.Call{}); err != nil {
					t.Error(err)
				}
				admitted <- clock()
			}()
		}
		for i := range n {
			if at := <-admitted; at != time.Duration(i)*gap {
				t.Fatalf("start %d at %v, want at %v", i, at, time.Duration(i)*gap)
			}
		}
	})
}

func TestFairLine(t *testing.T) {
	tenant := sluice.Tenant
	rule := func(q sluice.Queue) sluice.Rule {
		return queued(one("r", limit.Pace(100*limit.Millisecond)), q)
	}
	t.Run("P-112 first come first served", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, rule(sluice.Queue{}))
			sendAll(100, c, sluice.Call{Tenant: "a"})
			b := send(background, c, sluice.Call{Tenant: "b"})
			time.Sleep(time.Minute)
			wantAt(t, []*caller{b}, 10*second)
		})
	})
	t.Run("P-112 fair", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, rule(sluice.Queue{FairBy: &tenant}))
			sendAll(100, c, sluice.Call{Tenant: "a"})
			b := send(background, c, sluice.Call{Tenant: "b"})
			time.Sleep(time.Minute)
			wantAt(t, []*caller{b}, 200*time.Millisecond)
		})
	})
	t.Run("A-W17 one who floods does not fill the other's places", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, rule(sluice.Queue{FairBy: &tenant, Depth: new(8)}))
			flood := sendAll(20, c, sluice.Call{Tenant: "a"})
			wantReason(t, flood[19], sluice.ReasonQueueFull)
			b := send(background, c, sluice.Call{Tenant: "b"})
			time.Sleep(time.Minute)
			wantAt(t, []*caller{b}, 200*time.Millisecond)
		})
	})
	t.Run("a share of three", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, rule(sluice.Queue{FairBy: &tenant, Shares: map[string]int64{"a": 3}}))
			var a, b []*caller
			for range 20 {
				a = append(a, send(background, c, sluice.Call{Tenant: "a"}))
				b = append(b, send(background, c, sluice.Call{Tenant: "b"}))
			}
			sleepUntil(1250 * time.Millisecond)
			count := func(x []*caller) (n int) {
				for _, who := range x {
					if who.admitted() {
						n++
					}
				}
				return n
			}
			if count(a) != 10 || count(b) != 3 {
				t.Errorf("%d and %d of 13 starts, want 10 and 3", count(a), count(b))
			}
			time.Sleep(time.Minute)
		})
	})
}
