package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
// a Bucket and a Window of one of ten thousand callers and holds a slot. It is measured
// in turns with two floors, so that what else the machine does meets all three:
//
//   - of-disk: reservations for each one that the disk would confirm if all callers shared
//     every sync perfectly and nothing else took time: syncs one after another, times callers.
//   - of-bare: reservations for each write that the same callers get confirmed by
//     [bareLog], which writes as many bytes for each, shares syncs and does nothing else.
func BenchmarkReservation(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			dir := b.TempDir()
			s := openStore(b, filepath.Join(dir, "ledger"), file.Options{MaxRecords: 1 << 30})
			disk, bare := newRoom(b, filepath.Join(dir, "disk")), &bareLog{room: newRoom(b, filepath.Join(dir, "bare"))}
			bare.next = new(bareGroup)
			bare.next.done.Add(1)
			var rates [3]rate
			b.ResetTimer()
			for done := 0; done < b.N; {
				n := min(b.N-done, 200*callers)
				b.StopTimer()
				rates[0].add(n/callers, func() { disk.sync(n / callers) })
				rates[1].add(n, func() { share(callers, n, func(uint64) { bare.commit(reservationBytes) }) })
				b.StartTimer()
				rates[2].add(n, func() {
					share(callers, n, func(i uint64) { reserve(b, s, uint64(done)+i) })
				})
				done += n
			}
			b.ReportMetric(rates[2].perSecond(), "reservations/s")
			b.ReportMetric(rates[0].perSecond(), "disk-syncs/s")
			b.ReportMetric(rates[2].perSecond()/(rates[0].perSecond()*float64(callers)), "of-disk")
			b.ReportMetric(rates[2].perSecond()/rates[1].perSecond(), "of-bare")
			b.ReportMetric(float64(s.Stats().Confirmed)/float64(s.Stats().Writes), "callers/write")
		})
	}
}

// A rate is how many of something were done in what time.
type rate struct {
	n    int
	took time.Duration
}

func (r *rate) add(n int, do func()) {
	start := time.Now()
	do()
	r.n += n
	r.took += time.Since(start)
}

func (r *rate) perSecond() float64 { return float64(r.n) / r.took.Seconds() }

// share does n things with so many callers at a time.
func share(callers, n int, do func(i uint64)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				do(uint64(i))
			}
		})
	}
	wg.Wait()
}

func reserve(tb testing.TB, s *file.Store, i uint64) {
	if err := s.Apply(context.Background(), reservation(i, i%10_000), make([]ledger.Result, 1)); err != nil {
		tb.Error(err)
	}
}

// reservationBytes is about what a reservation writes.
const reservationBytes = 245

func reservation(i, caller uint64) []ledger.Command {
	key := func(n uint64) ledger.Key {
		return ledger.Key{Group: (caller + 1) << 32, Cell: (caller+1)*0x9e3779b97f4a7c15 + n}
	}
	return []ledger.Command{{ID: ledger.ID{Hi: 1, Lo: i}, Steps: []ledger.Step{
		{Key: key(0), Limit: limit.Bucket(1, limit.Day, 1<<30), N: 1},
		{Key: key(1), Limit: limit.Window(1<<30, limit.Day), N: 1},
		{Key: key(2), Limit: limit.Slots(1 << 30), N: 1},
	}}}
}

// A room is a file that is written from end to end, again and again.
type room struct {
	testing.TB
	file *os.File
	at   int64
}

const roomSize = 8 << 20

func newRoom(tb testing.TB, path string) *room {
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	if _, err := f.Write(make([]byte, roomSize)); err != nil {
		tb.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		tb.Fatal(err)
	}
	return &room{TB: tb, file: f}
}

// put makes b last.
func (r *room) put(b []byte) {
	if r.at+int64(len(b)) > roomSize {
		r.at = 0
	}
	if _, err := r.file.WriteAt(b, r.at); err != nil {
		r.Error(err)
	}
	r.at += int64(len(b))
	if err := file.Datasync(r.file); err != nil {
		r.Error(err)
	}
}

