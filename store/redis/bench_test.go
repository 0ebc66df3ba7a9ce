package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis/redistest"
	"github.com/sluicegate/sluice/store/storetest"
)

func BenchmarkContract(b *testing.B) {
	server := redistest.Start(b)
	storetest.Benchmark(b, func(b *testing.B) sluice.Store {
		server.Flush()
		return openFor(b, Options{URI: "redis://" + server.Addr, Wait: time.Second})
	})
}

func openFor(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// floorScript is the least that a limiter does in Redis: a GCRA, one key, one time stamp.
const floorScript = `local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local every, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + every
if new - now > burst * every then return new - now - burst * every end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return 0`

// BenchmarkBesideFloor measures decisions of one bucket beside the script that does
// nothing else, sent by the same client, with a number of callers: decisions a second,
// the server's CPU time for one, and how long a caller waits.
func BenchmarkBesideFloor(b *testing.B) {
	server := redistest.Start(b)
	for _, keys := range []uint64{100_000, 1} {
		for _, callers := range []int{1, 16, 64, 256} {
			name := fmt.Sprintf("keys=%d/callers=%d/", keys, callers)
			b.Run(name+"floor", func(b *testing.B) {
				option := rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true}
				client, err := rueidis.NewClient(option)
				if err != nil {
					b.Fatal(err)
				}
				defer client.Close()
				script := rueidis.NewLuaScript(floorScript)
				measure(b, server, callers, func(r *rand.Rand) func() error {
					return func() error {
						key := "floor:" + strconv.FormatUint(r.Uint64N(keys), 36)
						return script.Exec(context.Background(), client, []string{key}, []string{"1000000", "1000000000"}).Error()
					}
				})
			})
			b.Run(name+"store", func(b *testing.B) {
				s := openFor(b, Options{URI: "redis://" + server.Addr, Wait: 10 * time.Second})
				measure(b, server, callers, func(r *rand.Rand) func() error {
					cmds, res := make([]ledger.Command, 1), make([]ledger.Result, 1)
					steps := []ledger.Step{{Limit: limit.Bucket(1, limit.Second, 1_000_000_000), N: 1}}
					return func() error {
						steps[0].Key = ledger.Key{Group: 1, Cell: r.Uint64N(keys)}
						cmds[0] = ledger.Command{Steps: steps, Levels: true}
						return s.Apply(context.Background(), cmds, res)
					}
				})
			})
		}
	}
}

// measure lets callers work through b.N calls of what work returns.
func measure(b *testing.B, server *redistest.Server, callers int, work func(*rand.Rand) func() error) {
	server.Flush()
	calls := make(chan struct{}, b.N)
	for range b.N {
		calls <- struct{}{}
	}
	close(calls)
	var mu sync.Mutex
	var waits []time.Duration
	b.ReportAllocs()
	before := cpuTime(b, server)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			do := work(rand.New(rand.NewPCG(uint64(i), 1)))
			var own []time.Duration
			for range calls {
				began := time.Now()
				if err := do(); err != nil {
					b.Error(err)
					return
				}
				own = append(own, time.Since(began))
			}
			mu.Lock()
			waits = append(waits, own...)
			mu.Unlock()
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(waits)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(cpuTime(b, server)-before)/float64(b.N)/1e3, "redis-µs/op")
	b.ReportMetric(float64(waits[len(waits)/2])/1e3, "p50-µs")
	b.ReportMetric(float64(waits[len(waits)*99/100])/1e3, "p99-µs")
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
