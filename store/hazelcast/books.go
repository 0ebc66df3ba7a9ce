package hazelcast

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// books are the cells and records of one pass, as they were read, and as its commands
// leave them.
type books struct {
	now    limit.Micros
	cells  map[string]*account
	known  map[string]bool // keys that were read
	grants *ledger.Grants
	// changed are the keys that commands have written to.
	changed map[string]bool
}

// newBooks copies what entries hold.
func newBooks(now limit.Micros, retention limit.Micros, entries map[string]*entry) *books {
	b := &books{
		now: now, cells: make(map[string]*account, len(entries)), known: make(map[string]bool, len(entries)),
		grants: ledger.NewGrants(math.MaxInt, retention), changed: make(map[string]bool),
	}
	var ended []string
	for key, e := range entries {
		b.known[key] = true
		switch st := e.value.state; {
		case st.cell != nil:
			a := *st.cell
			a.cell.Log = a.cell.Log.Clone()
			b.cells[key] = &a
		case st.record != nil && st.record.Released:
			ended = append(ended, key)
		case st.record != nil:
			b.put(key, st.record)
		}
	}
	slices.SortFunc(ended, func(x, y string) int {
		return cmp.Compare(entries[x].value.state.record.Ended, entries[y].value.state.record.Ended)
	})
	for _, key := range ended {
		b.put(key, entries[key].value.state.record)
	}
	return b
}

func (b *books) put(key string, r *ledger.Record) {
	record := *r
	record.Steps = slices.Clone(r.Steps)
	b.grants.Put(parseRecord(key), record)
}

// apply carries out cmd. It reports false if keys were not read that it is about, and
// adds them to those of r; nothing is changed then.
func (b *books) apply(r *request, cmd *ledger.Command, res *ledger.Result) bool {
	res.Start(b.now)
	steps := cmd.Steps
	switch named := hasRecord(cmd); {
	case cmd.Op == ledger.Reset:
		b.reset(r, cmd.At, res)
		return true
	case named && !b.knows(r, cmd.ID):
		return false
	case named:
		var done bool
		if steps, done = b.grants.Begin(cmd, res); done {
			return true
		}
	case cmd.Op == ledger.Find:
		res.Status = ledger.Unknown
		return true
	}
	cells := make([]*limit.Cell, len(steps))
	for i := range steps {
		cells[i] = b.cell(&steps[i])
	}
	ledger.Run(cmd, steps, cells, res)
	if res.Status != ledger.Done {
		return true
	}
	if hasRecord(cmd) {
		b.grants.End(cmd, res)
		b.changed[recordKey(cmd.ID)] = true
	}
	if cmd.Op != ledger.Peek {
		for i := range steps {
			b.changed[cellKey(steps[i].Key)] = true
		}
	}
	return true
}

// knows reports whether the cells of the record of id were read too.
func (b *books) knows(r *request, id ledger.ID) bool {
	record, _ := b.grants.Get(id)
	all := true
	for i := range record.Steps {
		if key := cellKey(record.Steps[i].Key); !b.known[key] {
			r.want(key)
			all = false
		}
	}
	return all
}

// cell returns the cell of s, carried over to its limit if that has changed.
func (b *books) cell(s *ledger.Step) *limit.Cell {
	key := cellKey(s.Key)
	a := b.cells[key]
	if a == nil {
		a = &account{limit: s.Limit}
		b.cells[key] = a
	}
	if a.limit != s.Limit {
		a.cell = s.Limit.Convert(a.limit, a.cell, b.now)
		a.limit = s.Limit
		b.changed[key] = true
	}
	return &a.cell
}

// reset makes the cells of r full, but for what is held, and counts those that were not
// at the time at.
func (b *books) reset(r *request, at limit.Micros, res *ledger.Result) {
	for _, key := range r.keys {
		if a := b.cells[key]; a != nil && !a.limit.OnRelease() && !a.limit.Idle(&a.cell, at) {
			a.cell = limit.Cell{}
			b.changed[key] = true
			res.Count++
		}
	}
}

// state returns what is to be kept under key. A cell that is full is kept for a while as
// well, and so is what remains of a record that is void: where nothing is, nobody could
// tell whether something was.
func (b *books) state(key string) (st state) {
	if !isRecord(key) {
		return state{cell: b.cells[key]}
	}
	if r, ok := b.grants.Get(parseRecord(key)); ok {
		st.record = &r
	}
	return st
}

// life is how long st matters at time now; zero is until somebody says otherwise. It is as long as the longest
// debt of a limit that was not overdrawn, and so the same for every process that writes
// the cell at about the same time, or longer.
func (st state) life(now, retention limit.Micros) limit.Micros {
	switch {
	case st.record != nil && st.record.Released:
		return retention
	case st.record != nil:
		if at, ok := st.record.Leaves(retention); ok {
			return max(1, at-now)
		}
		return 0
	case st.cell == nil || st.cell.limit.OnRelease():
		return 0
	}
	l := st.cell.limit
	full := l.Level(&st.cell.cell, now).Full
	if l.Kind == limit.KindBucket && l.Max > 0 {
		return max(full, limit.Micros(float64(l.Burst)*float64(l.Per)/float64(l.Max)))
	}
	return max(full, l.Per)
}

// useless reports whether nothing is lost at time now if st is.
func (st state) useless(now, retention limit.Micros) bool {
	switch {
	case st.cell != nil:
		return st.cell.limit.Idle(&st.cell.cell, now)
	case st.record != nil && st.record.Released:
		return st.record.Ended+retention <= now
	case st.record != nil:
		at, ok := st.record.Leaves(retention)
		return ok && at <= now
	}
	return true
}
