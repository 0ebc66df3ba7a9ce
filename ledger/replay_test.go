package ledger_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

var limits = []limit.Limit{
	limit.Bucket(5, limit.Second, 5), limit.Pace(limit.Second / 3), limit.Window(4, 2*limit.Second),
	limit.Slots(3), limit.Cooldown(limit.Minute), limit.Window(6, limit.Second), limit.Slots(0),
}

// An entry is a command and the time it came at.
type entry struct {
	at  limit.Micros
	cmd ledger.Command
}

// anyCommand returns a command about a few cells and a few grants, so that they meet.
func anyCommand(r *rand.Rand, now limit.Micros) ledger.Command {
	cmd := ledger.Command{
		Op: ledger.Op(r.IntN(8)), ID: ledger.ID{Lo: r.Uint64N(6)}, Call: r.Uint64N(2),
		At: now - limit.Micros(r.IntN(3_000_000)), Delay: limit.Micros(r.IntN(3_000_000)),
		Group: r.Uint64N(3) << 40, All: r.IntN(30) == 0, Levels: r.IntN(2) == 0,
	}
	if r.IntN(2) == 0 {
		cmd.Op = ledger.Take
	}
	for i := range r.IntN(9) {
		s := step(uint64(i), limits[r.IntN(len(limits))], r.Int64N(4))
		s.Set, s.Keep = uint8(max(0, r.IntN(5)-2)), r.IntN(2) == 0
		s.Key.Cell = uint64(r.IntN(8))
		cmd.Steps = append(cmd.Steps, s)
		cmd.Used = append(cmd.Used, r.Int64N(6)-1)
	}
	return cmd
}

func copied(cmd ledger.Command) ledger.Command {
	cmd.Steps, cmd.Used = slices.Clone(cmd.Steps), slices.Clone(cmd.Used)
	return cmd
}

// history carries out n random commands and returns them with the books they led to.
func history(t *testing.T, r *rand.Rand, n int) ([]entry, *desk) {
	t.Helper()
	d := newDesk(t)
	var list []entry
	for range n {
		d.now += limit.Micros(r.IntN(800_000))
		cmd := anyCommand(r, d.now)
		list = append(list, entry{d.now, copied(cmd)})
		before := dump(d.Books, d.now)
		var res ledger.Result
		d.Apply(d.now, &cmd, &res)
		unchanged := res.Status != ledger.Done || cmd.Op == ledger.Peek || cmd.Op == ledger.Find
		// A command that names a cell under another limit carries it over, whatever it is told.
		if after := dump(d.Books, d.now); unchanged && len(cmd.Steps) == 0 && after != before {
			t.Fatalf("%+v was answered %+v, yet\n%s became\n%s", cmd, res, before, after)
		}
	}
	return list, d
}

// replayAll carries the commands out on fresh books.
func replayAll(t *testing.T, list []entry) *desk {
	d := newDesk(t)
	for _, e := range list {
		cmd, res := copied(e.cmd), ledger.Result{}
		d.Apply(e.at, &cmd, &res)
		d.now = e.at
	}
	return d
}

func checkReplay(t *testing.T, seed uint64) {
	list, d := history(t, rand.New(rand.NewPCG(seed, 1)), 60)
	again := replayAll(t, list)
	if a, b := dump(d.Books, d.now), dump(again.Books, d.now); a != b {
		t.Fatalf("the same commands led to\n%s and to\n%s; SEED=%d repeats it", a, b, seed)
	}
	if d.grants.Len() != again.grants.Len() {
		t.Fatalf("%d grants and %d; SEED=%d repeats it", d.grants.Len(), again.grants.Len(), seed)
	}
}

// A file store recovers by carrying its log out again.
func TestReplay(t *testing.T) {
	first, n := rand.Uint64(), uint64(300)
	if s := os.Getenv("SEED"); s != "" {
		var err error
		if first, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
		n = 1
	}
	for seed := first; seed < first+n; seed++ {
		checkReplay(t, seed)
	}
}

// FuzzReplay is TestReplay over seeds that a fuzzer chooses by the code they reach.
func FuzzReplay(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkReplay(t, seed) })
}

// Whatever else is in a command, a refusal leaves every cell that has its limit as it was.
func TestRefusalChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		d := newDesk(t)
		var steps []ledger.Step
		for i, l := range limits[:6] {
			steps = append(steps, step(uint64(i), l, 1))
		}
		for range 30 {
			d.now += limit.Micros(r.IntN(300_000))
			cmd := take(steps...)
			cmd.Steps = slices.Clone(steps[r.IntN(6):])
			for i := range cmd.Steps {
				cmd.Steps[i].N = r.Int64N(4)
			}
			before := dump(d.Books, d.now)
			if d.do(cmd).Status != ledger.Refused {
				continue
			}
			if after := dump(d.Books, d.now); before != after {
				t.Fatalf("refused %+v, yet\n%s became\n%s", cmd, before, after)
			}
		}
	}
}
