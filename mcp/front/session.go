package front

import (
	"sync"
	"time"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/policy"
)

// A session is a client that comes back: by its session id on HTTP, or on one connection.
type session struct {
	of        *sessions
	id        string
	transport string
	slot      string
	owner     string // identity of the caller whose it is
	payer     string // whom it counts for
	core      *mcp.Session
	born      time.Time
	kept      kept
	push      *stream // what belongs to no request; everything, on a transport with one stream
	end       chan struct{}

	mu      sync.Mutex
	streams map[int64]*stream // of requests under way
	last    int64             // id of the last stream
	busy    int               // requests and streams that a client is connected for
	used    time.Time         // when busy was last above 0
	closed  bool
}

// resumeWithin is how long a client whose stream of pushes broke is taken to come back.
const resumeWithin = time.Minute

// pushed takes a frame that belongs to no request. While no connection is there to take it,
// it is kept for one that comes back soon.
func (s *session) pushed(frame []byte) bool {
	return s.push.reachable(resumeWithin) && s.push.tell(frame)
}

// newStream returns the stream of one more request.
func (s *session) newStream() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	st := &stream{id: s.last, kept: &s.kept, most: s.of.bounds.Backlog, all: &s.of.waits}
	s.streams[st.id] = st
	return st
}

// forget takes the stream of a request that has been answered out. What is kept of it stays.
func (s *session) forget(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st.id)
}

// resume returns the stream with an id, as far as it is known: one whose request has been
// answered has an end.
func (s *session) resume(id int64) (*stream, bool) {
	if id == s.push.id {
		return s.push, true
	}
	s.mu.Lock()
	st := s.streams[id]
	s.mu.Unlock()
	if st != nil {
		return st, true
	}
	return &stream{id: id, kept: &s.kept, most: s.of.bounds.Backlog, all: &s.of.waits, resumable: true, ended: true}, s.kept.has(id)
}

// use counts something that keeps the session from becoming idle, until rest. It reports
// false if the session has ended.
func (s *session) use() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.busy++
	return true
}

func (s *session) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.used = time.Now()
}

// over reports whether the session has had its time.
func (s *session) over(now time.Time, b *Bounds) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.born) >= b.SessionAge || s.busy == 0 && now.Sub(s.used) >= b.SessionIdle
}

// close ends the session, once. Its calls go on; their answers go nowhere.
func (s *session) close() {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return
	}
	s.of.remove(s)
	close(s.end)
	s.kept.close()
	s.core.Close()
}

// belongs reports whether a caller is the one that the session is bound to: by who it is,
// not by the token that said so, which changes while a session lives.
func (s *session) belongs(transport, slot string, who *policy.Caller) bool {
	return s.transport == transport && s.slot == slot && s.owner == who.Identity()
}
