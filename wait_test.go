package sluice_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

const second = time.Second

var background = context.Background()

// sendAll starts n equal calls, one after the other.
func sendAll(n int, c *sluice.Controller, call sluice.Call) []*caller {
	var all []*caller
	for range n {
		all = append(all, send(background, c, call))
	}
	return all
}

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := engine(t, queued(one("r", limit.Slots(2)), sluice.Queue{}))
		x := sendAll(3, c, sluice.Call{})
		if x[0].admitted() && x[0].adm.Waited() != 0 {
			t.Error("A-1 a caller of an idle key has waited")
		}
		if !x[0].admitted() || !x[1].admitted() || !x[2].waiting() {
			t.Error("A-2 two of three must go ahead at once and the third wait")
		}
		sleepUntil(5 * second)
		x[0].adm.Release()
		synctest.Wait()
		wantAt(t, x[2:], 5*second)
		if w := x[2].adm.Waited(); w != 5*second {
			t.Errorf("A-27 waited %v, want 5 s", w)
		}
		x[0].adm.Release()
		if x := send(background, c, sluice.Call{}); !x.waiting() {
			t.Error("A-18, P-094 a second release has freed another slot")
		}
	})
}

func TestOmittedIsUnlimited(t *testing.T) {
	c := engine(t, one("r", limit.Pace(limit.Hour)))
	if n := passes(t, c, 1, sluice.Call{}); n != 1 {
		t.Error("A-3 without slots nothing bounds concurrency")
	}
	c = engine(t, one("r", limit.Slots(1000)))
	if n := passes(t, c, 1000, sluice.Call{}); n != 1000 {
		t.Errorf("A-5 without a pace %d of 1000 start at once", n)
	}
	if n := passes(t, engine(t), 1000, sluice.Call{}); n != 1000 {
		t.Errorf("A-35, P-080 without rules %d of 1000 pass", n)
	}
}

func TestPacing(t *testing.T) {
	t.Run("A-4 from start to start, the first still running", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Pace(100*limit.Millisecond), limit.Slots(5)), sluice.Queue{}))
			x := sendAll(3, c, sluice.Call{})
			time.Sleep(second)
			wantAt(t, x, 0, 100*time.Millisecond, 200*time.Millisecond)
		})
	})
	t.Run("A-27 the pace runs from the grant, not from the arrival", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Slots(1), limit.Pace(3*limit.Second)), sluice.Queue{}))
			x := sendAll(3, c, sluice.Call{})
			sleepUntil(10 * second)
			x[0].adm.Release()
			synctest.Wait()
			x[1].adm.Release()
			sleepUntil(20 * second)
			wantAt(t, x, 0, 10*second, 13*second)
		})
	})
	t.Run("A-4, A-W11 six calls of one turn, one start in three seconds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("arxiv", limit.Pace(3*limit.Second)), sluice.Queue{Depth: new(8), Timeout: 20 * second}))
			x := sendAll(6, c, sluice.Call{})
			time.Sleep(time.Minute)
			wantAt(t, x, 0, 3*second, 6*second, 9*second, 12*second, 15*second)
		})
	})
	t.Run("P-108 five in any half second, ten callers late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Window(5, 500*limit.Millisecond)), sluice.Queue{}))
			sleepUntil(480 * time.Millisecond)
			x := sendAll(10, c, sluice.Call{})
			time.Sleep(second)
			early, late := 480*time.Millisecond, 980*time.Millisecond
			wantAt(t, x, early, early, early, early, early, late, late, late, late, late)
		})
	})
	t.Run("P-110 nine callers, three in any ten seconds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Window(3, 10*limit.Second)), sluice.Queue{}))
			x := sendAll(9, c, sluice.Call{})
			time.Sleep(time.Minute)
			wantAt(t, x, 0, 0, 0, 10*second, 10*second, 10*second, 20*second, 20*second, 20*second)
		})
	})
	t.Run("B-17, B-18 three at once, then two a second without a gap", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, one("r", limit.Bucket(2, limit.Second, 3)))
			if n := passes(t, c, 4, sluice.Call{}); n != 3 {
				t.Errorf("%d of 4 pass at once, want 3", n)
			}
			d, _ := try(t, c, sluice.Call{})
			if r := d.Refusal(); r.RetryAfter.Round(time.Millisecond) != 500*time.Millisecond {
				t.Errorf("retry after %v, want 500 ms", r.RetryAfter)
			}
			time.Sleep(500 * time.Millisecond)
			if n := passes(t, c, 2, sluice.Call{}); n != 1 {
				t.Errorf("%d of 2 pass after half a second, want 1", n)
			}
		})
	})
}

