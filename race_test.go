package sluice_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// TestCancelAgainstGrant lets callers leave at the instant at which it is their turn.
// Nobody is lost, and nothing that was granted to somebody who left stays taken.
func TestCancelAgainstGrant(t *testing.T) {
	const callers, workers, slots = 100_000, 64, 5
	c := engine(t, queued(one("r", limit.Slots(slots)), sluice.Queue{}), one("count", limit.Window(callers, limit.Hour)))
	var granted, cancelled, inside atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 0))
			for range callers / workers {
				ctx, cancel := context.WithCancel(background)
				leave := time.AfterFunc(time.Duration(rnd.IntN(60))*time.Microsecond, cancel)
				adm, err := c.Admit(ctx, sluice.Call{})
				if err != nil {
					cancelled.Add(1)
				} else {
					granted.Add(1)
					if inside.Add(1) > slots {
						t.Error("I-106 more are inside than there are slots")
					}
					runtime.Gosched()
					inside.Add(-1)
					adm.Release()
				}
				leave.Stop()
				cancel()
			}
		})
	}
	wg.Wait()
	total := int64(callers / workers * workers)
	if granted.Load()+cancelled.Load() != total || granted.Load() == 0 || cancelled.Load() == 0 {
		t.Errorf("P-105 granted %d + cancelled %d, want %d with some of both", granted.Load(), cancelled.Load(), total)
	}
	if n := passes(t, c, slots+1, sluice.Call{}); n != slots {
		t.Errorf("I-106, P-097 %d slots are left at the end, want %d", n, slots)
	}
	if n := left(t, c, "count", sluice.Call{}); n != callers-granted.Load()-slots {
		t.Errorf("P-105 %d were debited, want the %d that were granted", callers-n, granted.Load()+slots)
	}
	if n := len(c.Waiting()); n != 0 {
		t.Errorf("%d lines are left", n)
	}
}

// TestTimeoutsAsLongAsTheWork has every waiter's time end when a slot comes free.
func TestTimeoutsAsLongAsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 5
		c := engine(t, queued(one("r", limit.Slots(slots)), sluice.Queue{Timeout: ms}))
		var wg sync.WaitGroup
		var granted atomic.Int64
		for range 200 {
			wg.Go(func() {
				for range 50 {
					if adm, err := c.Admit(background, sluice.Call{}); err == nil {
						granted.Add(1)
						time.Sleep(ms)
						adm.Release()
					}
				}
			})
		}
		wg.Wait()
		if n := passes(t, c, slots+1, sluice.Call{}); n != slots || granted.Load() == 0 {
			t.Errorf("P-097 %d slots are left after %d grants, want %d", n, granted.Load(), slots)
		}
	})
}

func TestHundredWaitersOfOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := engine(t, queued(one("r", limit.Slots(1)), sluice.Queue{}))
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				adm, err := c.Admit(background, sluice.Call{})
				if err != nil {
					t.Error(err)
				}
				time.Sleep(ms)
				adm.Release()
			})
		}
		wg.Wait()
		if clock() != 100*ms {
			t.Errorf("P-106 a hundred times one millisecond took %v", clock())
		}
	})
}

func TestAbortedRightAfterAdmission(t *testing.T) {
	c := engine(t, one("r", limit.Slots(5)))
	for range 1000 {
		ctx, cancel := context.WithCancel(background)
		adm, err := c.Admit(ctx, sluice.Call{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		adm.Release()
	}
	if n := left(t, c, "r", sluice.Call{}); n != 5 {
		t.Errorf("P-092 %d slots are left, want 5", n)
	}
}

// TestEverythingAtOnce is for the race detector: waits, releases, settlements, reloads,
// resets and observers, all at the same time.
func TestEverythingAtOnce(t *testing.T) {
	tenant := sluice.Tenant
	policy := func(n int64) *sluice.Policy {
		slots := each(queued(one("slots", limit.Slots(n)), sluice.Queue{FairBy: &tenant, Timeout: 20 * ms}), sluice.Provider)
		slots.MaxHold = 5 * ms
		budget := each(one("budget", limit.Window(1_000_000, limit.Hour)), sluice.Tenant)
		budget.Limits[0].Unit = sluice.Tokens
		shadow := one("shadow", limit.Window(n, limit.Second))
		shadow.Shadow = true
		return &sluice.Policy{Rules: []sluice.Rule{slots, budget, shadow, one("cool", limit.Cooldown(limit.Millisecond))}}
	}
	store := memory.New(memory.Options{})
	defer store.Close()
	var events, asked atomic.Int64
	c, err := sluice.Open(policy(2), store, sluice.Options{Observe: func(*sluice.Event) { events.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			call := sluice.Call{Tenant: strconv.Itoa(w % 3), Provider: strconv.Itoa(w % 2), Cost: tokens(10)}
			for i := range 150 {
				asked.Add(1)
				adm, err := c.Admit(background, call)
				if err != nil {
					continue
				}
				switch i % 5 {
				case 0:
					adm.Settle(background, tokens(int64(i%20)))
				case 1:
					adm.Cool(background, ms)
				case 2:
					adm.Abandon()
				}
				adm.Levels()
				go adm.Release()
				adm.Release()
			}
		})
	}
	for i := range int64(20) {
		if err := c.SetPolicy(policy(1 + i%4)); err != nil {
			t.Error(err)
		}
		c.ResetAll(background)
		c.Check(background, sluice.Call{Tenant: "1"})
		c.Waiting()
		time.Sleep(ms)
	}
	wg.Wait()
	if events.Load() != asked.Load() {
		t.Errorf("%d events for %d decisions", events.Load(), asked.Load())
	}
	c.ResetAll(background)
	if err := c.SetPolicy(policy(3)); err != nil {
		t.Fatal(err)
	}
	if n := passes(t, c, 5, sluice.Call{Provider: "0"}); n != 3 {
		t.Errorf("%d slots are left at the end, want 3", n)
	}
}

func TestKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{
			each(queued(one("r", limit.Bucket(1, limit.Second, 1), limit.Slots(1)), sluice.Queue{}), sluice.Subject),
		}}, store, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var d sluice.Decision
		for i := range 30_000 {
			call := sluice.Call{Subject: strconv.Itoa(i)}
			if ok, err := c.Try(background, &call, &d); !ok || err != nil {
				t.Fatal(ok, err)
			}
			d.Admission().Release()
		}
		time.Sleep(time.Hour)
		if n := store.Stats().Cells; n > 1000 {
			t.Errorf("A-30, A-W10 %d cells are left of idle keys", n)
		}
	})
}
