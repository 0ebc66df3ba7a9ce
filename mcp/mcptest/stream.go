package mcptest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// errNoStream is the answer to a message that nobody listens to.
var errNoStream = errors.New("mcptest: there is no stream to send on")

// noStream takes messages that belong to no request where there is no stream for them.
type noStream struct{}

func (noStream) Send(...[]byte) error { return errNoStream }
func (noStream) Close() error         { return nil }

// A stream is the answer to one HTTP request: events, or JSON.
type stream struct {
	json bool
	sent chan struct{} // closed at the first frame
	cut  chan struct{} // closed when the connection has to be closed

	mu       sync.Mutex
	w        http.ResponseWriter
	begun    bool
	frames   [][]byte // all so far, for JSON
	finished bool
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, sent: make(chan struct{}), cut: make(chan struct{})}
}

func (s *stream) Send(frames ...[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return errNoStream
	}
	defer func() {
		if !closed(s.sent) {
			close(s.sent)
		}
	}()
	if s.json {
		s.frames = append(s.frames, frames...)
		return nil
	}
	s.head()
	var b bytes.Buffer
	for _, f := range frames {
		fmt.Fprintf(&b, "event: message\ndata: %s\n\n", bytes.ReplaceAll(f, []byte("\n"), []byte("\ndata: ")))
	}
	return s.write(b.Bytes())
}

// open sends the headers, so that the client knows that it is listened to.
func (s *stream) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head()
	_ = http.NewResponseController(s.w).Flush() // a client that has gone is found out later
}

func (s *stream) head() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
		s.w.WriteHeader(http.StatusOK)
	}
}

func (s *stream) write(b []byte) error {
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// Close closes the connection in the middle of the answer.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !closed(s.cut) {
		close(s.cut)
	}
	return nil
}

// hold keeps a stream open until it is cut or the client has gone.
func (s *stream) hold(r *http.Request) {
	select {
	case <-s.cut:
	case <-r.Context().Done():
	}
	s.mu.Lock()
	s.finished = true
	s.mu.Unlock()
}

// finish ends the answer. After it nothing is written, whoever still has the stream.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	s.finished = true
	if closed(s.cut) {
		panic(http.ErrAbortHandler)
	}
	if !s.json || len(s.frames) == 0 {
		return
	}
	body := s.frames[0]
	for _, f := range s.frames {
		if m, err := ReadFrame(f); err == nil && m.Method == "" {
			body = f
			break
		}
	}
	s.w.Header().Set("Content-Type", "application/json")
	_, _ = s.w.Write(body) // a client that has gone is not told
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// pushes are the streams of a session on which a client listens. A message goes to one of
// them, the newest.
type pushes struct {
	mu   sync.Mutex
	list []*stream
}

func (p *pushes) add(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, s)
}

func (p *pushes) remove(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = slices.DeleteFunc(p.list, func(other *stream) bool { return other == s })
}

func (p *pushes) Send(frames ...[]byte) error {
	p.mu.Lock()
	list := slices.Clone(p.list)
	p.mu.Unlock()
	if len(list) == 0 {
		return errNoStream
	}
	return list[len(list)-1].Send(frames...)
}

func (p *pushes) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.list {
		_ = s.Close() // which cannot fail
	}
	return nil
}
