package socket

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

// Register gives a slot to the provider that was admitted. What the link receives goes to
// the Inbox from then on. The link may be used before Register returns. The error's text is
// shown to the provider.
type Register func(slot string, l link.Link) (link.Inbox, error)

// A Refused is an error of Door.Admit that is not a question of who it is.
type Refused struct {
	Status int // of HTTP
	Text   string
}

// Error returns the text.
func (r *Refused) Error() string { return r.Text }

// Door lets providers in that dial in. It serves
//
//	/provider/<slot>   one slot: a frame is a message
//	/providers         any number of slots: a frame is an envelope with provider and payload
//
// and blocks for as long as the connection lives. Its fields must not change while it
// serves.
type Door struct {
	// Admit says who wants to come in, before there is a connection, and returns what gives
	// them slots. Any error but [Refused] is 401; its text is shown to whoever asks. Required.
	Admit func(*http.Request) (Register, error)
	// MaxFrame bounds a message in bytes, in both directions. Zero is [link.MaxFrame].
	MaxFrame int
	// MaxConnections bounds the connections, zero is 1024; MaxSlots the slots of one
	// connection, zero is 256.
	MaxConnections, MaxSlots int
	// Pulse is how connections are kept alive.
	Pulse Pulse

	mu      sync.Mutex
	conns   map[*conn]struct{}
	entered int // connections that are there or about to be
	closed  bool
	inside  sync.WaitGroup
}

const (
	defaultConnections = 1024
	defaultSlots       = 256
)

// ServeHTTP lets a provider in.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	slot, one := strings.CutPrefix(r.URL.Path, "/provider/")
	if !one && r.URL.Path != "/providers" || one && (slot == "" || len(slot) > longestSlot || strings.Contains(slot, "/")) {
		refuse(w, &Refused{http.StatusNotFound, "providers dial in at /provider/<slot> or /providers"})
		return
	}
	if name := secretInQuery(r); name != "" {
		refuse(w, &Refused{http.StatusBadRequest, "query parameter " + name + ": a secret in a URL ends up in logs; send it as X-Provider-Token or Authorization: Bearer"})
		return
	}
	register, err := d.Admit(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if !d.enter() {
		refuse(w, &Refused{http.StatusServiceUnavailable, "the broker is being closed, or has as many providers as it may"})
		return
	}
	defer d.inside.Done()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}})
	if err != nil {
		d.leave(nil)
		return // it has been answered
	}
	c := newConn(ws, d.MaxFrame, d.Pulse)
	d.keep(c)
	defer d.leave(c)
	if one {
		d.serveOne(c, slot, register)
	} else {
		d.serveMany(c, register)
	}
}

// serveOne serves a connection of one slot.
func (d *Door) serveOne(c *conn, slot string, register Register) {
	l := newLane(c, d.MaxFrame)
	c.port = l
	in, err := register(slot, l)
	if err != nil {
		l.late.is(nil)
		_ = c.ws.Close(websocket.StatusPolicyViolation, short(err.Error()))
		return
	}
	l.open(in)
	l.in.Down(c.live())
}

// serveMany serves a connection of many slots.
func (d *Door) serveMany(c *conn, register Register) {
	m := &many{conn: c, register: register, maxFrame: d.MaxFrame, maxSlots: d.MaxSlots, lanes: map[string]*lane{}}
	if m.maxSlots <= 0 {
		m.maxSlots = defaultSlots
	}
	c.port = m
	m.down(c.live())
}

// enter takes the place of a connection, if there is one.
func (d *Door) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	most := d.MaxConnections
	if most <= 0 {
		most = defaultConnections
	}
	if d.closed || d.entered >= most {
		return false
	}
	d.entered++
	d.inside.Add(1)
	return true
}

// keep notes a connection, or ends it if the door has been closed meanwhile.
func (d *Door) keep(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		d.conns = map[*conn]struct{}{}
	}
	d.conns[c] = struct{}{}
	if d.closed {
		c.close(websocket.StatusGoingAway, goodbye)
	}
}

// leave gives the place of a connection back. Nil is one that never came to be.
func (d *Door) leave(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
	d.entered--
}

const goodbye = "the broker is being closed"

// Close lets nobody in any more, ends all connections, and waits for their ends.
func (d *Door) Close() error {
	d.mu.Lock()
	d.closed = true
	for c := range d.conns {
		c.close(websocket.StatusGoingAway, goodbye)
	}
	d.mu.Unlock()
	d.inside.Wait()
	return nil
}

// secretInQuery returns the name of a parameter that seems to hold a secret.
func secretInQuery(r *http.Request) string {
	for name := range r.URL.Query() {
		for _, part := range []string{"token", "secret", "key", "password", "auth", "bearer"} {
			if strings.Contains(strings.ToLower(name), part) {
				return fmt.Sprintf("%.32q", name)
			}
		}
	}
	return ""
}

// refuse answers a request that does not become a connection.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusUnauthorized
	if r, ok := errors.AsType[*Refused](err); ok {
		status = r.Status
	} else {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write((&jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: err.Error()}).Frame())
}

// short cuts a text to what a close frame can hold.
func short(text string) string {
	const most = 120
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
