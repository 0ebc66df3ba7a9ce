package lease_test

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/lease"
	"github.com/sluicegate/sluice/store/memory"
)

// A far store is one at the other end of a network: commands take their time to it and
// back, and some answers get lost.
type far struct {
	sluice.Store
	mu    sync.Mutex
	r     *rand.Rand
	delay time.Duration // at most, each way
	lost  int           // of a thousand commands do not arrive, and as many answers
}

var errLost = errors.New("lost")

func (f *far) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	f.mu.Lock()
	there, back := rand1(f.r, f.delay), rand1(f.r, f.delay)
	fate := f.r.IntN(1000)
	f.mu.Unlock()
	time.Sleep(there)
	if fate < f.lost {
		return errLost
	}
	err := f.Store.Apply(ctx, cmds, res)
	time.Sleep(back)
	if fate >= 1000-f.lost {
		return errLost
	}
	return err
}

func rand1(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }

func (f *far) Scan(ctx context.Context, group uint64) iter.Seq2[ledger.Entry, error] {
	return f.Store.Scan(ctx, group)
}

// A debit is units that were spent.
type debit struct {
	at limit.Micros // by the store's clock
	n  int64
}

// A scene is a limit that processes share, and what they have spent of it.
type scene struct {
	limit limit.Limit
	lease limit.Lease
	key   ledger.Key
	unit  int64 // that calls take some of
	debit []debit
}

// step is n of the scene's limit.
func (s *scene) step(n int64) ledger.Step {
	return ledger.Step{Key: s.key, Limit: s.lease.Limit, N: n, Part: uint8(s.lease.Part), Lease: s.lease.For, Pool: s.key.Cell}
}

// check fails the test if more was spent in some span of time than the limit admits.
func (s *scene) check(t *testing.T) (spent int64) {
	slices.SortFunc(s.debit, func(a, b debit) int { return int(a.at - b.at) })
	first, sum := 0, int64(0)
	least := int64(1 << 62) // of what time had paid back less what was spent, before a debit
	credits := int64(0)
	for _, d := range s.debit {
		spent += d.n
		sum += d.n
		switch s.limit.Kind {
		case limit.KindWindow:
			for s.debit[first].at <= d.at-s.limit.Per {
				sum -= s.debit[first].n
				first++
			}
			if sum > s.limit.Max {
				t.Errorf("%v: %d were spent in the window before %d", s.limit, sum, d.at)
				return spent
			}
		case limit.KindBucket:
			paid := s.limit.Max * int64(d.at)
			least = min(least, credits-paid)
			credits += d.n * int64(s.limit.Per)
			// A bucket lets pass what is early by less than its clock can tell.
			if over := credits - paid - least - s.limit.Burst*int64(s.limit.Per); over > s.limit.Max {
				t.Errorf("%v: %d credits too many were spent until %d", s.limit, over, d.at)
				return spent
			}
		}
	}
	return spent
}

// anyScene is a limit that can be leased, and how.
func anyScene(r *rand.Rand, cell uint64) *scene {
	for {
		most, per := 20+r.Int64N(1<<(4+r.IntN(14))), limit.Micros(100+r.IntN(5000))*limit.Millisecond
		l := limit.Window(most, per) // those above limit.WindowEntries merge debits
		if r.IntN(2) == 0 {
			l = limit.Bucket(most, per, 20+r.Int64N(most))
		}
		if e, ok := l.Lease(1 + r.IntN(limit.MaxLease)); ok {
			return &scene{limit: l, lease: e, key: ledger.Key{Group: cell << 32, Cell: cell * 0x9e3779b97f4a7c15}, unit: 1 + l.Max/500}
		}
	}
}

// A world is processes with leases on one store.
type world struct {
	*testing.T
	books  sluice.Store
	offset limit.Micros // of the store's clock
	scenes []*scene
	local  int // decisions that asked nobody

	mu     sync.Mutex
	stores []*lease.Store
	asleep []time.Time // until when nobody calls in a process
}

func (w *world) now() limit.Micros { return limit.MicrosOf(time.Since(epoch())) + w.offset }

