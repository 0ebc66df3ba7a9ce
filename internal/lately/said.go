package lately

import (
	"sync/atomic"
	"time"
)

// Said keeps what every one of many calls could say from being said more than once in a
// while. The zero value has said nothing. It is safe for concurrent use.
type Said struct {
	next atomic.Int64 // when it may be said again, in nanoseconds of the wall clock
	kept atomic.Int64
}

// Again reports whether it may be said now, as it may once in every span, and how often it
// was not since the last time.
func (s *Said) Again(span time.Duration) (kept int64, ok bool) {
	now, next := time.Now().UnixNano(), s.next.Load()
	waits := now < next && next-now <= int64(span) // else the clock was set back
	if waits || !s.next.CompareAndSwap(next, now+int64(span)) {
		s.kept.Add(1)
		return 0, false
	}
	return s.kept.Swap(0), true
}
