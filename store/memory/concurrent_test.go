package memory

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// together runs f(0) to f(n-1) at the same time.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

func key(cell uint64) ledger.Key { return ledger.Key{Group: cell * 0x9e3779b97f4a7c15, Cell: cell} }

// taker takes steps, with memory that it uses again.
type taker struct {
	s    *Store
	cmds [1]ledger.Command
	res  [1]ledger.Result
}

func (k *taker) do(cmd ledger.Command) *ledger.Result {
	k.cmds[0] = cmd
	if err := k.s.Apply(context.Background(), k.cmds[:], k.res[:]); err != nil {
		panic(err)
	}
	return &k.res[0]
}

func (k *taker) take(steps ...ledger.Step) bool {
	return k.do(ledger.Command{Steps: steps}).Status == ledger.Done
}

// Whoever read the clock a moment before others took is not refused what is there.
func TestExactlyTheBurstPasses(t *testing.T) {
	for _, steps := range []uint64{1, 3} {
		s := New(Options{})
		for k := range uint64(2000 / scale) {
			var passed atomic.Int64
			together(8, func(int) {
				me := taker{s: s}
				for range 2 {
					var list []ledger.Step
					for i := range steps {
						list = append(list, ledger.Step{Key: key(k*8 + i + 1), Limit: limit.Bucket(1000, 1000*limit.Hour, 16), N: 1})
					}
					if me.take(list...) {
						passed.Add(1)
					}
				}
			})
			if n := passed.Load(); n != 16 {
				t.Fatalf("%d limits, key %d: %d of 16 passed, and 16 are there", steps, k, n)
			}
		}
	}
}

// One million decisions from 64 goroutines over four rules: in no window more than max,
// and none lost.
func TestMillionDecisions(t *testing.T) {
	const (
		callers   = 64
		decisions = 1_000_000 / scale / callers * callers
		windows   = 8 // keys of the window that refuses
	)
	s := New(Options{})
	narrow := limit.Window(1000/scale, 10*limit.Millisecond)
	rules := func(i int) []ledger.Step {
		return []ledger.Step{
			{Key: key(uint64(100 + i%windows)), Limit: narrow, N: 1},
			{Key: key(1), Limit: limit.Bucket(1, limit.Day, 1<<20), N: 1},
			{Key: key(2), Limit: limit.Window(1<<30, limit.Day), N: 1},
			{Key: key(3), Limit: limit.Slots(48), N: 1},
		}
	}
	var passed [callers][]limit.Micros
	var refused [callers]int
	together(callers, func(i int) {
		me, steps := taker{s: s}, rules(i)
		for range decisions / callers {
			if res := me.do(ledger.Command{Steps: steps}); res.Status != ledger.Done {
				refused[i]++
				continue
			}
			passed[i] = append(passed[i], me.res[0].At)
			me.do(ledger.Command{Op: ledger.Release, Steps: steps})
		}
	})
	var all, turned int
	var byKey [windows][]limit.Micros
	for i := range callers {
		all, turned = all+len(passed[i]), turned+refused[i]
		byKey[i%windows] = append(byKey[i%windows], passed[i]...)
	}
	for k, times := range byKey {
		slices.Sort(times)
		for i := int(narrow.Max); i < len(times); i++ {
			if span := times[i] - times[i-int(narrow.Max)]; span < narrow.Per {
				t.Fatalf("key %d: %d passed within %d µs", k, narrow.Max+1, span)
			}
		}
	}
	if all == 0 || turned == 0 || all+turned != decisions {
		t.Errorf("%d passed and %d were refused of %d", all, turned, decisions)
	}
	me := taker{s: s}
	cmd := ledger.Command{Op: ledger.Peek, Steps: rules(0), Levels: true}
	levels := me.do(cmd).Levels
	if used := levels[1].Max - levels[1].Left; used != int64(all) {
		t.Errorf("the bucket lost some: %d used, %d passed", used, all)
	}
	if used := levels[2].Max - levels[2].Left; used != int64(all) {
		t.Errorf("the window lost some: %d used, %d passed", used, all)
	}
	if levels[3].Left != 48 {
		t.Errorf("%d of 48 slots are free", levels[3].Left)
	}
	t.Logf("%d passed, %d were refused", all, turned)
}

