package hazelcast_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/hazelcast"
	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
)

// TestPublicCases are what went wrong elsewhere.
func TestPublicCases(t *testing.T) {
	member := hazelcasttest.Start(t, 1)[0]
	t.Run("P-140 what is idle is gone after its time, however often it was written", func(t *testing.T) {
		o := options(member)
		s := open(t, o)
		defer s.Close()
		for i, l := range []limit.Limit{limit.Bucket(5, limit.Second, 5), limit.Window(5, limit.Second), limit.Pace(limit.Second)} {
			for range i + 1 { // the first is made and left, the others are replaced
				if _, err := do(s, ledger.Take, cell(uint64(i), l)); err != nil {
					t.Fatal(err)
				}
			}
		}
		held := cell(9, limit.Slots(5))
		if _, err := do(s, ledger.Take, held); err != nil {
			t.Fatal(err)
		}
		books := rawMap(t, member, o.Map)
		size := func() int {
			n, err := books.Size(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := size(); n != 4 {
			t.Fatalf("%d values for four cells", n)
		}
		// A second until they are full, a margin of ten, and the second that the map rounds.
		eventually(t, 30*time.Second, "they are still there", func() bool { return size() == 1 })
		if n := used(t, s, held); n != 1 {
			t.Errorf("%d slots are held, want the one", n)
		}
	})
	t.Run("P-141 callers' names of 10 KB that differ in the last byte are told apart, and stay out of the map", func(t *testing.T) {
		o := options(member)
		s := open(t, o)
		rule := sluice.Rule{ID: "each", GroupBy: []sluice.Dimension{sluice.Subject}, Limits: []sluice.Limit{{Limit: limit.Window(1, limit.Day)}}}
		c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{rule}}, s, sluice.Options{KeySecret: bytes.Repeat([]byte{7}, 16)})
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Repeat("x", 10_000)
		for _, last := range []string{"a", "b"} {
			call := sluice.Call{Subject: name + last}
			if _, err := c.Admit(context.Background(), call); err != nil {
				t.Errorf("the first call of …%s: %v", last, err)
			}
			if _, err := c.Admit(context.Background(), call); err == nil {
				t.Errorf("the second call of …%s was admitted", last)
			}
		}
		keys, err := rawMap(t, member, o.Map).GetKeySet(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if text := k.(string); len(text) > 30 || strings.Contains(text, "xxx") {
				t.Errorf("a key of the map is %.40q", text)
			}
		}
	})
	t.Run("B-55 P-136 nodes share a bucket: 500 of 1500 calls of three pass, in time", func(t *testing.T) {
		o := options(member)
		o.Wait = 5 * time.Second
		var stores []*hazelcast.Store
		for range 3 {
			s := open(t, o)
			defer s.Close()
			stores = append(stores, s)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		passed := 0
		for i := range 1500 {
			wg.Go(func() {
				res, err := do(stores[i%3], ledger.Take, cell(1, limit.Bucket(1, limit.Day, 500)))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if res.Status == ledger.Done {
					passed++
				}
			})
		}
		wg.Wait()
		if passed != 500 {
			t.Errorf("%d passed", passed)
		}
	})
	t.Run("what was taken for a caller that has left is given back", func(t *testing.T) {
		s := open(t, options(member))
		defer s.Close()
		slot, other := cell(1, limit.Slots(1<<40)), cell(2, limit.Window(1<<30, limit.Day))
		var told atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 100 {
					ctx, cancel := context.WithTimeout(context.Background(), rand.N(time.Millisecond))
					res := make([]ledger.Result, 1)
					err := s.Apply(ctx, []ledger.Command{{Steps: []ledger.Step{slot, other}}}, res)
					cancel()
					if err == nil && res[0].Status == ledger.Done {
						told.Add(1)
					}
				}
			})
		}
		wg.Wait()
		for _, step := range []ledger.Step{slot, other} {
			eventually(t, 5*time.Second, "what was told is not what is used", func() bool { return used(t, s, step) == told.Load() })
		}
	})
}
