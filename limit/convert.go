package limit

import (
	"math"
	"math/bits"
)

// Convert carries the state of a cell over from an earlier limit of the same rule.
// What time has paid back by now is settled under the old numbers first; what is
// still used stays used, in units, under the new ones. A store that calls it when a cell
// is next used, and not when the rule changes, pays the time in between at the old rate:
// under a lower one a key may find its limit full once that should not be yet. Rounding is against the caller
// by less than one unit. Units that time would have brought back are not carried over to
// Slots: no holder would release them.
func (l Limit) Convert(from Limit, c Cell, now Micros) Cell {
	if l == from {
		return c
	}
	if l.Kind == KindWindow && from.Kind == KindWindow {
		from.expire(&c, max(now, c.At))
		return c
	}
	if l.Kind == KindCooldown || from.Kind == KindCooldown {
		if l.Kind == from.Kind {
			return c
		}
		return Cell{}
	}
	if from.Kind == l.Kind && l.Kind == KindSlots {
		return c
	}
	if from.Kind == l.Kind {
		owed := from.owed(&c, max(now, c.At))
		return Cell{At: max(now, c.At), Used: mulDivUp(owed, int64(l.Per), int64(from.Per))}
	}
	if l.Kind == KindSlots {
		return Cell{} // nobody will give back what time would have
	}
	return l.holding(from.used(&c, now), now)
}

// Carries reports whether a grant that took units under an earlier limit of the same rule
// may give them back under l. Only between limits whose units time brings back do they
// outlive a change of kind: what Convert makes of others is nobody's in particular.
func (l Limit) Carries(from Limit) bool {
	return l.Kind == from.Kind || l.byTime() && from.byTime()
}

// byTime reports whether l counts units that time brings back.
func (l Limit) byTime() bool {
	return l.Kind == KindBucket || l.Kind == KindPace || l.Kind == KindWindow
}

// used is how many units c holds at time now, rounded up.
func (l Limit) used(c *Cell, now Micros) int64 {
	switch l.Kind {
	case KindBucket, KindPace:
		return ceilDiv(l.owed(c, max(now, c.At)), max(1, int64(l.Per)))
	case KindWindow:
		l.expire(c, max(now, c.At))
	}
	return c.Used
}

// holding is a cell in which n units have just been taken.
func (l Limit) holding(n int64, now Micros) Cell {
	c := Cell{At: now}
	if n <= 0 {
		return Cell{}
	}
	switch l.Kind {
	case KindPace:
		c.Used = int64(l.Per) // the last start was now at the latest
	case KindBucket:
		c.Used = addUnits(0, min(n, MaxCredits), int64(l.Per))
	case KindWindow:
		l.debit(&c, now, n)
	}
	return c
}

// mulDivUp is a*b/c rounded up, saturating. c of zero gives zero.
func mulDivUp(a, b, c int64) int64 {
	if a <= 0 || b <= 0 || c <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	hi += carry
	if hi >= uint64(c) {
		return MaxCredits
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64/2, MaxCredits))
}

// narrowRate is the largest rate whose packed state outlives any process: 36 years of
// microseconds times the rate stay below 2^60.
const narrowRate = 1000

// Narrow reports whether every cell of l fits one signed 61-bit word: see Pack.
func (l Limit) Narrow() bool {
	switch l.Kind {
	case KindBucket, KindPace, KindCooldown:
		return l.rate() <= narrowRate
	case KindSlots:
		return true
	}
	return false
}

// Pack puts a cell of a Narrow limit into one word, so that a store can change it with
// a single compare-and-swap. A debt that time pays back is stored as the time at which
// it will be gone, in credits; slots as their number. The zero Cell packs to zero or
// to a time that has passed.
func (l Limit) Pack(c Cell) int64 {
	if l.Kind == KindSlots {
		return c.Used
	}
	if c.Used == 0 {
		return 0
	}
	return int64(c.At)*l.rate() + c.Used
}

// Unpack is the inverse of Pack at time now.
func (l Limit) Unpack(word int64, now Micros) Cell {
	if l.Kind == KindSlots {
		return Cell{Used: word}
	}
	return Cell{At: now, Used: max(0, word-int64(now)*l.rate())}
}
