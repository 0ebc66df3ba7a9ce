package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

// BenchmarkReservation measures durable reservations: a grant with an ID that takes from
// a Bucket and a Window and holds a slot. "of-disk" is how many were confirmed for each
// one that the disk would have confirmed if all callers shared every sync perfectly: the
// disk's own rate of syncs, measured just before on the same directory, times callers.
func BenchmarkReservation(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			dir := b.TempDir()
			s := openStore(b, filepath.Join(dir, "ledger"), file.Options{MaxRecords: 1 << 30})
			syncs := syncRate(b, dir)
			b.ResetTimer()
			start := time.Now()
			reserve(b, s, callers, b.N)
			rate := float64(b.N) / time.Since(start).Seconds()
			b.ReportMetric(rate, "reservations/s")
			b.ReportMetric(syncs, "disk-syncs/s")
			b.ReportMetric(rate/(syncs*float64(callers)), "of-disk")
			b.ReportMetric(float64(s.Stats().Confirmed)/float64(s.Stats().Writes), "callers/write")
		})
	}
}

// BenchmarkRecords measures a reservation of one caller while the store holds so many
// records, which must make no difference.
func BenchmarkRecords(b *testing.B) {
	for _, records := range []int{10, 1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			s := openStore(b, filepath.Join(b.TempDir(), "ledger"), file.Options{MaxRecords: 1 << 30, MaxCells: 1 << 23})
			const together = 1000
			for i := 0; i < records; i += together {
				var cmds []ledger.Command
				for k := range min(together, records-i) {
					cmds = append(cmds, reservation(uint64(1<<31+i+k))...)
				}
				if err := s.Apply(context.Background(), cmds, make([]ledger.Result, len(cmds))); err != nil {
					b.Fatal(err)
				}
			}
			took := make([]time.Duration, 0, b.N)
			b.ResetTimer()
			for i := range b.N {
				start := time.Now()
				if err := s.Apply(context.Background(), reservation(uint64(i)), make([]ledger.Result, 1)); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// reserve makes n reservations with so many callers at a time.
func reserve(b *testing.B, s *file.Store, callers, n int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				cmd := reservation(uint64(i))
				if err := s.Apply(context.Background(), cmd, make([]ledger.Result, 1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func reservation(i uint64) []ledger.Command {
	key := func(n uint64) ledger.Key { return ledger.Key{Group: i << 32, Cell: i*0x9e3779b97f4a7c15 + n} }
	return []ledger.Command{{ID: ledger.ID{Hi: 1, Lo: i}, Steps: []ledger.Step{
		{Key: key(0), Limit: limit.Bucket(1, limit.Day, 100), N: 1},
		{Key: key(1), Limit: limit.Window(100, limit.Day), N: 1},
		{Key: key(2), Limit: limit.Slots(10), N: 1},
	}}}
}

// syncRate is how many writes of a block a second the disk makes last, one after another.
func syncRate(tb testing.TB, dir string) float64 {
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	const blocks = 256
	for i := range int64(blocks) {
		f.WriteAt(block, i*4096)
	}
	f.Sync()
	start := time.Now()
	n := 0
	for ; time.Since(start) < time.Second; n++ {
		block[0]++
		if _, err := f.WriteAt(block, int64(n%blocks)*4096); err != nil {
			tb.Fatal(err)
		}
		if err := file.Datasync(f); err != nil {
			tb.Fatal(err)
		}
	}
	return float64(n) / time.Since(start).Seconds()
}

func openStore(tb testing.TB, path string, o file.Options) *file.Store {
	tb.Helper()
	s, err := file.Open(path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}
