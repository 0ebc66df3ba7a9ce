package redis

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// How a root and the parts of a grant are asked; what for is in named.go.

// A root is what a server says of one.
type root struct {
	status  ledger.Status
	there   bool
	life    limit.Micros
	at      limit.Micros // when it was taken
	before  limit.Micros // the life before it, if that was given up
	leaves  limit.Micros // when it is forgotten if nobody releases it; zero is never
	settled bool         // or, of one that has not been committed, tried by several
	state   byte
	steps   []ledger.Step
	used    []int64
	words   words
	now     limit.Micros
}

// words are what a root says of its grant; of these only whileHeld is told to its parts.
type words struct {
	calls     int64
	left      limit.Micros // as in ledger.Result
	outcome   uint8
	whileHeld bool
	note      []byte
}

// The states of a root; FORMAT.md.
const (
	rootReleased = 1
	rootPending  = 2
	rootVoided   = 3
)

// stateAt is where in what is said of a record its state stands.
const stateAt = 8 + 8 + 1

// rootRequest writes a command about a root down.
func (s *Store) rootRequest(op ledger.Op, cmd *ledger.Command) *request {
	own := *cmd
	own.Op, own.Levels = op, false
	own.Delay, own.Watch = limit.Micros(s.owner.id), limit.Micros(s.owner.id)
	r := s.newRequest(nil, question{})
	again := op == ledger.Release || op == ledger.Free || op == ledger.Void || op == opForget
	s.writeAbout(r, &own, s.recordKey(cmd.ID), flagRoot, again)
	return r
}

// askRoot sends a command to a root.
func (s *Store) askRoot(ctx context.Context, r *request) (root, error) {
	if err := s.carry(ctx, r); err != nil {
		return root{}, err
	}
	return readRoot(r)
}

// readRoot reads the answer to a command about a root.
func readRoot(r *request) (root, error) {
	in := reader{rest: r.reply[0]}
	head := in.take(2)
	said := root{status: ledger.Status(head[0]), there: head[1] != 0, now: r.now}
	if !said.there {
		return said, in.err()
	}
	said.life, said.at = limit.Micros(read64(in.take(8))), limit.Micros(read64(in.take(8)))
	said.before, said.leaves = limit.Micros(read64(in.take(8))), limit.Micros(read64(in.take(8)))
	if len(in.rest) > stateAt {
		said.state = in.rest[stateAt]
	}
	var res ledger.Result
	res.Start(r.now)
	in.readRecord(&res)
	said.steps, said.used, said.settled = res.Steps, res.Used, res.Settled
	said.words = words{res.Calls, res.Left, res.Outcome, res.WhileHeld, res.Note}
	return said, in.err()
}

// tell fills res with what the root says.
func (said *root) tell(res *ledger.Result) {
	res.Status = said.status
	if said.there && said.status != ledger.Unknown && said.state != rootPending {
		res.Steps, res.Used = append(res.Steps[:0], said.steps...), append(res.Used[:0], said.used...)
		res.Settled, res.Released = said.settled, said.state == rootReleased
		w := &said.words
		res.Calls, res.Left, res.Outcome, res.WhileHeld = w.calls, w.left, w.outcome, w.whileHeld
		res.Note = append(res.Note[:0], w.note...)
	}
}

// carry sends r and waits for the answer.
func (s *Store) carry(ctx context.Context, r *request) error {
	if s.nodes.of(s.slot(r)).breaker.IsOpen() {
		s.outbox.add(s, r)
		return ErrUnavailable
	}
	s.laneOf(r).send(r, s.wait <= patience)
	err := s.await(ctx, r, nil)
	if err != nil && r.left.Load() != leftGone && (isDown(err) || isFull(err)) {
		s.forgotten(r)
	}
	return err
}

// partRequest writes commands about the part of a grant in the slot of p down. A root that
// leaves by itself takes its parts along, but none before it: their clocks may differ, and
// another try may be under way.
func (s *Store) partRequest(id ledger.ID, p *piece, of *root, cmds ...ledger.Command) *request {
	r := s.newRequest(nil, question{})
	key, until := s.besideKey(groupOf(p.cmd[0].Steps), id), limit.Micros(0)
	if of.leaves > 0 {
		until = of.leaves + limit.MicrosOf(brief)
	}
	for i := range cmds {
		cmd := &cmds[i]
		cmd.ID, cmd.Call, cmd.Calls, cmd.Expires = id, uint64(of.life), 0, until
		cmd.Note, cmd.WhileHeld = nil, of.words.whileHeld
		if cmd.Op == ledger.Peek {
			s.writeAbout(r, cmd, "", 0, false)
		} else {
			s.writeAbout(r, cmd, key, flagPart, cmd.Op != ledger.Take)
		}
	}
	return r
}

// askPart takes the part of a grant in the slot of p.
func (s *Store) askPart(ctx context.Context, id ledger.ID, p *piece, said *root) error {
	cmd, res := &p.cmd[0], &p.res[0]
	cmd.At = said.before
	r := s.partRequest(id, p, said, *cmd)
	if err := s.carry(ctx, r); err != nil {
		if isFull(err) {
			res.Start(0)
			res.Status = ledger.Full
			return nil
		}
		return err
	}
	res.Start(r.now)
	in := reader{rest: r.reply[0]}
	in.readAnswer(cmd, res)
	if res.Status == ledger.Replayed {
		cmd.Steps = slices.Clone(res.Steps)
	}
	return in.err()
}

// whenAll makes after be called when all of list have arrived.
func whenAll(list []*request, after func()) {
	var left atomic.Int32
	left.Store(int32(len(list)))
	if len(list) == 0 {
		after()
	}
	for _, r := range list {
		r.then = func(*request) {
			if left.Add(-1) == 0 {
				after()
			}
		}
	}
}

// sendLater has requests sent until they have arrived, and calls after then.
func (s *Store) sendLater(list []*request, after func()) {
	whenAll(list, after)
	for _, r := range list {
		s.outbox.put(s, r)
	}
}

// bring tells the parts of a grant what the root says has become of it. What is not
// answered now is sent until it arrives. It returns the latest time at which one was told,
// and calls after once all have been.
func (s *Store) bring(ctx context.Context, list []*request, after func()) (at limit.Micros) {
	whenAll(list, after)
	pieces := make([]*piece, len(list))
	for i := range pieces {
		pieces[i] = new(piece)
	}
	_ = each(pieces, func(i int, p *piece) error {
		r := list[i]
		err := s.carry(ctx, r)
		if err == nil {
			p.res[0].At = r.now
			r.then(r)
		}
		return err
	})
	for _, p := range pieces {
		at = max(at, p.res[0].At)
	}
	return at
}

// voids are the requests that undo what a life has taken.
func (s *Store) voids(id ledger.ID, list []*piece, of *root) (all []*request) {
	for _, p := range list {
		all = append(all, s.partRequest(id, p, of, ledger.Command{Op: ledger.Void, Steps: p.cmd[0].Steps, At: of.before}))
	}
	return all
}

// forget returns what tells the root that the parts of a life are in line with it.
func (s *Store) forget(id ledger.ID, life limit.Micros) func() {
	return func() { s.outbox.put(s, s.rootRequest(opForget, &ledger.Command{ID: id, Call: uint64(life)})) }
}
