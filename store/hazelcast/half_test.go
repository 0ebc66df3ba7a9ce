package hazelcast

import (
	"context"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
)

// two returns two Stores of one map.
func two(t *testing.T, m *hazelcasttest.Member, name string) (a, b *Store) {
	t.Helper()
	var list [2]*Store
	for i := range list {
		s, err := Open(context.Background(), Options{Addresses: []string{m.Addr}, Cluster: m.Cluster, Map: name, Wait: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		list[i] = s
	}
	return list[0], list[1]
}

func slotsOf(n uint64) ledger.Step {
	return ledger.Step{Key: ledger.Key{Cell: n}, Limit: limit.Slots(10), N: 1}
}

// begin prepares a pass of s that takes a slot of each of cells 1 to 3, and leaves it.
func begin(t *testing.T, s *Store) (x stamp, changes []change, held []*entry) {
	t.Helper()
	p := &pass{requests: []*request{newRequest([]ledger.Command{{Steps: []ledger.Step{slotsOf(1), slotsOf(2), slotsOf(3)}}})}}
	p.keys = p.requests[0].keys
	entries := make(map[string]*entry)
	if err := s.load(p, entries, false); err != nil {
		t.Fatal(err)
	}
	b := newBooks(s.timeAfter(entries), s.retention, entries)
	b.decide(p.requests[0])
	x = stamp{s.process, s.passes.Add(1)}
	changes = s.changes(b, x, entries)
	held = make([]*entry, 2)
	if err := s.prepare(x, changes[0].key, changes[1:], held); err != nil {
		t.Fatal(err)
	}
	return x, changes, held
}

// commitPrimary writes the mark of a pass that begin has prepared.
func commitPrimary(t *testing.T, s *Store, x stamp, changes []change) bool {
	t.Helper()
	marked := *changes[0].next
	marked.mark = &mark{stamp: x, keys: []string{changes[1].key, changes[2].key}}
	won, err := s.set(changes[0].key, changes[0].from, &marked)
	if err != nil {
		t.Fatal(err)
	}
	return won
}

// free says how many slots of cell n are free, by s.
func free(t *testing.T, s *Store, n uint64) int64 {
	t.Helper()
	step := slotsOf(n)
	step.N = 0
	res := make([]ledger.Result, 1)
	if err := s.Apply(context.Background(), []ledger.Command{{Op: ledger.Peek, Levels: true, Steps: []ledger.Step{step}}}, res); err != nil {
		t.Fatal(err)
	}
	return res[0].Levels[0].Left
}

// TestHalfDone stops a process between two writes of one pass, at each place.
func TestHalfDone(t *testing.T) {
	member := hazelcasttest.Start(t, 1)[0]
	t.Run("before it commits, it is taken back, and cannot commit any more", func(t *testing.T) {
		dead, alive := two(t, member, "before")
		x, changes, _ := begin(t, dead)
		for n := uint64(3); n > 0; n-- {
			if left := free(t, alive, n); left != 10 {
				t.Errorf("%d slots of cell %d are free, want all", left, n)
			}
		}
		if commitPrimary(t, dead, x, changes) {
			t.Error("a pass committed whose intents are gone")
		}
	})
	t.Run("what was taken back stays so, though the cells are used and idle again", func(t *testing.T) {
		dead, alive := two(t, member, "again")
		x, changes, _ := begin(t, dead)
		all := []ledger.Step{slotsOf(1), slotsOf(2), slotsOf(3)}
		for _, op := range []ledger.Op{ledger.Take, ledger.Release} {
			if err := alive.Apply(context.Background(), []ledger.Command{{Op: op, Steps: all}}, make([]ledger.Result, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if commitPrimary(t, dead, x, changes) {
			t.Error("a pass committed whose intents are gone")
		}
	})
	t.Run("a process that was stopped for long does not write where it had seen nothing", func(t *testing.T) {
		dead, _ := two(t, member, "long")
		x, changes, _ := begin(t, dead)
		changes[0].from.asked = time.Now().Add(-leftFor)
		if commitPrimary(t, dead, x, changes) {
			t.Error("it writes on what it saw long ago")
		}
	})
	t.Run("after it has committed, it is carried out by whoever meets it first", func(t *testing.T) {
		for first := range uint64(3) {
			dead, alive := two(t, member, "after-"+string('a'+rune(first)))
			x, changes, _ := begin(t, dead)
			if !commitPrimary(t, dead, x, changes) {
				t.Fatal("it does not commit")
			}
			for n := range uint64(3) {
				if left := free(t, alive, (first+n)%3+1); left != 9 {
					t.Errorf("%d slots of cell %d are free, want 9", left, (first+n)%3+1)
				}
			}
		}
	})
	t.Run("a sweep ends it too, and removes what is useless", func(t *testing.T) {
		dead, alive := two(t, member, "sweep")
		x, changes, _ := begin(t, dead)
		if !commitPrimary(t, dead, x, changes) {
			t.Fatal("it does not commit")
		}
		alive.sweepMapAt(alive.clock.now() + limit.Hour)
		for _, c := range changes {
			e := &entry{}
			if err := alive.reread(c.key, e); err != nil || e.value.intent != nil || e.value.state.cell.cell.Used != 1 {
				t.Errorf("a sweep leaves %+v, %v", e.value, err)
			}
		}
		all := []ledger.Step{slotsOf(1), slotsOf(2), slotsOf(3)}
		if err := alive.Apply(context.Background(), []ledger.Command{{Op: ledger.Release, Steps: all}}, make([]ledger.Result, 1)); err != nil {
			t.Fatal(err)
		}
		alive.sweepMapAt(alive.clock.now())
		if n, _ := alive.books.Size(context.Background()); n != 3 {
			t.Errorf("a sweep removed what was written just now: %d values are left", n)
		}
		alive.sweepMapAt(alive.clock.now() + limit.Hour)
		if n, _ := alive.books.Size(context.Background()); n != 0 {
			t.Errorf("%d values are left that are useless", n)
		}
	})
	t.Run("C-98 C-99 a sweep removes a reservation that has left, and none that is good", func(t *testing.T) {
		dying, alive := two(t, member, "reserved") // before it had set how long its record is kept
		for _, cmd := range []ledger.Command{{ID: ledger.ID{Lo: 1}, Expires: limit.Hour}, {ID: ledger.ID{Lo: 2}}} {
			r := cmd.Record(dying.clock.now())
			v := &value{writers: []writer{{stamp{dying.process, dying.passes.Add(1)}, r.At}}, state: state{record: &r}}
			if err := dying.books.Set(context.Background(), recordKey(cmd.ID), v.encode()); err != nil {
				t.Fatal(err)
			}
		}
		for _, sweep := range []struct {
			after limit.Micros
			left  int
		}{{limit.Hour / 2, 2}, {2 * limit.Hour, 1}} {
			alive.sweepMapAt(alive.clock.now() + sweep.after)
			if n, _ := alive.books.Size(context.Background()); n != sweep.left {
				t.Errorf("%d records are left, want %d", n, sweep.left)
			}
		}
	})
}
