package limit

// WindowEntries is how many debits a Window remembers one by one. A Window of more
// units merges debits of one per/WindowEntries-th of the window; the merged debit
// counts until its youngest part has left the window.
const WindowEntries = 4096

// A Log is the debits of a Window, oldest first, in a ring that grows and never
// shrinks. The zero Log is empty. Copying a Log shares its memory; use [Log.Clone].
type Log struct {
	ring []Debit
	head int
	n    int
}

// A Debit is units that were taken at a time.
type Debit struct {
	At Micros
	N  int64
}

// Len returns the number of debits; a nil Log has none.
func (g *Log) Len() int {
	if g == nil {
		return 0
	}
	return g.n
}

// At returns the i-th oldest debit.
func (g *Log) At(i int) Debit { return *g.at(i) }

// Clone returns a copy that shares nothing with g.
func (g *Log) Clone() *Log {
	if g == nil {
		return nil
	}
	c := &Log{ring: make([]Debit, 0, g.n), n: g.n}
	for i := range g.n {
		c.ring = append(c.ring, g.At(i))
	}
	return c
}

// Append adds a debit that is not older than the youngest; it is for restoring a Log.
func (g *Log) Append(d Debit) {
	if g.n == len(g.ring) {
		g.grow()
	}
	g.n++
	*g.at(g.n - 1) = d
}

func (g *Log) at(i int) *Debit {
	i += g.head
	if i >= len(g.ring) {
		i -= len(g.ring)
	}
	return &g.ring[i]
}

func (g *Log) grow() {
	ring := make([]Debit, max(4, 2*len(g.ring)))
	for i := range g.n {
		ring[i] = g.At(i)
	}
	g.ring, g.head = ring, 0
}

func (g *Log) dropOldest() Debit {
	d := g.At(0)
	g.head++
	if g.head == len(g.ring) {
		g.head = 0
	}
	g.n--
	return d
}

// drop removes the i-th oldest debit.
func (g *Log) drop(i int) {
	for ; i < g.n-1; i++ {
		*g.at(i) = *g.at(i + 1)
	}
	g.n--
}

// gone reports whether d has left the window at time now: a debit at t counts until just
// before t + Per.
func (l Limit) gone(d Debit, now Micros) bool {
	return now > d.At && since(now, d.At) >= uint64(l.Per)
}

// left is the time until d, which has not left the window at time now, will have.
func (l Limit) left(d Debit, now Micros) Micros { return l.Per - (now - d.At) }

// fitWindow forgets what has left the window and says whether n more fit, and the time
// at which they would be debited. Forgetting is no change of state: what has left
// counts for nothing.
func (l Limit) fitWindow(c *Cell, now Micros, n int64) (Verdict, Micros) {
	if uint64(n) > uint64(l.Max) || l.Max <= 0 {
		return Verdict{Never: true}, now
	}
	now = l.steadyWindow(c, now)
	l.expire(c, now)
	if n > 0 && c.Used > l.Max-n {
		return Verdict{Wait: l.waitWindow(c, now, c.Used-(l.Max-n))}, now
	}
	return Verdict{OK: true}, now
}

func (l Limit) takeWindow(c *Cell, now Micros, n int64) Verdict {
	v, now := l.fitWindow(c, now, n)
	if v.OK && n > 0 {
		l.debit(c, now, n)
	}
	return v
}

// waitWindow is the time until units of the oldest debits have left the window.
func (l Limit) waitWindow(c *Cell, now Micros, units int64) Micros {
	for i := range c.Log.Len() {
		d := c.Log.At(i)
		if units -= d.N; units <= 0 {
			return l.left(d, now)
		}
	}
	return l.Per
}

// debit adds n units at now, into the youngest debit if it is of the same instant or,
// for a large Window or a long log, of the same step. The merged debit takes the younger
// time.
func (l Limit) debit(c *Cell, now Micros, n int64) {
	c.At = now
	n = min(n, MaxCredits-c.Used)
	if n <= 0 {
		return
	}
	c.Used += n
	if c.Log == nil {
		c.Log = new(Log)
	}
	if k := c.Log.n; k > 0 {
		last := c.Log.at(k - 1)
		coarse := l.Max > WindowEntries || k >= WindowEntries
		if last.At == now || coarse && l.step(last.At) == l.step(now) {
			last.At, last.N = now, last.N+n
			return
		}
	}
	c.Log.Append(Debit{now, n})
}

// step numbers the parts of the window whose debits may be merged.
func (l Limit) step(t Micros) Micros { return t / max(1, l.Per/WindowEntries) }

// expire drops the debits that have left the window. It keeps the time at which it did:
// a caller with an older clock must not be let into a past that has been forgotten.
func (l Limit) expire(c *Cell, now Micros) {
	for c.Log.Len() > 0 && l.gone(c.Log.At(0), now) {
		c.Used -= c.Log.dropOldest().N
		c.At = now
	}
}

// giveWindow takes n units out of the debit that was made at time at, or that it was
// merged into. If it has left the window, or was reset away, they are back already: what
// is left in the log is other callers'.
func (l Limit) giveWindow(c *Cell, now, at Micros, n int64) {
	now = l.steadyWindow(c, now)
	l.expire(c, now)
	if n < 0 {
		l.debit(c, now, -n)
		return
	}
	for i := range c.Log.Len() {
		d := c.Log.at(i)
		if d.At < at {
			continue
		}
		if d.At > at && (l.Max <= WindowEntries || l.step(d.At) != l.step(at)) {
			return
		}
		back := min(n, d.N)
		d.N -= back
		c.Used -= back
		if d.N == 0 {
			c.Log.drop(i)
		}
		return
	}
}

// steadyWindow is steady for the times in the log.
func (l Limit) steadyWindow(c *Cell, now Micros) Micros {
	if c.At <= now {
		return now
	}
	if since(c.At, now) <= uint64(l.Per) {
		return c.At
	}
	c.At = now
	for i := range c.Log.Len() {
		d := c.Log.at(i)
		d.At = min(d.At, now)
	}
	return now
}

func (l Limit) levelWindow(c *Cell, now Micros) Level {
	if l.Max <= 0 {
		return Level{}
	}
	now = max(now, c.At)
	first, used := 0, c.Used
	for ; first < c.Log.Len() && l.gone(c.Log.At(first), now); first++ {
		used -= c.Log.At(first).N
	}
	if first == c.Log.Len() {
		return Level{Max: l.Max, Left: l.Max}
	}
	v := Level{Max: l.Max, Left: max(0, l.Max-used)}
	v.Next, v.Full = l.left(c.Log.At(first), now), l.left(c.Log.At(c.Log.n-1), now)
	if used >= l.Max {
		v.Next = l.waitWindow(c, now, c.Used-l.Max+1)
	}
	return v
}
