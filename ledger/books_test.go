package ledger_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A desk has books, a clock that its test sets, and says what it is answered.
type desk struct {
	*testing.T
	*ledger.Books
	grants *ledger.Grants
	now    limit.Micros
}

func newDesk(t *testing.T) *desk {
	grants := ledger.NewGrants(100, limit.Hour)
	return &desk{T: t, Books: ledger.NewBooks(grants), grants: grants, now: limit.Hour}
}

func (d *desk) do(cmd ledger.Command) ledger.Result {
	var res ledger.Result
	d.Apply(d.now, &cmd, &res)
	return res
}

// want does cmd and fails the test unless it ends with status.
func (d *desk) want(status ledger.Status, cmd ledger.Command) ledger.Result {
	d.Helper()
	res := d.do(cmd)
	if res.Status != status {
		d.Errorf("%s, want %s: %+v", statusName(res.Status), statusName(status), cmd)
	}
	return res
}

func statusName(s ledger.Status) string {
	names := []string{"done", "refused", "replayed", "conflict", "unknown", "full"}
	return names[s]
}

// left fails the test unless so much is left of the limit of s.
func (d *desk) left(want int64, s ledger.Step) {
	d.Helper()
	s.N = 0
	res := d.do(ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{s}, Levels: true})
	if got := res.Levels[0].Left; got != want {
		d.Errorf("%d left of %v, want %d", got, s.Limit, want)
	}
}

// step is n units of l, in a cell of its own.
func step(cell uint64, l limit.Limit, n int64) ledger.Step {
	return ledger.Step{Key: ledger.Key{Group: 1 << 40, Cell: cell}, Limit: l, N: n}
}

// in is the step in a shadow set.
func in(set uint8, s ledger.Step) ledger.Step {
	s.Set = set
	return s
}

func take(steps ...ledger.Step) ledger.Command { return ledger.Command{Steps: steps} }

func named(id uint64, cmd ledger.Command) ledger.Command {
	cmd.ID = ledger.ID{Lo: id}
	return cmd
}

// dump is everything the books know.
func dump(b *ledger.Books, now limit.Micros) string {
	cells := map[string]bool{}
	for e := range b.Scan(now, 0) {
		cells[fmt.Sprintf("%+v\n", e)] = true
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(cells)))
}

// One of up to eight limits refuses, wherever it stands: none is taken.
func TestAllOrNothing(t *testing.T) {
	kinds := []limit.Limit{
		limit.Bucket(1, limit.Hour, 10), limit.Window(10, limit.Hour), limit.Slots(10), limit.Bucket(1, limit.Hour, 20),
		limit.Window(5000, limit.Hour), limit.Slots(30), limit.Bucket(10_000, limit.Second, 50), limit.Window(8, limit.Hour),
	}
	for n := 1; n <= len(kinds); n++ {
		for refusing := range n {
			t.Run(fmt.Sprintf("P-073 %d of %d refuses", refusing+1, n), func(t *testing.T) {
				d := newDesk(t)
				var steps []ledger.Step
				for i := range n {
					steps = append(steps, step(uint64(i), kinds[i], 1))
				}
				full := steps[refusing]
				full.N = full.Limit.Capacity()
				d.want(ledger.Done, take(full))
				before := dump(d.Books, d.now)
				res := d.want(ledger.Refused, take(steps...))
				for i, o := range res.Outcomes {
					if o.OK != (i != refusing) {
						t.Errorf("step %d was told %+v", i, o)
					}
				}
				for i, s := range steps {
					if i != refusing {
						d.left(s.Limit.Capacity(), s)
					}
				}
				if after := dump(d.Books, d.now); refusing == 0 && n == 1 && after != before {
					t.Errorf("refused, yet\n%s became\n%s", before, after)
				}
			})
		}
	}
}

