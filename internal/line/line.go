// Package line keeps waiters in order: first come first served, or fairly shared
// between flows. It only orders; who waits, and for what, is the caller's.
package line

import "container/heap"

// A Line is the waiters of one key. The zero Line is an empty first-come line. It is
// not safe for concurrent use.
//
// Waiters of one flow stand in the order of their tickets. Between flows the line is
// fair: the head of each flow has a finish time, which is 1/share after the time of the
// line or of the flow's last turn, and the least goes first. The time of the line is the
// finish time of whoever was served last (self-clocked fair queueing, Golestani, 1994),
// so a flow that leaves after its turn and comes back gains nothing, and an empty flow
// can be forgotten. A line with one flow is first come, first served.
type Line[T any] struct {
	all   list[T]
	flows map[string]*flow[T]
	order order[T] // a heap: the flow whose turn it is comes first
	clock float64
	turns uint64
}

// A flow is the waiters that share one turn.
type flow[T any] struct {
	name   string
	share  int64
	finish float64 // of its head
	turn   uint64  // of flows that finish together the one waits longest that has the least
	index  int     // in the heap
	all    list[T]
}

// A Waiter is one place in a Line.
type Waiter[T any] struct {
	Value  T
	Ticket uint64 // order of arrival
	flow   *flow[T]
	links  [2]links[T] // in the line, and in the flow
}

// Len returns how many wait.
func (l *Line[T]) Len() int { return l.all.n }

// LenOf returns how many of one flow wait.
func (l *Line[T]) LenOf(name string) int {
	if f := l.flows[name]; f != nil {
		return f.all.n
	}
	return 0
}

// Push puts w into the line of its flow, behind all with a smaller ticket. A share
// below 1 counts as 1. A waiter must stand in one line at a time.
func (l *Line[T]) Push(w *Waiter[T], name string, share int64) {
	f := l.flows[name]
	if f == nil {
		f = &flow[T]{name: name, share: max(1, share), all: list[T]{of: inFlow}}
		l.queue(f, l.clock)
		if l.flows == nil {
			l.flows = make(map[string]*flow[T])
		}
		l.flows[name] = f
		heap.Push(&l.order, f)
	}
	f.share = max(1, share)
	w.flow = f
	f.all.insert(w)
	l.all.insert(w)
}

// queue gives f its next finish time, counted from now, behind all others of that time.
func (l *Line[T]) queue(f *flow[T], now float64) {
	l.turns++
	f.turn = l.turns
	f.finish = now + 1/float64(f.share)
}

// Head returns who is next, or nil if nobody waits.
func (l *Line[T]) Head() *Waiter[T] {
	if len(l.order) == 0 {
		return nil
	}
	return l.order[0].all.first
}

// Ahead reports whether somebody with a smaller ticket than this one waits.
func (l *Line[T]) Ahead(ticket uint64) bool {
	return l.all.first != nil && l.all.first.Ticket < ticket
}

// Oldest returns the smallest ticket of all who wait, 0 if nobody does.
func (l *Line[T]) Oldest() uint64 {
	if l.all.first == nil {
		return 0
	}
	return l.all.first.Ticket
}

// Remove takes w out of the line. If served, its flow has had a turn. It reports false
// if w does not stand in a line.
func (l *Line[T]) Remove(w *Waiter[T], served bool) bool {
	f := w.flow
	if f == nil {
		return false
	}
	w.flow = nil
	f.all.remove(w)
	l.all.remove(w)
	if served {
		l.clock = f.finish
		l.queue(f, l.clock)
	}
	if f.all.n == 0 {
		heap.Remove(&l.order, f.index)
		delete(l.flows, f.name)
	} else {
		heap.Fix(&l.order, f.index)
	}
	return true
}
