package sluice

import (
	"math/rand/v2"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A Waker is a Store that other processes use too, and that hears what they do. It lets
// callers who wait in one process for what is held in another ask when it comes back.
type Waker interface {
	// Watch calls freed for each cell of which units may have come back other than by
	// time, if that cell has refused a Take with ledger.Command.Watch since freed was
	// last called for it. heard says whether this works from now on; before its first
	// call, and after a call with false, nobody is told, nor is it made up for later. The
	// calls of heard come one at a time, the first perhaps before Watch returns. stop
	// ends both; it waits for calls that are under way.
	Watch(freed func(ledger.Key), heard func(bool)) (stop func())
}

// askSeldom is how long the head of a line waits for a release of which the store tells,
// in place of askAgain. The store may lose a message.
const askSeldom = 2 * time.Second

// listen lets the store tell of what other processes give back, if it can.
func (c *Controller) listen() {
	if w, ok := c.store.(Waker); ok {
		c.room.watched = make(map[uint64]*waitLine)
		c.deafen = w.Watch(c.freed, c.heard)
	}
}

// freed asks for the line whose head a cell has refused.
func (c *Controller) freed(cell ledger.Key) {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	if l := c.room.watched[cell.Cell]; l != nil {
		l.hurry(0)
	}
}

// heard asks for every line once when the store can tell again, for what it has not told
// of meanwhile. The lines do so one after the other: those of other processes ask at this
// moment too. While it cannot tell, each line asks as ever when its timer fires: a store
// that has lost its server is not asked more for that.
func (c *Controller) heard(works bool) {
	r := &c.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told = works; !works {
		return
	}
	for _, of := range r.rules {
		for _, l := range of.byKey {
			l.hurry(rand.N(r.round()))
		}
	}
}

// hurry makes the line ask after that time, if it would not before. The caller holds the
// room's mutex.
func (l *waitLine) hurry(after time.Duration) {
	due := time.Now().Add(after)
	switch {
	case l.asking:
		l.again = true
	case l.timer != nil && due.Before(l.due):
		l.due = due
		l.timer.Reset(after)
	}
}

// askAfter is how long the head of a line waits for a release until it asks again. The
// caller holds the room's mutex.
func (r *waitingRoom) askAfter() time.Duration {
	if r.told {
		return max(askSeldom, r.round())
	}
	return r.round()
}

// round is the time in which all lines may ask once without asking too often. The caller
// holds the room's mutex.
func (r *waitingRoom) round() time.Duration {
	return max(askAgain, askAgain/manyLines*time.Duration(r.lines))
}

// watch notes which cells may refuse the head of l, whose call d is about to decide:
// what comes back while the store is asked must not be missed. It returns for how long
// the head wants to be told.
func (r *waitingRoom) watch(l *waitLine, d *Decision) limit.Micros {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watched == nil {
		return 0
	}
	r.unwatch(l)
	for i := range d.steps {
		if d.places[i].rule.line == l.of && d.steps[i].Set == 0 {
			cell := d.steps[i].Key.Cell
			l.cells = append(l.cells, cell)
			r.watched[cell] = l
		}
	}
	return limit.MicrosOf(r.askAfter() + askAgain)
}

// unwatch forgets the cells of l. The caller holds the room's mutex.
func (r *waitingRoom) unwatch(l *waitLine) {
	for _, cell := range l.cells {
		if r.watched[cell] == l {
			delete(r.watched, cell)
		}
	}
	l.cells = l.cells[:0]
}
