package limit

import "math"

// A Cell is the state of one key under one Limit: what was used, and when. It never
// holds what remains, so a change of the Limit's numbers applies to it at once. The
// zero Cell is full capacity.
type Cell struct {
	// At is the time of Used. It never goes back, except to heal a stamp that lies
	// further ahead than the limit could have put it, which only a clock that was set
	// back leaves behind.
	At Micros
	// Used is the debt at At: credits owed (Bucket, Pace), units in Log (Window), units
	// held (Slots), or microseconds of cooldown left (Cooldown).
	Used int64
	// Log holds the debits of a Window, oldest first. It is nil for other kinds and for
	// a Window that has never been used.
	Log *Log
}

// A Verdict is what a limit says to one call.
type Verdict struct {
	// OK is true if the units were taken.
	OK bool
	// Never is true if no amount of waiting helps: the call asks for more than the
	// capacity, the capacity is zero, or the number of units is negative.
	Never bool
	// Wait is the least time after which the same call alone would pass, counted from the
	// time of the call or, if that is later, the time of the cell. Zero with neither OK
	// nor Never: a release is needed, not time.
	Wait Micros
}

// Take takes n units at time now, or leaves c as it is and says how long to wait.
// Zero units take nothing and pass wherever anything could. A Cooldown ignores n.
//
// Bucket and Pace keep a debt in credits: a unit costs Per credits and every
// microsecond pays Max back, so no rate is rounded. A Bucket lets a call pass that is
// early by less than the clock can tell, at most one microsecond, and keeps the debt:
// the long-run rate stays exact, and a caller that paces itself by a rounded interval
// is not refused. A Pace is never early.
func (l Limit) Take(c *Cell, now Micros, n int64) Verdict {
	switch l.Kind {
	case KindBucket, KindPace:
		if most := l.Capacity(); uint64(n) > uint64(most) || most <= 0 {
			return Verdict{Never: true}
		}
		now = l.steady(c, now)
		owed := l.owed(c, now) + n*int64(l.Per)
		if over := owed - l.Burst*int64(l.Per) - l.tolerance(); over > 0 && n > 0 {
			return Verdict{Wait: Micros(ceilDiv(over, l.Max))}
		}
		c.At, c.Used = now, owed
		return Verdict{OK: true}
	case KindSlots:
		if uint64(n) > uint64(l.Max) || l.Max <= 0 {
			return Verdict{Never: true}
		}
		if n > 0 && c.Used > l.Max-n {
			return Verdict{}
		}
		c.Used += n
		return Verdict{OK: true}
	case KindWindow:
		return l.takeWindow(c, now, n)
	case KindCooldown:
		now = l.steady(c, now)
		if left := l.owed(c, now); left > 0 {
			return Verdict{Wait: Micros(left)}
		}
		return Verdict{OK: true}
	}
	return Verdict{Never: true}
}

// Fit says what Take would say and takes nothing. It may heal a stamp or forget a debit
// that has left its window, neither of which changes any later answer.
func (l Limit) Fit(c *Cell, now Micros, n int64) Verdict {
	if l.Kind == KindWindow {
		v, _ := l.fitWindow(c, now, n)
		return v
	}
	trial := *c
	return l.Take(&trial, now, n)
}

// Give corrects a grant of n units that Take made at time at: they come back. A
// negative n takes more instead, whether or not it is there, which is how use above
// a reservation is debited. Nothing comes back beyond the capacity. A Window knows its
// debits and returns none that has left it; a Bucket knows the sum alone, so what time
// has paid back of a long held grant, and others have taken since, comes back again.
func (l Limit) Give(c *Cell, now, at Micros, n int64) {
	n = min(max(n, -MaxCredits), MaxCredits)
	switch l.Kind {
	case KindBucket, KindPace:
		now = l.steady(c, now)
		c.Used = addUnits(l.owed(c, now), -n, int64(l.Per))
		c.At = now
	case KindSlots:
		c.Used = addUnits(c.Used, -n, 1)
	case KindWindow:
		l.giveWindow(c, now, at, n)
	}
}

// Cool starts a cooldown of d from now, at most Per if that is set. The latest end
// wins: a cooldown is never shortened. Limits of other kinds are left alone.
func (l Limit) Cool(c *Cell, now, d Micros) {
	if l.Kind != KindCooldown || d <= 0 {
		return
	}
	if l.Per > 0 {
		d = min(d, l.Per)
	}
	d = min(d, MaxCredits)
	now = l.steady(c, now)
	if int64(d) > l.owed(c, now) {
		c.At, c.Used = now, int64(d)
	}
}

