package redis_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// hears waits until s hears what other processes give back.
func hears(t *testing.T, s *redis.Store) {
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
func figure(t *testing.T, server *redistest.Server, section, name string) int64 {
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

func TestHandOver(t *testing.T) {
	server := redistest.Start(t)
	nodes := controllers(t, server, 2, sluice.Rule{
		ID: "jobs", Queue: &sluice.Queue{}, Limits: []sluice.Limit{{Limit: limit.Slots(1)}},
	})
	ctx := context.Background()
	var took []time.Duration
	holder, err := nodes[0].Admit(ctx, sluice.Call{})
	if err != nil {
		t.Fatal(err)
	}
	before := published(t, server)
	for i := range 200 {
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
	t.Logf("from release to admission in the other process: p50 %v, p99 %v, longest %v; %d messages", quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1), published(t, server)-before)
	if quantile(took, 0.5) > 10*time.Millisecond {
		t.Errorf("half of the slots took longer than %v", quantile(took, 0.5))
	}
}
