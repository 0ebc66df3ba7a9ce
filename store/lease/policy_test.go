package lease_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/lease"
	"github.com/sluicegate/sluice/store/memory"
)

// leased is a rule for all calls together that may give up a tenth.
func leased(limits ...limit.Limit) sluice.Rule {
	r := sluice.Rule{ID: "hot", Lease: 10}
	for _, l := range limits {
		r.Limits = append(r.Limits, sluice.Limit{Limit: l})
	}
	return r
}

// open returns a process's controller.
func open(t testing.TB, s sluice.Store, rules ...sluice.Rule) *sluice.Controller {
	t.Helper()
	c, err := sluice.Open(&sluice.Policy{Rules: rules}, s, sluice.Options{KeySecret: []byte("0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func admit(c *sluice.Controller, call sluice.Call) bool {
	a, err := c.Admit(context.Background(), call)
	a.Release()
	return err == nil
}

func TestUnderLoad(t *testing.T) {
	for _, l := range []limit.Limit{
		limit.Window(2000, 2*limit.Second), limit.Window(20_000, 4*limit.Second), limit.Bucket(1000, limit.Second, 2000),
	} {
		inBubble(t, "three processes pass what the lease promises", func(t *testing.T, b *books) {
			e, _ := l.Lease(10)
			var all sync.WaitGroup
			var mu sync.Mutex
			passed, began := 0, time.Now()
			const long = 16 * time.Second
			for i := range 3 {
				c := open(t, lease.New(&far{Store: b, r: anyRand(uint64(i)), delay: 2 * time.Millisecond}), leased(l))
				for j := range 8 {
					all.Go(func() {
						r := anyRand(uint64(10*i + j))
						for time.Since(began) < long {
							ok := admit(c, sluice.Call{})
							mu.Lock()
							if ok && time.Since(began) < long {
								passed++
							}
							mu.Unlock()
							time.Sleep(rand1(r, 6*time.Millisecond))
						}
					})
				}
			}
			all.Wait()
			rate := float64(l.Max) / l.Per.Duration().Seconds()
			most := float64(l.Capacity()) + rate*long.Seconds()
			least := e.Least() * rate * long.Seconds()
			if n := float64(passed); n > most || n < least {
				t.Errorf("%v: %d passed, want %.0f to %.0f", l, passed, least, most)
			}
			t.Logf("%v: %.4f of the limit passed, %.4f were promised", l, float64(passed)/(rate*long.Seconds()), e.Least())
		})
	}
	inBubble(t, "P-146 five nodes share a small limit exactly", func(t *testing.T, b *books) {
		var nodes []*sluice.Controller
		for range 5 {
			nodes = append(nodes, open(t, lease.New(b), leased(limit.Window(3, limit.Second))))
		}
		passed := 0
		for n := range 200 {
			if admit(nodes[n%5], sluice.Call{}) {
				passed++
			}
			time.Sleep(50 * time.Millisecond)
		}
		if passed < 27 || passed > 30 {
			t.Errorf("%d passed, want 27 to 30", passed)
		}
	})
}

func TestPolicy(t *testing.T) {
	inBubble(t, "a settlement gives back to the books what was spent here", func(t *testing.T, b *books) {
		rule := leased(limit.Window(100_000, limit.Minute))
		rule.Limits[0].Unit = sluice.Tokens
		st := lease.New(b)
		c := open(t, st, rule)
		call := sluice.Call{Cost: sluice.Cost{{Unit: sluice.Tokens, N: 10}}}
		used := 0
		for range 500 {
			a, err := c.Admit(context.Background(), call)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Settle(context.Background(), sluice.Cost{{Unit: sluice.Tokens, N: 4}}); err != nil {
				t.Fatal(err)
			}
			a.Release()
			used += 4
		}
		if st.Stats().Spent == 0 {
			t.Error("everything was asked for")
		}
		books := open(t, b, sluice.Rule{ID: "hot", Limits: []sluice.Limit{{Limit: limit.Window(100_000, limit.Minute+limit.Second), Unit: sluice.Tokens}}})
		e, err := books.Check(context.Background(), call)
		if err != nil {
			t.Fatal(err)
		}
		// What was reserved earned as many units ahead as were lost with ends of lots.
		most := int64(100_000 - used)
		if left := e.Rules[0].Limits[0].Level.Remaining; left > most || left < most-500*10/20 {
			t.Errorf("%d are left, want at most %d", left, most)
		}
	})
	inBubble(t, "a store that fails is noticed when nothing is ahead any more", func(t *testing.T, b *books) {
		st := lease.New(b)
		c := open(t, st, leased(limit.Window(60_000, limit.Minute)))
		for range 5000 {
			admit(c, sluice.Call{})
		}
		b.away.Store(true)
		ahead, passed := st.Stats().Ahead, int64(0)
		for {
			a, err := c.Admit(context.Background(), sluice.Call{})
			if err != nil {
				if r, ok := err.(*sluice.Refusal); !ok || r.Reason != sluice.ReasonStore {
					t.Errorf("refused with %v", err)
				}
				break
			}
			if a.Degraded() {
				t.Fatal("admitted degraded")
			}
			passed++
		}
		if passed != ahead || ahead == 0 {
			t.Errorf("%d passed, %d were ahead", passed, ahead)
		}
	})
	inBubble(t, "an explanation says how much is ahead, and what would happen", func(t *testing.T, b *books) {
		st := lease.New(b)
		c := open(t, st, leased(limit.Window(6000, limit.Minute), limit.Bucket(1000, limit.Second, 1000)))
		e, err := c.Check(context.Background(), sluice.Call{})
		if err != nil {
			t.Fatal(err)
		}
		const want = "at most 300 ahead, for 1s; under load at least 93% pass"
		if l := e.Rules[0].Limits; l[0].Lease != want || l[1].Lease == "" || l[1].Text != "1000/s burst 1000" || l[1].Level.Limit != 950 {
			t.Errorf("%+v", l)
		}
		if e, err = open(t, st, leased(limit.Window(6000, limit.Minute), limit.Slots(5))).Check(context.Background(), sluice.Call{}); err != nil || e.Rules[0].Limits[0].Lease != "" {
			t.Errorf("beside a limit that cannot be leased: %+v, %v", e, err)
		}
		if e, err = open(t, b, leased(limit.Window(6000, limit.Minute))).Check(context.Background(), sluice.Call{}); err != nil || e.Rules[0].Limits[0].Lease != "" {
			t.Errorf("on a store without leases: %+v, %v", e, err)
		}
	})
	inBubble(t, "a check sees what is ahead", func(t *testing.T, b *books) {
		st := lease.New(b)
		c := open(t, st, leased(limit.Window(600, limit.Minute)))
		for range 400 {
			admit(c, sluice.Call{})
		}
		other := open(t, b, sluice.Rule{ID: "hot", Limits: []sluice.Limit{{Limit: limit.Window(600, limit.Minute+limit.Second)}}})
		for admit(other, sluice.Call{}) {
		}
		e, err := c.Check(context.Background(), sluice.Call{})
		if err != nil || !e.Admitted || st.Stats().Ahead == 0 {
			t.Errorf("%+v, %v; %+v", e, err, st.Stats())
		}
	})
	t.Run("a lease that is none is refused", func(t *testing.T) {
		for _, percent := range []int{-1, 51} {
			r := leased(limit.Slots(1))
			r.Lease = percent
			if _, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{r}}, memory.New(memory.Options{}), sluice.Options{}); err == nil || !strings.Contains(err.Error(), "lease") {
				t.Errorf("%d: %v", percent, err)
			}
		}
	})
}

// A decision that asks nobody allocates nothing.
func TestAllocates(t *testing.T) {
	books := memory.New(memory.Options{})
	defer books.Close()
	st := lease.New(books)
	c := open(t, st, leased(limit.Bucket(1, limit.Second, 1<<30)))
	var d sluice.Decision
	d.WantLevels = true
	call, ctx := sluice.Call{}, context.Background()
	try := func() {
		if ok, err := c.Try(ctx, &call, &d); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	for range 100_000 {
		try()
	}
	before := st.Stats()
	if n := testing.AllocsPerRun(2000, try); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if after := st.Stats(); after.Spent < before.Spent+1900 {
		t.Errorf("%d of 2000 asked nobody", after.Spent-before.Spent)
	}
}