func TestSeveralLimits(t *testing.T) {
	a, b := step(1, limit.Window(10, limit.Minute), 1), step(2, limit.Window(1, limit.Minute), 1)
	for _, c := range []struct {
		name  string
		steps []ledger.Step
	}{{"P-073 A then B", []ledger.Step{a, b}}, {"P-074 B then A", []ledger.Step{b, a}}} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			d.want(ledger.Done, take(c.steps...))
			for range 5 {
				d.want(ledger.Refused, take(c.steps...))
			}
			d.left(9, a)
			d.left(0, b)
		})
	}
	t.Run("P-080 a limit of zero denies, a command without limits passes", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Refused, take(step(1, limit.Window(0, limit.Minute), 1)))
		d.want(ledger.Done, take())
	})
	t.Run("the same cell twice takes the sum or nothing", func(t *testing.T) {
		for _, l := range []limit.Limit{limit.Bucket(1, limit.Hour, 5), limit.Window(5, limit.Hour), limit.Slots(5)} {
			d := newDesk(t)
			s := step(1, l, 3)
			d.want(ledger.Refused, take(s, s))
			d.left(5, s)
			s2 := s
			s2.N = 2
			d.want(ledger.Done, take(s, s2))
			d.left(0, s)
			d.want(ledger.Refused, take(s, step(1, l, -3)))
		}
	})
}

func TestShadow(t *testing.T) {
	enforced := step(1, limit.Window(5, limit.Minute), 1)
	t.Run("P-076 a shadow rule over its limit touches nothing", func(t *testing.T) {
		d := newDesk(t)
		passed, wouldRefuse := 0, 0
		for range 10 {
			res := d.do(take(enforced, in(1, step(2, limit.Window(1, limit.Minute), 1))))
			if res.Status == ledger.Done {
				passed++
			}
			if len(res.Outcomes) > 0 && !res.Outcomes[1].OK {
				wouldRefuse++
			}
		}
		if passed != 5 || wouldRefuse != 9 {
			t.Errorf("%d passed and %d would have been refused, want 5 and 9", passed, wouldRefuse)
		}
	})
	t.Run("each shadow set is all or nothing, on its own", func(t *testing.T) {
		d := newDesk(t)
		a1, a2 := in(1, step(2, limit.Slots(1), 1)), in(1, step(3, limit.Slots(2), 1))
		b := in(2, step(4, limit.Slots(3), 1))
		d.want(ledger.Done, take(enforced, a1, a2, b))
		d.want(ledger.Done, take(enforced, a1, a2, b))
		d.left(1, a2)
		d.left(1, b)
		d.left(3, enforced)
	})
	t.Run("a refused call moves no shadow", func(t *testing.T) {
		d := newDesk(t)
		shadow := in(1, step(2, limit.Slots(3), 1))
		d.want(ledger.Refused, take(step(1, limit.Slots(0), 1), shadow))
		d.left(3, shadow)
	})
	t.Run("what a shadow has not taken is neither released nor settled", func(t *testing.T) {
		d := newDesk(t)
		slots, tokens := in(1, step(2, limit.Slots(1), 1)), in(1, step(3, limit.Window(10, limit.Minute), 5))
		d.want(ledger.Done, take(slots, tokens))
		cmd := named(1, take(slots, tokens))
		d.want(ledger.Done, cmd)
		d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Settle, Used: []int64{1, 9}}))
		d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Release}))
		d.left(0, slots)
		d.left(5, tokens)
	})
}

func TestSettlement(t *testing.T) {
	budget := step(1, limit.Window(100, limit.Minute), 20)
	settle := func(used ...int64) ledger.Command { return ledger.Command{Op: ledger.Settle, Used: used} }
	for name, c := range map[string]struct {
		used, left int64
		keep       bool
	}{
		"P-069 more than reserved is debited":       {70, 30, false},
		"P-068 less than reserved comes back":       {5, 95, false},
		"P-068 nothing used, all comes back":        {0, 100, false},
		"D13 a budget keeps what was not used":      {5, 80, true},
		"D14 and is debited what was used above it": {30, 70, true},
		"negative leaves the step as it is":         {-1, 80, false},
		"an overdraft goes below nothing":           {170, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			s := budget
			s.Keep = c.keep
			d.want(ledger.Done, named(1, take(s)))
			d.want(ledger.Done, named(1, settle(c.used)))
			d.left(c.left, budget)
			d.want(ledger.Replayed, named(1, settle(c.used)))
			d.want(ledger.Conflict, named(1, settle(c.used+1)))
			d.left(c.left, budget)
		})
	}
	t.Run("P-069 as many figures as steps, or a conflict", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, named(1, take(budget)))
		d.want(ledger.Conflict, named(1, settle()))
		d.want(ledger.Conflict, named(1, settle(1, 2)))
		d.want(ledger.Conflict, ledger.Command{Op: ledger.Settle, Steps: []ledger.Step{budget}, At: d.now})
		d.left(80, budget)
	})
	t.Run("without a record the command says what was taken and when", func(t *testing.T) {
		d := newDesk(t)
		at := d.do(take(budget)).At
		d.now += 10 * limit.Second
		d.want(ledger.Done, ledger.Command{Op: ledger.Settle, Steps: []ledger.Step{budget}, At: at, Used: []int64{3}})
		d.left(97, budget)
	})
	t.Run("slots are not settled", func(t *testing.T) {
		d := newDesk(t)
		s := step(1, limit.Slots(5), 2)
		d.want(ledger.Done, named(1, take(s)))
		d.want(ledger.Done, named(1, settle(0)))
		d.left(3, s)
	})
	t.Run("settled after its release, within the retention", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, named(1, take(budget)))
		d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Release}))
		d.want(ledger.Done, named(1, settle(1)))
		d.left(99, budget)
	})
}

