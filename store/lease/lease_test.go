package lease_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/lease"
	"github.com/sluicegate/sluice/store/memory"
)

// books count the questions that a store is asked, and fail while it is away.
type books struct {
	sluice.Store
	asked atomic.Int64
	away  atomic.Bool
	// answered, if not nil, is called before a Take is told its answer.
	answered func()
	// resetting, if not nil, is called before a Reset is carried out.
	resetting func()
}

var errAway = errors.New("away")

func (b *books) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	b.asked.Add(1)
	if b.away.Load() {
		return errAway
	}
	if b.resetting != nil && cmds[0].Op == ledger.Reset {
		b.resetting()
	}
	err := b.Store.Apply(ctx, cmds, res)
	if b.answered != nil && cmds[0].Op == ledger.Take {
		b.answered()
	}
	return err
}

// inBubble runs f in fake time, with books in memory whose clock has left zero.
func inBubble(t *testing.T, name string, f func(t *testing.T, b *books)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := &books{Store: memory.New(memory.Options{})}
			defer b.Close()
			time.Sleep(time.Second)
			f(t, b)
		})
	})
}

// hot is a scene of a limit that gives up a tenth.
func hot(t *testing.T, l limit.Limit) *scene {
	t.Helper()
	e, ok := l.Lease(10)
	if !ok {
		t.Fatalf("%v cannot be leased", l)
	}
	return &scene{limit: l, lease: e, key: ledger.Key{Group: 7 << 32, Cell: 7}, unit: 1}
}

// take takes n of s and returns how the store answered, and the step as it came back.
func (s *scene) take(t *testing.T, st sluice.Store, n int64) (ledger.Result, ledger.Step) {
	t.Helper()
	steps := []ledger.Step{s.step(n)}
	return do(t, st, ledger.Command{Steps: steps, Levels: true}), steps[0]
}

// spend takes one unit after the other, all of which must pass, and returns how many had
// been ahead.
func (s *scene) spend(t *testing.T, st sluice.Store, n int) (ahead int) {
	t.Helper()
	for range n {
		res, step := s.take(t, st, 1)
		if res.Status != ledger.Done {
			t.Fatalf("refused: %+v", res)
		}
		if step.At != 0 {
			ahead++
		}
	}
	return ahead
}

// used is how many units the books have debited.
func (s *scene) used(t *testing.T, st sluice.Store) int64 {
	t.Helper()
	step := s.step(0)
	step.Part = 0
	v := do(t, st, ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{step}, Levels: true}).Levels[0]
	return v.Max - v.Left
}

var perMinute = limit.Window(6000, limit.Minute)

func TestSpending(t *testing.T) {
	inBubble(t, "a cold key is asked for exactly", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, perMinute)
		for range 100 {
			if s.spend(t, st, 1) != 0 {
				t.Fatal("a unit had been ahead")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if used := s.used(t, b); used != 100 {
			t.Errorf("%d units are debited", used)
		}
	})
	inBubble(t, "a hot key asks for less than a tenth of its calls", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, limit.Window(600_000, limit.Minute))
		s.spend(t, st, 1000)
		before := b.asked.Load()
		s.spend(t, st, 5000)
		if n := b.asked.Load() - before; n > 500 {
			t.Errorf("%d questions for 5000 calls", n)
		}
		if st := st.Stats(); st.Keys != 1 || st.Spent+st.Asked != 6000 {
			t.Errorf("%+v", st)
		}
	})
	inBubble(t, "no more is ahead than a twentieth of what was used", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, perMinute)
		for n := range int64(3000) {
			s.spend(t, st, 1)
			if ahead := st.Stats().Ahead; ahead > (n+1)/20 || s.used(t, b) != n+1+ahead {
				t.Fatalf("%d ahead after %d calls, %d debited", ahead, n+1, s.used(t, b))
			}
		}
	})
	inBubble(t, "what is not spent in time is lost, and earns no more", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, perMinute)
		s.spend(t, st, 2000)
		ahead := st.Stats().Ahead
		time.Sleep(s.lease.For.Duration() - 20*time.Millisecond - time.Nanosecond)
		if n := st.Stats().Ahead; n != ahead || n == 0 {
			t.Errorf("%d ahead, want %d", n, ahead)
		}
		time.Sleep(time.Nanosecond)
		if n := st.Stats().Ahead; n != 0 {
			t.Errorf("%d are still ahead", n)
		}
		if n := s.spend(t, st, 1); n != 0 {
			t.Error("a lost unit was spent")
		}
		next := st.Stats().Ahead
		if used := s.used(t, b); used != 2001+ahead+next || ahead+next > 2001/20 {
			t.Errorf("%d debited, %d lost, %d ahead", used, ahead, next)
		}
	})
	inBubble(t, "the levels are what the books had and what is ahead", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, perMinute)
		for n := range int64(500) {
			res, _ := s.take(t, st, 1)
			if v := res.Levels[0]; v.Max != 6000 || v.Left != 5999-n || v.Next <= 0 || v.Full <= 0 {
				t.Fatalf("after %d: %+v", n+1, v)
			}
		}
	})
	inBubble(t, "calls with an ID are the books' alone", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, perMinute)
		s.spend(t, st, 500)
		before := b.asked.Load()
		cmd := ledger.Command{ID: ledger.ID{Lo: 1}, Steps: []ledger.Step{s.step(1)}}
		if do(t, st, cmd).Status != ledger.Done || do(t, st, cmd).Status != ledger.Replayed || b.asked.Load() != before+2 {
			t.Error("the books were not asked")
		}
	})
	inBubble(t, "a key that has become hot takes the seat of one that is not", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, perMinute)
		for i := range uint64(8) { // twice as many as there are seats
			warm := *s
			warm.key = ledger.Key{Group: i, Cell: (1+i)*0x9e3779b97f4a7c15&^1023 | 7}
			warm.spend(t, st, 50)
		}
		if s.spend(t, st, 1000) == 0 {
			t.Error("every call asked")
		}
	})
	inBubble(t, "P-009 what cannot be taken is not taken ahead either", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, perMinute)
		s.spend(t, st, 500)
		ahead := st.Stats().Ahead
		for _, n := range []int64{-1, math.MinInt64, 6001, math.MaxInt64} {
			if res, _ := s.take(t, st, n); res.Status != ledger.Refused || !res.Outcomes[0].Never {
				t.Errorf("%d units: %+v", n, res)
			}
		}
		if res, _ := s.take(t, st, 0); res.Status != ledger.Done || st.Stats().Ahead != ahead {
			t.Errorf("no units: %+v; %d ahead, %d before", res, st.Stats().Ahead, ahead)
		}
		none := s.step(1)
		none.Limit.Max = 0
		if do(t, st, ledger.Command{Steps: []ledger.Step{none}}).Status != ledger.Refused {
			t.Error("a limit of zero admits")
		}
		if s.spend(t, st, 1) != 0 {
			t.Error("what was ahead of another limit is still there")
		}
	})
	inBubble(t, "thousands of cold keys do not take the seat of a hot one", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, limit.Window(600_000, limit.Minute))
		ahead := 0
		for i := range uint64(400) {
			ahead += s.spend(t, st, 50)
			for j := range uint64(20) {
				cold := *s
				cold.key = ledger.Key{Group: i, Cell: (1+i*20+j)*0x9e3779b97f4a7c15&^1023 | 7} // the same bank
				cold.spend(t, st, 1)
			}
			time.Sleep(time.Millisecond)
		}
		if ahead < 15_000 {
			t.Errorf("only %d of 20000 asked nobody", ahead)
		}
	})
}

