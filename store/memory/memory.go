// Package memory keeps the books of one process in its memory.
//
// It is the fastest store and the one that forgets everything when the process ends.
// A decision about one limit is a load and a compare-and-swap, a refusal is loads
// alone, and several limits are taken under lock bits in a fixed order. Nothing is
// allocated for a decision.
//
// Memory is bounded by [Options.MaxCells]. Cells that are full again are forgotten,
// others never. When all cells are in use, keys that have none yet share a fixed number
// of cells for each limit: a flood of new keys neither frees an exhausted one nor locks
// everybody out, and no cell ever admits more than its limit.
package memory

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// Options bound a Store. The zero value is usable.
type Options struct {
	// MaxCells is how many keys have cells of their own, about 40 bytes each; a Window
	// costs more. Zero is 1 << 20.
	MaxCells int
	// MaxGrants is how many admissions with an ID are remembered. Zero is 100 000;
	// negative is none.
	MaxGrants int
	// Retention is how long an admission with an ID is remembered after its release.
	// Zero is an hour.
	Retention time.Duration
	// Start is the store's time when it is made. Zero is a second. It is for books that
	// are read back, whose time must go on.
	Start limit.Micros
}

const (
	shardBits = 6
	numShards = 1 << shardBits
	poolCells = 1024 // shared cells of a limit for keys that find no room
)

// ErrClosed is returned by a Store after Close.
var ErrClosed = errors.New("memory: the store is closed")

// A Store is a sluice.Store in memory. It is safe for concurrent use.
type Store struct {
	shards [numShards]shard
	limits registry
	start  time.Time
	origin limit.Micros // the store's time at start
	closed atomic.Bool

	grantsMu sync.Mutex
	grants   *ledger.Grants

	sweeper sweeper
}

// New returns an empty Store. Its time is monotonic and counts from now.
func New(o Options) *Store {
	if o.MaxCells <= 0 {
		o.MaxCells = 1 << 20
	}
	if o.MaxGrants == 0 {
		o.MaxGrants = 100_000
	}
	if o.Retention <= 0 {
		o.Retention = time.Hour
	}
	if o.Start <= 0 {
		o.Start = limit.Second // zero stands for "never" in a cell
	}
	s := &Store{
		start:  time.Now(),
		origin: o.Start,
		grants: ledger.NewGrants(max(0, o.MaxGrants), limit.MicrosOf(o.Retention)),
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.bound = max(1, (o.MaxCells+numShards-1)/numShards)
		sh.table.Store(&table{slots: make([]slot, minSlots)})
	}
	return s
}

func (s *Store) now() limit.Micros {
	return s.origin + limit.Micros(time.Since(s.start)/time.Microsecond)
}

func (s *Store) shardOf(key ledger.Key) *shard {
	return &s.shards[key.Cell&(numShards-1)]
}

// Apply implements sluice.Store. It never blocks on anything but other decisions, and
// ctx is not looked at.
func (s *Store) Apply(_ context.Context, cmds []ledger.Command, res []ledger.Result) error {
	if s.closed.Load() {
		return ErrClosed
	}
	for i := range cmds {
		s.apply(&cmds[i], &res[i], nil)
	}
	return nil
}

func (s *Store) apply(cmd *ledger.Command, res *ledger.Result, see Seer) {
	res.Start(0) // whoever looks at a cell reads the clock then
	if see == nil && len(cmd.Steps) == 1 && cmd.ID.Zero() && (cmd.Op == ledger.Take || cmd.Op == ledger.Release) && s.one(cmd, res) {
		return
	}
	switch {
	case cmd.Op == ledger.Reset:
		res.At = s.now()
		s.reset(cmd, res)
	case !cmd.ID.Zero() && cmd.Op != ledger.Peek && cmd.Op != ledger.Cool:
		s.applyNamed(cmd, res, see)
	case cmd.Op == ledger.Find:
		res.At, res.Status = s.now(), ledger.Unknown
	default:
		s.run(cmd, cmd.Steps, res, see)
	}
}

// applyNamed carries out a command whose grant has a record.
func (s *Store) applyNamed(cmd *ledger.Command, res *ledger.Result, see Seer) {
	s.grantsMu.Lock()
	defer s.grantsMu.Unlock()
	res.At = s.now()
	steps, done := s.grants.Begin(cmd, res)
	if done {
		return
	}
	s.run(cmd, steps, res, see)
	s.grants.End(cmd, res)
}

