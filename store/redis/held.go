package redis

import (
	"slices"
	"sync"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// Held is what the Store knows of grants of this process that have no ID. The caller has no
// ID to give, but brings the steps and the time of its Take again: two Takes of the same
// cells at the same time are as good as one another.
type held[T any] struct {
	shards [16]struct {
		mu     sync.Mutex
		byTime map[limit.Micros][]memory[T]
		// passing are the times of those that nobody may ever ask for, the oldest first.
		passing []limit.Micros
	}
}

type memory[T any] struct {
	cells   []uint64
	what    T
	passing bool
}

// maxPassing bounds how many grants are remembered in a shard that nobody may ever ask
// for. What is forgotten of them is when their debits were made, so that a settlement
// returns nothing.
const maxPassing = 4096

// add remembers what of a Take at time at. Passing is one that hardly anybody asks for.
func (h *held[T]) add(cmd *ledger.Command, at limit.Micros, what T, passing bool) {
	cells := make([]uint64, len(cmd.Steps))
	for i := range cmd.Steps {
		cells[i] = cmd.Steps[i].Key.Cell
	}
	s := &h.shards[uint64(at)%uint64(len(h.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byTime == nil {
		s.byTime = make(map[limit.Micros][]memory[T])
	}
	s.byTime[at] = append(s.byTime[at], memory[T]{cells, what, passing})
	if !passing {
		return
	}
	if s.passing = append(s.passing, at); len(s.passing) > maxPassing {
		oldest := s.passing[0]
		s.passing = s.passing[1:]
		if i := slices.IndexFunc(s.byTime[oldest], func(m memory[T]) bool { return m.passing }); i >= 0 {
			h.drop(oldest, i)
		}
	}
}

// drop forgets the i-th of a time. The caller holds the shard's mutex.
func (h *held[T]) drop(at limit.Micros, i int) {
	s := &h.shards[uint64(at)%uint64(len(h.shards))]
	if len(s.byTime[at]) == 1 {
		delete(s.byTime, at)
		return
	}
	s.byTime[at] = slices.Delete(s.byTime[at], i, i+1)
}

// find returns what is known of the Take that cmd is about, the zero value if that is
// nothing. A Release or a Void ends it; others may be about a part of its cells.
func (h *held[T]) find(cmd *ledger.Command) (what T) {
	s := &h.shards[uint64(cmd.At)%uint64(len(h.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.byTime[cmd.At] {
		if !m.covers(cmd.Steps) {
			continue
		}
		if cmd.Op == ledger.Release || cmd.Op == ledger.Void {
			h.drop(cmd.At, i)
		}
		return m.what
	}
	return what
}

// covers reports whether all cells of steps are among those of m.
func (m *memory[T]) covers(steps []ledger.Step) bool {
	for i := range steps {
		if !slices.Contains(m.cells, steps[i].Key.Cell) {
			return false
		}
	}
	return len(steps) > 0
}

// none reports whether this process holds nothing.
func (h *held[T]) none() bool {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		n := len(s.byTime)
		s.mu.Unlock()
		if n > 0 {
			return false
		}
	}
	return true
}
