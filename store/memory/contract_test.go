package memory_test

import (
	"testing"

	sluice "github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/store/memory"
	"github.com/sluicegate/sluice/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) sluice.Store { return memory.New(memory.Options{}) })
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(*testing.B) sluice.Store { return memory.New(memory.Options{}) })
}
