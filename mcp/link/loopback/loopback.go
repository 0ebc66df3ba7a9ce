// Package loopback connects to a provider in the same process: a program that embeds the
// broker gives it tools without a socket or a child.
package loopback

import (
	"context"
	"io"
	"sync"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

// A Dialer starts a provider for each connection. It must not change while it is in use.
type Dialer struct {
	// Name is for people.
	Name string
	// Serve is the provider. It answers the frames of one connection until Next fails.
	Serve func(*Conn) error
	// MaxFrame bounds a frame in bytes, in both directions. Zero is [link.MaxFrame].
	MaxFrame int
}

var _ link.Dialer = (*Dialer)(nil)

// String returns the provider's name.
func (d *Dialer) String() string { return d.Name }

// Dial starts the provider. It never fails.
func (d *Dialer) Dial(_ context.Context, in link.Inbox) (link.Link, error) {
	p := &pair{out: link.NewOutbox(d.MaxFrame), toProvider: make(chan []byte), closed: make(chan struct{})}
	p.in = link.NewReceiver(in, d.MaxFrame, func(m *jsonrpc.Message) { p.out.Offer(m.Raw) })
	p.running.Go(func() { _ = p.out.Run(p.write) })
	go func() {
		err := d.Serve(&Conn{pair: p})
		_ = p.Close()
		p.out.Close()
		p.running.Wait()
		if err == io.EOF {
			err = nil
		}
		p.in.Down(err)
	}()
	return p, nil
}

// A pair is the broker's end.
type pair struct {
	in         *link.Receiver
	out        *link.Outbox
	toProvider chan []byte
	closing    sync.Once
	closed     chan struct{}
	running    sync.WaitGroup
}

func (p *pair) write(frame []byte) (left bool, err error) {
	select {
	case p.toProvider <- frame:
		return true, nil
	case <-p.closed:
		return false, io.ErrClosedPipe
	}
}

// Send implements [link.Link].
func (p *pair) Send(ctx context.Context, m link.Outgoing) error {
	return p.out.Send(ctx, m.Raw, m.Message, p.in)
}

// Cancel implements [link.Link].
func (p *pair) Cancel(id jsonrpc.ID, reason string) {
	p.out.Push(link.Cancelled(id, reason).Raw)
}

// Shared implements [link.Link]: all messages come on one stream.
func (p *pair) Shared() bool { return true }

// Alive implements [link.Prober].
func (p *pair) Alive(context.Context) bool {
	select {
	case <-p.closed:
		return false
	default:
		return true
	}
}

// Close implements [link.Link].
func (p *pair) Close() error {
	p.closing.Do(func() { close(p.closed) })
	p.out.Close()
	return nil
}

// A Conn is the provider's end of a connection. Send is safe for concurrent use.
type Conn struct {
	pair    *pair
	sending sync.Mutex
}

// Next waits for a frame of the broker's. io.EOF is the end of the connection.
func (c *Conn) Next() ([]byte, error) {
	select {
	case frame := <-c.pair.toProvider:
		return frame, nil
	case <-c.pair.closed:
		return nil, io.EOF
	}
}

// Send sends frames to the broker, in order. It returns io.ErrClosedPipe once the
// connection has ended.
func (c *Conn) Send(frames ...[]byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	for _, frame := range frames {
		select {
		case <-c.pair.closed:
			return io.ErrClosedPipe
		default:
		}
		c.pair.in.Frame(frame, jsonrpc.ID{})
	}
	return nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.pair.Close() }
