package file_test

import (
	"context"
	"os"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

// TestTrafficDoesNotFillTheLedger is C-W1: a million calls within an hour, with the
// default bounds, about rules that keep rates: a tenth of them under the race detector,
// unless ACCEPTANCE=full.
func TestTrafficDoesNotFillTheLedger(t *testing.T) {
	r := rule("rate", limit.Window(2_000_000, limit.Hour))
	r.Volatile = true
	o := mustOffice(t, freshPath(t), file.Options{}, r)
	writes := o.store.Stats().Writes
	calls := 1_000_000
	if !full() {
		calls /= scale
	}
	var d sluice.Decision
	for i := range calls {
		ok, err := o.Try(context.Background(), &alice, &d)
		if err != nil || !ok {
			t.Fatalf("C-W1 call %d: %v, %v", i, d.Refusal(), err)
		}
	}
	if st := o.store.Stats(); st.Writes != writes || st.Grants != 0 {
		t.Errorf("C-W1, C-85 %d writes and %d records, want none", st.Writes-writes, st.Grants)
	}
}

// TestFinishedCallsLeaveDebitsAlone is D15: ten times as many finished calls as there may
// be open ones, each with an ID.
func TestFinishedCallsLeaveDebitsAlone(t *testing.T) {
	path, options := freshPath(t), file.Options{MaxRecords: 100}
	d := newDesk(t, path, options)
	window, slots := step(1, limit.Window(2000, limit.Day), 1), step(2, limit.Slots(1), 1)
	for i := range uint64(1000) {
		d.want(ledger.Done, named(i+1, take(window, slots)))
		d.want(ledger.Done, named(i+1, release))
	}
	if n := d.Stats().Grants; n > 101 {
		t.Errorf("%d records, the bound is 100", n)
	}
	d = d.again(path, options)
	d.left(1000, window)
	d.left(1, slots)
	d.want(ledger.Replayed, named(1000, take(window, slots)))
}

// full reports whether tests may take their time.
func full() bool { return os.Getenv("ACCEPTANCE") == "full" }

// TestCostDoesNotGrow is C-W3: what a reservation writes when the store holds ten records
// and when it holds a hundred thousand, or with ACCEPTANCE=full a million.
// BenchmarkRecords says how long it takes.
func TestCostDoesNotGrow(t *testing.T) {
	d := newDesk(t, freshPath(t), file.Options{MaxRecords: 1 << 20})
	next := uint64(1)
	fill := func(upTo uint64) {
		for next <= upTo {
			cmds := make([]ledger.Command, 0, 1000)
			for ; next <= upTo && len(cmds) < cap(cmds); next++ {
				cmds = append(cmds, reservation(next, next)...)
			}
			if err := d.Apply(context.Background(), cmds, make([]ledger.Result, len(cmds))); err != nil {
				t.Fatal(err)
			}
		}
	}
	cost := func() uint64 {
		before := d.Stats().Bytes
		for range 20 {
			d.want(ledger.Done, reservation(next, next)[0])
			next++
		}
		return (d.Stats().Bytes - before) / 20
	}
	fill(10)
	few := cost()
	records := uint64(100_000)
	if full() {
		records = 1_000_000
	}
	fill(records)
	many := cost()
	if many > few+16 { // numbers of more digits
		t.Errorf("C-W3 a reservation writes %d bytes with ten records and %d with %d", few, many, records)
	}
	t.Run("a full window", func(t *testing.T) {
		window := step(1, limit.Window(4000, limit.Day), 1)
		d.want(ledger.Done, take(window))
		before := d.Stats().Bytes
		d.want(ledger.Done, take(window))
		first := d.Stats().Bytes - before
		for range 30 {
			cmds := make([]ledger.Command, 100)
			for i := range cmds {
				cmds[i] = take(step(1, limit.Window(4000, limit.Day), 1))
			}
			if err := d.Apply(context.Background(), cmds, make([]ledger.Result, len(cmds))); err != nil {
				t.Fatal(err)
			}
		}
		before = d.Stats().Bytes
		d.want(ledger.Done, take(window))
		if last := d.Stats().Bytes - before; last > first+16 {
			t.Errorf("C-W3 a debit of an empty window writes %d bytes and one of a window of 3000 writes %d", first, last)
		}
	})
}
