package memory

import (
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// scattered is a key as the engine makes them: a hash.
func scattered(n uint64) ledger.Key {
	hash := func(n uint64) uint64 {
		n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
		n = (n ^ n>>27) * 0x94d049bb133111eb
		return n ^ n>>31
	}
	return ledger.Key{Group: hash(n), Cell: hash(n + 1<<40)}
}

const pool = 0xabcdef

func step(n uint64, l limit.Limit, units int64) ledger.Step {
	return ledger.Step{Key: scattered(n), Limit: l, N: units, Pool: pool}
}

// heap is how much memory is in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestIdleKeysAreForgotten(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit limit.Limit
		keys  uint64
	}{
		{"B-54 I-062 a million keys in buckets", limit.Bucket(1, limit.Second, 5), 1_000_000 / scale},
		{"B-54 I-062 two hundred thousand keys in windows", limit.Window(5, limit.Second), 200_000 / scale},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := heap()
				s := New(Options{MaxCells: 2_000_000})
				me := taker{s: s}
				for n := range c.keys {
					me.take(step(n, c.limit, 1))
				}
				if st := s.Stats(); st.Cells != int(c.keys) || st.Inserted != c.keys || st.Overflowed != 0 {
					t.Fatalf("%+v after %d keys", st, c.keys)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if st := s.Stats(); st.Cells != 0 || st.Forgotten != c.keys {
					t.Errorf("%+v after ten idle seconds", st)
				}
				if s.sweeper.running.Load() {
					t.Error("the sweeper still runs with nothing to sweep")
				}
				if now := heap(); now > before+4<<20 {
					t.Errorf("%d bytes are still held", now-before)
				}
				me.take(step(1, c.limit, 1)) // and it wakes again
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if st := s.Stats(); st.Cells != 0 {
					t.Errorf("%+v after it was used and idle again", st)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestSweepForgivesNobody(t *testing.T) {
	t.Run("P-149 a cell in use outlives every sweep", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := New(Options{})
			defer s.Close()
			me := taker{s: s}
			one := step(1, limit.Window(1, 2*limit.Second), 1)
			for at, want := range []bool{true, false, false, false, true} { // half a second apart
				if got := me.take(one); got != want {
					t.Errorf("after %d half seconds: %v", at, got)
				}
				time.Sleep(500 * time.Millisecond)
			}
		})
	})
}

func TestSweeperEndsWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		me := taker{s: s}
		me.take(step(1, limit.Slots(1), 1)) // never idle: it would run for ever
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := s.Apply(t.Context(), []ledger.Command{{}}, make([]ledger.Result, 1)); err != ErrClosed {
			t.Errorf("a closed store answers %v", err)
		}
	})
}

func TestFloodEvictsNobody(t *testing.T) {
	t.Run("B-54 B-W27 I-064 P-150 an exhausted key stays exhausted, whatever comes", func(t *testing.T) {
		const room = 4096
		s := New(Options{MaxCells: room})
		me := taker{s: s}
		l := limit.Bucket(1, limit.Hour, 5)
		victim := step(0, l, 5)
		if !me.take(victim) {
			t.Fatal("a new key was refused")
		}
		for n := range uint64(10 * room) {
			me.take(step(n+1, l, 1))
		}
		victim.N = 1
		if me.take(victim) {
			t.Error("the flood gave the exhausted key an amnesty")
		}
		st := s.Stats()
		if most := room + numShards + poolCells; st.Cells > most {
			t.Errorf("%d cells, bound %d", st.Cells, most)
		}
		if st.Forgotten != 0 || st.Overflowed == 0 {
			t.Errorf("%+v: nothing was idle", st)
		}
	})
}

// flood sends keys of l once each at a store, and reports what that does to an exhausted
// key and to newcomers that come while it runs: at least share of them are admitted.
func flood(t *testing.T, l limit.Limit, keys uint64, o Options, share float64) {
	before := heap()
	s := New(o)
	me := taker{s: s}
	victim := step(1<<50, limit.Bucket(1, limit.Hour, 20), 20)
	if !me.take(victim) {
		t.Fatal("a new key was refused")
	}
	victim.N = 1
	start, newcomers, admitted := time.Now(), 0, 0
	for n := range keys {
		me.take(step(n, l, 1))
		if n%(keys/1000) == 0 {
			newcomers++
			if me.take(step(1<<51+n, l, 1)) {
				admitted++
			}
			if me.take(victim) {
				t.Fatalf("after %d keys the exhausted one was admitted", n)
			}
		}
	}
	took := time.Since(start)
	st, after := s.Stats(), heap()
	runtime.KeepAlive(s)
	used := max(after, before) - before
	t.Logf("%d keys in %v, %v each: %.1f MB, %d cells, %d decisions in shared ones; %d of %d newcomers were admitted at once",
		keys, took.Round(time.Millisecond), took/time.Duration(keys), float64(used)/1e6, st.Cells, st.Overflowed, admitted, newcomers)
	if most := st.MaxCells + numShards + poolCells; st.Cells > most {
		t.Errorf("%d cells, bound %d", st.Cells, most)
	}
	if most := uint64(st.MaxCells)*64 + 1<<20; used > most {
		t.Errorf("%d bytes, bound %d", used, most)
	}
	if float64(admitted) < share*float64(newcomers) {
		t.Errorf("%d of %d newcomers were admitted, want %.0f %%", admitted, newcomers, 100*share)
	}
}

