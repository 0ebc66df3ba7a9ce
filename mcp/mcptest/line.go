package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// A sender is where frames go: one write for all of them, where the transport allows that.
type sender interface {
	Send(frames ...[]byte) error
	Close() error
}

// A Line is a provider's connection with one peer: a pipe, a socket, or an HTTP session.
type Line struct {
	p    *Provider
	out  sender // for what belongs to no call
	done chan struct{}

	mu      sync.Mutex
	calls   map[string]*Call
	answers map[string]chan *Frame
	n       int
	hears   json.RawMessage // the request by which the peer wants to hear of changes
}

func (p *Provider) newLine(out sender) *Line {
	l := &Line{p: p, out: out, done: make(chan struct{}), calls: map[string]*Call{}, answers: map[string]chan *Frame{}}
	p.mu.Lock()
	p.lines[l] = true
	p.mu.Unlock()
	return l
}

// Done is closed when the connection has ended.
func (l *Line) Done() <-chan struct{} { return l.done }

// Close ends the connection. Calls that came over it go on, and are answered to nobody.
func (l *Line) Close() error { return l.close(l.out) }

func (l *Line) close(outs ...sender) error {
	var err error
	for _, out := range append(outs, l.out) {
		if e := out.Close(); err == nil {
			err = e
		}
	}
	return err
}

// ended forgets a line whose peer has gone.
func (l *Line) ended() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.p.lines[l] {
		delete(l.p.lines, l)
		close(l.done)
	}
}

// Send sends frames as they are.
func (l *Line) Send(frames ...[]byte) error { return l.out.Send(frames...) }

// Notify sends a notification. Nil params are left out.
func (l *Line) Notify(method string, params any) error {
	out := l.out
	l.mu.Lock()
	if l.hears != nil && strings.HasSuffix(method, "/list_changed") {
		out = &subscription{out, l.hears}
	}
	l.mu.Unlock()
	return out.Send(message{Method: method, Params: params}.frame())
}

// listen tells the peer of changes from now on: the request has no answer while it does.
func (l *Line) listen(f *Frame) {
	var q struct{ Notifications json.RawMessage }
	_ = json.Unmarshal(f.Params, &q) // none are asked for then
	l.mu.Lock()
	l.hears = f.ID
	l.mu.Unlock()
	_ = (&subscription{l.out, f.ID}).Send(message{Method: "notifications/subscriptions/acknowledged", Params: state{"notifications": q.Notifications}}.frame())
}

// Request asks the peer and waits for its answer. A refusal is an *Error.
func (l *Line) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer, err := l.request(l.out, method, params, ctx.Done())
	switch {
	case err != nil:
		return nil, err
	case answer.Error != nil:
		return nil, answer.Error
	}
	return answer.Result, nil
}

func (l *Line) request(out sender, method string, params any, gone <-chan struct{}) (*Frame, error) {
	answer := make(chan *Frame, 1)
	l.mu.Lock()
	l.n++
	id := fmt.Sprintf(`"provider-%d"`, l.n)
	l.answers[id] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.answers, id)
		l.mu.Unlock()
	}()
	if err := out.Send(Request(id, method, params)); err != nil {
		return nil, err
	}
	select {
	case f := <-answer:
		return f, nil
	case <-gone:
		return nil, context.Canceled
	case <-l.done:
		return nil, fmt.Errorf("mcptest: the peer left without an answer to %s", method)
	}
}

// take does what a frame asks for. out is where answers go. The call is nil, if the frame
// starts none.
func (l *Line) take(raw []byte, h http.Header, out sender) *Call {
	f, err := ReadFrame(raw)
	if err != nil {
		_ = out.Send(message{ID: json.RawMessage("null"), Error: &Error{Code: -32700, Message: "Parse error"}}.frame())
		return nil
	}
	switch {
	case f.Method == "":
		l.mu.Lock()
		if answer := l.answers[string(f.ID)]; answer != nil {
			answer <- f
			delete(l.answers, string(f.ID))
		}
		l.mu.Unlock()
	case f.Method == "notifications/cancelled":
		var q struct{ RequestID json.RawMessage }
		if json.Unmarshal(f.Params, &q) == nil {
			l.cancel(string(q.RequestID))
		}
	case f.ID == nil: // other notifications change nothing
	case f.Method == "tools/call":
		return l.call(f, h, out)
	case f.Method == "tasks/result":
		go l.tasks(f, out)
	case strings.HasPrefix(f.Method, "tasks/"):
		l.tasks(f, out)
	case f.Method == "subscriptions/listen" && slices.Contains(l.p.o.Versions, modern):
		l.listen(f)
	default:
		l.describe(f, out)
	}
	return nil
}

func (l *Line) cancel(id string) {
	l.mu.Lock()
	c := l.calls[id]
	if string(l.hears) == id {
		l.hears = nil
	}
	l.mu.Unlock()
	if c != nil {
		c.cancel()
	}
}

func (l *Line) forget(c *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[string(c.ID)] == c {
		delete(l.calls, string(c.ID))
	}
}

// Serve answers a peer until it has gone, and returns why.
func (p *Provider) Serve(w Wire) error {
	l := p.newLine(w)
	defer l.ended()
	return l.serve(w)
}

func (l *Line) serve(w Wire) error {
	defer w.Close()
	for {
		frame, err := w.Next()
		if err != nil {
			return err
		}
		l.take(slices.Clone(frame), nil, w)
	}
}
