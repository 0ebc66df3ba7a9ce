package file

import (
	"fmt"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// refusal is what callers are told while the disk refuses.
func (s *Store) refusal() error {
	return fmt.Errorf("file: %s cannot be written: %w", s.path, s.failure)
}

// encode completes the records that bring the disk up to date with what b has noted.
func (s *Store) encode(b *batch) {
	for key, c := range b.cells {
		s.encodeCell(&b.records, key, c)
	}
	for id, unread := range b.grants {
		if !unread {
			continue
		}
		if s.memory.ViewRecord(id, func(r *ledger.Record) { b.records.grant(id, r) }) {
			s.grants[id] = struct{}{}
		} else {
			b.records.forget(id)
			delete(s.grants, id)
		}
	}
	if b.owners {
		b.records.ownersOf(s.owners)
	}
}

// kept reports whether a cell belongs into the log: one that is not full, and not of
// slots, which the log has with the grants that hold them.
func kept(l limit.Limit, cell *limit.Cell, now limit.Micros) bool {
	return !l.OnRelease() && !l.Idle(cell, now)
}

// encodeWhole appends the whole state of a cell, and reports whether there is any.
func (s *Store) encodeWhole(w *writer, key ledger.Key, d *onDisk) (there bool) {
	now := s.memory.Now()
	s.memory.View(key, func(l limit.Limit, cell *limit.Cell) {
		if there = kept(l, cell, now); there {
			w.cell(key, d.pool, l, cell, 0)
		}
	})
	return there
}

// encodeCell appends what has changed of a cell. That it is gone is said even if it is not
// among s.cells: it may have been struck from there while a generation was filled, and
// the log may still hold it.
func (s *Store) encodeCell(w *writer, key ledger.Key, c change) {
	now := s.memory.Now()
	there := false
	s.memory.View(key, func(l limit.Limit, cell *limit.Cell) {
		if there = kept(l, cell, now); !there {
			return
		}
		w.cell(key, c.pool, l, cell, s.onDisk(key).advance(c.pool, l, cell, c.from))
	})
	if !there {
		w.gone(key)
		delete(s.cells, key)
	}
}

// advance makes d what the log will know of a cell when its state c is written, and
// returns from when on its debits must be: those that are older, and older than changed,
// it has.
func (d *onDisk) advance(pool uint64, l limit.Limit, c *limit.Cell, changed limit.Micros) (from limit.Micros) {
	d.pool = pool
	if l.Kind != limit.KindWindow {
		d.youngest = 0
		return 0
	}
	if d.youngest > 0 && d.per == l.Per {
		from = min(d.youngest, changed)
	}
	d.per, d.youngest = l.Per, c.Log.At(c.Log.Len()-1).At
	return from
}

// onDisk is what the disk knows of a cell, for it to be told more.
func (s *Store) onDisk(key ledger.Key) *onDisk {
	d := s.cells[key]
	if d == nil {
		d = new(onDisk)
		s.cells[key] = d
	}
	return d
}