func TestIDs(t *testing.T) {
	slot := step(1, limit.Slots(1), 1)
	release := ledger.Command{Op: ledger.Release}
	t.Run("P-094 a second release frees nobody else's slot", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, named(1, take(slot)))
		d.want(ledger.Done, named(1, release))
		d.want(ledger.Replayed, named(1, release))
		d.want(ledger.Done, named(2, take(slot)))
		d.want(ledger.Replayed, named(1, release))
		d.want(ledger.Refused, named(3, take(slot)))
	})
	t.Run("C-69 the same again is replayed, another use is a conflict", func(t *testing.T) {
		d := newDesk(t)
		cmd := named(1, take(step(1, limit.Window(5, limit.Minute), 2)))
		cmd.Call = 7
		first := d.want(ledger.Done, cmd)
		d.now += limit.Second
		again := d.want(ledger.Replayed, cmd)
		if again.At != first.At || len(again.Steps) != 1 || again.Steps[0] != cmd.Steps[0] || again.Settled || again.Released {
			t.Errorf("replayed %+v", again)
		}
		cmd.Call = 8
		d.want(ledger.Conflict, cmd)
		d.left(3, cmd.Steps[0])
	})
	t.Run("a refusal leaves no record", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, take(slot))
		d.want(ledger.Refused, named(1, take(slot)))
		d.want(ledger.Unknown, named(1, release))
		d.want(ledger.Done, ledger.Command{Op: ledger.Release, Steps: []ledger.Step{slot}})
		d.want(ledger.Done, named(1, take(slot)))
	})
	t.Run("void gives everything back and forgets", func(t *testing.T) {
		d := newDesk(t)
		tokens := step(2, limit.Bucket(1, limit.Hour, 10), 10)
		d.want(ledger.Done, named(1, take(slot, tokens)))
		d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Void}))
		d.left(1, slot)
		d.left(10, tokens)
		d.want(ledger.Unknown, named(1, ledger.Command{Op: ledger.Void}))
		d.want(ledger.Done, named(1, take(slot, tokens)))
	})
	t.Run("void of what was settled or released gives nothing back twice", func(t *testing.T) {
		d := newDesk(t)
		tokens := step(2, limit.Bucket(1, limit.Hour, 10), 10)
		d.want(ledger.Done, named(1, take(tokens)))
		d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Settle, Used: []int64{4}}))
		d.want(ledger.Done, take(step(2, tokens.Limit, 6)))
		d.want(ledger.Conflict, named(1, ledger.Command{Op: ledger.Void}))
		d.left(0, tokens)
		d.want(ledger.Done, named(1, release))
		d.want(ledger.Replayed, named(1, ledger.Command{Op: ledger.Void}))
		d.left(0, tokens)
	})
	t.Run("find says what became of it", func(t *testing.T) {
		d := newDesk(t)
		find := ledger.Command{Op: ledger.Find}
		d.want(ledger.Unknown, named(1, find))
		d.want(ledger.Unknown, find)
		d.want(ledger.Done, named(1, take(slot)))
		if res := d.want(ledger.Done, named(1, find)); len(res.Steps) != 1 || res.Settled || res.Released {
			t.Errorf("found %+v", res)
		}
		d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Settle, Used: []int64{1}}))
		d.want(ledger.Done, named(1, release))
		if res := d.want(ledger.Done, named(1, find)); !res.Settled || !res.Released {
			t.Errorf("found %+v", res)
		}
	})
}

