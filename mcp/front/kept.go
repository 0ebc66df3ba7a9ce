package front

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A kept is what a session keeps of the events that it has sent, or would have if the client
// had been there: the latest, within bounds of its own and of all sessions together.
type kept struct {
	most  int           // bytes
	all   *atomic.Int64 // bytes that all sessions keep
	limit int64         // of all

	mu     sync.Mutex
	events []keptEvent // oldest first
	bytes  int
	closed bool
}

type keptEvent struct {
	stream int64
	event
	at time.Time
}

// keptCost is what an event costs besides its frame, about.
const keptCost = 64

func (e *keptEvent) cost() int { return len(e.frame) + keptCost }

// add keeps an event of a stream and forgets the oldest that have no room beside it. One that
// has no room at all is not kept.
func (k *kept) add(stream int64, e event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	n := keptEvent{stream, e, time.Now()}
	k.bytes += n.cost()
	k.all.Add(int64(n.cost()))
	k.events = append(k.events, n)
	for len(k.events) > 0 && (k.bytes > k.most || k.all.Load() > k.limit) {
		k.forgetLocked(1)
	}
}

func (k *kept) forgetLocked(n int) {
	for i := range k.events[:n] {
		k.bytes -= k.events[i].cost()
		k.all.Add(-int64(k.events[i].cost()))
	}
	k.events = slices.Delete(k.events, 0, n)
}

// forget forgets what was kept before a time.
func (k *kept) forget(before time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for n < len(k.events) && k.events[n].at.Before(before) {
		n++
	}
	k.forgetLocked(n)
}

// close forgets everything, for good.
func (k *kept) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.forgetLocked(len(k.events))
}

// after returns the events of a stream after the number n, and their bytes.
func (k *kept) after(stream, n int64) (events []event, bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.events {
		if e := &k.events[i]; e.stream == stream && e.n > n {
			events = append(events, e.event)
			bytes += len(e.frame)
		}
	}
	return events, bytes
}

// has reports whether anything of a stream is kept.
func (k *kept) has(stream int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.events, func(e keptEvent) bool { return e.stream == stream })
}