// one carries out a Take or a Release of one step whose cell is one word: the common
// case. It reports false, with nothing changed, when the general way is needed.
//
// The clock is read after the word. The other way round, others could take in between,
// and their later stamps would look like debt to the older clock: a refusal of what is
// there.
func (s *Store) one(cmd *ledger.Command, res *ledger.Result) bool {
	step := &cmd.Steps[0]
	l := step.Limit
	sl := s.shardOf(step.Key).table.Load().find(step.Key)
	if sl == nil || !l.Narrow() || cmd.Op == ledger.Release && !l.OnRelease() {
		return false
	}
	for n := 0; ; n++ {
		w := sl.word.Load()
		if w&wordMoved != 0 || s.limits.at(numberOf(sl.meta.Load())) != l {
			return false
		}
		if w&wordLocked != 0 {
			pause(n)
			continue
		}
		if !l.OnRelease() { // slots know no time, and reading it costs as much as they do
			res.At = s.now()
		}
		now := res.At
		cell, v := l.Unpack(w>>wordShift, now), limit.Verdict{OK: true}
		if cmd.Op == ledger.Take {
			v = l.Take(&cell, now, step.N)
		} else {
			l.Give(&cell, now, cmd.At, step.N)
		}
		if v.OK && !sl.word.CompareAndSwap(w, l.Pack(cell)<<wordShift|w&wordEpoch) {
			continue
		}
		if cmd.Op == ledger.Take {
			answer(cmd, &cell, v, res)
		}
		return true
	}
}

// answer fills in the result of a Take of one step.
func answer(cmd *ledger.Command, cell *limit.Cell, v limit.Verdict, res *ledger.Result) {
	step := &cmd.Steps[0]
	if !v.OK {
		res.Outcomes = append(res.Outcomes, v)
		if step.Set == 0 {
			res.Status = ledger.Refused
		} else {
			step.N = 0
		}
	}
	if cmd.Levels {
		res.Levels = append(res.Levels, step.Limit.Level(cell, res.At))
	}
}

// A hold is one locked cell of a command.
type hold struct {
	shard *shard
	slot  *slot // nil for a Peek at a key that has no cell
	word  int64
	limit limit.Limit
	cell  limit.Cell  // of a narrow limit
	wide  *limit.Cell // of any other
	first int         // the hold that has locked this cell: itself, or an earlier one
}

