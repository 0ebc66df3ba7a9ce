package memory

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A decision allocates nothing, granted or refused, of one limit or of many.
func TestDecisionsAllocateNothing(t *testing.T) {
	plenty := []limit.Limit{
		limit.Bucket(10, limit.Second, 1<<30), limit.Window(100, 1), limit.Slots(1 << 30), limit.Bucket(100_003, limit.Second, 1<<30),
	}
	nothing := []limit.Limit{
		limit.Bucket(1, limit.Day, 1), limit.Window(1, limit.Day), limit.Slots(1), limit.Bucket(1009, 300*limit.Day+1, 1),
	}
	for _, c := range []struct {
		name   string
		limits []limit.Limit
		want   ledger.Status
	}{{"granted", plenty, ledger.Done}, {"refused", nothing, ledger.Refused}} {
		for n := range len(c.limits) + 1 {
			name, limits := fmt.Sprintf("%s by all four", c.name), c.limits
			if n < len(c.limits) {
				name, limits = fmt.Sprintf("%s by %v", c.name, c.limits[n]), c.limits[n:n+1]
			}
			t.Run(name, func(t *testing.T) {
				s := New(Options{})
				cmds, res := make([]ledger.Command, 1), make([]ledger.Result, 1)
				for i, l := range limits {
					cmds[0].Steps = append(cmds[0].Steps, ledger.Step{Key: key(uint64(i + 1)), Limit: l, N: 1})
				}
				cmds[0].Levels = true
				decide := func() {
					if err := s.Apply(t.Context(), cmds, res); err != nil {
						t.Fatal(err)
					}
				}
				for range 300 { // a window's log has grown
					decide()
				}
				// The race detector makes a sync.Pool forget at random: what it allocates then
				// says nothing of several limits or wide cells, which keep their scratch in one.
				oneWord := len(limits) == 1 && limits[0].Narrow()
				if n := testing.AllocsPerRun(1000, decide); n != 0 && (scale == 1 || oneWord) {
					t.Errorf("%v allocations", n)
				}
				if res[0].Status != c.want {
					t.Errorf("the last was %d, want %d", res[0].Status, c.want)
				}
			})
		}
	}
}

// The store's clock is monotonic time: in a bubble it goes as the test says.
func TestTiming(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit limit.Limit
		after time.Duration // all units were taken
		want  int64         // units that are there
	}{
		{"P-014 a bucket, a moment before its unit", limit.Bucket(10, limit.Second, 20), 99 * time.Millisecond, 0},
		{"P-014 a bucket, at its unit", limit.Bucket(10, limit.Second, 20), 100 * time.Millisecond, 1},
		{"P-017 a bucket never above its burst", limit.Bucket(10, limit.Second, 20), time.Hour, 20},
		{"I-065 a bucket that the sweeper has passed, not yet full", limit.Bucket(1, limit.Second, 100), 9 * time.Second, 9},
		{"P-012 a bucket of a large rate", limit.Bucket(300_000, limit.Second, 1000), time.Millisecond, 300},
		{"P-044 a window, a moment before", limit.Window(5, limit.Second), time.Second - time.Microsecond, 0},
		{"P-044 a window, to the microsecond", limit.Window(5, limit.Second), time.Second, 5},
		{"A-4 a pace, a moment before", limit.Pace(3 * limit.Second), 3*time.Second - time.Microsecond, 0},
		{"A-4 a pace", limit.Pace(3 * limit.Second), 3 * time.Second, 1},
		{"P-096 slots, never by time", limit.Slots(5), time.Hour, 0},
		{"ten years of a packed bucket", limit.Bucket(1000, limit.Second, 20), 10 * 365 * 24 * time.Hour, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{})
				defer s.Close()
				me := taker{s: s}
				all := ledger.Step{Key: key(1), Limit: c.limit, N: c.limit.Capacity()}
				if !me.take(all) {
					t.Fatal("refused at first")
				}
				time.Sleep(c.after)
				got, one := int64(0), all
				for one.N = 1; me.take(one); got++ {
				}
				if got != c.want {
					t.Errorf("%d units after %v, want %d", got, c.after, c.want)
				}
			})
		})
	}
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{MaxGrants: 2, Retention: time.Minute})
		defer s.Close()
		me := taker{s: s}
		id := func(n uint64, op ledger.Op) ledger.Status {
			return me.do(ledger.Command{Op: op, ID: ledger.ID{Lo: n}, Steps: []ledger.Step{{Key: key(1), Limit: limit.Slots(9), N: 1}}}).Status
		}
		for _, c := range []struct {
			wait time.Duration
			id   uint64
			op   ledger.Op
			want ledger.Status
		}{
			{0, 1, ledger.Take, ledger.Done},
			{0, 2, ledger.Take, ledger.Done},
			{0, 3, ledger.Take, ledger.Full}, // C-31
			{0, 1, ledger.Release, ledger.Done},
			{time.Minute - time.Microsecond, 1, ledger.Take, ledger.Replayed},
			{time.Microsecond, 1, ledger.Find, ledger.Unknown},
			{time.Hour, 2, ledger.Find, ledger.Done},
			{0, 3, ledger.Take, ledger.Done},
		} {
			time.Sleep(c.wait)
			if got := id(c.id, c.op); got != c.want {
				t.Errorf("%+v: %d", c, got)
			}
		}
		if st := s.Stats(); st.Grants != 2 {
			t.Errorf("%d grants, want 2", st.Grants)
		}
	})
	if s := New(Options{MaxGrants: -1}); s != nil {
		me := taker{s: s}
		if got := me.do(ledger.Command{ID: ledger.ID{Lo: 1}}).Status; got != ledger.Full {
			t.Errorf("a store without room for grants answers %d", got)
		}
	}
}

