package redis

import (
	"slices"
	"sync"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// Held is what the Store knows of grants of this process that have no ID. The caller has no
// ID to give, but brings the steps and the time of its Take again: two Takes of as many
// units of the same cells at the same time are as good as one another.
type held[T any] struct {
	shards [16]struct {
		mu     sync.Mutex
		byTime map[limit.Micros][]memory[T]
		// passing are the times of those that nobody may ever ask for, the oldest first.
		passing []limit.Micros
	}
}

type memory[T any] struct {
	steps   []heldStep
	what    T
	passing bool
}

// A heldStep is a cell, and how many units of it are held.
type heldStep struct {
	cell uint64
	n    int64
}

// maxPassing bounds how many grants are remembered in a shard that nobody may ever ask
// for. What is forgotten of them is when their debits were made, so that a settlement
// returns nothing.
const maxPassing = 4096

// add remembers what of a Take at time at. Passing is one that hardly anybody asks for.
func (h *held[T]) add(cmd *ledger.Command, at limit.Micros, what T, passing bool) {
	steps := make([]heldStep, len(cmd.Steps))
	for i := range cmd.Steps {
		steps[i] = heldStep{cmd.Steps[i].Key.Cell, cmd.Steps[i].N}
	}
	s := &h.shards[uint64(at)%uint64(len(h.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byTime == nil {
		s.byTime = make(map[limit.Micros][]memory[T])
	}
	s.byTime[at] = append(s.byTime[at], memory[T]{steps, what, passing})
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

// about returns what is known of a Take at the time of cmd that was about all cells of cmd,
// and maybe others, and whether anything is.
func (h *held[T]) about(cmd *ledger.Command) (what T, ok bool) {
	s := &h.shards[uint64(cmd.At)%uint64(len(h.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.byTime[cmd.At] {
		if m := &s.byTime[cmd.At][i]; m.covers(cmd.Steps) {
			return m.what, true
		}
	}
	return what, false
}

// find returns what is known of the Take that cmd is about, the zero value if that is
// nothing. A Release or a Void ends it.
func (h *held[T]) find(cmd *ledger.Command) (what T) {
	s := &h.shards[uint64(cmd.At)%uint64(len(h.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	i := best(s.byTime[cmd.At], cmd)
	if i < 0 {
		return what
	}
	m := s.byTime[cmd.At][i]
	switch cmd.Op {
	case ledger.Free:
		m.free(cmd.Steps)
	case ledger.Release, ledger.Void:
		h.drop(cmd.At, i)
	}
	return m.what
}

// best returns which of list cmd is about, or -1.
func best[T any](list []memory[T], cmd *ledger.Command) int {
	which, most := -1, 0
	for i := range list {
		if fit := list[i].fit(cmd); fit > most {
			which, most = i, fit
		}
	}
	return which
}

// fit is how well cmd fits m, zero if it does not. A Free is about some of the cells; others
// are about all of them, and bring what is held still. What cannot be given back any more,
// because its limit has changed, they bring as nothing.
func (m *memory[T]) fit(cmd *ledger.Command) int {
	if cmd.Op == ledger.Free {
		for i := range cmd.Steps {
			if !slices.Contains(m.steps, heldStep{cmd.Steps[i].Key.Cell, cmd.Steps[i].N}) {
				return 0
			}
		}
		return min(1, len(cmd.Steps))
	}
	if len(cmd.Steps) != len(m.steps) {
		return 0
	}
	fit := 2
	for i, held := range m.steps {
		switch s := &cmd.Steps[i]; {
		case s.Key.Cell != held.cell, s.N != held.n && s.N != 0:
			return 0
		case s.N != held.n:
			fit = 1
		}
	}
	return fit
}

// covers reports whether m is about all cells of steps.
func (m *memory[T]) covers(steps []ledger.Step) bool {
	for i := range steps {
		if !slices.ContainsFunc(m.steps, func(held heldStep) bool { return held.cell == steps[i].Key.Cell }) {
			return false
		}
	}
	return len(steps) > 0
}

// free notes that steps are not held any more.
func (m *memory[T]) free(steps []ledger.Step) {
	for i := range steps {
		if k := slices.Index(m.steps, heldStep{steps[i].Key.Cell, steps[i].N}); k >= 0 {
			m.steps[k].n = 0
		}
	}
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
