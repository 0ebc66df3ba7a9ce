package sluice

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/line"
)

// A waitingRoom is all lines of a Controller. One mutex guards it, and it is never held
// while the store is asked: deciding without waiting only reads the counters of lines.
type waitingRoom struct {
	mu      sync.Mutex
	rules   map[string]*lines
	tickets atomic.Uint64 // the last that was given out
	waiting int           // callers in all lines
	most    int           // of them that there may be
	lines   int           // with somebody in them
	// watched finds the line whose head a cell may refuse; nil if the store is no Waker.
	watched map[uint64]*waitLine
	told    bool // the store tells what other processes give back
}

// lines are the lines of one rule. They outlive a reload.
type lines struct {
	waiting atomic.Int64
	byKey   map[uint64]*waitLine
}

// A waitLine is the callers who wait for one key of a rule.
type waitLine struct {
	of     *lines
	key    uint64
	queue  line.Line[*waiter]
	asking bool // somebody is asking the store for the head
	again  bool // and shall ask once more before it stops
	timer  *time.Timer
	due    time.Time // when the timer is to fire
	cells  []uint64  // of the room's watched that lead here
}

func (r *waitingRoom) linesOf(rule string) *lines {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.rules[rule]
	if l == nil {
		l = &lines{byKey: make(map[uint64]*waitLine)}
		r.rules[rule] = l
	}
	return l
}

// lineKey names the line of a match.
func (m *match) lineKey() uint64 { return mix(m.rule.salt, m.base) }

// join puts w into the line of m and returns it, or nil if there is no room. The caller
// holds the room's mutex.
func (r *waitingRoom) join(w *waiter, m *match) *waitLine {
	of, key := m.rule.line, m.lineKey()
	l := of.byKey[key]
	if l == nil {
		l = &waitLine{of: of, key: key}
	}
	q := m.rule.Queue
	flow, share := "", int64(1)
	if q.FairBy != nil {
		flow = w.call.Get(*q.FairBy)
		share = q.Shares[flow]
	}
	if r.waiting >= r.most || q.Depth != nil && l.queue.LenOf(flow) >= *q.Depth {
		return nil
	}
	if of.byKey[key] != l {
		of.byKey[key] = l
		r.lines++
	}
	of.waiting.Add(1)
	r.waiting++
	l.queue.Push(&w.place, flow, share)
	w.at, w.rule = l, m.rule
	if t := w.d.timeout(); t > 0 && (w.deadline == 0 || t < w.deadline) {
		w.deadline = t
		select {
		case w.moved <- struct{}{}:
		default:
		}
	}
	return l
}

// part takes w out of its line. The caller holds the room's mutex.
func (r *waitingRoom) part(w *waiter, served bool) {
	l := w.at
	if l == nil {
		return
	}
	w.at = nil
	l.queue.Remove(&w.place, served)
	l.of.waiting.Add(-1)
	r.waiting--
	if l.queue.Len() == 0 && !l.asking {
		r.close(l)
	}
}

// patience is how often a caller moves from line to line before it begins to keep the
// places that it leaves.
const patience = 3

// A claim is the place that a caller keeps in a line which it has left for another. Who
// came later waits behind it. Without claims a caller who needs two rules could be sent
// to and fro for ever, while others who need one of them each take what comes free.
type claim struct {
	place line.Waiter[*waiter]
	at    *waitLine
}

// move takes w, the head of l, to the line of m. It returns that line, or nil if there is
// no room in it. In a fair line w keeps its turn, in another, if it has had patience, its
// place. The caller holds the room's mutex.
func (r *waitingRoom) move(w *waiter, l *waitLine, m *match) *waitLine {
	fair := w.rule.Queue.FairBy != nil
	if fair && !slices.Contains(w.turns, l) {
		w.turns = append(w.turns, l)
	}
	r.part(w, false)
	if own := m.rule.line.byKey[m.lineKey()]; own != nil { // a claim there is no longer needed
		r.waive(w, own)
	}
	to := r.join(w, m)
	if w.moves++; w.moves > patience && to != nil && !fair {
		k := &claim{at: l}
		k.place.Value, k.place.Ticket = w, w.place.Ticket
		l.queue.Push(&k.place, "", 1)
		l.of.waiting.Add(1)
		w.claims = append(w.claims, k)
	}
	return to
}

// waive gives up the claim of w on one line, or all its claims if of is nil. It returns
// the lines in which others move up. The caller holds the room's mutex.
func (r *waitingRoom) waive(w *waiter, of *waitLine) (up []*waitLine) {
	w.claims = slices.DeleteFunc(w.claims, func(k *claim) bool {
		l := k.at
		if of != nil && of != l {
			return false
		}
		l.queue.Remove(&k.place, false)
		l.of.waiting.Add(-1)
		if l.queue.Len() == 0 && !l.asking {
			r.close(l)
		}
		up = append(up, l)
		return true
	})
	return up
}

// close forgets an empty line. Another may have its key by now. The caller holds the
// room's mutex.
func (r *waitingRoom) close(l *waitLine) {
	if l.of.byKey[l.key] == l {
		delete(l.of.byKey, l.key)
		r.lines--
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	r.unwatch(l)
}

// Waiting returns how many callers stand in line, by the rule they wait for.
func (c *Controller) Waiting() map[string]int {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	n := make(map[string]int)
	for id, of := range c.room.rules {
		if k := of.waiting.Load(); k > 0 {
			n[id] = int(k)
		}
	}
	return n
}
