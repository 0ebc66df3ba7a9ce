package file

import (
	"slices"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A batch is what one write will hold. What a Take has changed is written down at once,
// while its cells are at hand. Of all else it is noted where it was, and the state is
// read when the write begins: a settlement may change thousands of debits, and the next
// one the same ones again.
type batch struct {
	records writer
	cells   map[ledger.Key]change
	// grants are those that the write is about; true if their records are to be read yet.
	grants map[ledger.ID]bool
	owners bool
	takes  []taken
	// callers wait for the write; held back are requests about its grants that may be
	// looked at when it is over.
	callers, heldBack []*request
	at                stamp // of the write
}

// A change says what of a cell is to be written.
type change struct {
	pool uint64
	// from is the oldest debit of a Window that may have changed, besides new ones.
	from limit.Micros
}

// A taken is what takes back a Take, if the write fails or the caller has gone.
type taken struct {
	by    *request
	id    ledger.ID
	at    limit.Micros
	steps []ledger.Step // nil if the record of id has them
}

func takenBy(r *request, cmd *ledger.Command, res *ledger.Result) taken {
	t := taken{by: r, id: cmd.ID, at: res.At}
	if cmd.ID.Zero() {
		t.steps = slices.Clone(cmd.Steps)
	}
	return t
}

func (t *taken) undo() ledger.Command {
	return ledger.Command{Op: ledger.Void, ID: t.id, At: t.at, Steps: t.steps}
}

func newBatch() *batch {
	return &batch{cells: make(map[ledger.Key]change), grants: make(map[ledger.ID]bool)}
}

// clear makes an empty batch of one that is over.
func (b *batch) clear() {
	clear(b.cells)
	clear(b.grants)
	clear(b.takes)
	clear(b.callers)
	clear(b.heldBack)
	*b = batch{
		records: b.records[:0], cells: b.cells, grants: b.grants, takes: b.takes[:0],
		callers: b.callers[:0], heldBack: b.heldBack[:0],
	}
}

func (b *batch) empty() bool {
	return len(b.records) == 0 && len(b.cells) == 0 && len(b.grants) == 0 && !b.owners
}

func (b *batch) has(id ledger.ID) bool {
	_, ok := b.grants[id]
	return ok
}

// touch notes that a cell has changed, of a Window the debits from a time on.
func (b *batch) touch(key ledger.Key, pool uint64, from limit.Micros) {
	if c, ok := b.cells[key]; ok {
		from = min(from, c.from)
	}
	b.cells[key] = change{pool, from}
}

// adopt takes over what another batch was to write, to be read anew.
func (b *batch) adopt(other *batch) {
	for key, c := range other.cells {
		b.touch(key, c.pool, c.from)
	}
	for id := range other.grants {
		b.grants[id] = true
	}
	b.owners = b.owners || other.owners
}
