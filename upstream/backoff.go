package upstream

import (
	"math/rand/v2"
	"time"
)

// A Backoff says how long to wait before another attempt: what the answer asked for, and
// then a random time of up to Base, doubled with each attempt, up to Max ("full jitter").
// A hint is never shortened, and callers who were refused together come back apart.
//
// The zero Backoff has a Base of a second and a Max of 8 seconds. It is safe for concurrent
// use.
type Backoff struct {
	Base, Max time.Duration
	// Rand returns a number in [0, n). Nil is math/rand/v2. It is for tests that repeat.
	Rand func(n int64) int64
}

// soonest is the shortest wait: an answer that says "at once" was a refusal all the same.
const soonest = 50 * time.Millisecond

// Delay returns how long to wait after the attempt-th failure, counted from 0, of which
// the upstream said that hint must pass. A hint of zero or less is no hint.
func (b Backoff) Delay(attempt int, hint time.Duration) time.Duration {
	base, most, draw := b.Base, b.Max, b.Rand
	if base <= 0 {
		base = time.Second
	}
	if most <= 0 {
		most = 8 * time.Second
	}
	if draw == nil {
		draw = rand.Int64N
	}
	spread := most
	if attempt < 32 && base < most>>max(0, attempt) {
		spread = base << max(0, attempt)
	}
	return min(max(hint, soonest), Longest) + time.Duration(draw(int64(spread)+1))
}
