package file_test

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

// TestVersion1 opens a log that the program of format version 1 has written: a debit of 5
// calls and a token without a record; three grants of 5 calls and a slot, of which the
// second also had a token, was settled to 9 calls and none, and the third was released;
// and three rules. What was taken takes 9000 days to come back.
func TestVersion1(t *testing.T) {
	old, err := os.ReadFile("testdata/version1")
	if err != nil {
		t.Fatal(err)
	}
	path := freshPath(t)
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	options := file.Options{KeySecret: []byte("the secret of version 1"), Retention: 9000 * 24 * time.Hour}
	if was, err := file.Verify(path); err != nil || was.Version != 1 || was.Rules != 3 || was.Open != 2 || was.Ended != 1 {
		t.Fatalf("C-95 it holds %+v, %v", was, err)
	}
	d := newDesk(t, path, options)
	const long = 9000 * limit.Day
	window, bucket, slots := step(1, limit.Window(100, long), 5), step(2, limit.Bucket(1, long, 2), 1), step(3, limit.Slots(10), 1)
	d.left(100-5-5-9-5, window)
	d.left(2-1-0, bucket)
	d.left(8, slots) // C-95 what is open holds its slots
	for id, call := range map[uint64]struct{ settled, released bool }{1: {false, false}, 2: {true, false}, 3: {false, true}} {
		res := d.want(ledger.Done, named(id, find))
		if res.Settled != call.settled || res.Released != call.released || res.Left != ledger.Forever || res.Calls != 0 {
			t.Errorf("C-95 grant %d is %+v", id, res)
		}
	}
	d.want(ledger.Replayed, named(2, settle(9, 0, -1)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if is, err := file.Verify(path); err != nil || is.Version != 3 || is.Open != 2 || is.Ended != 1 {
		t.Errorf("C-95 after the migration it holds %+v, %v", is, err)
	}
	if backup, err := os.ReadFile(path + ".bak"); err != nil || !bytes.Equal(backup, old) {
		t.Errorf("the log of version 1 was not kept: %v", err)
	}
}

// TestVersion2 opens a log that the program of format version 2 has written, of three grants:
// one of 5 calls, good for a minute; one of 5 calls and a slot, settled to 4 calls; one of a
// slot, released; and two rules.
func TestVersion2(t *testing.T) {
	old, err := os.ReadFile("testdata/version2")
	if err != nil {
		t.Fatal(err)
	}
	path := freshPath(t)
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	options := file.Options{KeySecret: []byte("the secret of version 2"), Retention: 9000 * 24 * time.Hour}
	if was, err := file.Verify(path); err != nil || was.Version != 2 || was.Rules != 2 || was.Open != 2 || was.Ended != 1 {
		t.Fatalf("C-95 it holds %+v, %v", was, err)
	}
	d := newDesk(t, path, options)
	d.left(100-5-4, step(1, limit.Window(100, 9000*limit.Day), 5))
	d.left(9, step(3, limit.Slots(10), 1)) // C-95 what is open holds its slot
	for id, want := range map[uint64]ledger.Result{
		1: {Calls: 2, Left: 0}, 2: {Calls: 3, Settled: true, Used: []int64{4, -1}, Left: ledger.Forever},
		3: {Calls: 1, Released: true, Left: ledger.Forever},
	} {
		got := d.want(ledger.Done, named(id, find))
		if got.Calls != want.Calls || got.Settled != want.Settled || got.Released != want.Released || !slices.Equal(got.Used, want.Used) ||
			got.Outcome != 0 || got.WhileHeld || len(got.Note) != 0 || (got.Left == ledger.Forever) != (want.Left == ledger.Forever) {
			t.Errorf("C-95 grant %d is %+v", id, got)
		}
	}
	d.want(ledger.Replayed, named(2, settle(4, -1)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if is, err := file.Verify(path); err != nil || is.Version != 3 || is.Open != 2 || is.Ended != 1 {
		t.Errorf("C-95 after the migration it holds %+v, %v", is, err)
	}
}

// TestNotesSurvive is C-68, C-76 and C-88 for what a record says besides what was taken.
func TestNotesSurvive(t *testing.T) {
	path, options := freshPath(t), file.Options{Retention: time.Hour}
	d := newDesk(t, path, options)
	held, budget := step(1, limit.Slots(5), 1), step(2, limit.Window(100, limit.Day), 20)
	hold := named(1, take(held))
	hold.Note, hold.WhileHeld = []byte("one\x00"), true
	d.want(ledger.Done, hold)
	reserve := named(2, take(budget))
	reserve.Note, reserve.Expires = []byte("two"), limit.Minute
	d.want(ledger.Done, reserve)
	settlement := named(2, settle(5))
	settlement.Outcome = 200
	d.want(ledger.Done, settlement)
	d = d.again(path, options)
	if res := d.want(ledger.Replayed, hold); string(res.Note) != "one\x00" || !res.WhileHeld || res.Outcome != 0 || res.Left != ledger.Forever {
		t.Errorf("C-88 after a restart %+v", res)
	}
	if res := d.want(ledger.Replayed, reserve); string(res.Note) != "two" || !res.Settled || res.Outcome != 200 || !slices.Equal(res.Used, []int64{5}) {
		t.Errorf("C-70 after a restart %+v", res)
	}
	d.want(ledger.Replayed, settlement)
	settlement.Outcome = 0
	d.want(ledger.Conflict, settlement)
	d.want(ledger.Done, named(1, release))
	if n, _ := d.Recorded(); n != 1 {
		t.Errorf("C-W2 %d records after the release, want that of the reservation", n)
	}
	d = d.again(path, options)
	d.want(ledger.Unknown, named(1, find))
	d.left(5, held)
	if sum, err := file.Verify(path); err != nil || sum.Open != 1 || sum.Ended != 0 {
		t.Errorf("C-W2 the log holds %+v, %v", sum, err)
	}
}

// TestReservationsSurvive is C-68, C-77 and C-99 across restarts.
func TestReservationsSurvive(t *testing.T) {
	path, options := freshPath(t), file.Options{Retention: time.Hour}
	d := newDesk(t, path, options)
	budget := step(1, limit.Window(100, limit.Day), 20)
	reserve := named(1, take(budget))
	reserve.Expires, reserve.Calls = limit.Minute, 7
	d.want(ledger.Done, reserve)
	d = d.again(path, options)
	res := d.want(ledger.Replayed, reserve)
	if res.Left <= 0 || res.Left > limit.Minute || res.Calls != 7 {
		t.Errorf("C-68 %d µs left of %d calls, want up to a minute of 7", res.Left, res.Calls)
	}
	d.want(ledger.Done, named(1, settle(5)))
	d = d.again(path, options)
	if again := d.want(ledger.Replayed, reserve); !again.Settled || again.Left > res.Left {
		t.Errorf("C-70 after the settlement %+v", again)
	}
	d.want(ledger.Conflict, named(1, settle(6)))
	d.left(95, budget)
}
