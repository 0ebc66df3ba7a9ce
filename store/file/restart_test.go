package file_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

func TestWhatSurvives(t *testing.T) {
	bucket, window := step(1, limit.Bucket(1, limit.Day, 10), 3), step(2, limit.Window(10, limit.Day), 4)
	slots, cooldown := step(3, limit.Slots(2), 1), step(4, limit.Cooldown(0), 1)
	for _, c := range []struct {
		name          string
		before, after func(d *desk)
	}{
		{"C-88 debits", func(d *desk) {
			d.want(ledger.Done, take(bucket, window))
			d.want(ledger.Done, take(bucket, window))
		}, func(d *desk) {
			d.left(4, bucket)
			d.left(2, window)
		}},
		{"C-88 held slots and idempotency", func(d *desk) {
			d.want(ledger.Done, named(1, take(slots, window)))
		}, func(d *desk) {
			d.left(1, slots)
			d.want(ledger.Replayed, named(1, take(slots, window)))
			d.left(6, window)
			d.want(ledger.Done, named(1, release))
			d.left(2, slots)
		}},
		{"settled stays settled", func(d *desk) {
			d.want(ledger.Done, named(1, take(window)))
			d.want(ledger.Done, named(1, settle(1)))
		}, func(d *desk) {
			d.left(9, window)
			d.want(ledger.Replayed, named(1, settle(1)))
			d.want(ledger.Conflict, named(1, settle(2)))
		}},
		{"C-77 what is open can be settled", func(d *desk) {
			d.want(ledger.Done, named(1, take(bucket, window)))
		}, func(d *desk) {
			d.want(ledger.Done, named(1, settle(1, 6)))
			d.left(9, bucket)
			d.left(4, window)
		}},
		{"released stays released", func(d *desk) {
			d.want(ledger.Done, named(1, take(slots)))
			d.want(ledger.Done, named(1, release))
		}, func(d *desk) {
			d.left(2, slots)
			if res := d.want(ledger.Done, named(1, find)); !res.Released {
				t.Error("it is open again")
			}
		}},
		{"a void leaves nothing", func(d *desk) {
			d.want(ledger.Done, named(1, take(slots, window)))
			d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Void}))
		}, func(d *desk) {
			d.left(10, window)
			d.left(2, slots)
			d.want(ledger.Unknown, named(1, find))
		}},
		{"C-47 a freed slot stays free", func(d *desk) {
			d.want(ledger.Done, named(1, take(slots)))
			d.want(ledger.Done, named(2, take(slots)))
			d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Free, Steps: []ledger.Step{slots}}))
		}, func(d *desk) {
			d.left(1, slots)
			d.want(ledger.Done, named(1, release))
			d.left(1, slots)
		}},
		{"a limit that has become slots", func(d *desk) {
			d.want(ledger.Done, take(window))
			d.want(ledger.Done, take(asSlots(window))) // without an ID
			d.want(ledger.Done, ledger.Command{Op: ledger.Reset, All: true})
		}, func(d *desk) { d.left(10, asSlots(window)) }},
		{"a cooldown", func(d *desk) {
			d.want(ledger.Done, ledger.Command{Op: ledger.Cool, Steps: []ledger.Step{cooldown}, Delay: limit.Day})
		}, func(d *desk) { d.want(ledger.Refused, take(cooldown)) }},
		{"a reset", func(d *desk) {
			d.want(ledger.Done, take(bucket, window))
			d.want(ledger.Done, ledger.Command{Op: ledger.Reset, Group: bucket.Key.Group})
		}, func(d *desk) {
			d.left(10, bucket)
			d.left(6, window)
		}},
		{"C-88, C-W28 volatile state starts anew", func(d *desk) {
			d.want(ledger.Done, take(volatile(window), bucket))
			d.want(ledger.Done, named(1, take(volatile(slots))))
		}, func(d *desk) {
			d.left(10, window)
			d.left(7, bucket)
			d.left(2, slots)
			d.want(ledger.Done, take(slots))
			d.want(ledger.Done, named(1, release)) // it frees nobody else's
			d.left(1, slots)
		}},
		{"slots without an ID are free, for nobody could release them", func(d *desk) {
			d.want(ledger.Done, take(slots))
		}, func(d *desk) { d.left(2, slots) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := freshPath(t)
			d := newDesk(t, path, file.Options{})
			c.before(d)
			c.after(d.again(path, file.Options{}))
		})
	}
}

// asSlots is s under a rule that has changed its kind.
func asSlots(s ledger.Step) ledger.Step {
	s.Limit = limit.Slots(10)
	return s
}

