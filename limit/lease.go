package limit

import (
	"fmt"
	"math"
)

// A Lease is how processes that share the books of a limit may take units ahead of need,
// so that most calls need not ask the books. [Limit.Lease] makes one.
//
// Units that are taken at a time T are spent before T + For. So what is spent in a span of
// time was taken in that span or in the For before it, whatever number of processes
// there are and whichever of them crash, and it is enough that the books count a little
// more strictly:
//
//	Window(max, per)         counts by Window(max, per + For): what is spent in any per was
//	                         taken in per + For, and that is at most max
//	Bucket(max, per, burst)  counts by a burst that is smaller by what For brings back: what
//	                         is spent in any t was taken in t + For, and that is at most
//	                         (burst - rate × For) + rate × (t + For) = burst + rate × t
//
// A process may have one unit ahead for every Part that it has itself spent in the last
// two For at most, and what it loses, by not needing it in time, it must have earned anew.
// So one unit at most is lost for every Part that are spent, and all processes together,
// which spend no more than the limit, have at most Ahead units ahead. In the long run of
// a load that is never satisfied, all that comes back is taken: [Lease.Least] follows.
type Lease struct {
	// Limit is what the books count by.
	Limit Limit
	// For is how long units may be spent after they were taken.
	For Micros
	// Part is how many units a process must have spent for each that it has ahead: 4 to 200.
	Part int64
	// Ahead is the most units that are ahead at a time, of all processes together. A
	// process that crashes loses no more than these, and they come back as if spent.
	Ahead int64
}

const (
	// MaxLease is the largest percentage of [Limit.Lease].
	MaxLease = 50

	// LeastLease is how many units it is worth while to take ahead. Fewer are not worth a
	// larger question.
	LeastLease = 4

	longestLease  = Second
	shortestLease = 10 * Millisecond // in less than that a store can hardly be asked
)

// Lease returns how units of l may be taken ahead if percent of the limit, 1 to
// [MaxLease], may be given up for it. It reports false if that is not worth while: for
// kinds other than Bucket and Window, for a percentage out of range, and for a limit that
// is too small or comes back too fast.
func (l Limit) Lease(percent int) (Lease, bool) {
	if percent < 1 || percent > MaxLease || l.Validate() != nil || l.Capacity() <= 0 {
		return Lease{}, false
	}
	// One half of the percentage is for what the books hold back, the other for what is
	// lost or ahead.
	e := Lease{Limit: l, Part: ceilDiv(200, int64(percent))}
	switch l.Kind {
	case KindWindow:
		e.For = min(longestLease, l.Per/200*Micros(percent))
		e.Limit.Per += e.For
		e.Ahead = l.Max / e.Part
	case KindBucket:
		e.For = min(longestLease, l.span()/200*Micros(percent))
		back := mulDivUp(int64(e.For), l.Max, int64(l.Per))
		e.Limit.Burst -= back
		// What was spent in the last three For, in which all that count were spent.
		e.Ahead = (l.Burst + min(3*back, MaxCredits)) / e.Part
	default:
		return Lease{}, false
	}
	if e.For < shortestLease || e.Ahead < LeastLease || e.Limit.Capacity() <= 0 || e.Limit.Validate() != nil {
		return Lease{}, false
	}
	return e, true
}

// Least returns the part of the limit that passes in the long run under a load that is
// never satisfied, if no process crashes: at least 1 - percent/100.
func (e Lease) Least() float64 {
	least := float64(e.Part) / float64(e.Part+1)
	if e.Limit.Kind == KindWindow {
		least *= float64(e.Limit.Per-e.For) / float64(e.Limit.Per)
	}
	return least
}

// String returns e as a person reads it, such as "at most 50 ahead, for 1s; under load at
// least 93% pass".
func (e Lease) String() string {
	burst := ""
	if e.Limit.Kind == KindBucket {
		burst = fmt.Sprintf(", burst %d", e.Limit.Burst)
	}
	return fmt.Sprintf("at most %d ahead, for %v%s; under load at least %.0f%% pass",
		e.Ahead, e.For.Duration(), burst, math.Floor(100*e.Least()))
}
