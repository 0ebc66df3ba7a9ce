package lease_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/lease"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// A span is when a unit was spent: at some instant of it.
type span struct{ from, to time.Duration }

// mostInWindow is the most units that were spent within one window for certain.
func mostInWindow(spans []span, per time.Duration) (most int) {
	from, to := make([]time.Duration, len(spans)), make([]time.Duration, len(spans))
	for i, s := range spans {
		from[i], to[i] = s.from, s.to
	}
	slices.Sort(from)
	slices.Sort(to)
	for i, begin := range from {
		ended, _ := slices.BinarySearch(to, begin+per)
		most = max(most, ended-i) // none lasts as long as a window
	}
	return most
}

// Three processes on one server pass, in every window, at most the limit, and at least what
// the lease promises.
func TestProcessesOnRedis(t *testing.T) {
	server := redistest.Start(t)
	l := limit.Window(4000, limit.Second)
	e, _ := l.Lease(20)
	began := time.Now()
	const long = 5 * time.Second
	var spans []span
	var stores []*lease.Store
	var all sync.WaitGroup
	var mu sync.Mutex
	for range 3 {
		st := lease.New(openRedis(t, server, time.Second))
		stores = append(stores, st)
		rule := leased(l)
		rule.Lease = 20
		c := open(t, st, rule)
		for range 20 {
			all.Go(func() {
				var own []span
				for time.Since(began) < long {
					from := time.Since(began)
					if admit(c, sluice.Call{}) {
						own = append(own, span{from, time.Since(began)})
					} else {
						time.Sleep(time.Millisecond)
					}
				}
				mu.Lock()
				spans = append(spans, own...)
				mu.Unlock()
			})
		}
	}
	all.Wait()
	spent, asked := uint64(0), uint64(0)
	for _, st := range stores {
		spent, asked = spent+st.Stats().Spent, asked+st.Stats().Asked
		st.Close()
	}
	if most := mostInWindow(spans, l.Per.Duration()); most > int(l.Max) {
		t.Errorf("%d passed within one window of %v", most, l)
	}
	if least := e.Least() * float64(l.Max) * long.Seconds(); float64(len(spans)) < least {
		t.Errorf("%d passed in %v, want at least %.0f", len(spans), long, least)
	}
	t.Logf("%d passed of %d, %d asked nobody; %d questions", len(spans), int64(long/time.Second)*l.Max, spent, asked)
}

// BenchmarkHotKey measures decisions about one hot key beside the same store without
// leases: decisions a second, questions and the server's CPU time for each.
func BenchmarkHotKey(b *testing.B) {
	server := redistest.Start(b)
	l := limit.Bucket(1, limit.Second, 1_000_000_000)
	e, ok := l.Lease(10)
	if !ok {
		b.Fatal("cannot be leased")
	}
	for _, callers := range []int{1, 16, 64, 256} {
		for _, leased := range []bool{false, true} {
			name := map[bool]string{false: "exact", true: "leased"}[leased]
			b.Run(fmt.Sprintf("callers=%d/%s", callers, name), func(b *testing.B) {
				server.Flush()
				redis := openRedis(b, server, 10*time.Second)
				defer redis.Close()
				var st sluice.Store = redis
				if leased {
					st = lease.New(redis)
				}
				step := (&scene{lease: e, key: ledger.Key{Group: 1, Cell: 1}}).step(1)
				before := cpuTime(b, server)
				callAll(b, st, step, callers)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
				b.ReportMetric(float64(cpuTime(b, server)-before)/float64(b.N)/1e3, "redis-µs/op")
				if s, ok := st.(*lease.Store); ok {
					b.ReportMetric(float64(s.Stats().Asked)/float64(b.N), "questions/op")
				}
			})
		}
	}
}

// callAll lets callers take step b.N times in all.
func callAll(b *testing.B, st sluice.Store, step ledger.Step, callers int) {
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			cmds, res, steps := make([]ledger.Command, 1), make([]ledger.Result, 1), []ledger.Step{step}
			for left.Add(-1) >= 0 {
				cmds[0] = ledger.Command{Steps: steps, Levels: true}
				if err := st.Apply(context.Background(), cmds, res); err != nil || res[0].Status != ledger.Done {
					b.Error(res[0].Status, err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
}

// cpuTime is what the server has used.
func cpuTime(b *testing.B, server *redistest.Server) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(server.Pid()), "stat"))
	if err != nil {
		b.Skip("no /proc to read the server's CPU time from")
	}
	fields := strings.Fields(string(stat))
	user, _ := strconv.Atoi(fields[13])
	system, _ := strconv.Atoi(fields[14])
	return time.Duration(user+system) * 10 * time.Millisecond
}
