package ledger

import (
	"iter"

	"github.com/sluicegate/sluice/limit"
)

// Books are cells and grants in plain maps: the simplest thing that carries out
// commands. Stores that serialise their commands are built on it, and the concurrent
// ones are tested against it. Books are not safe for concurrent use.
type Books struct {
	cells  map[Key]*account
	grants *Grants
}

type account struct {
	limit limit.Limit
	cell  limit.Cell
}

// NewBooks returns empty books with the given records.
func NewBooks(grants *Grants) *Books {
	return &Books{cells: make(map[Key]*account), grants: grants}
}

// Apply carries out one command at time now.
func (b *Books) Apply(now limit.Micros, cmd *Command, res *Result) {
	res.Start(now)
	steps := cmd.Steps
	switch {
	case cmd.Op == Reset:
		b.reset(cmd, res)
		return
	case !cmd.ID.Zero() && cmd.Op != Peek && cmd.Op != Cool:
		var done bool
		if steps, done = b.grants.Begin(cmd, res); done {
			return
		}
		defer b.grants.End(cmd, res)
	case cmd.Op == Find:
		res.Status = Unknown
		return
	}
	cells := make([]*limit.Cell, len(steps))
	for i := range steps {
		cells[i] = b.cell(&steps[i], now)
	}
	Run(cmd, steps, cells, res)
}

// cell returns the cell of s, carried over to its limit if that has changed.
func (b *Books) cell(s *Step, now limit.Micros) *limit.Cell {
	a := b.cells[s.Key]
	if a == nil {
		a = &account{limit: s.Limit}
		b.cells[s.Key] = a
	}
	if a.limit != s.Limit {
		a.cell = s.Limit.Convert(a.limit, a.cell, now)
		a.limit = s.Limit
	}
	return &a.cell
}

func (b *Books) reset(cmd *Command, res *Result) {
	for k, a := range b.cells {
		if (cmd.All || k.Group == cmd.Group) && !a.limit.OnRelease() && !a.limit.Idle(&a.cell, res.At) {
			delete(b.cells, k)
			res.Count++
		}
	}
}

// Sweep forgets the cells that are as good as new at time now, and returns how many
// are left.
func (b *Books) Sweep(now limit.Micros) int {
	for k, a := range b.cells {
		if a.limit.Idle(&a.cell, now) {
			delete(b.cells, k)
		}
	}
	return len(b.cells)
}

// Scan yields the cells of a group, or all if group is zero, that are not as good as new
// at time now.
func (b *Books) Scan(now limit.Micros, group uint64) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for k, a := range b.cells {
			if group != 0 && k.Group != group || a.limit.Idle(&a.cell, now) {
				continue
			}
			if !yield(Entry{Key: k, Limit: a.limit, Level: a.limit.Level(&a.cell, now)}) {
				return
			}
		}
	}
}
