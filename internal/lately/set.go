// Package lately remembers what happened a short while ago, within bounds.
package lately

import (
	"sync"
	"time"
)

// A Set holds members for a while: each for at least the time it was made for and at
// most twice as long, unless more than its bound are added meanwhile; then the oldest
// go first. Whatever is thrown at it, it never holds more than twice its bound. It is
// safe for concurrent use. Use [New].
type Set[K comparable] struct {
	bound int
	keep  time.Duration

	mu       sync.Mutex
	young    map[K]struct{}
	old      map[K]struct{}
	turnover time.Time // when the young become old
}

// New returns an empty set that keeps up to bound members for keep.
func New[K comparable](bound int, keep time.Duration) *Set[K] {
	return &Set[K]{bound: bound, keep: keep, young: map[K]struct{}{}}
}

// Has reports whether k was added lately.
func (s *Set[K]) Has(k K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.young) == 0 && len(s.old) == 0 {
		return false // nearly always; it saves reading the clock
	}
	s.turnLocked(time.Now())
	_, young := s.young[k]
	_, old := s.old[k]
	return young || old
}

// Add adds k.
func (s *Set[K]) Add(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.turnLocked(now)
	if len(s.young) >= s.bound {
		s.turnover = now // full: the next generation begins early
		s.turnLocked(now)
	}
	s.young[k] = struct{}{}
}

// Remove forgets k.
func (s *Set[K]) Remove(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.young, k)
	delete(s.old, k)
}

// turnLocked makes the young old when their time is over.
func (s *Set[K]) turnLocked(now time.Time) {
	if now.Before(s.turnover) {
		return
	}
	s.old, s.young = s.young, map[K]struct{}{}
	if s.turnover = s.turnover.Add(s.keep); !now.Before(s.turnover) {
		s.old = nil // nobody has looked for so long that they are over, too
		s.turnover = now.Add(s.keep)
	}
}
