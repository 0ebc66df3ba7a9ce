package front

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// An event is one frame for a client, and its number in its stream.
type event struct {
	n     int64
	frame []byte
}

// A stream is what one connection at a time writes to a client, in order. Who has something
// for the client appends it and goes on; the connection takes it from its [outlet].
//
// A stream of a session becomes resumable when a connection has begun to write it as events
// with ids: from then on what is appended is kept, whether a connection is there or not.
// Before that, and in streams without ids, nobody could ask for it.
type stream struct {
	id   int64
	kept *kept // nil: events have no ids
	most int   // bytes that may wait for the connection
	all  *waiting

	mu        sync.Mutex
	queue     []event
	bytes     int
	last      int64 // number of the last event; the first is 1
	given     int64 // number of the last event that a connection has taken
	resumable bool
	outlet    *outlet
	left      time.Time // when the last connection went
	ended     bool
	status    int // HTTP status of the end
}

// append adds a frame, which must not change afterwards. It reports whether the client
// will get it, or can.
func (s *stream) append(frame []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	return s.appendLocked(frame)
}

// tell is append, for a frame that comes before an answer or belongs to none. A client that is
// told more than it reads keeps its connection and does without some of it.
func (s *stream) tell(frame []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.bytes+len(frame) > s.most/2 && isSpare(frame) {
		return false
	}
	return s.appendLocked(frame)
}

// isSpare reports whether a client can do without a frame: what a provider logs, and how far it
// is, it may say without end.
func isSpare(frame []byte) bool {
	method, _ := jsonrpc.Lookup(frame, "method")
	return string(method) == `"notifications/progress"` || string(method) == `"notifications/message"`
}

func (s *stream) appendLocked(frame []byte) bool {
	s.last++
	e := event{s.last, frame}
	if s.resumable {
		s.kept.add(s.id, e)
	}
	if s.outlet == nil {
		return s.resumable
	}
	// That a frame is larger than what may wait is no fault of the client's.
	most := s.most
	if len(frame) > most {
		most += len(frame)
	}
	s.queue = append(s.queue, e)
	s.bytes += len(frame)
	s.all.add(len(frame))
	if s.bytes > most || len(s.queue) > 1 && s.bytes > s.most/crowdedShare && s.all.tooMany() {
		s.detachLocked() // the client reads too slowly, or not at all
		return s.resumable
	}
	s.outlet.wake()
	return true
}

// end adds the last frame, if there is one, and ends the stream.
func (s *stream) end(frame []byte, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if frame != nil {
		s.appendLocked(frame)
	}
	s.ended, s.status = true, status
	if s.outlet != nil {
		s.outlet.wake()
	}
}

// reachable reports whether a connection is there, or went less than grace ago and may
// come back.
func (s *stream) reachable(grace time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outlet != nil || s.resumable && time.Since(s.left) < grace
}

// An outlet is the connection that empties a stream. One goroutine uses it.
type outlet struct {
	s     *stream
	ready chan struct{} // has room for one; told whenever there is something to take
	bytes int           // that the connection has taken and is writing; on s.mu
}

// crowdedShare is by what a stream's bound is divided while all streams together have too much
// waiting.
const crowdedShare = 32

// waiting are the bytes that wait for all clients together. Nil counts nothing.
type waiting struct {
	atomic.Int64
	most int64
}

func (w *waiting) add(n int) {
	if w != nil {
		w.Add(int64(n))
	}
}

func (w *waiting) tooMany() bool { return w != nil && w.Load() > w.most }

// open makes the caller the stream's connection, in place of another. It gets what no
// connection has taken yet.
func (s *stream) open() *outlet { return s.openAfter(-1) }

// openAfter is open for a client that comes back: it also gets what is kept of the events
// after the number n.
func (s *stream) openAfter(n int64) *outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 {
		n = s.given
	}
	s.detachLocked()
	s.outlet = &outlet{s: s, ready: make(chan struct{}, 1)}
	if s.resumable {
		s.queue, s.bytes = s.kept.after(s.id, n)
		s.all.add(s.bytes)
	}
	if len(s.queue) > 0 || s.ended {
		s.outlet.wake()
	}
	return s.outlet
}

// detachLocked takes the connection away, which learns of it when it next looks.
func (s *stream) detachLocked() {
	if s.outlet != nil {
		s.outlet.wake()
		s.all.add(-s.bytes)
		s.outlet, s.queue, s.bytes, s.left = nil, nil, 0, time.Now()
	}
}

// wake never waits: the channel keeps that there is something.
func (o *outlet) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// close says that the connection has gone.
func (o *outlet) close() {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	o.s.all.add(-o.bytes)
	o.bytes = 0
	if o.s.outlet == o {
		o.s.detachLocked()
	}
}

// begin makes the stream resumable if its events have ids, what waits included. It returns
// the number of the last event before what waits, and whether anything does.
func (o *outlet) begin() (before int64, waits bool) {
	s := o.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != nil && !s.resumable {
		s.resumable = true
		for _, e := range s.queue {
			s.kept.add(s.id, e)
		}
	}
	if len(s.queue) > 0 {
		return s.queue[0].n - 1, true
	}
	return s.last, false
}

// waits reports whether there is anything to take.
func (o *outlet) waits() bool {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	return o.s.outlet == o && len(o.s.queue) > 0
}

// A taking is what a connection finds in its stream.
type taking struct {
	events []event
	ended  bool // nothing comes after these
	status int  // of an ended stream
	lost   bool // the stream is no longer this connection's
}

// take takes what waits.
func (o *outlet) take() taking {
	s := o.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlet != o {
		return taking{lost: true}
	}
	t := taking{events: s.queue, ended: s.ended, status: s.status}
	s.all.add(-o.bytes)
	o.bytes = s.bytes
	s.queue, s.bytes, s.given = nil, 0, s.last
	return t
}

// alone returns the end of a stream if it is all that there is in it.
func (o *outlet) alone() (taking, bool) {
	s := o.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended || len(s.queue) > 1 || s.outlet != o {
		return taking{}, false
	}
	return taking{events: s.queue, ended: true, status: s.status}, true
}
