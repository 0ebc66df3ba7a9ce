package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

// A reservation is on the disk before the caller hears of it: a call with an ID that takes
// from a bucket and a window and holds a slot.
var reserved = []sluice.Limit{
	{Limit: limit.Bucket(1_000_000, limit.Day, 1_000_000)},
	{Limit: limit.Window(1_000_000, limit.Day)},
	{Limit: limit.Slots(1_000_000)},
}

// BenchmarkDurable/<callers>/<row> is reservations a second. floor.sync is what the disk
// would confirm if all callers shared every sync: its own rate of syncs, measured in turn with
// the store in the same directory, times the callers. Run with -benchtime 5x for five turns.
func BenchmarkDurable(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			dir := b.TempDir()
			ctl, _ := openDurable(b, dir)
			probe := newProbe(b, dir)
			var disk, store []float64
			var last atomic.Int64
			for range turns(b) {
				disk = append(disk, probe.rate(b)*float64(callers))
				store = append(store, reserveAll(b, ctl, callers, &last))
			}
			b.Run("floor.sync", func(b *testing.B) { reportRate(b, disk) })
			b.Run("sluice", func(b *testing.B) { reportRate(b, store) })
		})
	}
}

func openDurable(tb testing.TB, dir string) (*sluice.Controller, *file.Store) {
	s := must(file.Open(filepath.Join(dir, "ledger"), file.Options{MaxRecords: 1 << 22, MaxCells: 1 << 22}))
	tb.Cleanup(func() { s.Close() })
	rule := sluice.Rule{ID: "one", GroupBy: []sluice.Dimension{sluice.Subject}, Limits: reserved}
	return openOn(tb, s, rule), s
}

func reportRate(b *testing.B, rates []float64) {
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	b.ReportMetric(sum/float64(len(rates)), "res/s")
	b.ReportMetric(0, "ns/op")
}

// durableTurn is longer than that of a decision in memory: some disks take milliseconds.
const durableTurn = 300 * time.Millisecond

// reserveAll lets callers make reservations for a turn, and returns how many a second.
func reserveAll(b *testing.B, ctl *sluice.Controller, callers int, last *atomic.Int64) float64 {
	var made atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(start) < durableTurn {
				if err := reserve(ctl, last.Add(1)); err != nil {
					b.Error(err)
					return
				}
				made.Add(1)
			}
		})
	}
	all.Wait()
	return float64(made.Load()) / time.Since(start).Seconds()
}

// reserve makes the n-th reservation, which is never released.
func reserve(ctl *sluice.Controller, n int64) error {
	call := sluice.Call{Kind: "bench", Subject: keys()[n%million], ID: strconv.FormatInt(n, 10)}
	ok, err := ctl.Try(context.Background(), &call, new(sluice.Decision))
	if err == nil && !ok {
		err = fmt.Errorf("reservation %d was refused", n)
	}
	return err
}

// A probe measures how many blocks a second a disk makes last, one after another: blocks of
// a file that has its full length, as the store's log does.
type probe struct {
	file *os.File
	next int64
}

const probeBlocks, blockSize = 2048, 4096

func newProbe(tb testing.TB, dir string) *probe {
	f := must(os.Create(filepath.Join(dir, "probe")))
	tb.Cleanup(func() { f.Close() })
	must(f.Write(make([]byte, probeBlocks*blockSize)))
	if err := f.Sync(); err != nil {
		tb.Fatal(err)
	}
	return &probe{file: f}
}

func (p *probe) rate(b *testing.B) float64 {
	block := make([]byte, blockSize)
	n, start := 0, time.Now()
	for ; time.Since(start) < durableTurn; n++ {
		block[0]++
		if _, err := p.file.WriteAt(block, p.next%probeBlocks*blockSize); err != nil {
			b.Fatal(err)
		}
		p.next++
		if err := datasync(p.file); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(start).Seconds()
}

// BenchmarkRecords/<records> is one reservation of one caller in a store that holds so many:
// p50-ns must be the same whatever their number. Run with -benchtime 1x.
func BenchmarkRecords(b *testing.B) {
	var stores []*sluice.Controller
	sizes := []int64{10, 1000, 100_000, 1_000_000}
	for _, n := range sizes {
		ctl, books := openDurable(b, b.TempDir())
		store(b, books, n)
		stores = append(stores, ctl)
	}
	waits := make([][]int64, len(sizes))
	const rounds, each = 30, 20
	for round := range int64(rounds) {
		for i, ctl := range stores {
			for k := range int64(each) {
				start := clock()
				if err := reserve(ctl, round*each+k); err != nil {
					b.Fatal(err)
				}
				waits[i] = append(waits[i], clock()-start)
			}
		}
	}
	for i, n := range sizes {
		slices.Sort(waits[i])
		b.Run(strconv.FormatInt(n, 10), func(b *testing.B) {
			b.ReportMetric(float64(waits[i][len(waits[i])/2]), "p50-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// store makes n reservations, many at a time.
func store(b *testing.B, books sluice.Store, n int64) {
	const together = 1000
	res := make([]ledger.Result, together)
	for at := int64(0); at < n; at += together {
		var cmds []ledger.Command
		for i := at; i < min(n, at+together); i++ {
			cmd := ledger.Command{ID: ledger.ID{Hi: 1, Lo: uint64(i + 1)}}
			for k, l := range reserved {
				key := ledger.Key{Group: uint64(i), Cell: uint64(i)*0x9e3779b97f4a7c15 + uint64(k)}
				cmd.Steps = append(cmd.Steps, ledger.Step{Key: key, Limit: l.Limit, N: 1})
			}
			cmds = append(cmds, cmd)
		}
		if err := books.Apply(context.Background(), cmds, res[:len(cmds)]); err != nil {
			b.Fatal(err)
		}
	}
}
