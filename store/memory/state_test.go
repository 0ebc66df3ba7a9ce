package memory_test

import (
	"context"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// TestStateIsTakenOutAndPutBack uses a limit of every kind, takes its cell to another
// store and finds it in the same state there.
func TestStateIsTakenOutAndPutBack(t *testing.T) {
	for _, l := range []limit.Limit{
		limit.Bucket(1, limit.Hour, 10),
		limit.Bucket(1001, limit.Hour, 10), // not narrow
		limit.Window(10, limit.Hour),
		limit.Slots(10),
	} {
		t.Run(l.String(), func(t *testing.T) {
			from := memory.New(memory.Options{Start: 5 * limit.Day})
			defer from.Close()
			step := ledger.Step{Key: ledger.Key{Group: 1 << 40, Cell: 77}, Limit: l, N: 4}
			if from.View(step.Key, func(limit.Limit, *limit.Cell) {}) {
				t.Error("a cell that was never used is there")
			}
			apply(t, from, ledger.Command{Steps: []ledger.Step{step}})
			to := memory.New(memory.Options{MaxCells: 1, Start: from.Now()})
			defer to.Close()
			found := from.View(step.Key, func(l limit.Limit, c *limit.Cell) {
				to.Restore(step.Key, l, limit.Cell{At: c.At, Used: c.Used, Log: c.Log.Clone()})
			})
			if !found {
				t.Fatal("the cell is not there")
			}
			wantLeft(t, to, step, 6)
			to.Restore(step.Key, limit.Window(3, limit.Day), limit.Cell{}) // another limit in its place
			wantLeft(t, to, step, 10)
			from.Clear(step.Key)
			wantLeft(t, from, step, 10)
		})
	}
}

func TestRecordsAreTakenOutAndPutBack(t *testing.T) {
	from, to := memory.New(memory.Options{}), memory.New(memory.Options{})
	defer from.Close()
	defer to.Close()
	step := ledger.Step{Key: ledger.Key{Cell: 1}, Limit: limit.Slots(2), N: 1}
	take := ledger.Command{ID: ledger.ID{Lo: 9}, Steps: []ledger.Step{step}, Call: 3}
	if from.ViewRecord(take.ID, func(*ledger.Record) {}) {
		t.Error("there is a record of what was never taken")
	}
	apply(t, from, take)
	for id, r := range from.OpenRecords() {
		to.RestoreRecord(id, r)
	}
	if res := apply(t, to, take); res.Status != ledger.Replayed {
		t.Errorf("status %d, want replayed", res.Status)
	}
	apply(t, to, ledger.Command{Op: ledger.Release, ID: take.ID})
	released := false
	to.ViewRecord(take.ID, func(r *ledger.Record) { released = r.Released })
	if n := len(to.OpenRecords()); !released || n != 0 {
		t.Errorf("released is %v and %d records are open; want it released", released, n)
	}
}

func apply(t *testing.T, s *memory.Store, cmd ledger.Command) ledger.Result {
	t.Helper()
	cmds, res := []ledger.Command{cmd}, make([]ledger.Result, 1)
	if err := s.Apply(context.Background(), cmds, res); err != nil {
		t.Fatal(err)
	}
	return res[0]
}

func wantLeft(t *testing.T, s *memory.Store, step ledger.Step, want int64) {
	t.Helper()
	step.N = 0
	res := apply(t, s, ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{step}, Levels: true})
	if got := res.Levels[0].Left; got != want {
		t.Errorf("%d left of %v, want %d", got, step.Limit, want)
	}
}
