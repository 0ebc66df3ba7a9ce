package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// A model is what must be left of every limit. It keeps lists and fractions and looks
// through all of them every time; it shares no arithmetic with the engine.
type model struct {
	rules []sluice.Rule
	cells map[string]*cell
	now   func() time.Duration
}

// A cell is one rule's state for one group.
type cell struct {
	debits []*debit      // of a window
	tokens float64       // that a bucket lacks
	at     time.Duration // of tokens
	last   time.Duration // the latest start, for a pace
	began  bool
	held   []*debit      // slots
	until  time.Duration // of a cooldown
}

// A debit is what one grant took of one cell.
type debit struct {
	rule  string
	cell  *cell
	at    time.Duration
	n     int64
	until time.Duration // when a held slot comes back by itself
}

// slack is what a bucket may be early: a microsecond of its rate, and the rounding of
// fractions.
func slack(l limit.Limit) float64 { return float64(l.Max)/float64(l.Per) + 1e-6 }

// about reports whether r is about call.
func about(r *sluice.Rule, call *sluice.Call) bool {
	want := r.Match.Is[sluice.Kind]
	return want == nil || slices.Contains(want, call.Kind)
}

// cellOf is the state of r for call.
func (m *model) cellOf(r *sluice.Rule, call *sluice.Call) *cell {
	key := r.ID
	for _, d := range r.GroupBy {
		key += "|" + call.Get(d)
	}
	if m.cells[key] == nil {
		m.cells[key] = new(cell)
	}
	return m.cells[key]
}

// costOf is what call takes of r.
func costOf(r *sluice.Rule, call *sluice.Call) int64 {
	unit := r.Limits[0].Unit
	if n := call.Cost.Of(unit); unit == sluice.Tokens {
		return n
	}
	if w, ok := r.Weights[call.Capability]; ok {
		return w
	}
	return 1
}

// free is how many units r has for call now, as a fraction for a bucket.
func (m *model) free(r *sluice.Rule, c *cell) float64 {
	l, now := r.Limits[0].Limit, m.now()
	switch l.Kind {
	case limit.KindWindow:
		used := int64(0)
		for _, d := range c.debits {
			if d.at+l.Per.Duration() > now {
				used += d.n
			}
		}
		return float64(l.Max - used)
	case limit.KindBucket:
		m.refill(l, c)
		return float64(l.Burst) - c.tokens
	case limit.KindSlots:
		used := int64(0)
		for _, d := range c.held {
			if now < d.until {
				used += d.n
			}
		}
		return float64(l.Max - used)
	case limit.KindPace:
		if c.began && c.last+l.Per.Duration() > now {
			return 0
		}
	case limit.KindCooldown:
		if c.until > now {
			return 0
		}
	}
	return 1
}

func (m *model) refill(l limit.Limit, c *cell) {
	now := m.now()
	c.tokens = max(0, c.tokens-float64(now-c.at)/1e3*float64(l.Max)/float64(l.Per))
	c.at = now
}

// nearly reports whether the pace of r is within the microseconds that a reload rounds.
func (m *model) nearly(r *sluice.Rule, c *cell) bool {
	return c.began && (c.last+r.Limits[0].Per.Duration()-m.now()).Abs() <= 3*time.Microsecond
}

// fits reports whether call could go ahead by r: surely, or perhaps. Between the two
// lies what a bucket may round.
func (m *model) fits(r *sluice.Rule, call *sluice.Call) (surely, perhaps bool) {
	n, free, l := float64(costOf(r, call)), m.free(r, m.cellOf(r, call)), r.Limits[0].Limit
	if l.Kind == limit.KindCooldown {
		return free > 0, free > 0
	}
	if n > float64(l.Capacity()) {
		return false, false
	}
	if n == 0 {
		return true, true
	}
	if l.Kind == limit.KindPace && m.nearly(r, m.cellOf(r, call)) {
		return false, true
	}
	if l.Kind == limit.KindBucket {
		return free >= n+1e-6, free >= n-slack(l)
	}
	return free >= n, free >= n
}

