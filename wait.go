package sluice

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluicegate/sluice/internal/line"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// Callers wait in lines, one for each key of a rule with a queue. Only the head of a
// line asks the store, when the line's timer fires or somebody has given something back;
// when it has been served the next one asks. If another rule refuses the head it moves
// to that rule's line, in front of those who came after it, and the others move up.

// A waiter is a caller in line.
type waiter struct {
	place    line.Waiter[*waiter]
	at       *waitLine // where it stands; nil once it stands nowhere
	rule     *rule     // for which it stands there
	ctx      context.Context
	call     *Call
	d        *Decision
	arrived  time.Time
	deadline time.Duration // after arrived; 0 is none
	moved    chan struct{} // tells the sleeper that deadline has changed
	done     chan struct{} // closed when ok and err are set
	ok       bool
	err      error
	gone     bool // the caller has left
	// turns are the lines in which it is its turn: the one whose head it is, and fair
	// lines whose head it was. Who came first need not be next in those; if two of them
	// sent it back to one another, it would never get anywhere.
	turns  []*waitLine
	moves  int      // from one line to another
	claims []*claim // on lines that it has left
}

// wait stands in the line of m until the call is decided, its time is up, or its caller
// leaves.
func (c *Controller) wait(ctx context.Context, call *Call, d *Decision, m *match) (Admission, error) {
	w := &waiter{
		ctx: ctx, call: call, d: d, arrived: time.Now(),
		moved: make(chan struct{}, 1), done: make(chan struct{}),
	}
	w.place.Value, w.place.Ticket = w, c.room.tickets.Add(1)
	c.room.mu.Lock()
	l := c.room.join(w, m)
	// For the first, what it waits for may have come back meanwhile. A timer that is late,
	// because those who come keep the processors busy, is stood in for by one of them.
	ask := l != nil && (l.queue.Head() == &w.place || l.overdue(w.arrived))
	deadline := w.deadline
	c.room.mu.Unlock()
	if l == nil {
		d.refusal.Reason, d.refusal.Rule = ReasonQueueFull, m.rule.ID
		return c.finish(call, d, false, nil)
	}
	if ask {
		c.ask(l)
	}
	err := w.sleep(&c.room, deadline)
	if err == nil || !c.leave(w) {
		d.waited = time.Since(w.arrived)
		d.refusal.Waited = d.waited
		return c.finish(call, d, w.ok, w.err)
	}
	return c.turnAway(w, err)
}

// turnAway answers a caller who has left the line before its turn. Its decision stays
// behind: the store may be deciding it right now.
func (c *Controller) turnAway(w *waiter, err error) (Admission, error) {
	d := &Decision{c: c, matched: []match{{rule: w.rule}}, waited: time.Since(w.arrived)}
	if errors.Is(err, errTimeout) {
		d.refusal = Refusal{
			Reason: ReasonQueueTimeout, Rule: w.rule.ID, Violated: []string{w.rule.ID}, Waited: d.waited,
		}
		c.report(w.call, d, false, nil)
		return Admission{}, d.refusal.Clone()
	}
	c.report(w.call, d, false, err)
	return Admission{}, err
}

// errTimeout is the end of the time that the rules let a caller wait.
var errTimeout = errors.New("sluice: queue time-out")

// sleep returns nil once w is decided, errTimeout, or the cause of ctx's end. The
// deadline is w's as it came; it may become an earlier one.
func (w *waiter) sleep(r *waitingRoom, deadline time.Duration) error {
	for {
		var over <-chan time.Time
		if deadline > 0 {
			timer := time.NewTimer(deadline - time.Since(w.arrived))
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-w.done:
			return nil
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		case <-over:
			return errTimeout
		case <-w.moved:
			r.mu.Lock()
			deadline = w.deadline
			r.mu.Unlock()
		}
	}
}

// leave takes w out of its line; those behind it move up. It reports false if w has been
// decided meanwhile.
func (c *Controller) leave(w *waiter) bool {
	c.room.mu.Lock()
	select {
	case <-w.done:
		c.room.mu.Unlock()
		if w.ok && w.ctx.Err() != nil {
			w.d.void()
			w.ok, w.err = false, context.Cause(w.ctx)
		}
		return false
	default:
	}
	w.gone = true
	l := w.at
	var up []*waitLine
	if l != nil && l.queue.Head() == &w.place { // the next one may ask for less
		up = append(up, l)
	}
	c.room.part(w, false)
	up = append(up, c.room.waive(w, nil)...)
	c.room.mu.Unlock()
	for _, l := range up {
		c.ask(l)
	}
	return true
}