// A scratch is the memory that a command needs while it runs.
type scratch struct {
	holds []hold
	cells []*limit.Cell
	order []int
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// run carries out cmd under the lock bits of all its cells.
func (s *Store) run(cmd *ledger.Command, steps []ledger.Step, res *ledger.Result, see Seer) {
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	x.holds = slices.Grow(x.holds[:0], len(steps))[:len(steps)]
	x.cells = slices.Grow(x.cells[:0], len(steps))[:len(steps)]
	for !s.lockAll(cmd.Op == ledger.Peek, steps, x) {
	}
	res.At = s.now() // under the locks: no cell has a later stamp
	for i := range steps {
		h := &x.holds[x.holds[i].first]
		if h == &x.holds[i] && !s.open(h, &steps[i], res.At) {
			res.Status = ledger.Full
		}
		x.cells[i] = h.current()
	}
	if res.Status == ledger.Done {
		ledger.Run(cmd, steps, x.cells, res)
	}
	if see != nil && res.Status == ledger.Done {
		for i := range steps {
			see(&steps[i], x.cells[i], res.At)
		}
	}
	for i := range x.holds {
		if h := &x.holds[i]; h.first == i && h.slot != nil {
			h.close()
		}
	}
}

// lockAll finds or makes the cell of every step and locks them in the order of their
// keys, so that no two commands wait for one another. It reports false, with nothing
// locked, when a table was rebuilt meanwhile.
func (s *Store) lockAll(peek bool, steps []ledger.Step, x *scratch) bool {
	x.order = x.order[:0]
	for i := range steps {
		h := &x.holds[i]
		*h = hold{shard: s.shardOf(steps[i].Key), first: i}
		h.slot = h.shard.table.Load().find(steps[i].Key)
		switch {
		case h.slot != nil:
		case peek:
			h.shard, h.slot = s.shared(&steps[i])
		default:
			h.shard, h.slot = s.make(&steps[i])
		}
		x.order = append(x.order, i)
	}
	sortByKey(x.order, steps)
	for k, i := range x.order {
		h := &x.holds[i]
		if k > 0 {
			before := x.order[k-1]
			if p := &x.holds[before]; p.slot == h.slot && (h.slot != nil || steps[before].Key == steps[i].Key) {
				h.first = p.first
				continue
			}
		}
		if h.slot == nil {
			continue
		}
		w, ok := h.slot.lock()
		if !ok {
			x.unlock(x.order[:k])
			h.shard.settle()
			return false
		}
		h.word = w
	}
	return true
}

// unlock lets the slots of these holds go as they were.
func (x *scratch) unlock(order []int) {
	for _, i := range order {
		if h := &x.holds[i]; h.slot != nil && h.first == i {
			h.slot.word.Store(h.word)
		}
	}
}

// sortByKey sorts the few indices of order by the keys of their steps.
func sortByKey(order []int, steps []ledger.Step) {
	for i := 1; i < len(order); i++ {
		for j := i; j > 0 && less(steps[order[j]].Key, steps[order[j-1]].Key); j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}
}

func less(a, b ledger.Key) bool {
	return a.Cell < b.Cell || a.Cell == b.Cell && a.Group < b.Group
}

// open brings the locked cell to hand, carried over to the step's limit if that is not
// the one it was last used under. It reports false if the limit cannot be numbered.
func (s *Store) open(h *hold, step *ledger.Step, now limit.Micros) bool {
	if h.slot == nil {
		return true
	}
	was := s.limits.at(numberOf(h.slot.meta.Load()))
	if was != step.Limit && !s.convert(h, was, step.Limit, now) {
		return false
	}
	h.limit = step.Limit
	if step.Limit.Narrow() {
		h.cell = step.Limit.Unpack(h.word>>wordShift, now)
	} else {
		h.wide = h.shard.wide.at(int32(h.word >> wordShift))
	}
	return true
}

func (h *hold) current() *limit.Cell {
	if h.wide != nil {
		return h.wide
	}
	return &h.cell
}

// convert rewrites a locked slot for another limit.
func (s *Store) convert(h *hold, from, to limit.Limit, now limit.Micros) bool {
	number, ok := s.limits.number(to)
	if !ok {
		return false
	}
	var c limit.Cell
	if from.Narrow() {
		c = from.Unpack(h.word>>wordShift, now)
	} else {
		i := int32(h.word >> wordShift)
		c = *h.shard.wide.at(i)
		h.shard.wide.release(i)
	}
	c = to.Convert(from, c, now)
	value := to.Pack(c)
	if !to.Narrow() {
		i := h.shard.wide.alloc()
		*h.shard.wide.at(i) = c
		value = int64(i)
	}
	meta := h.slot.meta.Load()
	h.slot.meta.Store(meta>>groupShift<<groupShift | uint64(number)<<limitShift | 1)
	h.word = value<<wordShift | (h.word&wordEpoch ^ wordEpoch)
	return true
}

// close writes the cell back and lets the slot go.
func (h *hold) close() {
	if h.wide == nil && h.limit.Kind != limit.KindNone {
		h.word = h.limit.Pack(h.cell)<<wordShift | h.word&wordEpoch
	}
	h.slot.word.Store(h.word)
}

// Close makes further commands fail with [ErrClosed].
func (s *Store) Close() error {
	s.closed.Store(true)
	s.sweeper.stop()
	return nil
}

// Scan implements sluice.Store: it yields the cells of group, or all if group is zero,
// that are not as good as new. Each is consistent in itself; together they are not a
// snapshot.
func (s *Store) Scan(_ context.Context, group uint64) iter.Seq2[ledger.Entry, error] {
	return func(yield func(ledger.Entry, error) bool) {
		for i := range s.shards {
			for _, e := range s.entries(&s.shards[i], group) {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Stats are figures about a Store.
type Stats struct {
	Cells      int    // keys that have cells, idle ones included
	MaxCells   int    // keys that may have cells of their own
	Grants     int    // remembered admissions with an ID
	Inserted   uint64 // cells made since the start
	Forgotten  uint64 // cells dropped because they were full again
	Overflowed uint64 // decisions about keys that had to share a cell
}

// Stats returns the store's figures.
func (s *Store) Stats() Stats {
	var st Stats
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		st.Cells += sh.filled
		st.MaxCells += sh.bound
		st.Inserted += sh.inserted
		st.Forgotten += sh.forgotten
		st.Overflowed += sh.overflowed
		sh.mu.Unlock()
	}
	s.grantsMu.Lock()
	st.Grants = s.grants.Len()
	s.grantsMu.Unlock()
	return st
}
