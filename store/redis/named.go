package redis

import (
	"context"
	"errors"
	"slices"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A grant with an ID in a Cluster has a root, in the slot of the ID, and a part in each slot
// of its cells; roots.lua says what they are. A Take writes the root, takes part after part,
// and commits the root. Whoever comes with the ID in between joins it: parts are taken once,
// whoever takes them. Whoever is refused aborts the root before anything is voided, and the
// root says who of several was first: what is committed is voided by nobody, and who finds
// the root aborted voids what it has taken itself. A process that dies leaves a pending root;
// the next that names the ID finishes it.

// deadAfter is the age at which a pending root is nobody's work any more: every command is
// over long before.
const deadAfter = 10 * limit.Second

// changeNamed carries out a command about a grant with an ID, other than a Take.
func (s *Store) changeNamed(ctx context.Context, cmd *ledger.Command, res *ledger.Result) error {
	r := s.rootRequest(cmd.Op, cmd)
	again, own := r.parts[0].again, *cmd
	own.Steps = slices.Clone(cmd.Steps)
	r.then = func(arrived *request) { // it had to wait in the outbox
		if said, err := readRoot(arrived); err == nil {
			s.follow(&own, &said, s.sendLater)
		}
	}
	said, err := s.askRoot(ctx, r)
	if err != nil {
		if again && !errors.Is(err, errAnswer) {
			return nil
		}
		return err
	}
	res.At = said.now
	said.tell(res)
	if cmd.Op == ledger.Find && said.state == rootPending {
		res.Status = ledger.Unknown
		if said.now-said.life > deadAfter {
			list := piecesOf(&ledger.Command{Steps: said.steps})
			_, err = s.abort(ctx, cmd.ID, &said, list, len(list))
		}
		return err
	}
	s.follow(cmd, &said, func(list []*request, after func()) {
		if at := s.bring(ctx, list, after); at > 0 {
			res.At = at
		}
	})
	return nil
}

// follow has the parts told what a command about the root means for them. One that the root
// has carried out before is told again: who sent it may have died on the way.
func (s *Store) follow(cmd *ledger.Command, said *root, tell func([]*request, func())) {
	if !said.there || said.status == ledger.Conflict || said.state == rootPending {
		return
	}
	whole := ledger.Command{Op: ledger.Settle, Steps: said.steps, Used: said.used}
	if said.state == rootVoided || len(said.used) != len(said.steps) {
		whole = ledger.Command{Op: ledger.Release, Steps: said.steps}
	}
	var list []*request
	for _, p := range piecesOf(&whole) {
		if what := said.meaning(cmd, p); len(what) > 0 {
			list = append(list, s.partRequest(cmd.ID, p, said, what...))
		}
	}
	if cmd.Op != ledger.Find {
		tell(list, s.forget(cmd.ID, said.life))
	}
}

// meaning is what cmd means for the part in the slot of p, whose command is the settlement
// of the grant if it has been settled, else its release.
func (said *root) meaning(cmd *ledger.Command, p *piece) []ledger.Command {
	end := ledger.Command{Op: ledger.Release, Steps: p.cmd[0].Steps}
	switch {
	case said.state == rootVoided && (cmd.Op == ledger.Void || cmd.Op == ledger.Release):
		end.Op = ledger.Void
		return []ledger.Command{end}
	case said.state == rootVoided:
		return nil
	case cmd.Op == ledger.Release && said.settled:
		return []ledger.Command{p.cmd[0], end}
	case cmd.Op == ledger.Settle && said.settled, cmd.Op == ledger.Release:
		return p.cmd[:]
	case cmd.Op == ledger.Free:
		end.Op, end.Steps = ledger.Free, nil
		for i := range cmd.Steps {
			if slotOfGroup(cmd.Steps[i].Key.Group) == p.slot {
				end.Steps = append(end.Steps, cmd.Steps[i])
			}
		}
		if len(end.Steps) > 0 || said.leaves > 0 { // which it did not, as long as it held slots
			return []ledger.Command{end}
		}
	}
	return nil
}

// finish does what a process that has died had yet to do for a root.
func (s *Store) finish(ctx context.Context, id ledger.ID) error {
	cmd := ledger.Command{Op: ledger.Find, ID: id}
	said, err := s.askRoot(ctx, s.rootRequest(cmd.Op, &cmd))
	if err != nil || !said.there {
		return err
	}
	list := piecesOf(&ledger.Command{Steps: said.steps})
	switch said.state {
	case rootPending:
		_, err = s.abort(ctx, id, &said, list, len(list))
		return err
	case rootVoided:
		s.giveUp(ctx, id, &said, list, s.forget(id, said.life))
		return nil
	case rootReleased:
		cmd.Op = ledger.Release
	default:
		cmd.Op = ledger.Settle
	}
	s.follow(&cmd, &said, func(list []*request, after func()) { s.bring(ctx, list, after) })
	return nil
}

// An attempt is one caller's try to make a grant.
type attempt struct {
	id     ledger.ID
	cmd    *ledger.Command // the caller's
	root   root            // as the attempt found or made it
	joined bool            // another has begun it
	whole  ledger.Command  // what is taken: of one that is joined, what the other wanted
	list   []*piece
	barred barred
}

func newAttempt(cmd *ledger.Command, said root) *attempt {
	a := &attempt{id: cmd.ID, cmd: cmd, root: said, joined: said.status == ledger.Replayed, whole: *cmd}
	if a.joined {
		a.whole.Steps = said.steps
	}
	a.list = piecesOf(&a.whole)
	return a
}

// takeNamed takes with an ID. If another has aborted what it had joined it begins anew,
// until its time is over.
func (s *Store) takeNamed(ctx context.Context, cmd *ledger.Command, res *ledger.Result) error {
	begin := *cmd
	begin.At = 0
	for later := limit.Millisecond; ; later *= 2 {
		said, err := s.askRoot(ctx, s.rootRequest(ledger.Take, &begin))
		if err != nil {
			return err
		}
		res.At = said.now
		a := newAttempt(cmd, said)
		switch {
		case said.status == ledger.Conflict:
			res.Status = ledger.Conflict
			return nil
		case a.joined && said.state != rootPending:
			a.open(&said, res)
			return nil
		}
		done, err := s.try(ctx, a, res)
		if err != nil {
			s.abandon(a)
		}
		if done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// The clock of the server that has the root may be behind that of the one before it.
		begin.At = said.life + later
	}
}

// try takes all parts and commits the root. It reports false if the life that it was about
// is over.
func (s *Store) try(ctx context.Context, a *attempt, res *ledger.Result) (done bool, err error) {
	if a.barred, err = s.foresee(ctx, &a.whole, a.list); err != nil {
		return false, err
	}
	for i, p := range a.list {
		if err := s.askPart(ctx, a.id, p, &a.root); err != nil {
			return false, err
		}
		if status := p.res[0].Status; status != ledger.Done && status != ledger.Replayed {
			return s.turnBack(ctx, a, i, res)
		}
	}
	return s.commit(ctx, a, res)
}

// commit makes the root of a life say that all parts have been taken. It reports false if
// somebody has given the life up.
func (s *Store) commit(ctx context.Context, a *attempt, res *ledger.Result) (done bool, err error) {
	commit := ledger.Command{ID: a.id, Call: uint64(a.root.life), Steps: slices.Clone(a.whole.Steps), At: a.root.now}
	for i, p := range a.list {
		if i == 0 || p.res[0].At > commit.At {
			commit.At = p.res[0].At
		}
	}
	keep(&commit, a.list)
	said, err := s.askRoot(ctx, s.rootRequest(opCommit, &commit))
	switch {
	case err != nil:
		return false, err
	case said.status == ledger.Unknown:
		s.giveUp(ctx, a.id, &a.root, a.list, func() {})
		return false, nil
	}
	if said.leaves > 0 && a.root.leaves == 0 { // its slots were those of a shadow, which took none
		s.follow(&ledger.Command{Op: ledger.Free, ID: a.id}, &said, s.sendLater)
	}
	s.granted(ctx, a, &said, res)
	return true, nil
}

// turnBack gives the life up because its i-th piece was not taken: a limit refuses, or the
// life is over.
func (s *Store) turnBack(ctx context.Context, a *attempt, i int, res *ledger.Result) (done bool, err error) {
	status := a.list[i].res[0].Status
	said, err := s.abort(ctx, a.id, &a.root, a.list, i)
	switch {
	case err != nil:
		return false, err
	case said.status == ledger.Replayed: // another found room, and was first
		s.granted(ctx, a, &said, res)
		return true, nil
	case status == ledger.Conflict:
		return false, nil
	}
	_ = each(a.list, func(k int, p *piece) error {
		if k == i {
			return nil
		}
		return s.look(ctx, &a.whole, p)
	})
	res.Status = status
	gather(&a.whole, a.list, res)
	a.barred.tell(&a.whole, res)
	return true, nil
}

// look asks what the cells of p say now.
func (s *Store) look(ctx context.Context, cmd *ledger.Command, p *piece) error {
	cmds, said := []ledger.Command{p.peek(cmd)}, make([]ledger.Result, 1)
	err := s.apply(ctx, cmds, said)
	if err == nil {
		p.res[0] = said[0]
	}
	return err
}

// abort gives a life up, if it is pending, and voids the first n of its pieces, which have
// been taken; or all of them, if others have tried too and may have died, or may have before
// they had voided what they took in the life before.
func (s *Store) abort(ctx context.Context, id ledger.ID, at *root, list []*piece, n int) (root, error) {
	said, err := s.askRoot(ctx, s.rootRequest(opAbort, &ledger.Command{ID: id, Call: uint64(at.life)}))
	if err != nil || said.status == ledger.Replayed {
		return said, err
	}
	after := func() {}
	if said.status == ledger.Done {
		after = s.forget(id, at.life)
	}
	if said.settled || at.before > 0 {
		n = len(list)
	}
	s.giveUp(ctx, id, at, list[:n], after)
	return said, nil
}

// abandon gives up the life of an attempt that has failed half way, unless somebody commits
// it first, as soon as the servers allow. Otherwise what it took in some slots would be held
// by an ID that its caller may never use again.
func (s *Store) abandon(a *attempt) {
	r := s.rootRequest(opAbort, &ledger.Command{ID: a.id, Call: uint64(a.root.life)})
	r.then = func(arrived *request) {
		if said, err := readRoot(arrived); err == nil && said.status == ledger.Done {
			s.sendLater(s.voids(a.id, a.list, &a.root), s.forget(a.id, a.root.life))
		}
	}
	s.outbox.put(s, r)
}

// giveUp voids what a life has taken, and calls after once that has arrived.
func (s *Store) giveUp(ctx context.Context, id ledger.ID, at *root, taken []*piece, after func()) {
	cmds := []ledger.Command{{Op: ledger.Void, ID: id, Steps: at.steps}}
	s.refusals.begin(cmds)
	defer s.refusals.end(cmds)
	s.bring(ctx, s.voids(id, taken, at), after)
}

// granted answers a caller whose life the root says is open.
func (s *Store) granted(ctx context.Context, a *attempt, said *root, res *ledger.Result) {
	if a.joined {
		said.status = ledger.Replayed
		a.open(said, res)
		return
	}
	if a.cmd.Levels { // another may have taken some of the parts, and been told their levels
		_ = each(a.list, func(_ int, p *piece) error {
			if len(p.res[0].Levels) == len(p.at) {
				return nil
			}
			return s.look(ctx, a.cmd, p)
		})
	}
	gather(a.cmd, a.list, res)
	a.barred.tell(a.cmd, res)
	res.Status, res.At = ledger.Done, said.at
	for i := range min(len(a.cmd.Steps), len(said.steps)) {
		a.cmd.Steps[i].N = said.steps[i].N
	}
}

// open answers a caller whose ID had a grant already.
func (a *attempt) open(said *root, res *ledger.Result) {
	said.tell(res)
	res.At = said.at
}