func TestBurstIsAChoice(t *testing.T) {
	for _, x := range []struct {
		name   string
		limits []limit.Limit
		at     []time.Duration // of four callers
	}{
		{"B-W18 sixty a minute may all come at once", []limit.Limit{limit.Bucket(60, limit.Minute, 60)}, []time.Duration{0, 0, 0, 0}},
		{"B-W18 or two at once, and then one a second", []limit.Limit{limit.Bucket(60, limit.Minute, 2)},
			[]time.Duration{0, 0, second - time.Microsecond, 2*second - time.Microsecond}}, // less what the clock cannot tell
		{"B-W18 or never closer than the pace", []limit.Limit{limit.Bucket(60, limit.Minute, 60), limit.Pace(200 * limit.Millisecond)},
			[]time.Duration{0, 200 * ms, 400 * ms, 600 * ms}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				callers := sendAll(4, engine(t, queued(one("rpm", x.limits...), sluice.Queue{})), sluice.Call{})
				time.Sleep(time.Minute)
				wantAt(t, callers, x.at...)
			})
		})
	}
}

func TestOrderOfArrival(t *testing.T) {
	t.Run("A-6, A-7 in order, and nobody overtakes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Slots(2)), sluice.Queue{}))
			held := sendAll(2, c, sluice.Call{Cost: nil})
			big := send(background, c, sluice.Call{Cost: sluice.Cost{{Unit: sluice.Calls, N: 2}}})
			held[0].adm.Release()
			small := send(background, c, sluice.Call{})
			if !big.waiting() || !small.waiting() {
				t.Fatal("A-28 a newcomer took the free slot that is not enough for the head")
			}
			if _, ok := try(t, c, sluice.Call{}); ok {
				t.Error("A-7 Try took the free slot")
			}
			held[1].adm.Release()
			synctest.Wait()
			if !big.admitted() || !small.waiting() {
				t.Error("the head must go first")
			}
			big.adm.Release()
			synctest.Wait()
			if !small.admitted() {
				t.Error("the last one waits for ever")
			}
		})
	})
	t.Run("A-6 three waiters", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Slots(1)), sluice.Queue{}))
			x := sendAll(4, c, sluice.Call{})
			for i, who := range x {
				sleepUntil(time.Duration(i) * second)
				who.adm.Release()
			}
			synctest.Wait()
			wantAt(t, x, 0, 0, second, 2*second)
		})
	})
	t.Run("C-W5 through the lines of two rules", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t,
				queued(one("slots", limit.Slots(1)), sluice.Queue{}),
				queued(one("pace", limit.Pace(10*limit.Second)), sluice.Queue{}))
			x := sendAll(3, c, sluice.Call{})
			sleepUntil(2 * second)
			x[0].adm.Release() // the second now waits for the pace
			synctest.Wait()
			sleepUntil(10 * second)
			if !x[1].admitted() || !x[2].waiting() {
				t.Fatalf("at 10 s the second must go and the third wait: %v, %v", x[1].admitted(), x[2].admitted())
			}
			x[1].adm.Release()
			sleepUntil(30 * second)
			wantAt(t, x, 0, 10*second, 20*second)
		})
	})
}

func TestQueueDepth(t *testing.T) {
	for _, x := range []struct {
		name    string
		queue   *sluice.Queue
		waiting int
		reason  sluice.Reason
	}{
		{"A-8 one may wait", &sluice.Queue{Depth: new(1)}, 1, sluice.ReasonQueueFull},
		{"A-9, P-114 none may wait", &sluice.Queue{Depth: new(0)}, 0, sluice.ReasonQueueFull},
		{"A-11 twelve wait without a bound", &sluice.Queue{}, 12, sluice.ReasonNone},
		{"D2 no queue refuses at once", nil, 0, sluice.ReasonConcurrency},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := one("r", limit.Slots(1))
				r.Queue = x.queue
				c := engine(t, r)
				if first := send(background, c, sluice.Call{}); !first.admitted() {
					t.Error("A-10 a free slot needs no queue")
				}
				for i := range x.waiting {
					if !send(background, c, sluice.Call{}).waiting() {
						t.Fatalf("waiter %d was turned away", i+1)
					}
				}
				if n := c.Waiting()["r"]; n != x.waiting {
					t.Errorf("%d wait, want %d", n, x.waiting)
				}
				if x.reason != sluice.ReasonNone {
					last := send(background, c, sluice.Call{})
					wantReason(t, last, x.reason)
					if r := last.refusal(); r != nil && r.Rule != "r" {
						t.Errorf("A-8 refused by %q", r.Rule)
					}
				}
			})
		})
	}
	t.Run("C-W12 a rule of a window may let its callers wait, so many and so long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Window(1, 10*limit.Second)), sluice.Queue{Depth: new(2), Timeout: 25 * second}))
			x := sendAll(4, c, sluice.Call{})
			wantReason(t, x[3], sluice.ReasonQueueFull)
			sleepUntil(10 * second)
			late := sendAll(2, c, sluice.Call{})
			time.Sleep(time.Minute)
			wantAt(t, append(x[:3:3], late[0]), 0, 10*second, 20*second, 30*second)
			wantReason(t, late[1], sluice.ReasonQueueFull)
		})
	})
	t.Run("a bound on all lines together", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engineWith(t, sluice.Options{MaxWaiting: 2},
				each(queued(one("r", limit.Slots(1)), sluice.Queue{}), sluice.Subject))
			var last *caller
			for _, subject := range []string{"a", "b", "c"} {
				call := sluice.Call{Subject: subject}
				send(background, c, call)
				last = send(background, c, call)
			}
			wantReason(t, last, sluice.ReasonQueueFull)
		})
	})
}

