package ledger

import (
	"container/heap"
	"iter"
	"math"
	"slices"

	"github.com/sluicegate/sluice/limit"
)

// A Record is what is remembered of a Take that has an ID.
//
//	open ──settle──▶ settled ──release──▶ released ──retention──▶ forgotten
//	  └──────────────release─────────────────┘
//
// With WhileHeld a release forgets it.
type Record struct {
	At        limit.Micros // when the steps were taken
	Ended     limit.Micros // when it was released
	Call      uint64       // Command.Call of the Take
	Calls     int64        // Command.Calls of the Take
	Expires   limit.Micros // when it is no longer good for work to begin; zero is never
	Steps     []Step
	Used      []int64 // what it was settled to
	Note      []byte  // Command.Note of the Take
	Settled   bool
	Released  bool
	WhileHeld bool  // Command.WhileHeld of the Take
	Outcome   uint8 // Command.Outcome of the settlement
}

// Leaves returns when the record of a grant that expires may be forgotten though nobody
// has released it: when it has expired, the retention has passed since it was taken, and
// so has the longest window of its steps. It reports false if the record stays.
func (r *Record) Leaves(retention limit.Micros) (at limit.Micros, ok bool) {
	if r.Released || r.Expires == 0 {
		return 0, false
	}
	least := retention
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Limit.OnRelease() && s.N > 0 {
			return 0, false
		}
		if s.Limit.Kind == limit.KindWindow {
			least = max(least, s.Limit.Per)
		}
	}
	return max(r.Expires, r.At+min(least, math.MaxInt64-r.At)), true
}

// Record is what is to be remembered of cmd, a Take that was carried out at a time. Its
// steps and its note are cmd's own.
func (cmd *Command) Record(at limit.Micros) Record {
	r := Record{At: at, Call: cmd.Call, Calls: cmd.Calls, Steps: cmd.Steps, Note: cmd.Note, WhileHeld: cmd.WhileHeld}
	if cmd.Expires > 0 {
		r.Expires = at + min(cmd.Expires, math.MaxInt64-at)
	}
	return r
}

// An Remembered is a record as a store lists it.
type Remembered struct {
	ID ID
	Record
	Now limit.Micros // the store's time when it was looked at
}

// Grants are the records of one set of books. Released grants are forgotten after a
// retention. Open ones are never, but those that expire: these are after the retention
// and the windows of their steps, both from when they were taken. Grants is not safe for
// concurrent use.
type Grants struct {
	max       int
	open      int // records that are not released
	retention limit.Micros
	byID      map[ID]*Record
	// ended holds released grants in the order in which they may be forgotten.
	ended []ended
	// leaving are the open grants that may be forgotten, a heap by when, and leavers the
	// same by ID.
	leaving leaving
	leavers map[ID]*leaver
}

type ended struct {
	id ID
	at limit.Micros
}

// A leaver is an open grant that may be forgotten at a time.
type leaver struct {
	id    ID
	at    limit.Micros
	place int // in the heap
}

// leaving is a heap of leavers by their time.
type leaving []*leaver

func (h leaving) Len() int           { return len(h) }
func (h leaving) Less(i, j int) bool { return h[i].at < h[j].at }

func (h leaving) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *leaving) Push(x any) {
	l := x.(*leaver)
	l.place = len(*h)
	*h = append(*h, l)
}

func (h *leaving) Pop() any {
	n := len(*h) - 1
	last := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	return last
}

// NewGrants returns records for at most max open grants, each remembered for retention
// after its release. As many released ones are remembered at most, the latest: a bound
// on what is under way shall not become one on traffic. max of zero keeps none: every
// Take with an ID is answered Full.
func NewGrants(max int, retention limit.Micros) *Grants {
	return &Grants{max: max, retention: retention, byID: make(map[ID]*Record), leavers: make(map[ID]*leaver)}
}

// Len returns how many grants are remembered.
func (g *Grants) Len() int { return len(g.byID) }

// Begin looks up the record of cmd, which has an ID. If that answers the command it
// fills res and returns done. If not it returns the steps whose cells [Run] is to
// change, for which the caller then calls [Grants.End].
func (g *Grants) Begin(cmd *Command, res *Result) (steps []Step, done bool) {
	g.forget(res.At)
	r := g.byID[cmd.ID]
	if cmd.Op == Take {
		return g.beginTake(cmd, r, res)
	}
	if r == nil {
		res.Status = Unknown
		return nil, true
	}
	r.describe(res)
	switch {
	case cmd.Op == Find:
		res.Status = Done
		return nil, true
	case cmd.Op == Settle && r.Settled:
		res.Status = Replayed
		if r.Outcome != cmd.Outcome || !slices.Equal(r.Used, cmd.Used) {
			res.Status = Conflict
		}
		return nil, true
	case cmd.Op == Settle && len(cmd.Used) != len(r.Steps),
		cmd.Op == Void && r.Settled && !r.Released:
		res.Status = Conflict
		return nil, true
	case cmd.Op != Settle && r.Released:
		res.Status = Replayed
		return nil, true
	}
	cmd.At = r.At
	res.Status = Done
	r.renew(cmd.Steps)
	if cmd.Op == Free {
		return r.held(cmd.Steps), false
	}
	return r.Steps, false
}

