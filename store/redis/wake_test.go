package redis_test

import (
	"context"
	"fmt"
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
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
	"github.com/sluicegate/sluice/store/storetest"
)

// hears waits until s hears what other processes give back.
func hears(t testing.TB, s *redis.Store) {
	t.Helper()
	yes := make(chan struct{})
	var once sync.Once
	stop := s.Watch(func(ledger.Key) {}, func(works bool) {
		if works {
			once.Do(func() { close(yes) })
		}
	})
	defer stop()
	select {
	case <-yes:
	case <-time.After(5 * time.Second):
		t.Fatal("the store does not hear others")
	}
}

// figure reads a number from what the server says of itself.
func figure(t testing.TB, server *redistest.Server, section, name string) int64 {
	t.Helper()
	_, text, _ := strings.Cut(server.Info(section), name)
	text, _, _ = strings.Cut(text, "\r")
	text, _, _ = strings.Cut(strings.TrimLeft(text, ":"), ",")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s of %s: %v", name, section, err)
	}
	return n
}

// published is how many messages the server has published.
func published(t *testing.T, server *redistest.Server) int64 {
	if !strings.Contains(server.Info("commandstats"), "cmdstat_publish") {
		return 0
	}
	return figure(t, server, "commandstats", "cmdstat_publish:calls=")
}

// waiting returns once so many callers stand in the lines of c.
func waiting(t *testing.T, c *sluice.Controller, n int) {
	t.Helper()
	eventually(t, 10*time.Second, fmt.Sprintf("%d callers are in line", n), func() bool {
		sum := 0
		for _, k := range c.Waiting() {
			sum += k
		}
		return sum == n
	})
}

// waker runs the contract of a store that tells, on what two addresses of it lead to.
func waker(t *testing.T, flush func(), here, there string) {
	storetest.RunWaker(t, func(t *testing.T) (a, b sluice.Store) {
		flush()
		return open(t, redis.Options{URI: here, Wait: time.Second}), open(t, redis.Options{URI: there, Wait: time.Second})
	})
}

func TestWaker(t *testing.T) {
	server := redistest.Start(t)
	waker(t, server.Flush, "redis://"+server.Addr, "redis://"+server.Addr)
}

func TestWakerBySentinel(t *testing.T) {
	server := redistest.Start(t)
	uri := "redis://" + redistest.Sentinel(t, server).Addr + "?master_set=books"
	waker(t, server.Flush, uri, "redis://"+server.Addr)
}

// TestWakerOfACluster lets the stores subscribe at nodes of which one at most has the
// cells.
func TestWakerOfACluster(t *testing.T) {
	group := redistest.Cluster(t)
	waker(t, group.Flush, "redis://"+group.Nodes[1].Addr, "redis://"+group.Nodes[2].Addr)
	t.Run("hand-over", func(t *testing.T) { handOver(t, group.URI(), 50) })
}

func TestHandOver(t *testing.T) {
	server := redistest.Start(t)
	before := published(t, server)
	handOver(t, "redis://"+server.Addr, 200)
	t.Logf("%d messages", published(t, server)-before)
}

