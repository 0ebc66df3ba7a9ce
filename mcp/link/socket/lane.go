package socket

import (
	"context"
	"sync"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

// maxWaiting is how many frames a lane keeps until it is known who hears them. A provider
// has nothing to say before the broker's handshake but its name.
const maxWaiting = 64

// A lane is the link of one slot. It has its connection alone, or shares it with others.
type lane struct {
	conn   *conn
	slot   string
	prefix string // of the envelope of its frames; empty without
	in     *link.Receiver
	late   late

	mu      sync.Mutex
	state   state
	waiting [][]byte // frames that came before the lane was open
}

// A state is what becomes of a lane's frames.
type state uint8

const (
	early  state = iota // they wait
	opened              // they are heard
	ended               // they are refused
)

func newLane(c *conn, maxFrame int) *lane {
	l := &lane{conn: c, late: late{known: make(chan struct{})}}
	l.in = link.NewReceiver(&l.late, maxFrame, func(m *jsonrpc.Message) { c.out.Offer(l.frame(m)) })
	return l
}

// open says who hears what the lane receives, from the first frame on.
func (l *lane) open(in link.Inbox) {
	l.late.is(in)
	for {
		l.mu.Lock()
		waiting := l.waiting
		l.waiting = nil
		if len(waiting) == 0 {
			if l.state == early {
				l.state = opened
			}
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		for _, frame := range waiting {
			l.in.Frame(frame, jsonrpc.ID{})
		}
	}
}

// shut lets nobody hear the lane any more. It returns the frames that nobody has heard.
func (l *lane) shut() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.waiting
	l.state, l.waiting = ended, nil
	return waiting
}

// put hands a frame on, or keeps it until it is known to whom. It reports false if nobody
// will hear it.
func (l *lane) put(frame []byte) bool {
	l.mu.Lock()
	if l.state == early && len(l.waiting) < maxWaiting {
		l.waiting = append(l.waiting, frame)
		l.mu.Unlock()
		return true
	}
	heard := l.state == opened
	l.mu.Unlock()
	if heard {
		l.in.Frame(frame, jsonrpc.ID{})
	}
	return heard
}

// whole implements port for a lane that has its connection alone. What comes too early or
// too late is lost.
func (l *lane) whole(frame []byte) { l.put(frame) }

func (l *lane) part([]byte) (*link.Receiver, int) { return l.hears(), 0 }

// hears returns who hears the lane, nil if nobody does now.
func (l *lane) hears() *link.Receiver {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != opened {
		return nil
	}
	return l.in
}

// frame returns a message as it goes over the connection.
func (l *lane) frame(m *jsonrpc.Message) []byte {
	if l.prefix == "" {
		return m.Raw
	}
	b := make([]byte, 0, len(l.prefix)+len(m.Raw)+1)
	return append(append(append(b, l.prefix...), m.Raw...), '}')
}

// Send puts a message into the connection's queue.
func (l *lane) Send(ctx context.Context, m link.Outgoing) error {
	return l.conn.out.Send(ctx, l.frame(m.Message), m.Message, l.in)
}

// Cancel sends notifications/cancelled, in both eras.
func (l *lane) Cancel(id jsonrpc.ID, reason string) {
	l.conn.out.Push(l.frame(link.Cancelled(id, reason)))
}

// Shared is true: all messages come on one connection.
func (l *lane) Shared() bool { return true }

// Alive asks the other end of the connection whether it is there.
func (l *lane) Alive(ctx context.Context) bool { return l.conn.ws.Ping(ctx) == nil }

// Close ends the connection, if the lane has it alone. Otherwise the slot is closed for
// this connection, and the others go on.
func (l *lane) Close() error {
	l.shut()
	if l.prefix == "" {
		l.conn.close(websocket.StatusGoingAway, "the broker has ended the connection")
	} else {
		go l.in.Down(link.ErrClosed)
	}
	return nil
}

// late is an Inbox that becomes known later. Until then who tells it something waits.
type late struct {
	known chan struct{}
	in    link.Inbox // nil hears nothing
}

// is says which Inbox it is, once.
func (i *late) is(in link.Inbox) {
	i.in = in
	close(i.known)
}

func (i *late) tell(f func(link.Inbox)) {
	if <-i.known; i.in != nil {
		f(i.in)
	}
}

// Message implements [link.Inbox].
func (i *late) Message(m *jsonrpc.Message, of jsonrpc.ID) {
	i.tell(func(in link.Inbox) { in.Message(m, of) })
}

// Lost implements [link.Inbox].
func (i *late) Lost(id jsonrpc.ID, f link.Failure) {
	i.tell(func(in link.Inbox) { in.Lost(id, f) })
}

// Bad implements [link.Inbox].
func (i *late) Bad(err error) { i.tell(func(in link.Inbox) { in.Bad(err) }) }

// Down implements [link.Inbox].
func (i *late) Down(err error) { i.tell(func(in link.Inbox) { in.Down(err) }) }
