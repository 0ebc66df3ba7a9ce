package lease

import (
	"context"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// spend carries out a Take with units that are ahead. It reports false, and changes
// nothing, if some are not there; with renew also if it is time to ask for more.
func (s *Store) spend(cmd *ledger.Command, res *ledger.Result, renew bool) bool {
	res.Start(0)
	for i := range cmd.Steps {
		step := &cmd.Steps[i]
		if !leasable(step) || !s.spendStep(step, cmd.Levels, res, renew) {
			s.unspend(cmd.Steps[:i])
			return false
		}
		res.At = max(res.At, step.At)
	}
	s.spent.Add(1)
	return true
}

func (s *Store) spendStep(step *ledger.Step, levels bool, res *ledger.Result, renew bool) bool {
	b, now := s.bankOf(step.Key), s.now()
	if !b.mu.TryLock() {
		b.mu.Lock()
		now = s.now() // whoever had to wait shall not spend what has expired
	}
	defer b.mu.Unlock()
	t := b.seat(step, now)
	if t == nil || renew && t.due(step.N) {
		return false
	}
	l := t.find(step.N)
	if l == nil {
		return false
	}
	l.left -= step.N
	t.use(step.N)
	step.At = l.at
	if levels {
		res.Levels = append(res.Levels, t.levelAt(now))
	}
	return true
}

// unspend puts back what a Take had spent before it found that it cannot be carried out.
func (s *Store) unspend(steps []ledger.Step) {
	for i := range steps {
		step := &steps[i]
		b := s.bankOf(step.Key)
		b.mu.Lock()
		if t := b.seat(step, s.now()); t != nil {
			for j := range t.lots {
				if l := &t.lots[j]; l.size > 0 && l.at == step.At {
					l.left += step.N
					t.heat[1] = max(0, t.heat[1]-step.N)
					break
				}
			}
		}
		b.mu.Unlock()
	}
}

// peek answers a Peek that a Take with units that are ahead would be carried out.
func (s *Store) peek(cmd *ledger.Command, res *ledger.Result) bool {
	now := s.now()
	res.Start(0)
	for i := range cmd.Steps {
		step := &cmd.Steps[i]
		if !leasable(step) || !s.peekStep(step, now, cmd.Levels, res) {
			return false
		}
	}
	return true
}

func (s *Store) peekStep(step *ledger.Step, now instant, levels bool, res *ledger.Result) bool {
	b := s.bankOf(step.Key)
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.seat(step, now)
	if t == nil {
		return false
	}
	l := t.find(step.N)
	if l == nil {
		return false
	}
	res.At = max(res.At, l.at)
	if levels {
		res.Levels = append(res.Levels, t.levelAt(now))
	}
	return true
}

// apart reports whether some steps of a grant were taken at another time than it says.
func apart(cmd *ledger.Command) bool {
	for i := range cmd.Steps {
		if at := cmd.Steps[i].At; at != 0 && at != cmd.At {
			return true
		}
	}
	return false
}

// giveBack settles or voids a grant whose steps were taken at several times, by one command
// for each time.
func (s *Store) giveBack(ctx context.Context, cmd *ledger.Command, res *ledger.Result) error {
	if cmd.Op == ledger.Settle && len(cmd.Used) != len(cmd.Steps) {
		res.Start(cmd.At)
		res.Status = ledger.Conflict
		return nil
	}
	var cmds []ledger.Command
	at := func(i int) limit.Micros {
		if t := cmd.Steps[i].At; t != 0 {
			return t
		}
		return cmd.At
	}
	for i := range cmd.Steps {
		of := -1
		for j := range cmds {
			if cmds[j].At == at(i) {
				of = j
			}
		}
		if of < 0 {
			of = len(cmds)
			cmds = append(cmds, ledger.Command{Op: cmd.Op, At: at(i)})
		}
		cmds[of].Steps = append(cmds[of].Steps, cmd.Steps[i])
		if cmd.Op == ledger.Settle {
			cmds[of].Used = append(cmds[of].Used, cmd.Used[i])
		}
	}
	answers := make([]ledger.Result, len(cmds))
	err := s.books.Apply(ctx, cmds, answers)
	res.Start(answers[len(answers)-1].At)
	return err
}
