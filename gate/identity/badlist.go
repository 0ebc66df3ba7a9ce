package identity

import (
	"sync"
	"time"
)

// A badlist remembers for a short while which tokens have failed for good, so that a
// caller who repeats one pays for one verification. It holds two generations of at
// most limit digests each: bounded, whatever is thrown at it.
type badlist struct {
	limit int
	keep  time.Duration

	mu       sync.Mutex
	young    map[digest]struct{}
	old      map[digest]struct{}
	turnover time.Time
}

func newBadlist(limit int, keep time.Duration) *badlist {
	return &badlist{limit: limit, keep: keep, young: map[digest]struct{}{}}
}

// has reports whether d failed within keep, and at most twice keep ago.
func (b *badlist) has(d digest) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turnLocked(time.Now())
	_, young := b.young[d]
	_, old := b.old[d]
	return young || old
}

func (b *badlist) add(d digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.turnLocked(now)
	if len(b.young) >= b.limit {
		b.turnover = now // this turn is full: start the next one early
		b.turnLocked(now)
	}
	b.young[d] = struct{}{}
}

// turnLocked makes the young generation old when its time is over.
func (b *badlist) turnLocked(now time.Time) {
	if now.Before(b.turnover) {
		return
	}
	b.old, b.young = b.young, map[digest]struct{}{}
	if now.Sub(b.turnover) > b.keep {
		b.old = nil // nobody has asked for so long that both are over
	}
	b.turnover = now.Add(b.keep)
}
