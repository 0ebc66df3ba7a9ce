package redis

import (
	"math/bits"
	"sync"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// held knows the records that the Store keeps of slots that this process holds. The
// caller has no ID to give, but brings the steps and the time of its Take again: two
// Takes of the same cells at the same time are as good as one another.
type held struct {
	shards [16]struct {
		mu  sync.Mutex
		ids map[uint64][]ledger.ID
	}
}

func heldKey(steps []ledger.Step, at limit.Micros) uint64 {
	h := uint64(at)
	for i := range steps {
		hi, lo := bits.Mul64(h^steps[i].Key.Cell^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
		h = hi ^ lo
	}
	return h
}

// add notes the record of a Take at time at.
func (h *held) add(cmd *ledger.Command, at limit.Micros, id ledger.ID) {
	k := heldKey(cmd.Steps, at)
	s := &h.shards[k%uint64(len(h.shards))]
	s.mu.Lock()
	if s.ids == nil {
		s.ids = make(map[uint64][]ledger.ID)
	}
	s.ids[k] = append(s.ids[k], id)
	s.mu.Unlock()
}

// find takes out a record of the Take that cmd is about, the zero ID if there is none. A
// Free leaves it.
func (h *held) find(cmd *ledger.Command) ledger.ID {
	k := heldKey(cmd.Steps, cmd.At)
	s := &h.shards[k%uint64(len(h.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.ids[k]
	if len(ids) == 0 {
		return ledger.ID{}
	}
	id := ids[len(ids)-1]
	if cmd.Op == ledger.Free {
		return id
	}
	if len(ids) == 1 {
		delete(s.ids, k)
	} else {
		s.ids[k] = ids[:len(ids)-1]
	}
	return id
}

// none reports whether this process holds nothing.
func (h *held) none() bool {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		n := len(s.ids)
		s.mu.Unlock()
		if n > 0 {
			return false
		}
	}
	return true
}