// FLOOD=5000000 runs a larger one, in a store of the usual size.
func TestFlood(t *testing.T) {
	keys, o := uint64(300_000/scale), Options{MaxCells: 60_000 / scale}
	if text := os.Getenv("FLOOD"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		keys, o = n, Options{}
	}
	t.Run("B-W27 keys that are soon idle make room for newcomers", func(t *testing.T) {
		flood(t, limit.Bucket(1000, limit.Second, 20), keys, o, 0.99)
	})
	t.Run("keys that stay in use leave newcomers what the shared cells have", func(t *testing.T) {
		l := limit.Bucket(1, 10*limit.Minute, 20)
		room := float64(max(o.MaxCells, 60_000/scale) + poolCells*int(l.Burst))
		flood(t, l, keys, o, 0.9*min(1, room/float64(keys)))
	})
}

// A flood that makes every key's search for room fail must not cost a search each.
func TestFullShardIsNotSearchedForEveryKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 400
		s := New(Options{MaxCells: room * numShards})
		me := taker{s: s}
		sh, held, short := &s.shards[0], limit.Slots(1), limit.Bucket(1, limit.Second, 1)
		in := func(n uint64) ledger.Key { return ledger.Key{Cell: (n + 1) << 40} } // all of shard 0
		for n := range uint64(room) {
			me.take(ledger.Step{Key: in(n), Limit: held, N: 1, Pool: pool})
		}
		tables, last := 0, sh.table.Load()
		const turned = 2000
		for n := range uint64(turned) {
			// One cell becomes idle for each key that comes.
			me.do(ledger.Command{Op: ledger.Release, Steps: []ledger.Step{{Key: in(n % (room / 2)), Limit: held, N: 1}}})
			me.take(ledger.Step{Key: in(room + n), Limit: short, N: 1, Pool: pool})
			if now := sh.table.Load(); now != last {
				tables, last = tables+1, now
			}
		}
		if most := 2 * turned / (room / 4); tables > most {
			t.Errorf("the shard was searched %d times for %d keys, want at most %d", tables, turned, most)
		}
		s.Close()
	})
}

func TestSharedCells(t *testing.T) {
	// fullStore has room for nobody: every cell is held.
	fullStore := func() taker {
		s := New(Options{MaxCells: numShards})
		me := taker{s: s}
		for n := range uint64(numShards * 20) {
			held := step(n, limit.Slots(1), 1)
			held.Pool = 1
			me.take(held)
		}
		return me
	}
	t.Run("a slot that was taken in a shared cell goes back to it", func(t *testing.T) {
		me := fullStore()
		l := limit.Slots(3)
		steps := []ledger.Step{step(1<<50, l, 2)}
		own := steps[0].Key
		me.cmds[0] = ledger.Command{Steps: steps}
		if err := me.s.Apply(t.Context(), me.cmds[:], me.res[:]); err != nil || me.res[0].Status != ledger.Done {
			t.Fatal(me.res[0], err)
		}
		if steps[0].Key == own || steps[0].Key.Group != poolGroup {
			t.Fatalf("the step came back with key %+v", steps[0].Key)
		}
		again := step(1<<50, l, 2)
		if me.take(again) {
			t.Error("the same key took again what its shared cell does not have")
		}
		me.do(ledger.Command{Op: ledger.Release, Steps: steps})
		if !me.take(again) {
			t.Error("what was released did not come back to the shared cell")
		}
	})
	t.Run("a peek says what a take would be told", func(t *testing.T) {
		me := fullStore()
		s := step(1<<50, limit.Slots(2), 2)
		peek := ledger.Command{Op: ledger.Peek, Levels: true}
		for _, c := range []struct {
			want ledger.Status
			left int64
		}{{ledger.Done, 2}, {ledger.Refused, 0}} {
			peek.Steps = []ledger.Step{s}
			if res := me.do(peek); res.Status != c.want || res.Levels[0].Left != c.left {
				t.Errorf("%+v, want %+v", res, c)
			}
			if me.take(s) != (c.want == ledger.Done) {
				t.Error("and a take was told otherwise")
			}
		}
	})
	t.Run("with an ID too", func(t *testing.T) {
		me := fullStore()
		id := ledger.ID{Lo: 1}
		s := step(1<<50, limit.Slots(1), 1)
		if me.do(ledger.Command{ID: id, Steps: []ledger.Step{s}}).Status != ledger.Done {
			t.Fatal("refused")
		}
		if me.take(s) {
			t.Error("a shared slot was taken twice")
		}
		if me.do(ledger.Command{Op: ledger.Release, ID: id}).Status != ledger.Done || !me.take(s) {
			t.Error("a shared slot did not come back")
		}
	})
	t.Run("each limit has shared cells of its own", func(t *testing.T) {
		me := fullStore()
		a, b := step(1<<50, limit.Slots(1), 1), step(1<<50, limit.Slots(1), 1)
		b.Pool++
		if !me.take(a) || !me.take(b) {
			t.Error("two limits shared a cell")
		}
	})
	t.Run("several limits that find no room are still all or nothing", func(t *testing.T) {
		me := fullStore()
		a, b := step(1<<50, limit.Slots(5), 1), step(1<<51, limit.Slots(0), 1)
		b.Pool++
		for range 10 {
			if me.take(a, b) {
				t.Fatal("zero slots admitted")
			}
		}
		a.N = 5
		if !me.take(a) {
			t.Error("a refusal took from a shared cell")
		}
	})
	t.Run("more keys than shared cells leave the bound where it is", func(t *testing.T) {
		me := fullStore()
		r := rand.New(rand.NewPCG(1, 1))
		for range 100_000 {
			me.take(step(r.Uint64(), limit.Bucket(1, limit.Hour, 1), 1))
		}
		if st := me.s.Stats(); st.Cells > numShards+2*poolCells { // of two limits
			t.Errorf("%+v", st)
		}
	})
}
