package file

import (
	"context"
	"fmt"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// Apply implements sluice.Store. Commands that change what must survive return when it is
// on the disk; the others do not wait. If ctx ends meanwhile, or the disk refuses,
// nothing has been taken; a settlement, cooldown or reset has then been carried out and
// will be written when the disk allows.
func (s *Store) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	var few [2]*entry
	waits := few[:0]
	for i := range cmds {
		if !durable(&cmds[i]) {
			if s.closed.Load() {
				return ErrClosed
			}
			if err := s.memory.Apply(ctx, cmds[i:i+1], res[i:i+1]); err != nil {
				return err
			}
			continue
		}
		e, err := s.decide(ctx, cmds[i:i+1], res[i:i+1])
		if err != nil {
			return err
		}
		if e != nil {
			waits = append(waits, e)
		}
	}
	for _, e := range waits {
		if err := s.await(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// await returns when the entry's batch is on the disk. If ctx ends first, what was taken
// comes back.
func (s *Store) await(ctx context.Context, e *entry) error {
	select {
	case <-e.batch.done:
		return e.batch.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.batch.over {
		return e.batch.err
	}
	e.gone = true
	return context.Cause(ctx)
}

// refusal is what callers are told while the disk refuses.
func (s *Store) refusal() error {
	return fmt.Errorf("file: %s cannot be written: %w", s.path, s.failure)
}

// encode makes the payload that brings the disk up to date with what b has noted. The
// caller holds s.mu, so that every command of the batch is in it whole.
func (s *Store) encode(b *batch) []byte {
	w := writer(make([]byte, 0, 64*(len(b.cells)+2*len(b.grants))))
	for key, c := range b.cells {
		s.encodeCell(&w, key, c)
	}
	for id := range b.grants {
		if s.memory.ViewRecord(id, func(r *ledger.Record) { w.grant(id, r) }) {
			s.grants[id] = struct{}{}
		} else {
			w.forget(id)
			delete(s.grants, id)
		}
	}
	if b.owners {
		w.ownersOf(s.owners)
	}
	return w
}

// kept reports whether a cell belongs into the log: one that is not full, and not of
// slots, which the log has with the grants that hold them.
func kept(l limit.Limit, cell *limit.Cell, now limit.Micros) bool {
	return !l.OnRelease() && !l.Idle(cell, now)
}

// encodeWhole appends the whole state of a cell, and reports whether there is any.
func (s *Store) encodeWhole(w *writer, key ledger.Key, d onDisk) (there bool) {
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
	was := s.cells[key]
	now := s.memory.Now()
	there := false
	s.memory.View(key, func(l limit.Limit, cell *limit.Cell) {
		if there = kept(l, cell, now); !there {
			return
		}
		is, from := onDisk{pool: c.pool}, limit.Micros(0)
		if l.Kind == limit.KindWindow {
			is.per, is.youngest = l.Per, cell.Log.At(cell.Log.Len()-1).At
			if was.youngest > 0 && was.per == l.Per {
				from = min(was.youngest, c.from)
			}
		}
		w.cell(key, c.pool, l, cell, from)
		s.cells[key] = is
	})
	if !there {
		w.gone(key)
		delete(s.cells, key)
	}
}
