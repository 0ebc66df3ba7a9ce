package bench

import (
	"runtime"
	"testing"
	"time"
)

// BenchmarkMillion/<row> is a million keys seen once: live bytes a key, the time
// to enter one, and how long a full collection takes with all of them alive. The
// quota keeps every key busy for longer than the row lasts, so that none may be
// forgotten. Run with -benchtime 1x.
func BenchmarkMillion(b *testing.B) {
	for _, c := range find(func(c contestant) bool { return c.keyed != nil && !c.unkeyed }) {
		b.Run(c.name, func(b *testing.B) {
			list := keys()
			for range b.N {
				before := liveBytes()
				work := c.keyed(b, slow)
				allow := work()
				start := time.Now()
				for _, k := range list {
					if !allow(k) {
						b.Fatalf("the first call of %s was refused", k)
					}
				}
				entered := time.Since(start)
				held := liveBytes() - before
				b.ReportMetric(float64(held)/million, "B/key")
				b.ReportMetric(float64(entered.Nanoseconds())/million, "ns/first")
				b.ReportMetric(float64(collection().Nanoseconds()), "ns/gc")
				b.ReportMetric(0, "ns/op")
				runtime.KeepAlive(work)
			}
		})
	}
}

// collection returns the shortest of three full collections.
func collection() time.Duration {
	best := time.Hour
	for range 3 {
		start := time.Now()
		runtime.GC()
		best = min(best, time.Since(start))
	}
	return best
}

// liveBytes collects twice, because finalisers and pools need the second one.
func liveBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
