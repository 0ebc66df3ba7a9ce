package redis

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A shelf is eight cells and six grants inside a real server, and the Go's own books of
// them. The limits of the cells change now and then.
type shelf struct {
	*twin
	base   uint64
	held   uint64 // how many grants are remembered while they are held
	grants *ledger.Grants
	books  *ledger.Books
	limits [8]limit.Limit
	taken  []ledger.Command // grants without an ID, as they are to be given back
	now    limit.Micros
	story  strings.Builder
}

func newShelf(w *twin, base uint64) *shelf {
	grants := ledger.NewGrants(1<<20, limit.Hour)
	return &shelf{twin: w, base: base, grants: grants, books: ledger.NewBooks(grants), now: 1_900_000_000_000_000}
}

// listEvery is how many shelves there are to one whose records are listed, for which the
// server goes through those of all.
const listEvery = 10

// do carries out cmd on both sides, and reports whether they say the same.
func (s *shelf) do(cmd ledger.Command) (ledger.Result, bool) {
	fmt.Fprintf(&s.story, "%d: %+v\n", s.now, cmd)
	theirs := cmd
	theirs.Steps = slices.Clone(cmd.Steps)
	var want ledger.Result
	s.books.Apply(s.now, &theirs, &want)
	got := s.send(&cmd)
	text, model := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want)
	if text != model {
		s.t.Errorf("the script says %s\nthe Go          %s\nafter\n%s", text, model, s.story.String())
	}
	return got, text == model
}

// send carries out cmd in the server, at the shelf's time.
func (s *shelf) send(cmd *ledger.Command) ledger.Result {
	var keys []string
	flags := byte(0)
	if cmd.Levels {
		flags |= flagLevels
	}
	if !cmd.ID.Zero() {
		flags |= flagRecord
		keys = append(keys, s.store.recordKey(cmd.ID))
	}
	for i := range cmd.Steps {
		keys = append(keys, s.store.cellKey(cmd.Steps[i].Key))
	}
	args := []string{string(appendCommand(nil, cmd, cmd.Steps, flags)), fmt.Sprint(int64(s.now))}
	reply, err := s.script.Exec(context.Background(), s.client, keys, args).ToString()
	if err != nil {
		s.t.Fatal(err)
	}
	var res ledger.Result
	r := reader{rest: []byte(reply)}
	res.Start(limit.Micros(read64(r.take(8))))
	r.take(4) // the length of the one answer
	r.readAnswer(cmd, &res)
	if r.bad || len(r.rest) > 0 {
		s.t.Fatalf("the answer to %+v cannot be read: %q", cmd, reply)
	}
	return res
}

// any returns a command about a few cells and grants, so that they meet.
func (s *shelf) any(r *rand.Rand) ledger.Command {
	if len(s.taken) > 0 && r.IntN(5) == 0 {
		k := r.IntN(len(s.taken))
		cmd := s.taken[k]
		s.taken = slices.Delete(s.taken, k, k+1)
		cmd.Op = []ledger.Op{ledger.Settle, ledger.Release, ledger.Void}[r.IntN(3)]
		return cmd
	}
	cmd := ledger.Command{Op: ledger.Take, Call: r.Uint64N(2), Levels: r.IntN(2) == 0}
	switch r.IntN(12) {
	case 0:
		cmd.Op, cmd.Delay = ledger.Cool, limit.Micros(r.IntN(2000))
	case 1:
		cmd.Op = ledger.Peek
	case 2, 3, 4, 5, 6:
		cmd.Op = []ledger.Op{ledger.Find, ledger.Settle, ledger.Release, ledger.Free, ledger.Void}[r.IntN(5)]
	}
	if cmd.Op > ledger.Peek && cmd.Op != ledger.Cool || cmd.Op == ledger.Take && r.IntN(2) == 0 {
		cmd.ID = ledger.ID{Hi: s.base, Lo: r.Uint64N(6) + 1}
		cmd.Calls, cmd.Expires = r.Int64N(3)*r.Int64(), limit.Micros(max(0, r.Int64N(2000)-1000))
		cmd.Note, cmd.Outcome = anyNote(r), uint8(r.IntN(2)*r.IntN(256))
	}
	switch ofHeld := !cmd.ID.Zero() && r.IntN(3) == 0; {
	case ofHeld && cmd.Op == ledger.Take: // whose ID is never used again
		s.held++
		cmd.WhileHeld, cmd.ID.Lo = true, 100+s.held
	case ofHeld:
		cmd.ID.Lo = 100 + s.held - r.Uint64N(min(s.held, 3)+1)
	}
	for range r.IntN(5) {
		i := r.Uint64N(8)
		cmd.Steps = append(cmd.Steps, ledger.Step{
			Key: ledger.Key{Group: s.base << 32, Cell: s.base<<8 | i}, Limit: s.limits[i], N: anyUnits(r, s.limits[i]),
			Set: uint8(max(0, r.IntN(8)-5)), Keep: r.IntN(3) == 0,
		})
		cmd.Used = append(cmd.Used, r.Int64N(6)-1)
	}
	return cmd
}

// anyNote returns some bytes, most often few or none.
func anyNote(r *rand.Rand) []byte {
	note := make([]byte, []int{0, 0, r.IntN(4), r.IntN(40)}[r.IntN(4)])
	for i := range note {
		note[i] = byte(r.Uint32())
	}
	return note
}

