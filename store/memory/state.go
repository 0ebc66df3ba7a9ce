package memory

import (
	"context"
	"iter"
	"slices"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// What is here takes state out of a Store and puts it back, for a store that decides in
// memory and keeps a copy elsewhere.

// Now is the store's time.
func (s *Store) Now() limit.Micros { return s.now() }

// View calls f with the cell of key and the limit it was last used under, and reports
// false if the store has none: a cell that is as good as new. Nobody else changes the
// cell meanwhile, so f is short; it keeps neither the cell nor its Log.
func (s *Store) View(key ledger.Key, f func(l limit.Limit, c *limit.Cell)) bool {
	sh := s.shardOf(key)
	sl, w := sh.lock(key)
	if sl == nil {
		return false
	}
	l := s.limits.at(numberOf(sl.meta.Load()))
	if l.Narrow() {
		c := l.Unpack(w>>wordShift, s.now())
		f(l, &c)
	} else {
		f(l, sh.wide.at(int32(w>>wordShift)))
	}
	sl.word.Store(w)
	return true
}

// Restore makes c the cell of key, as last used under l, and takes over its Log. The
// bound on cells is not asked. It reports false if l cannot be numbered.
func (s *Store) Restore(key ledger.Key, l limit.Limit, c limit.Cell) bool {
	step, sh := ledger.Step{Key: key, Limit: l}, s.shardOf(key)
	var h hold
	for h.slot == nil { // a rebuild may forget the new cell before it is locked
		s.insert(sh, &step, true)
		h.slot, h.word = sh.lock(key)
	}
	h.shard = sh
	if !s.open(&h, &step, s.now()) {
		h.slot.word.Store(h.word)
		return false
	}
	*h.current() = c
	h.close()
	return true
}

// Clear makes the cell of key as good as new.
func (s *Store) Clear(key ledger.Key) {
	sh := s.shardOf(key)
	sl, w := sh.lock(key)
	if sl == nil {
		return
	}
	if s.limits.at(numberOf(sl.meta.Load())).Narrow() {
		w &= wordEpoch
	} else {
		*sh.wide.at(int32(w >> wordShift)) = limit.Cell{}
	}
	sl.word.Store(w)
}

// lock finds the slot of key and locks it. It returns nil if there is none.
func (sh *shard) lock(key ledger.Key) (*slot, int64) {
	for {
		sl := sh.table.Load().find(key)
		if sl == nil {
			return nil, 0
		}
		if w, ok := sl.lock(); ok {
			return sl, w
		}
		sh.settle()
	}
}

// ViewRecord calls f with what is remembered of an admission with an ID, and reports
// false if that is nothing. Like the f of View it is short and keeps nothing.
func (s *Store) ViewRecord(id ledger.ID, f func(r *ledger.Record)) bool {
	s.grantsMu.Lock()
	defer s.grantsMu.Unlock()
	r, ok := s.grants.Get(id)
	if ok {
		f(&r)
	}
	return ok
}

// RestoreRecord makes r the record of id. The cells of its steps are not touched.
// Released ones come in the order of their ends.
func (s *Store) RestoreRecord(id ledger.ID, r ledger.Record) {
	s.grantsMu.Lock()
	defer s.grantsMu.Unlock()
	s.grants.Put(id, r)
}

// Recorded implements sluice.Recorder.
func (s *Store) Recorded() (n int, ok bool) {
	s.grantsMu.Lock()
	defer s.grantsMu.Unlock()
	return s.grants.Len(), true
}

// Records implements sluice.Recorder. Decisions with an ID wait for a few records at a time.
func (s *Store) Records(context.Context) iter.Seq2[ledger.Remembered, error] {
	return func(yield func(ledger.Remembered, error) bool) {
		for ids := range slices.Chunk(s.liveIDs(), recordPortion) {
			for _, r := range s.copies(ids) {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// recordPortion is how many records are copied while decisions wait, some 100 µs.
const recordPortion = 256

func (s *Store) liveIDs() (ids []ledger.ID) {
	s.grantsMu.Lock()
	defer s.grantsMu.Unlock()
	for r := range s.grants.Live(s.now()) {
		ids = append(ids, r.ID)
	}
	return ids
}

// copies returns copies of the records of ids that are still there.
func (s *Store) copies(ids []ledger.ID) []ledger.Remembered {
	s.grantsMu.Lock()
	defer s.grantsMu.Unlock()
	list := make([]ledger.Remembered, 0, len(ids))
	for _, id := range ids {
		r, ok := s.grants.Get(id)
		if !ok || !r.Live() {
			continue
		}
		r.Steps, r.Used, r.Note = slices.Clone(r.Steps), slices.Clone(r.Used), slices.Clone(r.Note)
		list = append(list, ledger.Remembered{ID: id, Record: r, Now: s.now()})
	}
	return list
}

// OpenRecords returns copies of the records that have not been released.
func (s *Store) OpenRecords() map[ledger.ID]ledger.Record {
	s.grantsMu.Lock()
	defer s.grantsMu.Unlock()
	open := make(map[ledger.ID]ledger.Record)
	for id, r := range s.grants.Open() {
		r.Steps = slices.Clone(r.Steps)
		open[id] = r
	}
	return open
}

// A Seer is shown a step of a command that was carried out and the cell that it has
// changed. Nobody else changes the cell meanwhile, so a Seer is short; it keeps neither
// the cell nor its Log.
type Seer func(step *ledger.Step, c *limit.Cell, now limit.Micros)

// ApplySeen is Apply of one command whose changes see is shown.
func (s *Store) ApplySeen(cmd *ledger.Command, res *ledger.Result, see Seer) error {
	if s.closed.Load() {
		return ErrClosed
	}
	s.apply(cmd, res, see)
	return nil
}
