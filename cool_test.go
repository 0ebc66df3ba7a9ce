package sluice_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

const ms = time.Millisecond

// TestCooldown is about what an upstream's 429 does. The source of A-23 believes a delay
// of zero to the letter and of A-26 forgets what it hears about a new key; D6 and A-W13
// rule here.
func TestCooldown(t *testing.T) {
	cool := func(t *testing.T, c *sluice.Controller, delay time.Duration) {
		t.Helper()
		if err := c.Cool(background, sluice.Call{}, delay); err != nil {
			t.Fatal(err)
		}
	}
	plain := queued(one("r", limit.Cooldown(0)), sluice.Queue{})
	paced := queued(one("r", limit.Pace(3*limit.Second), limit.Cooldown(0)), sluice.Queue{})
	for _, x := range []struct {
		name   string
		rule   sluice.Rule
		delays []time.Duration
		at     time.Duration
	}{
		{"A-25, P-117 without a pace", plain, []time.Duration{10 * second}, 10 * second},
		{"A-22, P-118 no delay is a second", plain, []time.Duration{-1}, second},
		{"A-22, P-118 or the pace if that is longer", paced, []time.Duration{-1}, 3 * second},
		{"A-23, D6 zero is no cooldown", plain, []time.Duration{0}, 0},
		{"A-23, D6 zero leaves the pace", paced, []time.Duration{0}, 0},
		{"A-23 a short delay has no floor", plain, []time.Duration{80 * ms}, 80 * ms},
		{"A-24, P-120 the later end wins", plain, []time.Duration{10 * second, 2 * second}, 10 * second},
		{"A-24 also if it comes second", plain, []time.Duration{2 * second, 10 * second}, 10 * second},
		{"A-W20 a cap", queued(one("r", limit.Cooldown(15*limit.Minute)), sluice.Queue{}), []time.Duration{86400 * second}, 15 * time.Minute},
		{"A-26, A-W13 a key that was never asked for", plain, []time.Duration{second}, second},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := engine(t, x.rule)
				for _, delay := range x.delays {
					cool(t, c, delay)
				}
				who := send(background, c, sluice.Call{})
				time.Sleep(time.Hour)
				wantAt(t, []*caller{who}, x.at)
			})
		})
	}
	t.Run("A-21, P-116 fresh callers and waiters alike", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Slots(5), limit.Cooldown(0)), sluice.Queue{}))
			running := sendAll(5, c, sluice.Call{})
			waiter := send(background, c, sluice.Call{})
			sleepUntil(second)
			if err := running[0].adm.Cool(background, 30*second); err != nil {
				t.Fatal(err)
			}
			for _, x := range running {
				x.adm.Release()
			}
			fresh := send(background, c, sluice.Call{})
			time.Sleep(time.Minute)
			wantAt(t, []*caller{waiter, fresh}, 31*second, 31*second)
		})
	})
	t.Run("A-W5, A-29 the next start stops at once, and is looked at again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Pace(limit.Second), limit.Cooldown(0)), sluice.Queue{}))
			x := sendAll(3, c, sluice.Call{})
			sleepUntil(500 * ms)
			cool(t, c, 2*second)
			sleepUntil(2 * second)
			cool(t, c, 2*second)
			time.Sleep(time.Minute)
			wantAt(t, x, 0, 4*second, 5*second)
		})
	})
	t.Run("P-121 another key is not touched", func(t *testing.T) {
		c := engine(t, each(one("r", limit.Cooldown(0)), sluice.Provider))
		if err := c.Cool(background, sluice.Call{Provider: "a"}, time.Hour); err != nil {
			t.Fatal(err)
		}
		d, ok := try(t, c, sluice.Call{Provider: "a"})
		if r := d.Refusal(); ok || r.Reason != sluice.ReasonCooldown || r.RetryAfter <= 59*time.Minute {
			t.Errorf("%v, %+v", ok, r)
		}
		if n := passes(t, c, 1, sluice.Call{Provider: "b"}); n != 1 {
			t.Error("the other key is cooled too")
		}
	})
	t.Run("a reload does not end it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, plain)
			cool(t, c, 10*second)
			longer := paced
			if err := c.SetPolicy(&sluice.Policy{Rules: []sluice.Rule{longer}}); err != nil {
				t.Fatal(err)
			}
			x := send(background, c, sluice.Call{})
			time.Sleep(time.Minute)
			wantAt(t, []*caller{x}, 10*second)
		})
	})
	t.Run("A-W20 above what a caller may wait it is refused, not slept", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Cooldown(0)), sluice.Queue{Timeout: 20 * second}))
			cool(t, c, time.Hour)
			x := send(background, c, sluice.Call{})
			wantReason(t, x, sluice.ReasonQueueTimeout)
			if r := x.refusal(); x.at != 0 || r.RetryAfter != time.Hour {
				t.Errorf("at %v, retry after %v", x.at, r.RetryAfter)
			}
		})
	})
}