// list fails the test unless the script lists the records that the Go has.
func (s *shelf) list() {
	s.t.Helper()
	want, got := map[ledger.ID]string{}, map[ledger.ID]string{}
	for r := range s.grants.Live(s.now) {
		want[r.ID] = fmt.Sprintf("%+v", r)
	}
	pattern := string(appendWord([]byte("twin:{"), s.base)) + "*"
	for cursor := first; ; {
		args := []string{string([]byte{opList}), cursor, pattern, "0", fmt.Sprint(int64(s.now))}
		reply, err := s.script.Exec(context.Background(), s.client, nil, args).ToString()
		if err != nil {
			s.t.Fatal(err)
		}
		p, err := readPage(reply)
		for err == nil && p.found > 0 {
			var r ledger.Remembered
			if r, err = s.store.remembered(&p); err == nil {
				got[r.ID] = fmt.Sprintf("%+v", r)
			}
			p.found--
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if cursor = p.next; cursor == first {
			break
		}
	}
	if !maps.Equal(got, want) {
		s.t.Errorf("the script lists %v\nthe Go           %v\nafter\n%s", got, want, s.story.String())
	}
}

// TestTwinBooks sends random commands of up to four steps, with records and without, through
// the Go's books and the script. Each answer must be the same in every word: verdicts, waits,
// levels, and what a record says, also after its cells' limits have changed.
func TestTwinBooks(t *testing.T) {
	steps, seed := extent(t)
	fresh := twins(t)
	r := rand.New(rand.NewPCG(seed, 6))
	statuses := map[ledger.Status]int{}
	for base := uint64(1); steps > 0 && !t.Failed(); base++ {
		s := newShelf(fresh(t), base)
		for i := range s.limits {
			s.limits[i] = anyLimit(r, limit.Kind(1+r.IntN(5)))
		}
		for range 200 {
			steps--
			if i := r.IntN(len(s.limits)); r.IntN(20) == 0 {
				s.limits[i] = anyLimit(r, limit.Kind(1+r.IntN(5)))
			}
			s.now += max(0, min(anyStep(r, s.limits[r.IntN(8)]), limit.Second)) // what is remembered for an hour is not forgotten
			cmd := s.any(r)
			res, same := s.do(cmd)
			if !same {
				return
			}
			statuses[res.Status]++
			if cmd.Op == ledger.Take && cmd.ID.Zero() && res.Status == ledger.Done {
				s.taken = append(s.taken, ledger.Command{Steps: cmd.Steps, Used: cmd.Used, At: res.At})
			}
		}
		if base%listEvery == 0 {
			s.list()
		}
	}
	for _, status := range []ledger.Status{ledger.Done, ledger.Refused, ledger.Replayed, ledger.Conflict, ledger.Unknown} {
		if statuses[status] < 100 {
			t.Errorf("only %d answers had the status %d", statuses[status], status)
		}
	}
	t.Logf("answers by status: %v", statuses)
}

// leaving returns a command about a few grants that may expire. None is released, because
// how long that is remembered the server's own clock says.
func (s *shelf) leaving(r *rand.Rand) ledger.Command {
	ops := []ledger.Op{ledger.Take, ledger.Take, ledger.Find, ledger.Settle, ledger.Free, ledger.Void}
	cmd := ledger.Command{Op: ops[r.IntN(len(ops))], ID: ledger.ID{Hi: s.base, Lo: r.Uint64N(6) + 1}, Calls: r.Int64N(9)}
	cmd.Note, cmd.Outcome = anyNote(r), uint8(r.IntN(2))
	if r.IntN(4) > 0 {
		cmd.Expires = limit.Micros(r.Int64N(int64(3 * limit.Hour)))
	}
	for i := range uint64(r.IntN(5)) {
		cmd.Steps = append(cmd.Steps, ledger.Step{
			Key: ledger.Key{Group: s.base << 32, Cell: s.base<<8 | i}, Limit: s.limits[i], N: r.Int64N(2),
		})
		cmd.Used = append(cmd.Used, r.Int64N(3))
	}
	return cmd
}

// TestTwinExpiry sends random commands about grants that expire, over many hours, through the
// Go's books and the script: a record leaves both in the same microsecond.
func TestTwinExpiry(t *testing.T) {
	steps, seed := extent(t)
	fresh := twins(t)
	r := rand.New(rand.NewPCG(seed, 7))
	statuses := map[ledger.Status]int{}
	for base := uint64(1); steps > 0 && !t.Failed(); base++ {
		s := newShelf(fresh(t), base|1<<20)
		due := []limit.Micros{s.now}
		for range 200 {
			steps--
			s.limits = [8]limit.Limit{
				limit.Bucket(1000, limit.Minute, 1000), limit.Window(1000, limit.Micros(1+r.Int64N(3))*limit.Hour),
				limit.Window(1000, limit.Minute), limit.Slots(1000),
			}
			// Most often a moment about which something leaves.
			if at := due[r.IntN(len(due))] + limit.Micros(r.Int64N(3)-1); at > s.now && r.IntN(2) == 0 {
				s.now = at
			} else if r.IntN(4) == 0 {
				s.now += limit.Micros(r.Int64N(int64(limit.Hour)))
			}
			cmd := s.leaving(r)
			res, same := s.do(cmd)
			if !same {
				return
			}
			if cmd.Op == ledger.Take && res.Status == ledger.Done {
				due = append(due, s.now+cmd.Expires, s.now+limit.Hour, s.now+2*limit.Hour, s.now+3*limit.Hour)
			}
			statuses[res.Status]++
		}
		if base%listEvery == 0 {
			s.list()
		}
	}
	t.Logf("answers by status: %v", statuses)
}