func TestVolatileStateIsNotWritten(t *testing.T) {
	path := freshPath(t)
	d := newDesk(t, path, file.Options{})
	for _, c := range []struct {
		name string
		cmd  ledger.Command
	}{
		{"C-85 a call that moves rate counters alone", take(volatile(step(1, limit.Window(10, limit.Day), 1)))},
		{"a slot without an ID", take(step(2, limit.Slots(10), 1))},
		{"its release", ledger.Command{Op: ledger.Release, Steps: []ledger.Step{step(2, limit.Slots(10), 1)}}},
		{"C-W2 a call that takes nothing", take(step(3, limit.Window(10, limit.Day), 0))},
		{"a refusal", take(step(4, limit.Window(1, limit.Day), 2))},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := readFile(t, path)
			d.do(c.cmd)
			if n := d.Stats().Writes; n != 0 {
				t.Errorf("%d writes, want none", n)
			}
			if string(readFile(t, path)) != string(before) {
				t.Error("the file has changed")
			}
		})
	}
	d.do(take(step(3, limit.Window(10, limit.Day), 1)))
	if n := d.Stats().Writes; n != 1 {
		t.Errorf("%d writes for one debit that must last", n)
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWhoHasGoneHasTakenNothing gives up while the disk is at work.
func TestWhoHasGoneHasTakenNothing(t *testing.T) {
	d := newDesk(t, freshPath(t), file.Options{})
	slots, window := step(1, limit.Slots(1000), 1), step(2, limit.Window(1000, limit.Day), 1)
	gone := 0
	for i := range uint64(50) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		cmds := []ledger.Command{named(i+1, take(slots, window))}
		switch err := d.Apply(ctx, cmds, make([]ledger.Result, 1)); {
		case errors.Is(err, context.Canceled):
			gone++
			d.want(ledger.Unknown, named(i+1, find))
		case err != nil:
			t.Fatal(err)
		}
	}
	if gone == 0 {
		t.Fatal("nobody has gone")
	}
	d.left(int64(1000-50+gone), slots)
	d.left(int64(1000-50+gone), window)
}

// TestHistoriesSurvive makes random histories, with enough writes for several
// generations of the log, and finds the same books after a restart.
func TestHistoriesSurvive(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	path := freshPath(t)
	options := file.Options{MaxRecords: 1 << 20}
	d := newDesk(t, path, options)
	for round := range uint64(2) {
		var wg sync.WaitGroup
		for worker := range uint64(16) {
			r := rand.New(rand.NewPCG(seed, round<<32|worker))
			wg.Go(func() {
				for i := range uint64(4000) {
					d.do(anyCommand(r, worker<<32|round<<16|i+1))
				}
			})
		}
		wg.Wait()
		if d.Stats().Generations < 2 {
			t.Errorf("the log was never written anew: %d bytes", d.Stats().Bytes)
		}
		want, now := books(d), time.Now()
		d = d.again(path, options)
		if got := books(d); !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d: after the restart (%v) %d cells, before %d:\n%v\n%v", round, time.Since(now), len(got), len(want), got, want)
		}
	}
}

// anyCommand is a command about a few cells whose units do not come back while the test
// runs.
func anyCommand(r *rand.Rand, id uint64) ledger.Command {
	limits := []limit.Limit{
		limit.Window(1<<40, 100*limit.Day), limit.Window(300, 100*limit.Day), limit.Slots(1 << 40), limit.Slots(1 << 40),
	}
	var steps []ledger.Step
	for range 1 + r.IntN(3) {
		l := r.IntN(len(limits))
		steps = append(steps, step(uint64(l*100+r.IntN(20)+1), limits[l], r.Int64N(3)))
	}
	if r.IntN(10) > 0 {
		id = id&^0xff | r.Uint64N(16) + 1
	}
	switch r.IntN(8) {
	case 0, 1:
		used := make([]int64, len(steps))
		for i := range used {
			used[i] = r.Int64N(5) - 1
		}
		return named(id, ledger.Command{Op: ledger.Settle, Used: used})
	case 2:
		return named(id, release)
	case 3:
		return named(id, ledger.Command{Op: ledger.Void})
	case 4:
		return named(id, ledger.Command{Op: ledger.Free, Steps: steps})
	case 5:
		return take(onlyWindows(steps)...)
	}
	return named(id, take(steps...))
}

func onlyWindows(steps []ledger.Step) (list []ledger.Step) {
	for _, s := range steps {
		if !s.Limit.OnRelease() {
			list = append(list, s)
		}
	}
	return list
}

// books are the units that are left in each cell.
func books(d *desk) map[ledger.Key]int64 {
	left := make(map[ledger.Key]int64)
	for e, err := range d.Scan(context.Background(), 0) {
		if err != nil {
			d.Fatal(err)
		}
		left[e.Key] = e.Level.Left
	}
	return left
}

// TestCallsThatHoldNothing admits calls with IDs that are remembered while they hold slots
// alone, and looks at what that costs the disk.
func TestCallsThatHoldNothing(t *testing.T) {
	of := func(kind string, l limit.Limit) sluice.Rule {
		match := sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {kind}}}
		return sluice.Rule{ID: kind, Match: match, Limits: []sluice.Limit{{Limit: l}}}
	}
	rate, slot := of("rate", limit.Window(1000, limit.Day)), of("slot", limit.Slots(10))
	rate.Volatile = true
	path := freshPath(t)
	o := mustOffice(t, path, file.Options{MaxRecords: 2}, rate, slot)
	writes := o.store.Stats().Writes
	for i := range 100 {
		call := sluice.Call{ID: strconv.Itoa(i), Kind: "rate", WhileHeld: true, Note: []byte("a note")}
		if _, err := o.Admit(context.Background(), call); err != nil {
			t.Fatalf("C-W1 call %d: %v", i, err)
		}
	}
	if n := o.store.Stats().Writes - writes; n != 0 {
		t.Errorf("C-85 %d writes, want none", n)
	}
	adm, err := o.Admit(context.Background(), sluice.Call{ID: "held", Kind: "slot", WhileHeld: true})
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := file.Verify(path); err != nil || sum.Open != 1 {
		t.Errorf("C-84 a call that holds a slot was confirmed and the log holds %+v, %v", sum, err)
	}
	adm.Release()
	if n, _ := o.Recorded(); n != 0 {
		t.Errorf("C-W2 %d records after its end", n)
	}
}