// Tables are rebuilt, limits reloaded, cells scanned and reset, while slots are taken
// and given back: when all is over every slot is there and no cell is locked.
func TestEverythingAtOnce(t *testing.T) {
	s := New(Options{MaxCells: 2048})
	done := make(chan struct{})
	var others sync.WaitGroup
	disturb := func(f func(me *taker, r *rand.Rand)) {
		others.Go(func() {
			me, r := taker{s: s}, rand.New(rand.NewPCG(1, 2))
			for {
				select {
				case <-done:
					return
				default:
					f(&me, r)
				}
			}
		})
	}
	rule := func(pool, n uint64, l limit.Limit) ledger.Step {
		return ledger.Step{Key: scattered(pool<<50 + n), Limit: l, N: 1, Pool: pool}
	}
	disturb(func(me *taker, r *rand.Rand) { me.take(rule(1, r.Uint64N(20_000), limit.Bucket(100, limit.Second, 1))) })
	disturb(func(me *taker, r *rand.Rand) { me.take(rule(2, r.Uint64N(500), limit.Window(5, limit.Millisecond))) })
	disturb(func(me *taker, _ *rand.Rand) {
		for range s.Scan(context.Background(), 0) {
		}
	})
	disturb(func(me *taker, r *rand.Rand) {
		me.do(ledger.Command{Op: ledger.Reset, Group: scattered(2<<50 + r.Uint64N(500)).Group, All: r.IntN(50) == 0})
	})
	disturb(func(*taker, *rand.Rand) { s.Stats(); s.shrink(&s.shards[3]) })
	forms := [][]limit.Limit{ // of the rules that are reloaded
		{limit.Bucket(5, limit.Millisecond, 10), limit.Window(20, limit.Millisecond), limit.Bucket(100_003, limit.Second, 9)},
		{limit.Slots(3), limit.Slots(4), limit.Slots(3)},
	}
	together(8, func(i int) {
		me, r := taker{s: s}, rand.New(rand.NewPCG(3, uint64(i)))
		for range 20_000 / scale {
			form := r.IntN(3)
			steps := []ledger.Step{
				rule(3, r.Uint64N(3), forms[0][form]),
				rule(4, r.Uint64N(3), forms[1][form]),
				rule(5, r.Uint64N(3000), limit.Slots(1)),
			}
			r.Shuffle(3, func(a, b int) { steps[a], steps[b] = steps[b], steps[a] })
			cmd := ledger.Command{Steps: steps}
			if i == 0 {
				cmd.ID = ledger.ID{Hi: 1, Lo: r.Uint64()}
			}
			me.cmds[0] = cmd
			if err := s.Apply(context.Background(), me.cmds[:], me.res[:]); err != nil {
				t.Error(err)
			}
			if me.res[0].Status == ledger.Done {
				cmd.Op = ledger.Release
				me.do(cmd)
			}
		}
	})
	close(done)
	others.Wait()
	me := taker{s: s}
	me.do(ledger.Command{Op: ledger.Reset, All: true})
	for e := range s.Scan(context.Background(), 0) {
		if e.Limit.OnRelease() {
			t.Errorf("%+v is still held", e)
		}
	}
	for i := range s.shards {
		for k := range s.shards[i].table.Load().slots {
			if w := s.shards[i].table.Load().slots[k].word.Load(); w&(wordLocked|wordMoved) != 0 {
				t.Fatalf("slot %d of shard %d is %b", k, i, w)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A take that meets a rebuild is made in one table or the other, not in the one that is
// left behind.
func TestTakesSurviveRebuilds(t *testing.T) {
	for _, steps := range []uint64{1, 2} {
		for round := range uint64(20) {
			s := New(Options{})
			var list []ledger.Step
			for i := range steps {
				list = append(list, ledger.Step{Key: key(64 * (i + 1)), Limit: limit.Bucket(1, limit.Day, 3000), N: 1})
			}
			done := make(chan struct{})
			var rebuilding sync.WaitGroup
			rebuilding.Go(func() {
				for sh := &s.shards[0]; ; {
					select {
					case <-done:
						return
					default:
						sh.mu.Lock()
						s.rebuild(sh, true)
						sh.mu.Unlock()
					}
				}
			})
			var passed atomic.Int64
			together(4, func(int) {
				me := taker{s: s}
				for range 1000 {
					if me.take(slices.Clone(list)...) {
						passed.Add(1)
					}
				}
			})
			close(done)
			rebuilding.Wait()
			if n := passed.Load(); n != 3000 {
				t.Fatalf("%d limits, round %d: %d of 4000 passed, want 3000", steps, round, n)
			}
		}
	}
}