// sync makes n blocks last, one after another.
func (r *room) sync(n int) {
	block := make([]byte, 4096)
	for range n {
		block[0]++
		r.put(block)
	}
}

// A bareLog is group commit and nothing else: the first caller writes for all who have
// come meanwhile.
type bareLog struct {
	room *room
	mu   sync.Mutex
	next *bareGroup
	busy bool
}

type bareGroup struct {
	bytes []byte
	done  sync.WaitGroup
}

func (l *bareLog) commit(n int) {
	l.mu.Lock()
	g := l.next
	g.bytes = append(g.bytes, make([]byte, n)...)
	leads := !l.busy
	l.busy = true
	l.mu.Unlock()
	for leads {
		l.gather()
		l.mu.Lock()
		now := l.next
		if leads = len(now.bytes) > 0; leads {
			l.next = &bareGroup{bytes: make([]byte, 0, cap(now.bytes))}
			l.next.done.Add(1)
		} else {
			l.busy = false
		}
		l.mu.Unlock()
		if leads {
			l.room.put(now.bytes)
			now.done.Done()
		}
	}
	g.done.Wait()
}

func (l *bareLog) gather() {
	for quiet, before := 0, -1; quiet < 2; quiet++ {
		l.mu.Lock()
		n := len(l.next.bytes)
		l.mu.Unlock()
		if n != before {
			quiet = 0
		}
		before = n
		runtime.Gosched()
	}
}

// BenchmarkRecords measures how long a reservation takes while the store holds so many
// records, which must make no difference, in turns with the disk's syncs.
func BenchmarkRecords(b *testing.B) {
	for _, records := range []int{10, 10_000, 1_000_000} {
		dir := b.TempDir()
		s := openStore(b, filepath.Join(dir, "ledger"), file.Options{MaxRecords: 1 << 30, MaxCells: 1 << 22})
		fillStore(b, s, records)
		disk := newRoom(b, filepath.Join(dir, "disk"))
		next := uint64(0)
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%d records/%d callers", records, callers), func(b *testing.B) {
				var took, syncs []time.Duration
				for done := 0; done < b.N; {
					n := min(b.N-done, 100*callers)
					b.StopTimer()
					syncs = append(syncs, timed(1, 100, func(uint64) { disk.sync(1) })...)
					b.StartTimer()
					first := next
					took = append(took, timed(callers, n, func(i uint64) { reserve(b, s, first+i) })...)
					next += uint64(n)
					done += n
				}
				b.ReportMetric(percentile(took, 50), "p50-µs")
				b.ReportMetric(percentile(took, 99), "p99-µs")
				b.ReportMetric(percentile(syncs, 50), "disk-p50-µs")
				b.ReportMetric(percentile(syncs, 99), "disk-p99-µs")
			})
		}
	}
}

// fillStore makes so many reservations, each of a caller of its own.
func fillStore(tb testing.TB, s *file.Store, records int) {
	const together = 1000
	for i := 0; i < records; i += together {
		var cmds []ledger.Command
		for k := i; k < min(i+together, records); k++ {
			cmds = append(cmds, reservation(1<<31+uint64(k), uint64(k))...)
		}
		if err := s.Apply(context.Background(), cmds, make([]ledger.Result, len(cmds))); err != nil {
			tb.Fatal(err)
		}
	}
}

// timed does n things with so many callers and returns how long each took.
func timed(callers, n int, do func(i uint64)) []time.Duration {
	took := make([]time.Duration, n)
	share(callers, n, func(i uint64) {
		start := time.Now()
		do(i)
		took[i-1] = time.Since(start)
	})
	return took
}

// percentile is in microseconds.
func percentile(took []time.Duration, p int) float64 {
	slices.Sort(took)
	return float64(took[len(took)*p/100].Nanoseconds()) / 1000
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
