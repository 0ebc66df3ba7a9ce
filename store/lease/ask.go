package lease

import (
	"context"
	"math"
	"sync"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A question is a Take on its way to the books, with the wishes that it carries.
type question struct {
	cmd    [1]ledger.Command
	res    [1]ledger.Result
	steps  []ledger.Step
	wishes []wish
	asked  instant
}

// A wish is for units ahead of one step.
type wish struct {
	step   int // in the command
	ahead  int // the step that takes them
	ticket uint64
}

var questions = sync.Pool{New: func() any { return new(question) }}

// ask carries out a Take in the books, and takes units ahead on the occasion.
func (s *Store) ask(ctx context.Context, cmd *ledger.Command, res *ledger.Result) error {
	q := questions.Get().(*question)
	defer questions.Put(q)
	s.asked.Add(1)
	q.asked = s.now()
	s.wish(q, cmd)
	q.cmd[0] = *cmd
	q.cmd[0].Steps, q.cmd[0].Levels = q.steps, true
	q.res[0], *res = *res, q.res[0] // the caller's memory
	err := s.books.Apply(ctx, q.cmd[:], q.res[:])
	*res, q.res[0] = q.res[0], *res
	if err != nil {
		res.Start(0)
	}
	s.granted(q, cmd, res, err == nil && res.Status == ledger.Done)
	if err == nil {
		answer(q, cmd, res)
	}
	return err
}

// wish lays out the steps of cmd and behind them those that take ahead.
func (s *Store) wish(q *question, cmd *ledger.Command) {
	q.steps, q.wishes = append(q.steps[:0], cmd.Steps...), q.wishes[:0]
	set := uint8(0)
	for i := range cmd.Steps {
		set = max(set, cmd.Steps[i].Set)
	}
	for i := range cmd.Steps {
		step := &cmd.Steps[i]
		if !leasable(step) || set == math.MaxUint8 {
			continue
		}
		n, ticket := s.wishOf(step, q.asked)
		if n == 0 {
			continue
		}
		set++
		q.wishes = append(q.wishes, wish{i, len(q.steps), ticket})
		q.steps = append(q.steps, ledger.Step{
			Key: step.Key, Limit: step.Limit, N: n, Set: set, Volatile: step.Volatile, Pool: step.Pool,
		})
	}
}

// wishOf is how many units are to be taken ahead of a step, and who has the say about them.
func (s *Store) wishOf(step *ledger.Step, now instant) (n int64, ticket uint64) {
	b := s.bankOf(step.Key)
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.claim(step, now)
	if t == nil || s.resets.Load() > 0 {
		return 0, 0
	}
	if n = t.wish(step.N); n == 0 {
		return 0, 0
	}
	t.asking = s.tickets.Add(1)
	return n, t.asking
}

// granted notes what was spent of each step and what is ahead of it.
func (s *Store) granted(q *question, cmd *ledger.Command, res *ledger.Result, done bool) {
	now := s.now()
	for i := range cmd.Steps {
		step := &cmd.Steps[i]
		if !leasable(step) {
			continue
		}
		b := s.bankOf(step.Key)
		b.mu.Lock()
		if t := b.seat(step, now); t != nil {
			if done {
				t.use(step.N)
			}
			for _, w := range q.wishes {
				if w.step == i && t.asking == w.ticket {
					t.asking = 0
					t.short = !t.putAhead(q, &q.steps[w.ahead], done, res.At)
				}
			}
			if i < len(res.Levels) {
				t.level, t.seen = res.Levels[i], now
				res.Levels[i] = t.levelAt(now)
			}
		}
		b.mu.Unlock()
	}
}

// putAhead adds to t what a wish has taken, if anything.
func (t *seat) putAhead(q *question, ahead *ledger.Step, done bool, at limit.Micros) bool {
	// A store that is full has taken from a cell that many share; what is there is not
	// this key's. And a step says by a time of zero that its units had not been ahead.
	if !done || ahead.N == 0 || at == 0 || ahead.Key != t.key {
		return false
	}
	t.put(lot{left: ahead.N, size: ahead.N, at: at, until: q.asked.plus(t.span - t.span/50)})
	return true
}

// answer leaves of the answer what the caller has asked for.
func answer(q *question, cmd *ledger.Command, res *ledger.Result) {
	n := copy(cmd.Steps, q.steps)
	if !cmd.Levels {
		res.Levels = res.Levels[:0]
	}
	res.Levels = res.Levels[:min(n, len(res.Levels))]
	res.Outcomes = res.Outcomes[:min(n, len(res.Outcomes))]
	for i := range res.Outcomes {
		if !res.Outcomes[i].OK {
			return
		}
	}
	res.Outcomes = res.Outcomes[:0]
}
