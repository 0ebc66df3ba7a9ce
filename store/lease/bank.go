package lease

import (
	"sync"

	"github.com/sluicegate/sluice/ledger"
)

// A bank is the seats of keys whose hashes begin alike.
type bank struct {
	mu    sync.Mutex
	seats [4]seat
}

func (s *Store) bankOf(k ledger.Key) *bank { return &s.banks[k.Cell%uint64(len(s.banks))] }

// seat returns the seat of a step's key, nil if it has none. Under other numbers than those
// of the step it begins anew. The caller holds b.mu.
func (b *bank) seat(s *ledger.Step, now instant) *seat {
	for i := range b.seats {
		t := &b.seats[i]
		if t.part == 0 || t.key != s.Key {
			continue
		}
		if !t.serves(s) {
			*t = newSeat(s, now)
		}
		t.turn(now)
		return t
	}
	return nil
}

// claim returns the seat of a step's key, and gives it one if it can: an empty one or the
// coolest. Who finds that one still warm cools it instead. So keys that come often keep
// their seats, whatever number of others come once. The caller holds b.mu.
func (b *bank) claim(s *ledger.Step, now instant) *seat {
	if t := b.seat(s, now); t != nil {
		return t
	}
	var coolest *seat
	for i := range b.seats {
		t := &b.seats[i]
		t.turn(now)
		if t.asking != 0 || t.left() > 0 {
			continue
		}
		if coolest == nil || t.heat[0]+t.heat[1] < coolest.heat[0]+coolest.heat[1] {
			coolest = t
		}
	}
	if coolest == nil {
		return nil
	}
	if coolest.heat[0]+coolest.heat[1] > 0 {
		coolest.cool(max(1, s.N))
		return nil
	}
	*coolest = newSeat(s, now)
	return coolest
}

// count adds what is ahead to st.
func (b *bank) count(now instant, st *Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.seats {
		t := &b.seats[i]
		t.turn(now)
		if n := t.left(); n > 0 {
			st.Keys++
			st.Ahead += n
		}
	}
}

// drop forgets what is ahead of the cells that a Reset is about, and who asks for more: the
// answer may be that of books before the reset.
func (s *Store) drop(reset *ledger.Command) {
	for i := range s.banks {
		b := &s.banks[i]
		b.mu.Lock()
		for j := range b.seats {
			if t := &b.seats[j]; reset.All || t.key.Group == reset.Group {
				*t = seat{}
			}
		}
		b.mu.Unlock()
	}
}
