package lately

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSaidOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Said
		for round, want := range []int64{0, 1000, 1000} {
			var said, kept atomic.Int64
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					if n, ok := s.Again(time.Minute); ok {
						said.Add(1)
						kept.Store(n)
					}
				})
			}
			all.Wait()
			if said.Load() != 1 || kept.Load() > want || want > 0 && kept.Load() < 900 {
				t.Errorf("round %d: said %d times, %d kept back before, want 1 and about %d", round, said.Load(), kept.Load(), want)
			}
			time.Sleep(time.Minute - time.Nanosecond)
			if _, ok := s.Again(time.Minute); ok {
				t.Errorf("round %d: it is said again before a minute is over", round)
			}
			time.Sleep(time.Nanosecond)
		}
	})
}
