package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

const (
	dialTime  = 10 * time.Second
	writeTime = 30 * time.Second
)

// A conn is one connection to the broker.
type conn struct {
	p    *Provider
	ws   *websocket.Conn
	ctx  context.Context // ends with the connection; it is that of all requests
	stop context.CancelFunc
	// heard is closed when the broker has sent something, which it does once the slot is the
	// provider's.
	heard chan struct{}
	// ready is closed when requests may be handled.
	ready chan struct{}
	done  chan struct{}
	hears sync.Once

	mu      sync.Mutex
	n       int
	pending map[jsonrpc.ID]chan *jsonrpc.Message
	running map[jsonrpc.ID]context.CancelFunc
	err     error
}

// A final error is one that only a person can mend.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

func isFinal(err error) bool {
	_, ok := errors.AsType[final](err)
	_, answered := errors.AsType[*Error](err) // a declaration that is refused
	return ok || answered
}

// dial opens a connection and begins to read.
func (p *Provider) dial() (*conn, error) {
	ctx, cancel := context.WithTimeout(p.ctx, dialTime)
	defer cancel()
	header := http.Header{}
	if p.o.Secret != "" {
		header.Set("X-Provider-Token", p.o.Secret)
	}
	ws, resp, err := websocket.Dial(ctx, p.address, &websocket.DialOptions{HTTPClient: p.pool, HTTPHeader: header, Subprotocols: []string{"mcp"}})
	if err != nil {
		return nil, refusedBy(resp, err)
	}
	ws.SetReadLimit(int64(p.o.MaxFrame))
	c := &conn{p: p, ws: ws, heard: make(chan struct{}), ready: make(chan struct{}), done: make(chan struct{}),
		pending: map[jsonrpc.ID]chan *jsonrpc.Message{}, running: map[jsonrpc.ID]context.CancelFunc{}}
	c.ctx, c.stop = context.WithCancel(p.ctx)
	go c.read()
	go c.beat()
	return c, nil
}

// refusedBy says why the broker did not let the provider in.
func refusedBy(resp *http.Response, err error) error {
	if resp == nil {
		return fmt.Errorf("provider: %w", err)
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return final{fmt.Errorf("provider: the broker does not accept the secret (HTTP %d)", resp.StatusCode)}
	case http.StatusNotFound, http.StatusBadRequest:
		return final{fmt.Errorf("provider: no provider can dial in there (HTTP %d); is the URL the broker's, and does it name providers?", resp.StatusCode)}
	}
	return fmt.Errorf("provider: the broker answered HTTP %d", resp.StatusCode)
}

// open lets requests be handled, and reports whether the broker has given the slot away.
func (c *conn) open() bool {
	close(c.ready)
	select {
	case <-c.heard:
		return true
	case <-c.done:
		return false
	}
}

// read takes what the broker sends until the connection ends.
func (c *conn) read() {
	defer close(c.done)
	for {
		kind, frame, err := c.ws.Read(c.ctx)
		if err != nil {
			c.end(ended(err))
			return
		}
		c.hears.Do(func() { close(c.heard) })
		if kind != websocket.MessageText {
			c.end(errors.New("provider: the broker has sent a binary frame"))
			return
		}
		m, e := jsonrpc.Parse(frame, jsonrpc.Bounds{MaxBytes: c.p.o.MaxFrame})
		if e != nil {
			c.refuse(e.ID, e)
			continue
		}
		c.take(m)
	}
}

// ended is why a connection ended, in words. The broker closes with 1008 what it does not
// give a slot to.
func ended(err error) error {
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		if e.Code == websocket.StatusPolicyViolation {
			return final{fmt.Errorf("provider: the broker has closed the connection: %s", e.Reason)}
		}
		return fmt.Errorf("provider: the broker has closed the connection (%d) %s", e.Code, e.Reason)
	}
	return fmt.Errorf("provider: the connection broke off: %w", err)
}

// beat finds out when the broker has gone without a word.
func (c *conn) beat() {
	ticker := time.NewTicker(c.p.o.Pulse)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.p.o.Pulse)
		err := c.ws.Ping(ctx)
		cancel()
		if err != nil {
			c.end(errors.New("provider: the broker does not answer pings"))
			return
		}
	}
}