// ask decides the heads of l until one has to wait on, and arms the line's timer for it.
// One goroutine at a time asks for a line; others leave word that it shall ask again.
func (c *Controller) ask(l *waitLine) {
	r := &c.room
	var others []*waitLine
	r.mu.Lock()
	if l.asking {
		l.again = true
		r.mu.Unlock()
		return
	}
	l.asking = true
	for head := l.queue.Head(); head != nil && head == &head.Value.place; head = l.queue.Head() {
		l.again = false
		w := head.Value
		r.mu.Unlock()
		stays, wait, next := c.attempt(w, l)
		r.mu.Lock()
		others = append(others, next...)
		if stays && !l.again {
			l.arm(c, wait)
			break
		}
	}
	l.asking = false
	if l.queue.Len() == 0 {
		r.close(l)
	}
	r.mu.Unlock()
	for _, o := range others {
		c.ask(o)
	}
}

// askAgain is how long the head of a line waits for a release that nobody may tell it
// of: one in another process, or of a key that shares a cell with its own. The heads of
// more than manyLines lines wait longer, so that together they ask the store no more
// often than those: 5000 times a second. A store that is a Waker tells of releases.
const (
	askAgain  = 200 * time.Millisecond
	manyLines = 1000
)

// arm asks again after wait; a wait of zero is for a release. The caller holds the room's
// mutex.
func (l *waitLine) arm(c *Controller, wait limit.Micros) {
	after := wait.Duration()
	if wait == 0 {
		after = c.room.askAfter()
		if c.room.watched != nil { // others ask too, and those that began together would always ask together
			after -= rand.N(after / 8)
		}
	}
	l.due = time.Now().Add(after)
	if l.timer == nil {
		l.timer = time.AfterFunc(after, func() { c.ask(l) })
	} else {
		l.timer.Reset(after)
	}
}

// overdue reports whether the line's timer should have fired before now.
func (l *waitLine) overdue(now time.Time) bool {
	return l.timer != nil && !l.asking && now.After(l.due)
}

// attempt asks the store once for w, the head of l. It reports whether w stays the head,
// and the time after which to ask again; if not, for which other lines to ask.
func (c *Controller) attempt(w *waiter, l *waitLine) (stays bool, wait limit.Micros, others []*waitLine) {
	ok, err := false, error(ErrClosed)
	if !c.closed.Load() {
		ok, err = c.decide(w.ctx, w.call, w.d, w.place.Ticket, append(w.turns, l))
	}
	var next *match
	if err == nil && !ok {
		next = c.mayWait(w.ctx, w.d, w.arrived)
	}
	r := &c.room
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case w.gone:
		if ok {
			r.mu.Unlock()
			w.d.void()
			r.mu.Lock()
		}
		return false, 0, nil
	case next != nil && w.staysIn(l):
		return true, w.d.waitFor(l.of), nil
	case next != nil:
		if to := r.move(w, l, next); to != nil {
			return false, 0, []*waitLine{to}
		}
		w.d.refusal.Reason, w.d.refusal.Rule = ReasonQueueFull, next.rule.ID
	default:
		r.part(w, ok)
	}
	w.ok, w.err = ok, err
	close(w.done)
	return false, 0, r.waive(w, nil)
}

// staysIn reports whether l's rule is among those that keep w waiting, so that it keeps
// its place.
func (w *waiter) staysIn(l *waitLine) bool {
	if b := w.d.behind; b != nil {
		return b.rule.line == l.of && b.lineKey() == l.key
	}
	for i := range w.d.matched {
		m := &w.d.matched[i]
		if m.rule.line == l.of && m.lineKey() == l.key && w.d.refusedBy(m.rule) {
			return true
		}
	}
	return false
}

// waitFor is the time until the rule of a line may let d's call pass, as the store said
// last; zero if it is for a release. Other rules that refuse have lines of their own,
// where the call is told if they let it pass early.
func (d *Decision) waitFor(of *lines) limit.Micros {
	var wait limit.Micros
	for i, out := range d.res[0].Outcomes {
		if !out.OK && d.places[i].rule.line == of && d.steps[i].Set == 0 {
			wait = max(wait, out.Wait)
		}
	}
	return wait
}

// void gives back a grant whose work will not begin. One that another caller has made
// under the same ID is not d's to give back.
func (d *Decision) void() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.taken || d.replayed {
		return
	}
	d.taken, d.holding = false, false
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.booked() {
		d.giveAll(ledger.Void)
	}
}