func TestRetentionAndBounds(t *testing.T) {
	slot := step(1, limit.Slots(1000), 1)
	t.Run("released grants are forgotten after the retention, open ones never", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, named(1, take(slot)))
		d.want(ledger.Done, named(2, take(slot)))
		d.want(ledger.Done, named(2, ledger.Command{Op: ledger.Release}))
		d.now += limit.Hour - 1
		d.want(ledger.Replayed, named(2, take(slot)))
		d.now++
		d.want(ledger.Unknown, named(2, ledger.Command{Op: ledger.Release}))
		d.now += 1000 * limit.Day
		d.want(ledger.Replayed, named(1, take(slot)))
		if n := d.grants.Len(); n != 1 {
			t.Errorf("%d grants are remembered, want 1", n)
		}
	})
	t.Run("C-31 full is said and changes nothing", func(t *testing.T) {
		d := newDesk(t)
		for id := range uint64(100) {
			d.want(ledger.Done, named(id+1, take(slot)))
		}
		d.want(ledger.Full, named(101, take(slot)))
		d.want(ledger.Replayed, named(1, take(slot)))
		d.want(ledger.Done, take(slot)) // without an ID it needs no record
		d.left(899, slot)
		d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Void}))
		d.want(ledger.Done, named(101, take(slot)))
	})
	t.Run("no room at all", func(t *testing.T) {
		b := ledger.NewBooks(ledger.NewGrants(0, limit.Hour))
		cmd, res := named(1, take(slot)), ledger.Result{}
		if b.Apply(1, &cmd, &res); res.Status != ledger.Full {
			t.Errorf("%v, want full", res.Status)
		}
	})
}

func TestCooldown(t *testing.T) {
	d := newDesk(t)
	cool := step(1, limit.Cooldown(0), 1)
	tokens := step(2, limit.Bucket(1, limit.Second, 5), 1)
	d.want(ledger.Done, ledger.Command{Op: ledger.Cool, Steps: []ledger.Step{cool, tokens}, Delay: 10 * limit.Second})
	res := d.want(ledger.Refused, take(cool, tokens))
	if v := res.Outcomes[0]; v.Wait != 10*limit.Second || !res.Outcomes[1].OK {
		t.Errorf("told %+v", res.Outcomes)
	}
	d.left(5, tokens)
	d.want(ledger.Done, ledger.Command{Op: ledger.Cool, Steps: []ledger.Step{cool}, Delay: limit.Second})
	d.now += 10*limit.Second - 1
	d.want(ledger.Refused, take(cool))
	d.now++
	d.want(ledger.Done, take(cool))
}

func TestReset(t *testing.T) {
	d := newDesk(t)
	tokens, slots := step(1, limit.Bucket(1, limit.Hour, 5), 5), step(2, limit.Slots(3), 2)
	cool, other := step(3, limit.Cooldown(0), 1), step(4, limit.Window(5, limit.Hour), 5)
	other.Key.Group = 2 << 40
	fill := func() {
		d.want(ledger.Done, take(tokens, slots, other))
		d.do(ledger.Command{Op: ledger.Cool, Steps: []ledger.Step{cool}, Delay: limit.Hour})
	}
	fill()
	if res := d.want(ledger.Done, ledger.Command{Op: ledger.Reset, Group: tokens.Key.Group}); res.Count != 2 {
		t.Errorf("reset %d cells of a group, want 2", res.Count)
	}
	d.left(5, tokens)
	d.left(1, cool)
	d.left(1, slots) // what is held stays held
	d.left(0, other)
	d.want(ledger.Done, ledger.Command{Op: ledger.Release, Steps: []ledger.Step{slots}})
	d.want(ledger.Done, take(tokens))
	if res := d.want(ledger.Done, ledger.Command{Op: ledger.Reset, All: true}); res.Count != 2 {
		t.Errorf("reset %d cells, want 2", res.Count)
	}
	d.left(5, other)
	if n := d.Sweep(d.now); n != 0 {
		t.Errorf("%d cells are left after a sweep, want none", n)
	}
}

