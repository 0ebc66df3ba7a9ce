package file

import (
	"context"
	"slices"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A batch is what one write will hold: not what was done, but where, for the state is
// read when the write begins.
type batch struct {
	cells   map[ledger.Key]change
	grants  map[ledger.ID]struct{}
	owners  bool
	takes   []*entry
	callers int
	// done is closed when the write has ended, err being how. over is the same under the
	// store's mutex.
	done chan struct{}
	over bool
	err  error
}

// A change says what of a cell is to be written.
type change struct {
	pool uint64
	// from is the oldest debit of a Window that may have changed, besides new ones.
	from limit.Micros
}

// An entry is a caller who waits for a batch.
type entry struct {
	batch *batch
	// undo takes back what a Take took, if the write fails or the caller has gone.
	undo ledger.Command
	gone bool
}

func newBatch() *batch {
	return &batch{
		cells: make(map[ledger.Key]change), grants: make(map[ledger.ID]struct{}), done: make(chan struct{}),
	}
}

// reuse returns a new batch with the memory of b, which is over: those who waited for it
// look at how it ended and at nothing else.
func (b *batch) reuse() *batch {
	clear(b.cells)
	clear(b.grants)
	clear(b.takes)
	return &batch{cells: b.cells, grants: b.grants, takes: b.takes[:0], done: make(chan struct{})}
}

func (b *batch) empty() bool { return len(b.cells) == 0 && len(b.grants) == 0 && !b.owners }

// touch notes that a cell has changed, of a Window the debits from a time on.
func (b *batch) touch(key ledger.Key, pool uint64, from limit.Micros) {
	if c, ok := b.cells[key]; ok {
		from = min(from, c.from)
	}
	b.cells[key] = change{pool, from}
}

// adopt takes over what another batch was to write.
func (b *batch) adopt(other *batch) {
	for key, c := range other.cells {
		b.touch(key, c.pool, c.from)
	}
	for id := range other.grants {
		b.grants[id] = struct{}{}
	}
	b.owners = b.owners || other.owners
}

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

// lasting reports whether the cell of a step is kept on disk.
func lasting(step *ledger.Step) bool { return !step.Volatile && !step.Limit.OnRelease() }

// decide carries out one durable command in memory and notes what to write. It returns
// nil if there is nothing to wait for.
func (s *Store) decide(ctx context.Context, cmds []ledger.Command, results []ledger.Result) (*entry, error) {
	cmd, res := &cmds[0], &results[0]
	if err := s.settleDown(ctx, cmd); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if err := s.memory.Apply(ctx, cmds, results); err != nil {
		return nil, err
	}
	switch _, unwritten := s.unwritten[cmd.ID]; {
	case res.Status == ledger.Replayed && unwritten && !givesBack(cmd.Op): // the disk has failed since
		return nil, s.refusal()
	case res.Status != ledger.Done || !s.note(cmd, res):
		return nil, nil
	}
	if s.failure != nil {
		if givesBack(cmd.Op) {
			return nil, nil // it will be written
		}
		return nil, s.refusal() // it will be, but was not when it was asked for
	}
	s.pending.callers++
	e := &entry{batch: s.pending}
	if cmd.Op == ledger.Take {
		e.undo = undoOf(cmd, res)
		s.pending.takes = append(s.pending.takes, e)
	}
	s.wakeWriter()
	return e, nil
}

// givesBack reports whether a command is done for its caller when memory has done it.
func givesBack(op ledger.Op) bool {
	return op == ledger.Release || op == ledger.Free || op == ledger.Void
}

// settleDown returns with the store's mutex held when the command may be decided: the
// store takes such commands, and what the disk knows of its grant is what memory knows,
// so that nobody is told of a grant that may yet have to be taken back.
func (s *Store) settleDown(ctx context.Context, cmd *ledger.Command) error {
	for {
		s.mu.Lock()
		b := s.unwritten[cmd.ID]
		switch {
		case s.closed.Load():
			s.mu.Unlock()
			return ErrClosed
		case s.failure != nil && cmd.Op == ledger.Take:
			err := s.refusal()
			s.mu.Unlock()
			return err
		case b == nil || s.failure != nil:
			return nil
		}
		s.mu.Unlock()
		select {
		case <-b.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// undoOf is the command that takes back a Take.
func undoOf(cmd *ledger.Command, res *ledger.Result) ledger.Command {
	undo := ledger.Command{Op: ledger.Void, ID: cmd.ID, At: res.At}
	if cmd.ID.Zero() { // else the record has them
		undo.Steps = slices.Clone(cmd.Steps)
	}
	return undo
}

// note adds what a command has changed to the pending batch, and reports whether there
// was anything. The caller holds s.mu.
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
		if step := &steps[i]; lasting(step) && (step.N != 0 || cmd.Op != ledger.Take) {
			s.pending.touch(step.Key, step.Pool, from)
			noted = true
		}
	}
	if !cmd.ID.Zero() && cmd.Op != ledger.Cool {
		s.noteGrant(cmd.ID)
		noted = true
	}
	return noted
}

func (s *Store) noteGrant(id ledger.ID) {
	s.pending.grants[id] = struct{}{}
	s.unwritten[id] = s.pending
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

func (s *Store) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
