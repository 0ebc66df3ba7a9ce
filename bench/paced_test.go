package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const crowd = 10_000

// BenchmarkPaced/<rate>/<row> is ten thousand goroutines that wait for their turn
// at once. x-ideal is the wall time over the least the rate allows: below 1 it let
// calls through too early. ns-cpu/waiter is what a wait costs the process.
// Run with -benchtime 1x.
func BenchmarkPaced(b *testing.B) {
	for _, perSecond := range []int{20_000, 100_000} {
		b.Run(fmt.Sprintf("%dk", perSecond/1000), func(b *testing.B) {
			for _, c := range find(func(c contestant) bool { return c.pace != nil }) {
				b.Run(c.name, func(b *testing.B) { drain(b, c, perSecond) })
			}
		})
	}
}

func drain(b *testing.B, c contestant, perSecond int) {
	var wall, cpu time.Duration
	for range b.N {
		wait := c.pace(b, perSecond)
		var all sync.WaitGroup
		var failed atomic.Int64
		start, spent := time.Now(), cpuTime()
		for range crowd {
			all.Go(func() {
				if wait(context.Background()) != nil {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		wall += time.Since(start)
		cpu += cpuTime() - spent
		if n := failed.Load(); n > 0 {
			b.Errorf("%d of %d waiters were refused", n, crowd)
		}
	}
	lead := 1 // those do not wait
	if c.lead != nil {
		lead = c.lead(perSecond)
	}
	ideal := float64(crowd-lead) / float64(perSecond) * float64(b.N)
	b.ReportMetric(wall.Seconds()/ideal, "x-ideal")
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N)/crowd, "ns-cpu/waiter")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is what this process has used on all processors.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
