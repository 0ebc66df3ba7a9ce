package redis

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A piece is what a command says about the cells of one slot, and what became of it.
type piece struct {
	slot uint16
	at   []int // where its steps stand in the whole command
	cmd  [1]ledger.Command
	res  [1]ledger.Result
}

// piecesOf returns the pieces of a command, in the order in which they are taken: by their
// slots, but what is shared by all comes last. So a call that its own limits refuse never
// takes, not even for a moment, what others wait for.
func piecesOf(cmd *ledger.Command) []*piece {
	var list []*piece
	for i := range cmd.Steps {
		slot := slotOfGroup(cmd.Steps[i].Key.Group)
		k := slices.IndexFunc(list, func(p *piece) bool { return p.slot == slot })
		if k < 0 {
			k = len(list)
			list = append(list, &piece{slot: slot, cmd: [1]ledger.Command{*cmd}})
			list[k].cmd[0].Steps, list[k].cmd[0].Used = nil, nil
		}
		p := list[k]
		p.at = append(p.at, i)
		p.cmd[0].Steps = append(p.cmd[0].Steps, cmd.Steps[i])
		if cmd.Op == ledger.Settle {
			p.cmd[0].Used = append(p.cmd[0].Used, cmd.Used[i])
		}
	}
	slices.SortFunc(list, func(a, b *piece) int { return cmp.Compare(a.order(), b.order()) })
	return list
}

var sharedSlot = slotOfGroup(0)

func (p *piece) order() int {
	if p.slot == sharedSlot {
		return slots
	}
	return int(p.slot)
}

// void is what undoes p, which was taken.
func (p *piece) void() ledger.Command {
	return ledger.Command{Op: ledger.Void, Steps: p.cmd[0].Steps, At: p.res[0].At}
}

// peek asks what the cells of p say to the steps of cmd, which p is of.
func (p *piece) peek(cmd *ledger.Command) ledger.Command {
	look := ledger.Command{Op: ledger.Peek, Levels: cmd.Levels}
	for _, i := range p.at {
		look.Steps = append(look.Steps, cmd.Steps[i])
	}
	return look
}

// each does something for all of list at the same time, and returns the first error.
func each(list []*piece, do func(i int, p *piece) error) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, p := range list {
		all.Go(func() { errs[i] = do(i, p) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

// every carries out the pieces at the same time.
func (s *Store) every(ctx context.Context, list []*piece) error {
	return each(list, func(_ int, p *piece) error { return s.apply(ctx, p.cmd[:], p.res[:]) })
}

// keep writes what shadow steps did not take into the steps of cmd.
func keep(cmd *ledger.Command, list []*piece) {
	for _, p := range list {
		for k, i := range p.at {
			cmd.Steps[i].N = p.cmd[0].Steps[k].N
		}
	}
}

// gather makes res the answer to cmd of what its pieces were told.
func gather(cmd *ledger.Command, list []*piece, res *ledger.Result) {
	n, told := len(cmd.Steps), false
	for _, p := range list {
		told = told || len(p.res[0].Outcomes) > 0
		res.At = max(res.At, p.res[0].At)
	}
	if told {
		res.Outcomes = slices.Grow(res.Outcomes[:0], n)[:n]
	}
	if cmd.Levels {
		res.Levels = slices.Grow(res.Levels[:0], n)[:n]
		clear(res.Levels)
	}
	for _, p := range list {
		for k, i := range p.at {
			if told {
				res.Outcomes[i] = limit.Verdict{OK: true}
				if len(p.res[0].Outcomes) > 0 {
					res.Outcomes[i] = p.res[0].Outcomes[k]
				}
			}
			if cmd.Levels && len(p.res[0].Levels) > 0 {
				res.Levels[i] = p.res[0].Levels[k]
			}
		}
	}
}
