package hazelcast_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	client "github.com/hazelcast/hazelcast-go-client"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
	"github.com/sluicegate/sluice/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	member := hazelcasttest.Start(b, 1)[0]
	storetest.Benchmark(b, func(b *testing.B) sluice.Store { return open(b, options(member)) })
}

// BenchmarkDecisions counts decisions beside the floor: what one decision of one limit
// takes if the key is locked, by the same client.
func BenchmarkDecisions(b *testing.B) {
	member := hazelcasttest.Start(b, 1)[0]
	plenty := limit.Bucket(1, limit.Second, 1<<30)
	for _, callers := range []int{1, 16, 64} {
		for _, keys := range []uint64{1, 100_000} {
			name := fmt.Sprintf("callers=%d/keys=%d", callers, keys)
			b.Run(name+"/store", func(b *testing.B) {
				s := open(b, options(member))
				defer s.Close()
				share(b, callers, func(r *rand.Rand) error {
					step := ledger.Step{Key: ledger.Key{Cell: r.Uint64N(keys) + 1}, Limit: plenty, N: 1}
					return s.Apply(context.Background(), []ledger.Command{{Steps: []ledger.Step{step}}}, make([]ledger.Result, 1))
				})
			})
			b.Run(name+"/floor", func(b *testing.B) {
				m := rawMap(b, member, options(member).Map)
				value := make([]byte, 64)
				share(b, callers, func(r *rand.Rand) error {
					return locked(m, fmt.Sprint(r.Uint64N(keys)), value)
				})
			})
		}
	}
}

// rawMap returns a map of the cluster of m.
func rawMap(t testing.TB, m *hazelcasttest.Member, name string) *client.Map {
	t.Helper()
	var c client.Config
	c.Cluster.Name = m.Cluster
	c.Cluster.Network.SetAddresses(m.Addr)
	c.Logger.Level = "error"
	ctx := context.Background()
	conn, err := client.StartNewClientWithConfig(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Shutdown(ctx) })
	books, err := conn.GetMap(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return books
}

// locked reads and writes a value under the lock of its key.
func locked(m *client.Map, key string, value []byte) error {
	ctx := m.NewLockContext(context.Background())
	if err := m.LockWithLease(ctx, key, 5*time.Second); err != nil {
		return err
	}
	if _, err := m.Get(ctx, key); err != nil {
		return err
	}
	if _, err := m.PutWithTTL(ctx, key, value, time.Minute); err != nil {
		return err
	}
	return m.Unlock(ctx, key)
}

// share lets so many callers run f b.N times in all.
func share(b *testing.B, callers int, f func(r *rand.Rand) error) {
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for range (b.N + callers - 1) / callers {
				if err := f(r); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