func TestQueueTimeout(t *testing.T) {
	t.Run("A-12, A-15 after its time, and the next moves up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Slots(1)), sluice.Queue{Depth: new(1), Timeout: 30 * time.Millisecond}))
			held := send(background, c, sluice.Call{})
			x := send(background, c, sluice.Call{})
			time.Sleep(30 * time.Millisecond)
			wantReason(t, x, sluice.ReasonQueueTimeout)
			if r := x.refusal(); r.Waited != 30*time.Millisecond || r.Rule != "r" {
				t.Errorf("waited %v for %q, want 30 ms for r", r.Waited, r.Rule)
			}
			next := send(background, c, sluice.Call{})
			if !next.waiting() {
				t.Error("P-104 the place was not freed")
			}
			held.adm.Release()
			synctest.Wait()
			if !next.admitted() {
				t.Error("A-15 the slot was lost")
			}
		})
	})
	t.Run("A-13, A-14, D3, P-114 zero is no time-out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Slots(1)), sluice.Queue{Timeout: 0}))
			held := send(background, c, sluice.Call{})
			x := send(background, c, sluice.Call{})
			time.Sleep(time.Hour)
			if !x.waiting() {
				t.Fatalf("turned away: %v", x.err)
			}
			held.adm.Release()
			synctest.Wait()
			wantAt(t, []*caller{x}, time.Hour)
		})
	})
	t.Run("B-W17, B-26 one deadline for the whole admission", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rule := func(id string) sluice.Rule {
				return queued(sluice.Rule{
					ID: id, Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {id, "both"}}},
					Limits: []sluice.Limit{{Limit: limit.Slots(1)}},
				}, sluice.Queue{Timeout: 5 * second})
			}
			c := engine(t, rule("a"), rule("b"))
			a, b := send(background, c, sluice.Call{Kind: "a"}), send(background, c, sluice.Call{Kind: "b"})
			x := send(background, c, sluice.Call{Kind: "both"})
			sleepUntil(4 * second)
			a.adm.Release()
			if !x.waiting() {
				t.Fatal("the caller must wait for the second rule now")
			}
			sleepUntil(6 * second)
			wantReason(t, x, sluice.ReasonQueueTimeout)
			if x.at != 5*second {
				t.Errorf("turned away at %v, want 5 s after it came", x.at)
			}
			b.adm.Release()
			if n := passes(t, c, 2, sluice.Call{Kind: "both"}); n != 1 {
				t.Errorf("%d of 2 pass afterwards, want 1: nothing may stay taken", n)
			}
		})
	})
	t.Run("a wait that cannot succeed is refused when it is asked for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Pace(30*limit.Second)), sluice.Queue{Timeout: 20 * second}))
			send(background, c, sluice.Call{})
			x := send(background, c, sluice.Call{})
			wantReason(t, x, sluice.ReasonQueueTimeout)
			if x.at != 0 || x.refusal().RetryAfter != 30*second {
				t.Errorf("refused at %v with %v to wait, want at once with 30 s", x.at, x.refusal().RetryAfter)
			}
			sleepUntil(20 * second)
			ctx, cancel := context.WithTimeout(background, 5*second)
			defer cancel()
			wantReason(t, send(ctx, c, sluice.Call{}), sluice.ReasonQueueTimeout)
		})
	})
	t.Run("P-113 time in line is not time of the work", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, queued(one("r", limit.Slots(1)), sluice.Queue{Timeout: 6 * second}))
			held := send(background, c, sluice.Call{})
			x := send(background, c, sluice.Call{})
			sleepUntil(5 * second)
			held.adm.Release()
			sleepUntil(100 * second)
			if !x.admitted() || x.adm.Waited() != 5*second {
				t.Errorf("admitted %v after %v, want after 5 s", x.admitted(), x.adm.Waited())
			}
		})
	})
}