// renew gives the record's steps the limits of those of steps that are about the same
// cells: the rules may have changed since.
func (r *Record) renew(steps []Step) {
	for i := range r.Steps {
		for _, s := range steps {
			if s.Key == r.Steps[i].Key {
				r.Steps[i].Renew(s.Limit)
			}
		}
	}
}

// held are the slots among steps that the grant still holds.
func (r *Record) held(steps []Step) []Step {
	var list []Step
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Limit.OnRelease() && s.N > 0 && names(steps, s.Key) {
			list = append(list, *s)
		}
	}
	return list
}

// names reports whether one of steps is about the cell of key.
func names(steps []Step, key Key) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.Key == key })
}

func (g *Grants) beginTake(cmd *Command, r *Record, res *Result) ([]Step, bool) {
	switch {
	case r == nil && g.open >= g.max:
		res.Status = Full
		return nil, true
	case r == nil:
		return cmd.Steps, false
	case r.Call != cmd.Call:
		res.Status = Conflict
	default:
		r.describe(res)
		res.Status = Replayed
		res.At = r.At
	}
	return nil, true
}

// End records what Run has done for cmd.
func (g *Grants) End(cmd *Command, res *Result) {
	if res.Status != Done {
		return
	}
	r := g.byID[cmd.ID]
	switch cmd.Op {
	case Take:
		taken := cmd.Record(res.At)
		taken.Steps, taken.Note = slices.Clone(taken.Steps), slices.Clone(taken.Note)
		g.Put(cmd.ID, taken)
		return
	case Settle:
		r.Settled, r.Used, r.Outcome = true, slices.Clone(cmd.Used), cmd.Outcome
	case Free:
		for i := range r.Steps {
			if s := &r.Steps[i]; s.Limit.OnRelease() && names(cmd.Steps, s.Key) {
				s.N = 0
			}
		}
	case Void:
		delete(g.byID, cmd.ID)
		g.open--
	case Release:
		r.Released, r.Ended = true, res.At
		g.open--
		if r.WhileHeld {
			delete(g.byID, cmd.ID)
		} else {
			g.ended = append(g.ended, ended{cmd.ID, res.At})
		}
	}
	g.expect(cmd.ID)
	r.describe(res) // the store may have changed the keys of the steps
}

// forget drops released grants whose retention is over, or that are too many.
func (g *Grants) forget(now limit.Micros) {
	for len(g.ended) > 0 && (g.ended[0].at+g.retention <= now || len(g.ended) > g.max) {
		delete(g.byID, g.ended[0].id)
		g.ended = g.ended[1:]
	}
	for len(g.leaving) > 0 && g.leaving[0].at <= now {
		id := heap.Pop(&g.leaving).(*leaver).id
		delete(g.leavers, id)
		delete(g.byID, id)
		g.open--
	}
}

// expect notes when the grant of id may be forgotten, if nobody releases it: its record,
// or the limits of its steps, have changed, or it is no more.
func (g *Grants) expect(id ID) {
	var at limit.Micros
	leaves := false
	if r := g.byID[id]; r != nil {
		at, leaves = r.Leaves(g.retention)
	}
	switch l := g.leavers[id]; {
	case l == nil && leaves:
		l = &leaver{id: id, at: at}
		g.leavers[id] = l
		heap.Push(&g.leaving, l)
	case l == nil:
	case !leaves:
		heap.Remove(&g.leaving, l.place)
		delete(g.leavers, id)
	case l.at != at:
		l.at = at
		heap.Fix(&g.leaving, l.place)
	}
}

// Get returns the record of id. What it points to is the books' own.
func (g *Grants) Get(id ID) (Record, bool) {
	r := g.byID[id]
	if r == nil {
		return Record{}, false
	}
	return *r, true
}

// Put makes r the record of id, for books that are read back; an id has one record.
// Released ones come in the order of their ends. The bound on open ones is not asked.
func (g *Grants) Put(id ID, r Record) {
	if r.Released {
		g.ended = append(g.ended, ended{id, r.Ended})
	} else {
		g.open++
	}
	g.byID[id] = &r
	g.expect(id)
}

// Open yields the grants that have not been released, in no order.
func (g *Grants) Open() iter.Seq2[ID, Record] {
	return func(yield func(ID, Record) bool) {
		for id, r := range g.byID {
			if !r.Released && !yield(id, *r) {
				return
			}
		}
	}
}

// Live reports whether people who look at the records want to see r: one that is not
// released, or that expires.
func (r *Record) Live() bool { return !r.Released || r.Expires > 0 }

// Live yields the records that are [Record.Live] at a time, in no order. What they point
// to is the books' own.
func (g *Grants) Live(now limit.Micros) iter.Seq[Remembered] {
	return func(yield func(Remembered) bool) {
		g.forget(now)
		for id, r := range g.byID {
			if r.Live() && !yield(Remembered{ID: id, Record: *r, Now: now}) {
				return
			}
		}
	}
}

func (r *Record) describe(res *Result) {
	res.Steps = append(res.Steps[:0], r.Steps...)
	res.Used, res.Note = append(res.Used[:0], r.Used...), append(res.Note[:0], r.Note...)
	res.Settled, res.Released, res.WhileHeld = r.Settled, r.Released, r.WhileHeld
	res.Outcome, res.Calls = r.Outcome, r.Calls
	if r.Expires > 0 {
		res.Left = r.Expires - res.At
	}
}