// end ends the connection, for the given reason if there is none yet. Whoever waits for an
// answer over it waits no more.
func (c *conn) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, answer := range pending {
		close(answer)
	}
	c.stop()
	_ = c.ws.CloseNow()
}

func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *conn) send(m *jsonrpc.Message) error {
	// Not with the context of a request: one that ends in the middle of a frame would end the
	// connection.
	ctx, cancel := context.WithTimeout(c.ctx, writeTime)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, m.Raw); err != nil {
		c.end(fmt.Errorf("provider: the broker does not take what is sent: %w", err))
		return ErrLost
	}
	return nil
}

// take hands a message on.
func (c *conn) take(m *jsonrpc.Message) {
	switch m.Kind {
	case jsonrpc.Request:
		c.serve(m)
	case jsonrpc.Response:
		if answer := c.claim(m.ID); answer != nil {
			answer <- m
			return
		}
		c.tell(m)
	case jsonrpc.Notification:
		if m.Method == "notifications/cancelled" {
			c.cancelled(m)
		}
		c.tell(m)
	default:
		c.refuse(jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "Invalid request: a batch"})
	}
}

// refuse answers with an error, and does not keep the reader: a broker that writes and does
// not read would stop both sides.
func (c *conn) refuse(id jsonrpc.ID, e *jsonrpc.Error) {
	go func() { _ = c.send(jsonrpc.NewError(id, e)) }() // whether it is heard or not
}

// tell lets the handler know of what needs no answer.
func (c *conn) tell(m *jsonrpc.Message) { c.p.o.Handler.Handle(c.ctx, m, c.send) }

// serve has the handler answer a request.
func (c *conn) serve(m *jsonrpc.Message) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	refusal := ""
	switch {
	case c.running[m.ID] != nil:
		refusal = "the id is that of a request under way"
	case len(c.running) >= c.p.o.MaxRequests:
		refusal = "too many requests are under way"
	default:
		c.running[m.ID] = cancel
	}
	c.mu.Unlock()
	if refusal != "" {
		cancel()
		c.refuse(m.ID, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "Invalid request: " + refusal})
		return
	}
	go func() {
		defer cancel()
		select {
		case <-c.ready:
		case <-ctx.Done():
		}
		var answer *jsonrpc.Message
		if ctx.Err() == nil {
			answer = c.p.o.Handler.Handle(ctx, m, c.send)
		} else { // nobody waits for it any more; the answer frees what the broker holds for it
			answer = jsonrpc.NewError(m.ID, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "The request was cancelled before it began"})
		}
		c.mu.Lock()
		delete(c.running, m.ID)
		c.mu.Unlock()
		if answer != nil {
			_ = c.send(answer) // a broker that has gone does not need it
		}
	}()
}

// cancelled ends the context of a request that the broker does not want any more.
func (c *conn) cancelled(m *jsonrpc.Message) {
	id, _ := m.Param("requestId")
	c.mu.Lock()
	cancel := c.running[jsonrpc.RawID(id)]
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// ask asks the broker. An error of the broker's is an [*Error].
func (c *conn) ask(ctx context.Context, method string, params any) (*jsonrpc.Message, error) {
	answer := make(chan *jsonrpc.Message, 1)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, ErrLost
	}
	c.n++
	id := jsonrpc.StringID("sdk-" + strconv.Itoa(c.n))
	c.pending[id] = answer
	c.mu.Unlock()
	if err := c.send(jsonrpc.NewRequest(id, method, params)); err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		switch {
		case m == nil:
			return nil, ErrLost
		case m.Err != nil:
			return nil, newError(m.Fault())
		}
		return m, nil
	case <-ctx.Done():
		c.claim(id)
		return nil, ctx.Err()
	}
}

// claim takes the place where the answer to a question is waited for.
func (c *conn) claim(id jsonrpc.ID) chan *jsonrpc.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := c.pending[id]
	delete(c.pending, id)
	return answer
}