// Idle reports whether c is as good as the zero Cell at time now, so that it may be
// forgotten.
func (l Limit) Idle(c *Cell, now Micros) bool {
	switch l.Kind {
	case KindWindow:
		return c.Log.Len() == 0 || l.gone(c.Log.At(c.Log.n-1), now)
	case KindSlots:
		return c.Used == 0
	}
	return l.owed(c, now) == 0
}

// A Level is how full a cell is.
type Level struct {
	Max  int64  // the capacity in units
	Left int64  // units that a call could take now
	Next Micros // until at least one more unit is there; zero if full or if time does not bring it
	Full Micros // until all units are there; zero if full or if time does not bring it
}

// Level reports where c stands at time now, without changing it.
func (l Limit) Level(c *Cell, now Micros) Level {
	switch l.Kind {
	case KindBucket, KindPace:
		return l.levelBucket(c, now)
	case KindSlots:
		return Level{Max: l.Max, Left: max(0, l.Max-c.Used)}
	case KindWindow:
		return l.levelWindow(c, now)
	case KindCooldown:
		left := Micros(l.owed(c, max(now, c.At)))
		v := Level{Max: 1, Next: left, Full: left}
		if left == 0 {
			v.Left = 1
		}
		return v
	}
	return Level{}
}

func (l Limit) levelBucket(c *Cell, now Micros) Level {
	if l.Max <= 0 || l.Burst <= 0 {
		return Level{}
	}
	owed := l.owed(c, max(now, c.At))
	v := Level{Max: l.Burst}
	if owed == 0 {
		v.Left = l.Burst
		return v
	}
	free := l.Burst*int64(l.Per) - owed
	v.Left = max(0, free+l.tolerance()) / int64(l.Per)
	v.Left = min(v.Left, l.Burst)
	v.Full = Micros(ceilDiv(owed, l.Max))
	if v.Left < l.Burst {
		v.Next = Micros(ceilDiv(max(1, (v.Left+1)*int64(l.Per)-free-l.tolerance()), l.Max))
	}
	return v
}

// rate is how many credits a microsecond pays back.
func (l Limit) rate() int64 {
	if l.Kind == KindCooldown {
		return 1
	}
	return l.Max
}

// tolerance is how many credits a call may be short. An interval of a thousand
// microseconds or more may be cut by one whole microsecond; shorter ones only by what
// is less than a microsecond.
func (l Limit) tolerance() int64 {
	if l.Kind == KindPace {
		return 0
	}
	if int64(l.Per)/1000 >= l.Max {
		return l.Max
	}
	return l.Max - 1
}

// owed is the debt of c at time now, which must not be before c.At.
func (l Limit) owed(c *Cell, now Micros) int64 {
	rate := l.rate()
	if c.Used <= 0 || rate <= 0 || now <= c.At {
		return max(0, c.Used)
	}
	elapsed := since(now, c.At)
	if elapsed > uint64(math.MaxInt64/rate) {
		return 0
	}
	return max(0, c.Used-int64(elapsed)*rate)
}

// since is now - then, exact for any two times of which now is not the earlier.
func since(now, then Micros) uint64 { return uint64(now) - uint64(then) }

// steady returns a time for this operation that is not before c.At. A caller that read
// its clock a moment before another is carried forward. A stamp that lies ahead by
// more than the limit takes to fill cannot come from such a race: the clock was set
// back, and the stamp is brought to now so that the cell heals.
func (l Limit) steady(c *Cell, now Micros) Micros {
	if c.At <= now {
		return now
	}
	if since(c.At, now) > uint64(l.span()) {
		c.At = now
		return now
	}
	return c.At
}

// span is the longest time that state of l can matter, without overdraft.
func (l Limit) span() Micros {
	switch l.Kind {
	case KindBucket:
		if l.Max > 0 {
			return Micros(ceilDiv(l.Burst*int64(l.Per), l.Max))
		}
	case KindCooldown:
		if l.Per == 0 {
			return MaxCredits
		}
	}
	return l.Per
}

// addUnits returns debt + n units of per credits each, kept between nothing and
// [MaxCredits]. n is within MaxCredits of zero.
func addUnits(debt, n, per int64) int64 {
	switch most := MaxCredits / max(1, per); {
	case n > most:
		return MaxCredits
	case n < -most:
		return 0
	}
	return min(max(0, debt+n*per), MaxCredits)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
