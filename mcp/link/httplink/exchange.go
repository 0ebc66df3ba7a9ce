package httplink

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/mcp/link"
)

// drainTime is how long a stream is read on after the answer. A server closes it then, and
// the connection can be used again.
const drainTime = time.Second

var errCancelled = errors.New("the request was cancelled")

// An exchange is one request and what comes of it.
type exchange struct {
	*streamable
	m      link.Outgoing
	ctx    context.Context // until nobody wants the answer any more
	cancel context.CancelCauseFunc
	trace  trace

	ending   sync.Mutex
	deadline *time.Timer // ends the exchange though the server has not; nil never
}

// begin starts a request.
func (c *streamable) begin(m link.Outgoing) error {
	x := &exchange{streamable: c, m: m}
	x.ctx, x.cancel = context.WithCancelCause(c.ctx)
	c.mu.Lock()
	c.exchanges[m.ID] = x
	c.mu.Unlock()
	if !c.run(x.live) {
		c.open.End(m.ID)
		x.over(link.Failure{})
		return c.errorf("the link is closed: %w", link.ErrNotSent)
	}
	return nil
}

// live is the whole of an exchange.
func (x *exchange) live() { x.over(x.post()) }

// over forgets the exchange. If the request has no answer, f says why.
func (x *exchange) over(f link.Failure) {
	x.cancel(nil)
	x.mu.Lock()
	if x.exchanges[x.m.ID] == x {
		delete(x.exchanges, x.m.ID)
	}
	x.mu.Unlock()
	x.linger(0)
	x.room.Release(1)
	x.lose(x.m.ID, f)
}

// linger ends the exchange after a time, if it has not ended by then, and with 0 takes
// that back.
func (x *exchange) linger(after time.Duration) {
	x.ending.Lock()
	defer x.ending.Unlock()
	switch {
	case after == 0:
		if x.deadline != nil {
			x.deadline.Stop()
		}
	case x.deadline == nil:
		x.deadline = time.AfterFunc(after, func() { x.cancel(errCancelled) })
	}
}

// drain ends the exchange a moment after its answer has come.
func (x *exchange) drain() {
	if !x.open.Waits(x.m.ID) {
		x.linger(drainTime)
	}
}

// post sends the request and hands on what the server says. What it returns matters if
// the answer was not among it.
func (x *exchange) post() link.Failure {
	h, s := x.sent(x.m.ID, x.m.Version)
	describe(h, x.m)
	if x.m.Method == "initialize" {
		h, s.session = http.Header{}, ""
	}
	a, err := x.do(x.trace.on(x.ctx), http.MethodPost, x.url, x.m.Raw, 0, merge(h))
	if err != nil {
		return link.Failure{Err: err, NotRun: x.trace.stayed(x.ctx)}
	}
	defer a.close()
	if a.StatusCode/100 != 2 {
		said, f := x.refusal(a, s)
		if said != nil {
			x.in.Frame(said.Raw, x.m.ID)
		}
		return f
	}
	if x.m.Method == "initialize" {
		if err := x.remember(a.Header); err != nil {
			return link.Failure{Err: err}
		}
	}
	return x.read(a, s)
}

// remember takes the session that the server has begun.
func (x *exchange) remember(h http.Header) error {
	session, err := sessionOf(h)
	if err != nil {
		return x.errorf("%w", err)
	}
	x.mu.Lock()
	x.session = session
	x.mu.Unlock()
	return nil
}

// read reads an answer that is one.
func (x *exchange) read(a *answer, s sent) link.Failure {
	if enc := a.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return link.Failure{Err: x.errorf("the provider has compressed its answer unasked"), Stopped: true}
	}
	switch kind := a.mediaType(); kind {
	case eventStream:
		return x.stream(a, s)
	case plainJSON:
		return x.whole(a)
	}
	if a.StatusCode == http.StatusAccepted || a.StatusCode == http.StatusNoContent {
		return link.Failure{Err: x.errorf("the provider took the request for a notification (%d)", a.StatusCode), Status: a.StatusCode}
	}
	return link.Failure{Err: x.errorf("the provider answered with something that is neither JSON nor a stream of events"), Status: a.StatusCode}
}

// whole reads an answer that is one JSON text.
func (x *exchange) whole(a *answer) link.Failure {
	limit := x.in.Limit()
	body, err := io.ReadAll(io.LimitReader(a.Body, int64(limit)+1))
	switch {
	case err != nil:
		return link.Failure{Err: x.errorf("the answer broke off: %w", plain(a.ctx, err))}
	case len(body) > limit:
		return link.Failure{Err: &link.TooLong{Limit: limit}, Stopped: true}
	}
	x.in.Frame(body, x.m.ID)
	return link.Failure{Err: x.errorf("what the provider answered is no answer to the request"), Stopped: true}
}

// A trace knows how far a request has got.
type trace struct {
	connected atomic.Bool // it has a connection, and may be on its way
	left      atomic.Bool // its head has been written
}

// on returns a context that makes net/http report to the trace.
func (t *trace) on(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { t.connected.Store(true) },
		WroteHeaders: func() { t.left.Store(true) },
	})
}

// stayed reports whether it is proved that the server has nothing of a request that has
// failed. net/http may go on writing for a moment after its context has ended, so then only
// a request that had no connection yet is known to have stayed.
func (t *trace) stayed(ctx context.Context) bool {
	if ctx.Err() != nil {
		return !t.connected.Load()
	}
	return !t.left.Load()
}
