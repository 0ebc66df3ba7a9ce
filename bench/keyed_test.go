package bench

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

const (
	million = 1_000_000
	visits  = 1 << 20 // length of a visiting order; a power of two, so that wrapping is a mask
)

// keys are a million texts of 16 bytes in one array: the text is never charged to
// a row that only refers to it.
var keys = sync.OnceValue(func() []string {
	const prefix, width = "caller-", 16
	text := make([]byte, 0, million*width)
	for i := range million {
		text = append(text, prefix...)
		// Ten digits with a leading one that is cut: nine with leading zeros.
		text = append(text, strconv.Itoa(1_000_000_000 + i)[1:]...)
	}
	all, list := string(text), make([]string, million)
	for i := range list {
		list[i] = all[i*width : (i+1)*width]
	}
	return list
})

// A workload is how many keys exist before the clock starts, and who asks when.
type workload struct {
	name  string
	keys  int
	quota quota
	order func(i int, r *rand.Rand) uint32
}

var workloads = []workload{
	{"hot", 1, free, nil},
	{"hotdeny", 1, spent, nil},
	{"uni100k", 100_000, free, func(_ int, r *rand.Rand) uint32 { return r.Uint32N(100_000) }},
	{"zipf1M", million, free, nil},
}

// visit returns the order in which keys are asked for, the same in every run.
func (w workload) visit() []uint32 {
	r := rand.New(rand.NewPCG(1, 2))
	order := make([]uint32, visits)
	switch {
	case w.order != nil:
		for i := range order {
			order[i] = w.order(i, r)
		}
	case w.keys > 1:
		// The popular keys are spread over the table, as hashes spread them.
		spread, z := r.Perm(w.keys), rand.NewZipf(r, 1.1, 1, uint64(w.keys-1))
		for i := range order {
			order[i] = uint32(spread[z.Uint64()])
		}
	}
	return order
}

// fits reports whether c can be asked this workload at all.
func (w workload) fits(c contestant) bool {
	return c.keyed != nil && !(c.unkeyed && w.keys > 1) && !(c.blocks && w.quota == spent)
}

// BenchmarkKeyed/<workload>/<mode>/<row> is one decision for one key.
//
//	serial  one goroutine; run with -cpu 1
//	par     one goroutine a processor
//	par32   32 goroutines a processor
func BenchmarkKeyed(b *testing.B) {
	for _, w := range workloads {
		b.Run(w.name, func(b *testing.B) {
			for _, mode := range []struct {
				name    string
				perProc int
			}{{"serial", 0}, {"par", 1}, {"par32", 32}} {
				b.Run(mode.name, func(b *testing.B) { w.run(b, contestants, mode.perProc) })
			}
		})
	}
}

// run measures those rows that fit. perProc is goroutines a processor; zero is the
// benchmark's own goroutine.
func (w workload) run(b *testing.B, rows []contestant, perProc int) {
	order := sync.OnceValue(w.visit)
	for _, c := range rows {
		if !w.fits(c) {
			continue
		}
		// Built and filled once, however often the framework repeats the row.
		ready := sync.OnceValue(func() worker { return w.fill(b, c) })
		b.Run(c.name, func(b *testing.B) {
			work, list, order := ready(), keys(), order()
			b.ReportAllocs()
			b.ResetTimer()
			granted := 0
			if perProc == 0 {
				granted = ask(work(), list, order, b.N)
			} else {
				granted = askAll(b, work, list, order, perProc)
			}
			b.StopTimer()
			w.check(b, granted)
		})
	}
}

// fill builds c and lets it see every key of w.
func (w workload) fill(tb testing.TB, c contestant) worker {
	work := c.keyed(tb, w.quota)
	allow := work()
	for _, k := range keys()[:w.keys] {
		allow(k)
	}
	runtime.GC()
	return work
}

func ask(allow func(string) bool, list []string, order []uint32, n int) (granted int) {
	for i := range n {
		if allow(list[order[i&(visits-1)]]) {
			granted++
		}
	}
	return granted
}

func askAll(b *testing.B, work worker, list []string, order []uint32, perProc int) int {
	var granted, seat atomic.Int64
	b.SetParallelism(perProc)
	b.RunParallel(func(pb *testing.PB) {
		allow := work()
		mine := int64(0)
		// Each goroutine enters the order elsewhere.
		for i := seat.Add(1) * 99_991; pb.Next(); i++ {
			if allow(list[order[i&(visits-1)]]) {
				mine++
			}
		}
		granted.Add(mine)
	})
	return int(granted.Load())
}

// check fails a row that did not decide what its workload asks for: a limiter that
// answers wrongly has no speed.
func (w workload) check(b *testing.B, granted int) {
	switch {
	case w.quota == spent && granted > 0:
		b.Errorf("granted %d of %d, want none", granted, b.N)
	case w.quota == free && granted < b.N:
		b.Errorf("refused %d of %d, want none", b.N-granted, b.N)
	}
}

// find returns the contestants that have a capability, in the order of entry.
func find(has func(contestant) bool) []contestant {
	return slices.DeleteFunc(slices.Clone(contestants), func(c contestant) bool { return !has(c) })
}
