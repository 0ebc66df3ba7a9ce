package httplink

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

// An sse is a link over HTTP with SSE, the transport of revision 2024-11-05: all messages
// of the server come on one stream, whose first event says where ours are posted.
type sse struct {
	*wire
	endpoint *url.URL
}

func (s *Server) dialSSE(ctx context.Context, u *url.URL, in link.Inbox) (link.Link, error) {
	c := &sse{wire: newWire(s, u, in)}
	c.in = link.NewReceiver(c.open, s.MaxFrame, c.reply)
	abandon := context.AfterFunc(ctx, func() { c.cancel(context.Cause(ctx)) })
	str, err := c.connect()
	if !abandon() && err == nil {
		str.close()
		err = c.errorf("%w", context.Cause(ctx))
	}
	if err != nil {
		c.cancel(err)
		c.pool.CloseIdleConnections()
		return nil, err
	}
	c.run(func() {
		err := str.deliver(jsonrpc.ID{}, func() {})
		c.end(c.errorf("the stream of events has ended: %w", err), func() {})
	})
	return c, nil
}

// connect opens the stream and learns where to post.
func (c *sse) connect() (*stream, error) {
	a, err := c.do(c.ctx, http.MethodGet, c.url, nil, c.server.headTime(), merge(http.Header{"Cache-Control": {"no-store"}}))
	if err != nil {
		return nil, err
	}
	if !a.isStream() {
		if a.StatusCode/100 == 2 {
			a.close()
			return nil, c.errorf("the provider answers with no stream of events; it does not speak HTTP with SSE at this url")
		}
		_, f := c.refusal(a, sent{})
		return nil, f
	}
	str := c.follow(a, &cursor{})
	if err := c.learn(str); err != nil {
		a.close()
		return nil, err
	}
	return str, nil
}

// learn waits for the event that says where to post. That has to be the same server: the
// broker's credentials go there.
func (c *sse) learn(str *stream) error {
	for {
		ev, err := str.next()
		if err != nil {
			return c.errorf("the stream of events broke off before it said where to post: %w", err)
		}
		if ev.name != "endpoint" {
			continue
		}
		at, err := c.url.Parse(string(ev.data))
		if err != nil || at.Scheme != c.url.Scheme || at.Host != c.url.Host {
			return c.errorf("the provider wants messages posted to another server")
		}
		c.endpoint = at
		return nil
	}
}

// Send posts a message, and does not wait for the server to take it.
func (c *sse) Send(ctx context.Context, m link.Outgoing) error {
	if err := c.admit(ctx, m.Message); err != nil {
		return err
	}
	if !c.run(func() { c.post(m.Message) }) {
		c.room.Release(1)
		c.open.End(m.ID)
		return c.errorf("the link is closed: %w", link.ErrNotSent)
	}
	return nil
}

// post posts a message whose room is taken. A request that the server does not take is lost.
func (c *sse) post(m *jsonrpc.Message) {
	defer c.room.Release(1)
	var t trace
	a, err := c.do(t.on(c.ctx), http.MethodPost, c.endpoint, m.Raw, c.server.headTime(), merge(nil))
	f := link.Failure{Err: err, NotRun: t.stayed(c.ctx)}
	if err == nil {
		if a.StatusCode/100 == 2 {
			a.close()
			return
		}
		var said *jsonrpc.Message
		said, f = c.refusal(a, sent{id: m.ID, session: c.endpoint.String()})
		if said != nil {
			c.in.Frame(said.Raw, jsonrpc.ID{})
		}
	}
	if m.Kind == jsonrpc.Request {
		c.lose(m.ID, f)
	} else {
		c.in.Bad(f)
	}
}

// reply answers a request of the provider's that could not be read.
func (c *sse) reply(m *jsonrpc.Message) {
	if c.room.TryAcquire(1) && !c.run(func() { c.post(m) }) {
		c.room.Release(1)
	}
}

// Cancel posts notifications/cancelled.
func (c *sse) Cancel(id jsonrpc.ID, reason string) { c.reply(link.Cancelled(id, reason)) }

// Shared is true: the server has one stream.
func (c *sse) Shared() bool { return true }

// Close ends the stream, and the session with it.
func (c *sse) Close() error {
	c.end(link.ErrClosed, func() {})
	return nil
}
