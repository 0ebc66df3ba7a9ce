package file_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

// What the child that is killed works on. Every grant takes one of calls and one of
// slots; a settlement makes that two of calls; a debit is one of debits, without a record.
var (
	killCalls  = step(1, limit.Window(1<<40, 100*limit.Day), 1)
	killSlots  = step(2, limit.Slots(1<<40), 1)
	killDebits = step(3, limit.Bucket(1, 100*limit.Day, 1<<20), 1)
)

var killOptions = file.Options{MaxRecords: 1 << 20, Retention: 100 * 24 * time.Hour}

// loadUntilKilled works on a store with sixteen callers and says in a line of its own what
// it is about to do ("?") and what was confirmed ("!"): a grant taken (t), settled (s),
// released (r), or a debit (d), each with its number.
func loadUntilKilled(path string) error {
	s, err := file.Open(path, killOptions)
	if err != nil {
		return err
	}
	var numbers atomic.Uint64
	first := uint64(time.Now().UnixNano())
	say := func(kind string, n uint64) { fmt.Fprintf(os.Stdout, "%s %d\n", kind, n) }
	failed := make(chan error)
	for range 16 {
		go func() {
			r := rand.New(rand.NewPCG(first, numbers.Add(1)))
			for {
				n := first + numbers.Add(1)
				for _, act := range []struct {
					kind string
					cmd  ledger.Command
					odds int
				}{
					{"d", take(killDebits), 2}, {"t", named(n, take(killCalls, killSlots)), 1},
					{"s", named(n, settle(2, -1)), 3}, {"r", named(n, release), 2},
				} {
					if r.IntN(act.odds) != 0 {
						continue
					}
					say("?"+act.kind, n)
					cmds, res := []ledger.Command{act.cmd}, make([]ledger.Result, 1)
					if err := s.Apply(context.Background(), cmds, res); err != nil {
						failed <- err
						return
					}
					if res[0].Status == ledger.Done {
						say("!"+act.kind, n)
					}
				}
			}
		}()
	}
	return <-failed
}

// A tale is what a killed child has said, all its lives together.
type tale struct {
	asked, confirmed map[string]map[uint64]bool
}

func newTale() *tale {
	t := &tale{map[string]map[uint64]bool{}, map[string]map[uint64]bool{}}
	for _, kind := range []string{"t", "s", "r", "d"} {
		t.asked[kind], t.confirmed[kind] = map[uint64]bool{}, map[uint64]bool{}
	}
	return t
}

// hear adds what was said. A last line that was cut off counts as not said.
func (t *tale) hear(said string) {
	for line := range strings.Lines(said) {
		kind, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || !strings.HasSuffix(line, "\n") {
			continue
		}
		if what, ok := strings.CutPrefix(kind, "!"); ok {
			t.confirmed[what][n] = true
		} else {
			t.asked[kind[1:]][n] = true
		}
	}
}

// TestKilledAtAnyMoment kills a process under load again and again and looks each time
// at what is on the disk: nothing that was confirmed is lost, nothing that was not asked
// for is there, and no command is there in part. SLUICE_KILL_ROUNDS sets the rounds.
func TestKilledAtAnyMoment(t *testing.T) {
	rounds := 25
	if s := os.Getenv("SLUICE_KILL_ROUNDS"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	path, told := freshPath(t), newTale()
	for range rounds {
		cmd := child("load", path)
		_, out := pipes(t, cmd)
		time.AfterFunc(time.Duration(5+rand.IntN(120))*time.Millisecond, func() { cmd.Process.Kill() })
		said, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		told.hear(string(said))
		told.compare(t, path)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d rounds: %d grants, %d settlements, %d releases and %d debits were confirmed", rounds,
		len(told.confirmed["t"]), len(told.confirmed["s"]), len(told.confirmed["r"]), len(told.confirmed["d"]))
	if len(told.confirmed["r"]) == 0 {
		t.Error("the child never came to anything")
	}
}

// compare reads the log as the killed process has left it.
func (t *tale) compare(tb testing.TB, path string) {
	tb.Helper()
	c, err := file.Inspect(path)
	if errors.Is(err, fs.ErrNotExist) {
		return // it was killed before it had made the store
	}
	if err != nil {
		tb.Fatal(err)
	}
	found := map[string]map[uint64]bool{"t": {}, "s": {}, "r": {}}
	calls, held := int64(0), int64(0)
	for _, g := range c.Grants {
		found["t"][g.ID.Lo] = true
		calls++
		if g.Settled {
			found["s"][g.ID.Lo] = true
			calls++
		}
		if g.Released {
			found["r"][g.ID.Lo] = true
		} else {
			held++
		}
	}
	for kind, there := range found {
		for n := range t.confirmed[kind] {
			if !there[n] {
				tb.Errorf("C-84 %s %d was confirmed and is lost", kind, n)
			}
		}
		for n := range there {
			if !t.asked[kind][n] {
				tb.Errorf("C-84 %s %d is there and nobody asked for it", kind, n)
			}
		}
	}
	used := map[ledger.Key]int64{}
	for _, cell := range c.Cells {
		used[cell.Key] = cell.Level.Max - cell.Level.Left
	}
	if n := used[killCalls.Key]; n != calls {
		tb.Errorf("C-84 %d calls are debited and the grants come to %d", n, calls)
	}
	debits := used[killDebits.Key]
	if least, most := len(t.confirmed["d"]), len(t.asked["d"]); debits < int64(least) || debits > int64(most) {
		tb.Errorf("C-84 %d debits, of which %d were confirmed and %d asked for", debits, least, most)
	}
	// What an unconfirmed command has left behind is there from now on.
	for kind, there := range found {
		for n := range there {
			t.confirmed[kind][n] = true
		}
	}
	s := openStore(tb, path, killOptions)
	defer s.Close()
	d := &desk{tb, s}
	d.left(1<<40-held, killSlots)
	d.left(1<<40-calls, killCalls)
}
