package redis

import (
	"context"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A decision about several slots of a Cluster is a Take in each, one after the other. If one
// refuses, those before it are voided, and the slots that have not been asked yet say what
// they would have said. So never more is admitted than in one slot; but for the moment
// between a take and its void another call may find those units gone and be refused, that
// would pass a moment later.

// place returns the slot of all that cmd is about, or false if there are several. A record
// is in another slot than the cells, as a rule.
func (s *Store) place(cmd *ledger.Command) (slot uint16, one bool) {
	if !s.nodes.cluster {
		return 0, true
	}
	if hasRecord(cmd) {
		return 0, false
	}
	if givesBack(cmd) {
		if _, known := s.times.about(cmd); known {
			return 0, false // it may be about one of several slots
		}
	}
	for i := range cmd.Steps {
		at := slotOfGroup(cmd.Steps[i].Key.Group)
		if i > 0 && at != slot {
			return 0, false
		}
		slot = at
	}
	return slot, true
}

// givesBack reports whether cmd is about a Take that has been made.
func givesBack(cmd *ledger.Command) bool {
	switch cmd.Op {
	case ledger.Settle, ledger.Release, ledger.Free, ledger.Void:
		return true
	}
	return false
}

// across carries out a command about several slots. It waits no longer than any other.
func (s *Store) across(ctx context.Context, cmd *ledger.Command, res *ledger.Result) error {
	if s.closed.Load() {
		return ErrClosed
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.wait, s.late())
	defer cancel()
	res.Start(0)
	switch {
	case hasRecord(cmd) && cmd.Op == ledger.Take:
		return s.takeNamed(ctx, cmd, res)
	case hasRecord(cmd):
		return s.changeNamed(ctx, cmd, res)
	case cmd.Op == ledger.Take:
		return s.takeSpread(ctx, cmd, res)
	case cmd.Op == ledger.Settle && len(cmd.Used) != len(cmd.Steps):
		res.Status = ledger.Conflict
		return nil
	}
	list := piecesOf(cmd)
	if givesBack(cmd) {
		s.recallTimes(cmd, list)
	}
	if err := s.every(ctx, list); err != nil {
		return err
	}
	for _, p := range list {
		if p.res[0].Status == ledger.Refused {
			res.Status = ledger.Refused
		}
	}
	gather(cmd, list, res)
	return nil
}

// takeSpread takes in each slot or in none.
func (s *Store) takeSpread(ctx context.Context, cmd *ledger.Command, res *ledger.Result) error {
	list := piecesOf(cmd)
	barred, err := s.foresee(ctx, cmd, list)
	if err != nil {
		return err
	}
	for i, p := range list {
		if err := s.apply(ctx, p.cmd[:], p.res[:]); err != nil {
			for _, before := range list[:i] {
				s.outbox.add(s, s.newRequest([]ledger.Command{before.void()}, question{}))
			}
			return err
		}
		if res.Status = p.res[0].Status; res.Status != ledger.Done {
			s.retreat(ctx, cmd, list, i)
			break
		}
	}
	gather(cmd, list, res)
	barred.tell(cmd, res)
	if res.Status == ledger.Done {
		keep(cmd, list)
		s.noteTimes(cmd, res.At, list)
	}
	return nil
}

// retreat voids the pieces before the i-th, which has refused, and asks all others what
// they say. What is not answered in time is voided later, and says what it said before.
func (s *Store) retreat(ctx context.Context, cmd *ledger.Command, list []*piece, i int) {
	_ = each(list, func(k int, p *piece) error {
		if k == i {
			return nil
		}
		cmds := []ledger.Command{p.peek(cmd)}
		if k < i {
			cmds = []ledger.Command{p.void(), cmds[0]}
			s.refusals.begin(cmds)
			defer s.refusals.end(cmds)
		}
		said := make([]ledger.Result, len(cmds))
		err := s.apply(ctx, cmds, said)
		if err == nil {
			p.res[0] = said[len(said)-1]
		}
		return err
	})
}

// barred are the steps of shadow sets that have others in other slots, and are not taken
// because one of those does not fit; and what they were told.
type barred map[int]limit.Verdict

// foresee looks whether shadow sets with steps in several slots would fit whole, and makes
// the pieces take nothing of those that would not. If that changes before they are taken,
// each slot takes what fits there: a shadow refuses nobody.
func (s *Store) foresee(ctx context.Context, cmd *ledger.Command, list []*piece) (barred, error) {
	slotsOf := make(map[uint8]*piece)
	wide := false
	for _, p := range list {
		for k := range p.cmd[0].Steps {
			if set := p.cmd[0].Steps[k].Set; set != 0 {
				wide = wide || slotsOf[set] != nil && slotsOf[set] != p
				slotsOf[set] = p
			}
		}
	}
	if !wide {
		return nil, nil
	}
	look := ledger.Command{Op: ledger.Peek, Steps: cmd.Steps}
	said, all := piecesOf(&look), ledger.Result{}
	if err := s.every(ctx, said); err != nil {
		return nil, err
	}
	gather(&look, said, &all)
	refused := make(map[uint8]bool)
	for i := range all.Outcomes {
		refused[cmd.Steps[i].Set] = refused[cmd.Steps[i].Set] || !all.Outcomes[i].OK
	}
	told := make(barred)
	for _, p := range list {
		for k, i := range p.at {
			if set := cmd.Steps[i].Set; set != 0 && refused[set] {
				p.cmd[0].Steps[k].N, told[i] = 0, all.Outcomes[i]
			}
		}
	}
	return told, nil
}

// tell puts what b were told into the answer to cmd.
func (b barred) tell(cmd *ledger.Command, res *ledger.Result) {
	for len(b) > 0 && len(res.Outcomes) < len(cmd.Steps) {
		res.Outcomes = append(res.Outcomes, limit.Verdict{OK: true})
	}
	for i, v := range b {
		res.Outcomes[i] = v
	}
}

// A pieceTime is when the piece in a slot was taken.
type pieceTime struct {
	slot uint16
	at   limit.Micros
}

// noteTimes remembers when the pieces were taken, if it matters to what is given back: a
// window looks for the very debit. All together were taken at time at.
func (s *Store) noteTimes(cmd *ledger.Command, at limit.Micros, list []*piece) {
	holds, matters := hold(cmd.Steps), false
	times := make([]pieceTime, 0, len(list))
	for _, p := range list {
		times = append(times, pieceTime{p.slot, p.res[0].At})
	}
	for i := range cmd.Steps {
		matters = matters || cmd.Steps[i].Limit.Kind == limit.KindWindow
	}
	if holds || matters {
		s.times.add(cmd, at, times, !holds)
	}
}

// recallTimes gives each piece of what is given back the time at which it was taken.
func (s *Store) recallTimes(cmd *ledger.Command, list []*piece) {
	times := s.times.find(cmd)
	if times == nil {
		times, _ = s.times.about(cmd)
	}
	for _, m := range times {
		for _, p := range list {
			if p.slot == m.slot {
				p.cmd[0].At = m.at
			}
		}
	}
}