// handOver hands the only slot from process to process a number of times, and measures
// how long it takes.
func handOver(t *testing.T, uri string, times int) {
	nodes := controllersAt(t, uri, 2, sluice.Rule{
		ID: "jobs", Queue: &sluice.Queue{}, Limits: []sluice.Limit{{Limit: limit.Slots(1)}},
	})
	ctx := context.Background()
	var took []time.Duration
	holder, err := nodes[0].Admit(ctx, sluice.Call{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range times {
		next := nodes[(i+1)%2]
		got := make(chan sluice.Admission)
		go func() {
			a, err := next.Admit(ctx, sluice.Call{})
			if err != nil {
				t.Error(err)
			}
			got <- a
		}()
		waiting(t, next, 1)
		began := time.Now()
		holder.Release()
		holder = <-got
		took = append(took, time.Since(began))
	}
	holder.Release()
	slices.Sort(took)
	t.Logf("from release to admission in the other process: p50 %v, p99 %v, longest %v", quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1))
	if quantile(took, 0.5) > 10*time.Millisecond {
		t.Errorf("half of the slots took longer than %v", quantile(took, 0.5))
	}
}

// TestToldAcrossProcesses is about everything in one process by which a caller who waits
// in another may go ahead, long before its time.
func TestToldAcrossProcesses(t *testing.T) {
	server := redistest.Start(t)
	ctx := context.Background()
	const id = "apikey:a"
	rule := sluice.Rule{
		ID: "tokens", GroupBy: []sluice.Dimension{sluice.Subject}, Queue: &sluice.Queue{},
		Limits: []sluice.Limit{{Limit: limit.Bucket(1, limit.Hour, 10), Unit: sluice.Tokens}},
	}
	call := sluice.Call{Subject: id, Cost: sluice.Cost{{Unit: sluice.Tokens, N: 10}}}
	for _, c := range []struct {
		name string
		end  func(*sluice.Controller, sluice.Admission) error
	}{
		{"P-152 a settlement", func(_ *sluice.Controller, a sluice.Admission) error {
			return a.Settle(ctx, sluice.Cost{{Unit: sluice.Tokens, N: 0}})
		}},
		{"a reset of the caller", func(c *sluice.Controller, _ sluice.Admission) error { _, err := c.Reset(ctx, id); return err }},
		{"a reset of all", func(c *sluice.Controller, _ sluice.Admission) error { _, err := c.ResetAll(ctx); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server.Flush()
			nodes := controllers(t, server, 2, rule)
			taken, err := nodes[0].Admit(ctx, call)
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan error, 1)
			go func() { _, err := nodes[1].Admit(ctx, call); got <- err }()
			waiting(t, nodes[1], 1)
			marked(t, server)
			began := time.Now()
			if err := c.end(nodes[0], taken); err != nil {
				t.Fatal(err)
			}
			if err := next(t, got); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// marked returns once somebody wants to be told of a cell.
func marked(t *testing.T, server *redistest.Server) {
	t.Helper()
	look := raw(t, server)
	eventually(t, 5*time.Second, "a cell is watched", func() bool {
		for _, key := range cellKeys(t, look) {
			n, err := look.Do(context.Background(), look.B().Strlen().Key(key).Build()).ToInt64()
			if err == nil && n == 46 {
				return true
			}
		}
		return false
	})
}

// TestCrowd lets a thousand callers in three processes have one slot in turn.
func TestCrowd(t *testing.T) {
	server := redistest.Start(t)
	const callers = 1000
	nodes := controllers(t, server, 3, sluice.Rule{
		ID: "jobs", Queue: &sluice.Queue{}, Limits: []sluice.Limit{{Limit: limit.Slots(1)}},
	})
	ctx := context.Background()
	holder, err := nodes[0].Admit(ctx, sluice.Call{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var inside atomic.Int32
	for i := range callers {
		all.Go(func() {
			a, err := nodes[i%3].Admit(ctx, sluice.Call{})
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d hold the slot", n)
			}
			inside.Add(-1)
			a.Release()
		})
	}
	for _, c := range nodes {
		eventually(t, 30*time.Second, "all are in line", func() bool { return c.Waiting()["jobs"] >= callers/3 })
	}
	t.Run("while the slot is held the server is left alone", func(t *testing.T) {
		before := scripts(t, server)
		<-time.After(3 * time.Second)
		n := scripts(t, server) - before
		t.Logf("%d script calls in 3 s for %d callers in 3 processes", n, callers)
		if n > 30 { // three heads ask every two seconds
			t.Errorf("%d script calls", n)
		}
	})
	t.Run("P-106 each release reaches somebody at once", func(t *testing.T) {
		before, messages, began := scripts(t, server), published(t, server), time.Now()
		holder.Release()
		all.Wait()
		took, n := time.Since(began), scripts(t, server)-before
		t.Logf("%d slots handed over in %v, one every %v; %.2f script calls and %.2f messages for each, %.0f script calls a second",
			callers, took, took/callers, float64(n)/callers, float64(published(t, server)-messages)/callers, float64(n)/took.Seconds())
		if n > 8*callers {
			t.Errorf("%d script calls for %d slots", n, callers)
		}
		if took > callers*20*time.Millisecond {
			t.Errorf("one every %v", took/callers)
		}
	})
}