func TestSeveralLimits(t *testing.T) {
	exact := ledger.Step{Key: ledger.Key{Cell: 9}, Limit: limit.Window(600, limit.Hour), N: 1, Pool: 9}
	inBubble(t, "all are spent here or none", func(t *testing.T, b *books) {
		st, wide, narrow := lease.New(b), hot(t, perMinute), hot(t, limit.Window(500, limit.Minute))
		narrow.key.Cell++
		passed := int64(0)
		for range 1000 {
			steps := []ledger.Step{wide.step(1), narrow.step(1)}
			if do(t, st, ledger.Command{Steps: steps}).Status == ledger.Done {
				passed++
			}
		}
		if passed != 500 {
			t.Errorf("%d passed, want all of the narrower limit", passed)
		}
		if lost := wide.used(t, b) - passed - 500/20; lost > 0 {
			t.Errorf("%d of the wider one are gone", lost)
		}
	})
	inBubble(t, "P-073 with a limit that is not leased all are the books'", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, perMinute)
		s.spend(t, st, 500)
		for range 600 {
			before := b.asked.Load()
			if do(t, st, ledger.Command{Steps: []ledger.Step{s.step(1), exact}}).Status != ledger.Done || b.asked.Load() != before+1 {
				t.Fatal("it took no question, or several")
			}
		}
		used, ahead := s.used(t, b), st.Stats().Ahead
		for range 100 {
			if do(t, st, ledger.Command{Steps: []ledger.Step{s.step(1), exact}}).Status != ledger.Refused {
				t.Fatal("passed the exhausted limit")
			}
		}
		if s.used(t, b) != used || st.Stats().Ahead != ahead {
			t.Error("a refusal has taken something")
		}
	})
	inBubble(t, "a shadow rule beside is decided by the books", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, perMinute)
		s.spend(t, st, 500)
		shadow := ledger.Step{Key: ledger.Key{Cell: 9}, Limit: limit.Window(1, limit.Hour), N: 1, Set: 3}
		for i := range 3 {
			steps := []ledger.Step{s.step(1), shadow}
			res := do(t, st, ledger.Command{Steps: steps})
			if res.Status != ledger.Done || (i > 0) != (len(res.Outcomes) == 2 && !res.Outcomes[1].OK && steps[1].N == 0) {
				t.Errorf("call %d: %+v %+v", i, res, steps)
			}
		}
	})
	inBubble(t, "a void and a settlement go back to where each unit was taken", func(t *testing.T, b *books) {
		st, x, y := lease.New(b), hot(t, perMinute), hot(t, perMinute)
		y.key.Cell++
		x.spend(t, st, 500)
		time.Sleep(50 * time.Millisecond)
		y.spend(t, st, 500) // so that what is ahead of each was taken at another time
		for _, cmd := range []ledger.Command{{Op: ledger.Void}, {Op: ledger.Settle, Used: []int64{0, 0}}} {
			steps := []ledger.Step{x.step(1), y.step(1)}
			cmd.At = do(t, st, ledger.Command{Steps: steps}).At
			if steps[0].At == 0 || steps[0].At == steps[1].At {
				t.Fatalf("taken at %d and %d", steps[0].At, steps[1].At)
			}
			ux, uy := x.used(t, b), y.used(t, b)
			cmd.Steps = steps
			if do(t, st, cmd).Status != ledger.Done || x.used(t, b) != ux-1 || y.used(t, b) != uy-1 {
				t.Errorf("op %d: %d and %d used after, %d and %d before", cmd.Op, x.used(t, b), y.used(t, b), ux, uy)
			}
		}
		res := do(t, st, ledger.Command{Op: ledger.Settle, Steps: []ledger.Step{{At: 5}}})
		if res.Status != ledger.Conflict {
			t.Error("a settlement without figures was taken")
		}
	})
}