// epoch is when the clock of a bubble begins.
func epoch() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// call takes some units of some limits in the i-th process, and notes what was spent; some
// of it it gives back.
func (w *world) call(r *rand.Rand, i int) {
	w.mu.Lock()
	s, asleep := w.stores[i], time.Until(w.asleep[i])
	w.mu.Unlock()
	time.Sleep(asleep)
	var steps []ledger.Step
	for _, j := range r.Perm(len(w.scenes))[:1+r.IntN(len(w.scenes))] {
		steps = append(steps, w.scenes[j].step(r.Int64N(4)*w.scenes[j].unit))
	}
	cmds, res := []ledger.Command{{Steps: steps, Levels: r.IntN(2) == 0}}, make([]ledger.Result, 1)
	if s.Apply(context.Background(), cmds, res) != nil || res[0].Status != ledger.Done {
		return
	}
	back := r.IntN(20) == 0
	w.mu.Lock()
	if steps[0].At != 0 {
		w.local++
	}
	for i := range steps {
		at := res[0].At
		if steps[i].At != 0 {
			at = w.now()
		}
		for _, sc := range w.scenes {
			// What a bucket gets back it may spend twice, if it comes late: see limit.Give.
			if sc.key == steps[i].Key && !(back && sc.limit.Kind == limit.KindWindow) {
				sc.debit = append(sc.debit, debit{at, steps[i].N})
			}
		}
	}
	w.mu.Unlock()
	if !back {
		return
	}
	cmd := ledger.Command{Op: ledger.Void, At: res[0].At}
	for _, s := range steps {
		if s.Limit.Kind == limit.KindWindow {
			cmd.Steps = append(cmd.Steps, s)
		}
	}
	time.Sleep(rand1(r, 100*time.Millisecond))
	s.Apply(context.Background(), []ledger.Command{cmd}, res) // if it gets lost, less passes
}

// open returns a process's store.
func (w *world) open(r *rand.Rand) *lease.Store {
	f := &far{Store: w.books, r: rand.New(rand.NewPCG(r.Uint64(), 1))}
	f.delay, f.lost = rand1(r, 30*time.Millisecond), max(0, r.IntN(100)-50)
	return lease.New(f)
}

// run lets processes call for a while, crash and come back.
func (w *world) run(r *rand.Rand) {
	var all sync.WaitGroup
	for i := range w.stores {
		w.stores[i] = w.open(r)
		for range 1 + r.IntN(6) {
			r := rand.New(rand.NewPCG(r.Uint64(), 2))
			pause := rand1(r, 20*time.Millisecond)
			all.Go(func() {
				for range 1500 {
					w.call(r, i)
					time.Sleep(rand1(r, pause))
					w.fate(r, i)
				}
			})
		}
	}
	all.Wait()
}

// fate is what may happen to a process.
func (w *world) fate(r *rand.Rand, i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r.IntN(1000) {
	case 0: // it crashes, and another takes its place
		w.stores[i] = w.open(r)
	case 1, 2, 3: // nobody calls for about as long as a lease lasts
		w.asleep[i] = time.Now().Add(rand1(r, 3*w.scenes[0].lease.For.Duration()))
	}
}

// In no window more is spent than the limit, whatever processes do and whatever becomes of
// them and of what they say.
func TestNeverMoreThanTheLimit(t *testing.T) {
	seeds, local := []uint64{}, 0
	first := rand.Uint64()
	for i := range uint64(10) {
		seeds = append(seeds, first+i)
	}
	if s := os.Getenv("SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			w := &world{T: t, books: memory.New(memory.Options{}), stores: make([]*lease.Store, 1+r.IntN(5))}
			w.asleep = make([]time.Time, len(w.stores))
			w.offset = do(t, w.books, ledger.Command{Steps: []ledger.Step{{Limit: limit.Window(1, 1), Key: ledger.Key{Cell: 1}}}}).At - w.now()
			for i := range 1 + r.IntN(3) {
				w.scenes = append(w.scenes, anyScene(r, uint64(i)+2))
			}
			w.run(r)
			for _, s := range w.scenes {
				s.check(t)
			}
			local += w.local
			w.books.Close()
		})
		if t.Failed() {
			t.Fatalf("SEED=%d repeats it", seed)
		}
	}
	if len(seeds) > 1 && local < 1000 {
		t.Errorf("only %d decisions asked nobody", local)
	}
	t.Logf("%d decisions asked nobody", local)
}

func anyRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 3)) }
