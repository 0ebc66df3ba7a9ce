package line

// A list is waiters in the order of their tickets.
type list[T any] struct {
	of          int // which of a waiter's links are this list's
	n           int
	first, last *Waiter[T]
}

// The lists that a waiter stands in.
const (
	inLine = iota // zero, so that the zero Line works
	inFlow
)

// links are a waiter's neighbours in one list.
type links[T any] struct{ prev, next *Waiter[T] }

// insert puts w behind all with a smaller ticket. It looks from the end: nearly
// everybody comes last. Those who come from another line are often the oldest of all.
func (s *list[T]) insert(w *Waiter[T]) {
	after := s.last
	if s.first != nil && s.first.Ticket > w.Ticket {
		after = nil
	}
	for after != nil && after.Ticket > w.Ticket {
		after = after.links[s.of].prev
	}
	next := s.first
	if after != nil {
		next = after.links[s.of].next
	}
	w.links[s.of] = links[T]{after, next}
	s.join(after, w)
	s.join(w, next)
	s.n++
}

func (s *list[T]) remove(w *Waiter[T]) {
	at := w.links[s.of]
	s.join(at.prev, at.next)
	w.links[s.of] = links[T]{}
	s.n--
}

// join makes a and b neighbours; nil is the end of the list.
func (s *list[T]) join(a, b *Waiter[T]) {
	if a == nil {
		s.first = b
	} else {
		a.links[s.of].next = b
	}
	if b == nil {
		s.last = a
	} else {
		b.links[s.of].prev = a
	}
}

// An order is flows as a heap.
type order[T any] []*flow[T]

func (o order[T]) Len() int { return len(o) }

func (o order[T]) Less(i, j int) bool {
	a, b := o[i], o[j]
	return a.finish < b.finish || a.finish == b.finish && a.turn < b.turn
}

func (o order[T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].index, o[j].index = i, j
}

// Push is for container/heap.
func (o *order[T]) Push(x any) {
	f := x.(*flow[T])
	f.index = len(*o)
	*o = append(*o, f)
}

// Pop is for container/heap.
func (o *order[T]) Pop() any {
	last := len(*o) - 1
	f := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return f
}
