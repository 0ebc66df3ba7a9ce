package storetest

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	sluice "github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// Benchmark measures the decisions of a store: one operation is one command.
func Benchmark(b *testing.B, open func(b *testing.B) sluice.Store) {
	plenty, nothing := limit.Bucket(1, limit.Second, 1<<30), limit.Slots(0)
	for _, c := range []struct {
		name  string
		limit limit.Limit
		steps int
		keys  uint64
	}{
		{"granted/one key", plenty, 1, 1},
		{"granted/100000 keys", plenty, 1, 100_000},
		{"granted/four limits", plenty, 4, 1},
		{"granted/window", limit.Window(100, limit.Millisecond), 1, 1},
		{"refused/one key", nothing, 1, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			store := open(b)
			defer store.Close()
			b.ReportAllocs()
			var callers atomic.Uint64
			b.RunParallel(func(pb *testing.PB) {
				r := rand.New(rand.NewPCG(callers.Add(1), 3))
				cmds, res := make([]ledger.Command, 1), make([]ledger.Result, 1)
				steps := make([]ledger.Step, c.steps)
				for pb.Next() {
					for i := range steps {
						steps[i] = ledger.Step{Key: key(1, scatter(r.Uint64N(c.keys)*8+uint64(i))), Limit: c.limit, N: 1}
					}
					cmds[0] = ledger.Command{Steps: steps}
					if err := store.Apply(context.Background(), cmds, res); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// scatter makes a hash of a number, as real keys are.
func scatter(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
