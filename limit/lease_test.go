package limit_test

import (
	"math/rand/v2"
	"testing"

	"github.com/sluicegate/sluice/limit"
)

func TestLease(t *testing.T) {
	const none = ""
	for _, c := range []struct {
		name    string
		limit   limit.Limit
		percent int
		counted limit.Limit
		want    string
	}{
		{"a window is counted for longer, at most a second", limit.Window(6000, limit.Minute), 10,
			limit.Window(6000, limit.Minute+limit.Second), "at most 300 ahead, for 1s; under load at least 93% pass"},
		{"a short window by its half of the percentage", limit.Window(1000, limit.Second), 10,
			limit.Window(1000, 1050*limit.Millisecond), "at most 50 ahead, for 50ms; under load at least 90% pass"},
		{"a bucket's burst is smaller by what comes back meanwhile", limit.Bucket(1000, limit.Second, 1000), 10,
			limit.Bucket(1000, limit.Second, 950), "at most 57 ahead, for 50ms, burst 950; under load at least 95% pass"},
		{"a rate that is not whole is rounded against the caller", limit.Bucket(7, limit.Second, 1000), 10,
			limit.Bucket(7, limit.Second, 993), "at most 51 ahead, for 1s, burst 993; under load at least 95% pass"},
		{"one percent", limit.Window(100_000, limit.Hour), 1,
			limit.Window(100_000, limit.Hour+limit.Second), "at most 500 ahead, for 1s; under load at least 99% pass"},
		{"fifty percent", limit.Window(100, limit.Second), 50,
			limit.Window(100, 1250*limit.Millisecond), "at most 25 ahead, for 250ms; under load at least 64% pass"},
		{"P-146 a small limit is not leased", limit.Window(3, limit.Second), 10, limit.Limit{}, none},
		{"nor one that comes back before a store has answered", limit.Bucket(10_000, limit.Second, 100), 10, limit.Limit{}, none},
		{"nor one that denies everything", limit.Window(0, limit.Second), 10, limit.Limit{}, none},
		{"nor a pace", limit.Pace(limit.Second), 50, limit.Limit{}, none},
		{"nor slots", limit.Slots(1000), 50, limit.Limit{}, none},
		{"nor a cooldown", limit.Cooldown(limit.Hour), 50, limit.Limit{}, none},
		{"nor anything for nothing", limit.Window(6000, limit.Minute), 0, limit.Limit{}, none},
		{"nor for more than half", limit.Window(6000, limit.Minute), 51, limit.Limit{}, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, ok := c.limit.Lease(c.percent)
			if ok != (c.want != none) || e.Limit != c.counted || ok && e.String() != c.want {
				t.Errorf("%v at %d%%: %+v, %q, %t", c.limit, c.percent, e, e, ok)
			}
		})
	}
}

// What a lease says of itself holds for any limit.
func TestLeaseKeepsItsWord(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 4))
	leased := 0
	for range 100_000 {
		most := r.Int64N(1 << r.IntN(52))
		per := limit.Micros(r.Int64N(1 << r.IntN(45)))
		l := limit.Window(most, per)
		if r.IntN(2) == 0 {
			l = limit.Bucket(most, per, r.Int64N(1<<r.IntN(40)))
		}
		percent := r.IntN(60)
		e, ok := l.Lease(percent)
		if !ok {
			continue
		}
		leased++
		back := float64(l.Capacity() - e.Limit.Capacity()) // of a bucket
		rate := float64(l.Max) / float64(l.Per)            // units a microsecond
		switch {
		case e.Limit.Validate() != nil || l.Validate() != nil,
			e.For < 10*limit.Millisecond, e.For > limit.Second, e.Part < 4, e.Part > 200,
			e.Least() < 1-float64(percent)/100,
			back < 0, back > float64(l.Burst)*float64(percent)/200+rate+1,
			l.Kind == limit.KindBucket && back < float64(e.For)*rate*(1-1e-9),
			l.Kind == limit.KindWindow && e.Limit.Per-e.For != l.Per:
			t.Fatalf("seed %d: %+v at %d%%: %+v", seed, l, percent, e)
		}
	}
	if leased < 1000 {
		t.Errorf("seed %d: only %d limits were leased", seed, leased)
	}
}