func TestOneWordPerCell(t *testing.T) {
	t.Run("an epoch flips with the limit, so that an older word is not swapped", func(t *testing.T) {
		s := New(Options{})
		me := taker{s: s}
		a, b := limit.Bucket(1, limit.Hour, 5), limit.Bucket(1, limit.Hour, 9)
		peek := func(l limit.Limit) int64 {
			me.do(ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{{Key: key(1), Limit: l}}})
			return s.shardOf(key(1)).table.Load().find(key(1)).word.Load()
		}
		me.take(ledger.Step{Key: key(1), Limit: a, N: 1})
		before := peek(a)
		if after := peek(b); after^before != wordEpoch {
			t.Errorf("the word was %b and is %b", before, after)
		}
		me.take(ledger.Step{Key: key(1), Limit: b, N: 1})
		if again := peek(b); (again^before)&wordEpoch == 0 {
			t.Error("the epoch flipped without a change")
		}
	})
	t.Run("groups and numbers do not run into each other", func(t *testing.T) {
		for _, group := range []uint64{0, 1 << 63, ^uint64(0), 1 << groupShift} {
			for _, number := range []uint32{0, 1, limitMask} {
				m := metaOf(group, number)
				if m == 0 || numberOf(m) != number || !sameGroup(m, group) || sameGroup(m, group^1<<groupShift) {
					t.Errorf("group %x and number %x became %x", group, number, m)
				}
			}
		}
	})
}

func TestRegistry(t *testing.T) {
	var r registry
	limits := []limit.Limit{limit.Slots(1), limit.Slots(2), limit.Window(1, 1), limit.Slots(1)}
	var got []uint32
	for _, l := range limits {
		n, ok := r.number(l)
		if !ok || r.at(n) != l {
			t.Errorf("%v has number %d, which is %v", l, n, r.at(n))
		}
		got = append(got, n)
	}
	if !slices.Equal(got, []uint32{0, 1, 2, 0}) {
		t.Errorf("numbers %v", got)
	}
	together(8, func(i int) {
		for k := range int64(500) {
			if n, _ := r.number(limit.Slots(k + 1)); r.at(n) != limit.Slots(k+1) {
				t.Errorf("slots %d have another's number", k+1)
			}
		}
	})
	if n := len(*r.list.Load()); n != 501 {
		t.Errorf("%d limits are numbered, want 501", n)
	}
}

// An arena's cells are found again after it has grown, and given back when all are free.
func TestArena(t *testing.T) {
	var a arena
	var mine []int32
	for i := range 300 {
		n := a.alloc()
		a.at(n).Used = int64(i)
		mine = append(mine, n)
	}
	for i, n := range mine {
		if a.at(n).Used != int64(i) {
			t.Fatalf("cell %d holds %d", i, a.at(n).Used)
		}
	}
	for _, n := range mine[1:] {
		a.release(n)
	}
	if n := a.alloc(); a.at(n).Used != 0 || n == mine[0] {
		t.Errorf("cell %d holds %d", n, a.at(n).Used)
	} else {
		a.release(n)
	}
	a.release(mine[0])
	if a.chunks.Load() != nil || a.used != 0 || a.free != nil {
		t.Error("an arena that nobody uses holds memory")
	}
}
