package bench

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkAccuracy/<rate>/<goroutines>/<row> asks for one key as fast as it can.
// x-granted is what was granted over what the rate and the burst of one allow in
// that time; above 1 the limiter let too much through. Run with -benchtime 1x.
func BenchmarkAccuracy(b *testing.B) {
	rows := find(func(c contestant) bool { return c.keyed != nil && !c.windowed && !c.blocks })
	for _, rate := range []int64{1_000, 100_000} {
		for _, askers := range []int{runtime.GOMAXPROCS(0), 1000} {
			b.Run(fmt.Sprintf("%dk/g%d", rate/1000, askers), func(b *testing.B) {
				for _, c := range rows {
					b.Run(c.name, func(b *testing.B) {
						ratio := 0.0
						for range b.N {
							ratio += overgrant(b, c, rate, askers)
						}
						b.ReportMetric(ratio/float64(b.N), "x-granted")
						b.ReportMetric(0, "ns/op")
					})
				}
			})
		}
	}
}

func overgrant(b *testing.B, c contestant, rate int64, askers int) float64 {
	work := c.keyed(b, quota{rate, time.Second, 1})
	var granted atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	start := time.Now()
	for range askers {
		all.Go(func() {
			allow, mine := work(), int64(0)
			for !stop.Load() {
				if allow("one") {
					mine++
				}
			}
			granted.Add(mine)
		})
	}
	time.Sleep(time.Second)
	stop.Store(true)
	all.Wait() // counted as time: whoever is granted while the crowd leaves was granted in it
	return float64(granted.Load()) / (time.Since(start).Seconds()*float64(rate) + 1)
}