// A result that was used before carries nothing over into the next answer.
func TestResultIsStartedAfresh(t *testing.T) {
	d := newDesk(t)
	slot := step(1, limit.Slots(5), 1)
	d.want(ledger.Done, named(1, take(slot)))
	var res ledger.Result
	for _, cmd := range []ledger.Command{
		take(slot), named(1, ledger.Command{Op: ledger.Settle, Used: []int64{1}}), named(1, ledger.Command{Op: ledger.Release}),
		named(1, ledger.Command{Op: ledger.Find}), named(9, ledger.Command{Op: ledger.Find}),
		take(slot), {Op: ledger.Reset, All: true}, named(1, take(slot)), named(9, ledger.Command{Op: ledger.Void}),
	} {
		d.Apply(d.now, &cmd, &res)
		fresh := d.do(cmd)
		if cmd.Op == ledger.Take || cmd.Op == ledger.Settle || cmd.Op == ledger.Release {
			fresh.Status = res.Status // the second time is a replay
		}
		if fmt.Sprint(len(res.Outcomes), res.Settled, res.Released, res.Count) != fmt.Sprint(len(fresh.Outcomes), fresh.Settled, fresh.Released, fresh.Count) ||
			len(res.Steps) != len(fresh.Steps) {
			t.Errorf("%+v: a used result says\n%+v, a fresh one\n%+v", cmd, res, fresh)
		}
	}
}

func TestRecordsBoundWhatIsUnderWay(t *testing.T) {
	slot := step(1, limit.Slots(1000), 1)
	t.Run("C-W1, D15 released grants make room", func(t *testing.T) {
		d := newDesk(t)
		for id := range uint64(1000) {
			d.want(ledger.Done, named(id+1, take(slot)))
			d.want(ledger.Done, named(id+1, ledger.Command{Op: ledger.Release}))
		}
		d.want(ledger.Replayed, named(1000, take(slot)))
		d.want(ledger.Unknown, named(1, ledger.Command{Op: ledger.Find}))
		if n := d.grants.Len(); n > 101 {
			t.Errorf("%d grants are remembered, the bound is 100", n)
		}
	})
	t.Run("C-88 records can be read back", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, named(1, take(slot)))
		d.want(ledger.Done, named(2, take(slot)))
		d.want(ledger.Done, named(2, ledger.Command{Op: ledger.Release}))
		again := ledger.NewGrants(1, limit.Hour)
		for _, id := range []ledger.ID{{Lo: 1}, {Lo: 2}} {
			r, ok := d.grants.Get(id)
			if !ok {
				t.Fatalf("%v is not remembered", id)
			}
			again.Put(id, r)
		}
		open := 0
		for range again.Open() {
			open++
		}
		if open != 1 {
			t.Errorf("%d grants are open, want 1", open)
		}
		b := ledger.NewBooks(again)
		var res ledger.Result
		for _, c := range []struct {
			id     uint64
			status ledger.Status
		}{{1, ledger.Replayed}, {2, ledger.Replayed}, {3, ledger.Full}} {
			cmd := named(c.id, take(slot))
			if b.Apply(d.now, &cmd, &res); res.Status != c.status {
				t.Errorf("%d: %v, want %v", c.id, res.Status, c.status)
			}
		}
	})
}

func TestFree(t *testing.T) {
	one, two := step(1, limit.Slots(2), 1), step(2, limit.Slots(2), 1)
	free := ledger.Command{Op: ledger.Free, Steps: []ledger.Step{one}}
	t.Run("C-47 a slot is freed once, ahead of the others", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, take(one)) // somebody else's
		d.want(ledger.Done, named(1, take(one, two)))
		d.want(ledger.Done, named(1, free))
		d.want(ledger.Done, named(1, free))
		d.left(1, one)
		d.left(1, two)
		d.want(ledger.Done, named(1, ledger.Command{Op: ledger.Release}))
		d.left(1, one)
		d.left(2, two)
		d.want(ledger.Replayed, named(1, free))
	})
	t.Run("without a record it gives back what it names", func(t *testing.T) {
		d := newDesk(t)
		d.want(ledger.Done, take(one, two))
		d.want(ledger.Done, free)
		d.left(2, one)
		d.left(1, two)
	})
}
