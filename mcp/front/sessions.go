package front

import (
	"cmp"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluicegate/sluice/mcp/policy"
)

// sessions are all that are open. Closing one is left to others with the lock given back:
// s.mu is never taken under it, nor it under s.mu.
type sessions struct {
	bounds *Bounds
	kept   atomic.Int64  // bytes of events that all keep
	starts *rate.Limiter // of all callers
	waits  waiting       // for all clients, those without a session included

	mu      sync.Mutex
	byID    map[string]*session
	payers  map[string]*payer
	sweeper *time.Timer
	closed  bool
}

// A payer is a caller that has sessions, or has started some lately.
type payer struct {
	open   int
	starts *rate.Limiter
}

// startsOfAll is how many times as many sessions all callers together may start as one. A
// fleet that comes back after a restart is many callers, or one with a burst of its own.
const startsOfAll = 16

func newSessions(b *Bounds) *sessions {
	s := &sessions{bounds: b, byID: map[string]*session{}, payers: map[string]*payer{}}
	s.starts = perMinute(startsOfAll * b.StartsPerMinute)
	s.waits.most = int64(b.BacklogInAll)
	return s
}

func perMinute(n int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(n)/time.Minute.Seconds()), n)
}

// payerOf is whom a session counts for: the caller's identity, or the address of one that
// has none, or all anonymous callers would share one bound.
func payerOf(who *policy.Caller) string {
	if id := who.Identity(); id != policy.Anonymous {
		return id
	}
	return cmp.Or(who.IP, policy.Anonymous)
}

// A crowd is why no session can be started now, and when to try again.
type crowd struct {
	why  string
	wait time.Duration
}

// How long to wait for others to end their sessions. Nobody knows; it keeps a fleet from
// coming back at once.
const crowdWait = 10 * time.Second

// newSession returns a session that nobody can find yet, and that is in use.
func (t *sessions) newSession(transport, slot string, who *policy.Caller) *session {
	now := time.Now()
	s := &session{of: t, id: rand.Text(), transport: transport, slot: slot, owner: who.Identity(), payer: payerOf(who),
		born: now, used: now, streams: map[int64]*stream{}, end: make(chan struct{}), busy: 1}
	s.kept = kept{most: t.bounds.Kept, all: &t.kept, limit: int64(t.bounds.KeptInAll)}
	s.push = &stream{most: t.bounds.Backlog, all: &t.waits}
	if transport == "http" {
		s.push.kept = &s.kept
	}
	return s
}

// add lets a session be found. It says why not, if it may not be: then nothing has changed.
func (t *sessions) add(s *session) *crowd {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.payers[s.payer]
	switch {
	case t.closed:
		return &crowd{"the broker is stopping", time.Second}
	case len(t.byID) >= t.bounds.Sessions || p == nil && len(t.payers) >= 2*t.bounds.Sessions:
		return &crowd{"the broker has as many sessions as it may", crowdWait}
	case p == nil:
		p = &payer{starts: perMinute(t.bounds.StartsPerMinute)}
	case p.open >= t.bounds.SessionsPerCaller:
		return &crowd{"the caller has as many sessions as it may; end some", crowdWait}
	}
	if wait := charge(now, p.starts, t.starts); wait > 0 {
		return &crowd{"too many sessions were started lately", wait}
	}
	p.open++
	t.payers[s.payer], t.byID[s.id] = p, s
	t.armLocked()
	return nil
}

// charge takes one start from each limiter, or from none and says how long to wait.
func charge(now time.Time, limiters ...*rate.Limiter) (wait time.Duration) {
	var taken []*rate.Reservation
	for _, l := range limiters {
		r := l.ReserveN(now, 1)
		taken = append(taken, r)
		wait = max(wait, r.DelayFrom(now))
	}
	if wait > 0 {
		for _, r := range taken {
			r.CancelAt(now)
		}
	}
	return wait
}

// find returns a session if it is the caller's, and of this transport and slot.
func (t *sessions) find(id, transport, slot string, who *policy.Caller) *session {
	t.mu.Lock()
	s := t.byID[id]
	t.mu.Unlock()
	if s == nil || !s.belongs(transport, slot, who) {
		return nil
	}
	return s
}

func (t *sessions) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.id] != s {
		return
	}
	delete(t.byID, s.id)
	t.payers[s.payer].open--
}

// armLocked sees to it that sessions which have had their time end, as long as there are
// any, or callers to be forgotten.
func (t *sessions) armLocked() {
	if t.sweeper == nil && !t.closed && len(t.byID)+len(t.payers) > 0 {
		t.sweeper = time.AfterFunc(max(min(t.bounds.SessionIdle, t.bounds.KeptFor)/4, 10*time.Millisecond), t.sweep)
	}
}

func (t *sessions) sweep() {
	now := time.Now()
	for _, s := range t.all() {
		if s.over(now, t.bounds) {
			s.close()
			continue
		}
		s.kept.forget(now.Add(-t.bounds.KeptFor))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for who, p := range t.payers {
		if p.open == 0 && p.starts.TokensAt(now) >= float64(p.starts.Burst()) {
			delete(t.payers, who)
		}
	}
	t.sweeper = nil
	t.armLocked()
}

func (t *sessions) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*session, 0, len(t.byID))
	for _, s := range t.byID {
		list = append(list, s)
	}
	return list
}

// closeAll ends all sessions, and lets no other begin.
func (t *sessions) closeAll() {
	t.mu.Lock()
	t.closed = true
	if t.sweeper != nil {
		t.sweeper.Stop()
	}
	t.mu.Unlock()
	for _, s := range t.all() {
		s.close()
	}
}
