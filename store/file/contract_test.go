package file_test

import (
	"path/filepath"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/store/file"
	"github.com/sluicegate/sluice/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) sluice.Store {
		s, err := file.Open(filepath.Join(t.TempDir(), "ledger"), file.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) sluice.Store {
		s, err := file.Open(filepath.Join(b.TempDir(), "ledger"), file.Options{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	})
}
