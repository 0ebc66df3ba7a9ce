package httplink

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// initialized is the notification after which a server may send what belongs to no request.
const initialized = "notifications/initialized"

// goodbyeTime bounds telling the server that the session has ended.
const goodbyeTime = 3 * time.Second

// A streamable is a link over Streamable HTTP. Each message is a POST. The answer to a
// request comes as its body: a message, or a stream of events that ends with it.
type streamable struct {
	*wire

	// Under wire.mu.
	session   string
	version   string
	exchanges map[jsonrpc.ID]*exchange
	deafen    context.CancelFunc // ends the stream for what belongs to no request
}

func (s *Server) dialStreamable(u *url.URL, in link.Inbox) *streamable {
	c := &streamable{wire: newWire(s, u, in), exchanges: map[jsonrpc.ID]*exchange{}, deafen: func() {}}
	c.in = link.NewReceiver(c.open, s.MaxFrame, c.reply)
	return c
}

// Send posts a message. It returns before a request is answered. It returns after the
// server has taken notifications/initialized, so that no request overtakes it; then the
// stream for what belongs to no request is opened.
func (c *streamable) Send(ctx context.Context, m link.Outgoing) error {
	if err := c.admit(ctx, m.Message); err != nil {
		return err
	}
	c.mu.Lock()
	if m.Version != "" {
		c.version = m.Version
	}
	c.mu.Unlock()
	switch {
	case m.Kind == jsonrpc.Request:
		return c.begin(m)
	case m.Method == initialized:
		return c.greet(ctx, m)
	}
	return c.later(m)
}

// later posts what is no request, and does not wait.
func (c *streamable) later(m link.Outgoing) error {
	ok := c.run(func() {
		defer c.room.Release(1)
		if f := c.tell(c.ctx, m); f != nil {
			c.in.Bad(*f)
		}
	})
	if !ok {
		c.room.Release(1)
		return c.errorf("the link is closed: %w", link.ErrNotSent)
	}
	return nil
}

// greet posts notifications/initialized.
func (c *streamable) greet(ctx context.Context, m link.Outgoing) error {
	defer c.room.Release(1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(c.ctx, func() { cancel(link.ErrClosed) })()
	defer cancel(nil)
	if f := c.tell(ctx, m); f != nil {
		return *f
	}
	if protocol.EraOf(m.Version) == protocol.Modern {
		return nil
	}
	c.mu.Lock()
	c.deafen()
	listening, deafen := context.WithCancel(c.ctx)
	c.deafen = deafen
	c.mu.Unlock()
	c.run(func() { c.listen(listening) })
	return nil
}

// reply answers a request of the provider's that could not be read.
func (c *streamable) reply(m *jsonrpc.Message) {
	if c.room.TryAcquire(1) { // a provider that floods us with such waits in vain
		_, s := c.sent(jsonrpc.ID{}, "")
		_ = c.later(link.Outgoing{Message: m, Version: s.version})
	}
}

// sent returns what a message is sent with: the session, and the version, if the message
// itself names none.
func (c *streamable) sent(id jsonrpc.ID, version string) (http.Header, sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := sent{id: id, version: version, session: c.session}
	if version == "" {
		s.version = c.version
	}
	h := http.Header{}
	if s.modern() {
		s.session = ""
	}
	if s.session != "" {
		h.Set(protocol.HeaderSession, s.session)
	}
	if s.version != "" {
		h.Set(protocol.HeaderVersion, s.version)
	}
	return h, s
}

// tell posts what is no request, and waits until the server has taken it.
func (c *streamable) tell(ctx context.Context, m link.Outgoing) *link.Failure {
	h, s := c.sent(jsonrpc.ID{}, m.Version)
	describe(h, m)
	a, err := c.do(ctx, http.MethodPost, c.url, m.Raw, c.server.headTime(), merge(h))
	if err != nil {
		return &link.Failure{Err: err}
	}
	if a.StatusCode/100 == 2 {
		a.close()
		return nil
	}
	_, f := c.refusal(a, s)
	if f.SessionGone {
		c.in.Lost(jsonrpc.ID{}, f)
	}
	return &f
}

// merge returns a function that sets fields.
func merge(fields http.Header) func(http.Header) {
	return func(h http.Header) {
		for name, values := range fields {
			h[name] = values
		}
	}
}

// Cancel posts notifications/cancelled; the answer may still come for a while. In the era
// without sessions, and if the request has not left yet, it ends the request.
func (c *streamable) Cancel(id jsonrpc.ID, reason string) {
	c.mu.Lock()
	x := c.exchanges[id]
	c.mu.Unlock()
	if x == nil {
		return
	}
	_, s := c.sent(id, x.m.Version)
	if s.modern() || !x.trace.connected.Load() {
		x.cancel(errCancelled)
		return
	}
	x.linger(c.server.linger())
	c.run(func() { _ = c.tell(c.ctx, link.Outgoing{Message: link.Cancelled(id, reason), Version: s.version}) })
}

// Shared is false: each request has a stream of its own.
func (c *streamable) Shared() bool { return false }

// Close ends all requests, and then the session.
func (c *streamable) Close() error {
	c.end(link.ErrClosed, func() {
		h, s := c.sent(jsonrpc.ID{}, "")
		if s.session == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
		defer cancel()
		if a, err := c.do(ctx, http.MethodDelete, c.url, nil, 0, merge(h)); err == nil {
			a.close() // 405 is fine: the server ends sessions itself
		}
	})
	return nil
}