// admit enters a grant and reports which rule should have refused it.
func (m *model) admit(call *sluice.Call) (taken []*debit, broken string) {
	now := m.now()
	for i := range m.rules {
		r := &m.rules[i]
		if !about(r, call) {
			continue
		}
		if _, perhaps := m.fits(r, call); !perhaps {
			if !r.Shadow {
				broken = fmt.Sprintf("%s (%v) has %v for %d", r.ID, r.Limits[0].Limit, m.free(r, m.cellOf(r, call)), costOf(r, call))
			}
			if r.Shadow {
				continue
			}
		}
		d := &debit{rule: r.ID, cell: m.cellOf(r, call), at: now, n: costOf(r, call), until: math.MaxInt64}
		taken = append(taken, d)
		if d.n == 0 {
			continue
		}
		switch r.Limits[0].Kind {
		case limit.KindWindow:
			d.cell.debits = append(d.cell.debits, d)
		case limit.KindBucket:
			m.refill(r.Limits[0].Limit, d.cell)
			d.cell.tokens += float64(d.n)
		case limit.KindSlots:
			if r.MaxHold > 0 {
				d.until = now + r.MaxHold
			}
			d.cell.held = append(d.cell.held, d)
		case limit.KindPace:
			d.cell.last, d.cell.began = now, true
		}
	}
	return taken, broken
}

// settle corrects a grant to used tokens, and reports whether it may.
func (m *model) settle(taken []*debit, used int64) bool {
	for _, d := range taken {
		if r := m.rule(d.rule); r.Limits[0].Unit == sluice.Tokens && !r.Shadow &&
			used > d.n && r.Settle == sluice.Keep && !r.AllowOverrun {
			return false
		}
	}
	for _, d := range taken {
		r := m.rule(d.rule)
		back := d.n - used
		switch {
		case r.Limits[0].Unit != sluice.Tokens, back == 0, back > 0 && r.Settle == sluice.Keep:
			continue
		case r.Shadow && d.n == 0: // a shadow that took nothing has nothing to correct
			continue
		}
		switch l := r.Limits[0].Limit; {
		case l.Kind == limit.KindBucket:
			m.refill(l, d.cell)
			d.cell.tokens = max(0, d.cell.tokens-float64(back))
		case back > 0:
			d.n = used
		default:
			d.cell.debits = append(d.cell.debits, &debit{at: m.now(), n: -back})
		}
	}
	return true
}

// release gives back the slots of a grant: all, or those of rules that free them.
func (m *model) release(taken []*debit, all bool) {
	for _, d := range taken {
		if all || m.rule(d.rule).OnTimeout == sluice.Free {
			d.cell.held = slices.DeleteFunc(d.cell.held, func(h *debit) bool { return h == d })
		}
	}
}

// holdAgain notes that a replay holds the same slots, for no longer than the rules in
// force allow from now on.
func (m *model) holdAgain(taken []*debit) {
	for _, d := range taken {
		if r := m.rule(d.rule); r.MaxHold > 0 {
			d.until = min(d.until, m.now()+r.MaxHold)
		}
	}
}

// cool starts the cooldowns of call.
func (m *model) cool(call *sluice.Call, delay time.Duration) {
	for i := range m.rules {
		if r := &m.rules[i]; about(r, call) && r.Limits[0].Kind == limit.KindCooldown {
			c := m.cellOf(r, call)
			c.until = max(c.until, m.now()+min(delay, r.Limits[0].Per.Duration()))
		}
	}
}

// reset makes everything full but slots.
func (m *model) reset() {
	for _, c := range m.cells {
		*c = cell{held: c.held}
	}
}

// reload puts new numbers in force: what was used stays used.
func (m *model) reload(rules []sluice.Rule) {
	for key, c := range m.cells {
		for i := range m.rules {
			r := &m.rules[i]
			if key[:2] != r.ID {
				continue
			}
			from, to := r.Limits[0].Limit, rules[i].Limits[0].Limit
			switch from.Kind {
			case limit.KindBucket:
				m.refill(from, c)
			case limit.KindPace: // the share of the interval that is left stays to be waited
				left := max(0, c.last+from.Per.Duration()-m.now())
				share := float64(left) / float64(from.Per.Duration())
				c.last = m.now() - to.Per.Duration() + time.Duration(share*float64(to.Per.Duration()))
			case limit.KindWindow: // what has left the old window is back
				c.debits = slices.DeleteFunc(c.debits, func(d *debit) bool { return d.at+from.Per.Duration() <= m.now() })
			}
		}
	}
	m.rules = rules
}

func (m *model) rule(id string) *sluice.Rule {
	return &m.rules[slices.IndexFunc(m.rules, func(r sluice.Rule) bool { return r.ID == id })]
}
