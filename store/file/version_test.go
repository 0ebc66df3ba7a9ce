package file_test

import (
	"bytes"
	"os"
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
	if is, err := file.Verify(path); err != nil || is.Version != 2 || is.Open != 2 || is.Ended != 1 {
		t.Errorf("C-95 after the migration it holds %+v, %v", is, err)
	}
	if backup, err := os.ReadFile(path + ".bak"); err != nil || !bytes.Equal(backup, old) {
		t.Errorf("the log of version 1 was not kept: %v", err)
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
