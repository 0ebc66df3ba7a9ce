package httplink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

const (
	eventStream = "text/event-stream"
	plainJSON   = "application/json"
)

var (
	errHead = errors.New("the provider did not begin to answer in time")
	errIdle = errors.New("the provider's stream of events has gone silent")
)

// A wire is what both transports share: the connections, what runs on them, and who hears
// of it.
type wire struct {
	server *Server
	url    *url.URL
	given  http.Header // the fields of the configuration
	pool   *http.Transport
	client *http.Client
	open   *link.Open
	in     *link.Receiver

	ctx    context.Context // until the link is closed
	cancel context.CancelCauseFunc
	room   *semaphore.Weighted // for messages on their way and requests without an answer

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // whatever runs; grows under mu while not closed
}

func newWire(s *Server, u *url.URL, in link.Inbox) *wire {
	w := &wire{server: s, url: u, given: link.Credentials(s.Header), pool: s.transport(), open: link.NewOpen(in)}
	w.client = &http.Client{Transport: w.pool, CheckRedirect: redirect}
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	w.room = semaphore.NewWeighted(int64(orDefault(s.MaxRequests, defaultRequests)))
	return w
}

// run runs f until the link ends, unless that has begun.
func (w *wire) run(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.running.Go(f)
	}
	return !w.closed
}

// end begins to end everything, once. When nothing runs any more, finish is called, and then
// the Inbox hears that the link is down.
func (w *wire) end(why error, finish func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	w.cancel(why)
	go func() {
		w.running.Wait()
		finish()
		w.pool.CloseIdleConnections()
		w.in.Down(why)
	}()
}

// admit waits for room for a message, and notes that a request has begun. Who is admitted
// gives the room back.
func (w *wire) admit(ctx context.Context, m *jsonrpc.Message) error {
	if len(m.Raw) > w.server.maxFrame() {
		return w.errorf("a message of %d bytes is longer than the %d that maxFrameBytes allows: %w", len(m.Raw), w.server.maxFrame(), link.ErrNotSent)
	}
	if err := w.room.Acquire(ctx, 1); err != nil {
		return w.errorf("too many messages are under way: %w (%w)", link.ErrNotSent, context.Cause(ctx))
	}
	if err := w.open.Begin(m); err != nil {
		w.room.Release(1)
		return err
	}
	return nil
}

// lose ends a request. If it has no answer, it is lost for the given reason.
func (w *wire) lose(id jsonrpc.ID, f link.Failure) {
	if w.open.End(id) {
		w.in.Lost(id, f)
	}
}

// An answer is an HTTP response and what ends it early.
type answer struct {
	*http.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// close gives up what is left of the answer.
func (a *answer) close() {
	a.cancel(nil)
	_ = a.Body.Close()
}

// do makes an HTTP request with the fields of the configuration and those that prepare
// sets. The head of the answer has to come within head, if that is not 0. The caller closes
// the answer.
func (w *wire) do(ctx context.Context, method string, u *url.URL, body []byte, head time.Duration, prepare func(http.Header)) (*answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	req := (&http.Request{Method: method, URL: u, Host: u.Host, Header: w.given.Clone()}).WithContext(ctx)
	req.Header.Set("Accept", eventStream)
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Header.Set("Accept", "application/json, "+eventStream)
		req.Header.Set("Content-Type", "application/json")
	}
	prepare(req.Header)
	if head > 0 {
		timer := time.AfterFunc(head, func() { cancel(errHead) })
		defer timer.Stop()
	}
	resp, err := w.client.Do(req)
	if err != nil {
		err = plain(ctx, err)
		cancel(nil)
		return nil, w.errorf("%w", err)
	}
	return &answer{resp, ctx, cancel}, nil
}

// A stream is an answer that is a stream of events.
type stream struct {
	*wire
	*answer
	list  *events
	timer *time.Timer // gives up a stream that has gone silent; nil never
}

// follow reads an answer as a stream of events, and keeps at behind the last of them.
func (w *wire) follow(a *answer, at *cursor) *stream {
	s := &stream{wire: w, answer: a}
	body := io.Reader(a.Body)
	if after := w.server.Idle; after > 0 {
		s.timer = time.AfterFunc(after, func() { a.cancel(errIdle) })
		body = awake{a.Body, func() { s.timer.Reset(after) }}
	}
	s.list = newEvents(body, w.in.Limit(), at)
	return s
}

// next returns the next event. Those that are too long fail who waits for them.
func (s *stream) next() (event, error) {
	for {
		ev, err := s.list.next()
		long, skipped := errors.AsType[*link.TooLong](err)
		switch {
		case skipped:
			s.in.TooLong(long)
			continue
		case err != nil && s.timer != nil:
			s.timer.Stop()
		}
		if err != nil {
			err = plain(s.answer.ctx, err)
		}
		return ev, err
	}
}

// deliver hands on the messages of the stream until it ends, closes it, and returns why it
// has ended. After each message it calls then.
func (s *stream) deliver(of jsonrpc.ID, then func()) error {
	defer s.list.end()
	defer s.close()
	for {
		ev, err := s.next()
		if err != nil {
			return err
		}
		if ev.isMessage() {
			s.in.Frame(ev.data, of)
			then()
		}
	}
}

// awake is a reader that tells when something comes.
type awake struct {
	io.Reader
	came func()
}

// Read reads, and tells.
func (a awake) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	a.came()
	return n, err
}

// mediaType returns the type of the body, without parameters.
func (a *answer) mediaType() string {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	return kind
}

// isStream reports whether the answer is a stream of events.
func (a *answer) isStream() bool { return a.StatusCode/100 == 2 && a.mediaType() == eventStream }
