// Package line keeps waiters in order: first come first served, or fairly shared
// between flows. It only orders; who waits, and for what, is the caller's.
package line

// A Line is the waiters of one key. The zero Line is an empty first-come line. It is
// not safe for concurrent use.
//
// Waiters of one flow stand in the order of their tickets. Between flows the line is
// fair: each flow has a virtual time that advances by 1/share for every waiter it gets
// through, and the flow with the least goes first (start-time fair queueing, Goyal,
// Vin and Cheng, 1996). A line with one flow is therefore first come, first served.
type Line[T any] struct {
	flows map[string]*flow[T]
	n     int
	clock float64 // virtual time of the flow served last
	turns uint64  // breaks ties between flows in the order they came
}

type flow[T any] struct {
	name        string
	share       float64
	at          float64
	turn        uint64
	first, last *Waiter[T]
}

// A Waiter is one place in a Line.
type Waiter[T any] struct {
	Value      T
	Ticket     uint64 // order of arrival
	flow       *flow[T]
	prev, next *Waiter[T]
}

// Len returns how many wait.
func (l *Line[T]) Len() int { return l.n }

// Push puts w into the line of its flow, behind all with a smaller ticket. A share
// below 1 counts as 1. A waiter must stand in one line at a time.
func (l *Line[T]) Push(w *Waiter[T], name string, share int64) {
	f := l.flows[name]
	if f == nil {
		if l.flows == nil {
			l.flows = make(map[string]*flow[T])
		}
		l.turns++
		f = &flow[T]{name: name, at: l.clock, turn: l.turns}
		l.flows[name] = f
	}
	f.share = float64(max(1, share))
	after := f.last
	for after != nil && after.Ticket > w.Ticket {
		after = after.prev
	}
	f.insert(w, after)
	w.flow = f
	l.n++
}

func (f *flow[T]) insert(w, after *Waiter[T]) {
	w.prev = after
	if after == nil {
		w.next, f.first = f.first, w
	} else {
		w.next, after.next = after.next, w
	}
	if w.next == nil {
		f.last = w
	} else {
		w.next.prev = w
	}
}

// Head returns who is next, or nil if nobody waits.
func (l *Line[T]) Head() *Waiter[T] {
	if f := l.next(); f != nil {
		return f.first
	}
	return nil
}

func (l *Line[T]) next() *flow[T] {
	var best *flow[T]
	for _, f := range l.flows {
		if best == nil || f.at < best.at || f.at == best.at && f.turn < best.turn {
			best = f
		}
	}
	return best
}

// Remove takes w out of the line. If served, its flow has had a turn. It reports false
// if w does not stand in a line.
func (l *Line[T]) Remove(w *Waiter[T], served bool) bool {
	f := w.flow
	if f == nil {
		return false
	}
	if w.prev == nil {
		f.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		f.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.flow, w.prev, w.next = nil, nil, nil
	l.n--
	if served {
		l.clock = f.at
		f.at += 1 / f.share
		l.turns++
		f.turn = l.turns
	}
	if f.first == nil {
		delete(l.flows, f.name)
	}
	return true
}

// Ahead reports whether somebody with a smaller ticket than this one waits.
func (l *Line[T]) Ahead(ticket uint64) bool {
	for _, f := range l.flows {
		if f.first.Ticket < ticket {
			return true
		}
	}
	return false
}
