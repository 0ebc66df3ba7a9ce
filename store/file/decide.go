package file

import (
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// durable reports whether a command changes what must survive. A step that is volatile
// need not, and slots need only as part of a grant with an ID: nobody could release the
// others after a crash, so they are free then.
func durable(cmd *ledger.Command) bool {
	switch {
	case cmd.Op == ledger.Peek:
		return false
	case cmd.Op == ledger.Reset:
		return true
	case !cmd.ID.Zero() && cmd.Op != ledger.Cool:
		return true
	case cmd.Op == ledger.Release || cmd.Op == ledger.Free:
		return false
	}
	for i := range cmd.Steps {
		if lasting(&cmd.Steps[i]) {
			return true
		}
	}
	return false
}

func anyDurable(cmds []ledger.Command) bool {
	for i := range cmds {
		if durable(&cmds[i]) {
			return true
		}
	}
	return false
}

// lasting reports whether the cell of a step is kept on disk.
func lasting(step *ledger.Step) bool { return !step.Volatile && !step.Limit.OnRelease() }

// givesBack reports whether a command is done for its caller when memory has done it.
func givesBack(op ledger.Op) bool {
	return op == ledger.Release || op == ledger.Free || op == ledger.Void
}

// decideAll carries out what callers have asked for.
func (s *Store) decideAll() {
	s.asked = s.inbox.take(s.asked)
	for i, r := range s.asked {
		s.asked[i] = nil
		s.decide(r)
	}
}

// decide carries out a request in memory and notes what to write. It answers it unless
// it has to wait: for the write, or for that of a grant that it names.
func (s *Store) decide(r *request) {
	if !r.begin() {
		return
	}
	if r.do != nil && r.in == nil {
		r.err = r.do()
	}
	for r.err == nil && r.next < len(r.cmds) {
		cmd, res := &r.cmds[r.next], &r.res[r.next]
		if b := s.holderOf(cmd.ID); b != nil && s.failure == nil && durable(cmd) {
			b.heldBack = append(b.heldBack, r)
			r.state.Store(idle)
			return
		}
		r.err = s.carryOut(r, cmd, res)
		r.next++
	}
	if r.err != nil || r.in == nil || r.in != s.pending {
		r.reply(r.err)
		return
	}
	r.state.Store(idle)
}

// carryOut carries out one command in memory and notes what to write.
func (s *Store) carryOut(r *request, cmd *ledger.Command, res *ledger.Result) error {
	isTake := cmd.Op == ledger.Take && durable(cmd)
	see := s.see
	switch {
	case !isTake:
		see = nil
	case s.failure != nil:
		return s.refusal()
	}
	if err := s.memory.ApplySeen(cmd, res, see); err != nil || !durable(cmd) {
		return err
	}
	switch {
	case res.Status == ledger.Replayed && s.holderOf(cmd.ID) != nil && !givesBack(cmd.Op): // the disk has failed since
		return s.refusal()
	case res.Status != ledger.Done:
		return nil
	case isTake:
		s.noteTake(r, cmd, res)
		return nil
	case !s.note(cmd, res):
		return nil
	case s.failure == nil:
		s.waitFor(r)
	case !givesBack(cmd.Op):
		return s.refusal() // it will be written, but was not when it was asked for
	}
	return nil
}

// waitFor lets a request wait for the pending batch.
func (s *Store) waitFor(r *request) {
	if r.in != s.pending {
		r.in = s.pending
		s.pending.callers = append(s.pending.callers, r)
	}
}

// holderOf returns the batch that holds a grant which the disk does not know yet, or nil.
// A batch whose write has failed is no more: what it held is pending.
func (s *Store) holderOf(id ledger.ID) *batch {
	switch {
	case s.pending.has(id):
		return s.pending
	case s.writing != nil && s.writing.has(id):
		return s.writing
	}
	return nil
}

// seeTaken writes down a cell that a Take has changed.
func (s *Store) seeTaken(step *ledger.Step, c *limit.Cell, now limit.Micros) {
	if !lasting(step) || step.N == 0 {
		return
	}
	s.noted = true
	if !kept(step.Limit, c, now) {
		s.pending.touch(step.Key, step.Pool, never)
		return
	}
	from := s.onDisk(step.Key).advance(step.Pool, step.Limit, c, never)
	s.pending.records.cell(step.Key, step.Pool, step.Limit, c, from)
}

// noteTake adds the record of a Take to the pending batch, for which its caller waits
// then.
func (s *Store) noteTake(r *request, cmd *ledger.Command, res *ledger.Result) {
	noted := s.noted
	s.noted = false
	if !cmd.ID.Zero() {
		before := len(s.pending.records)
		r := cmd.Record(res.At)
		s.pending.records.grant(cmd.ID, &r)
		s.recordBytes = len(s.pending.records) - before
		s.pending.grants[cmd.ID] = false
		s.grants[cmd.ID] = struct{}{}
		noted = true
	}
	if noted {
		s.pending.takes = append(s.pending.takes, takenBy(r, cmd, res))
		s.waitFor(r)
	}
}

// note adds what a command other than a Take has changed to the pending batch, and
// reports whether there was anything.
func (s *Store) note(cmd *ledger.Command, res *ledger.Result) bool {
	steps, from := cmd.Steps, never
	switch cmd.Op {
	case ledger.Find:
		return false
	case ledger.Reset:
		return s.noteReset(cmd)
	case ledger.Release, ledger.Free:
		steps = nil
	case ledger.Settle, ledger.Void:
		from = cmd.At
		if !cmd.ID.Zero() {
			steps = res.Steps
		}
	}
	noted := false
	for i := range steps {
		if step := &steps[i]; lasting(step) {
			s.pending.touch(step.Key, step.Pool, from)
			noted = true
		}
	}
	if !cmd.ID.Zero() && cmd.Op != ledger.Cool {
		s.pending.grants[cmd.ID] = true
		noted = true
	}
	return noted
}

// noteReset adds every cell that a Reset may have changed: those that the disk knows, and
// those that are to be written anyway. Memory tells groups apart by their upper bits, and
// may have reset more than the one that was named.
func (s *Store) noteReset(cmd *ledger.Command) bool {
	noted := false
	for key, d := range s.cells {
		if cmd.All || key.Group>>groupBits == cmd.Group>>groupBits {
			s.pending.touch(key, d.pool, 0)
			noted = true
		}
	}
	return noted || !s.pending.empty()
}

// groupBits are the low bits of a group that a store need not tell apart.
const groupBits = 32

// also carries out a command of the store's own.
func (s *Store) also(cmd ledger.Command) {
	var res ledger.Result
	if err := s.memory.ApplySeen(&cmd, &res, nil); err == nil && res.Status == ledger.Done {
		s.note(&cmd, &res)
	}
}
