package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/link"
)

// writeTime bounds the writing of one frame. A provider over WebSocket that does not read
// for so long does not work: its frames come through its network code, whatever its tools do.
const writeTime = 30 * time.Second

var (
	errSilent = errors.New("mcp/link/socket: the provider does not answer pings")
	errBinary = errors.New("mcp/link/socket: the provider has sent a binary frame; messages are text")
)

// A conn is one WebSocket connection.
type conn struct {
	ws       *websocket.Conn
	out      *link.Outbox
	limit    int // bytes of a frame that is kept
	pulse    Pulse
	patience time.Duration // for the writing of a frame

	port port // set before live

	ctx    context.Context
	cancel context.CancelFunc

	mu  sync.Mutex
	why error // the first reason to end
}

// A port takes what comes over a connection, one frame at a time.
type port interface {
	// whole takes a frame, and keeps it.
	whole(frame []byte)
	// part finds out from the beginning of a frame whose it is, and where in it the message
	// begins. Nil is nobody's.
	part(frame []byte) (to *link.Receiver, at int)
}

// envelopeRoom is what a frame may have around its message: the name of a slot.
const envelopeRoom = 512

func newConn(ws *websocket.Conn, maxFrame int, p Pulse) *conn {
	if maxFrame <= 0 {
		maxFrame = link.MaxFrame
	}
	ws.SetReadLimit(-1) // a frame that is too long fails by itself, and the connection lives
	c := &conn{ws: ws, out: link.NewOutbox(maxFrame + envelopeRoom), limit: maxFrame + envelopeRoom, pulse: p.orDefault(), patience: writeTime}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// live moves frames until the connection has ended, and returns why it has.
func (c *conn) live() error {
	var moving sync.WaitGroup
	moving.Go(func() {
		if err := c.out.Run(c.write); err != nil && c.reason() == nil { // a polite end goes on
			c.fail(err)
		}
	})
	moving.Go(c.beat)
	told, err := c.read()
	if told {
		c.end(err)
	}
	c.cancel()
	_ = c.ws.CloseNow()
	c.out.Close()
	moving.Wait()
	c.end(err) // who writes or asks may know better why it broke off
	return c.reason()
}

// reason returns why the connection ends, nil while it does not.
func (c *conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// fail ends the connection at once, for the given reason if there is none yet.
func (c *conn) fail(why error) {
	c.end(why)
	_ = c.ws.CloseNow()
}

func (c *conn) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.why = why
	}
}

// close ends the connection politely, and does not wait. The other end has five seconds to
// agree.
func (c *conn) close(code websocket.StatusCode, reason string) {
	c.end(link.ErrClosed)
	go func() { _ = c.ws.Close(code, reason) }()
}

func (c *conn) write(frame []byte) (left bool, err error) {
	if why := c.reason(); why != nil {
		return false, why
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	err = c.ws.Write(ctx, websocket.MessageText, frame)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = fmt.Errorf("mcp/link/socket: the provider does not take what is sent: %w", ctx.Err())
	default:
		err = fmt.Errorf("mcp/link/socket: the connection broke off: %w", err)
	}
	return true, err
}

// beat asks again and again whether the other end is there.
func (c *conn) beat() {
	ticker := time.NewTicker(c.pulse.Every)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.pulse.Within)
		err := c.ws.Ping(ctx)
		late := errors.Is(ctx.Err(), context.DeadlineExceeded)
		cancel()
		if err != nil && late {
			c.fail(errSilent)
		}
		if err != nil {
			return
		}
	}
}

// read hands on frames until the connection ends. It returns why it did, and whether that is
// known better than by whoever was writing.
func (c *conn) read() (bool, error) {
	for {
		kind, r, err := c.ws.Reader(c.ctx)
		if err == nil && kind == websocket.MessageBinary {
			c.end(errBinary)
			_ = c.ws.Close(websocket.StatusUnsupportedData, "messages are text")
			return true, errBinary
		}
		if err == nil {
			err = c.take(r)
		}
		switch code := websocket.CloseStatus(err); {
		case code != -1:
			return true, fmt.Errorf("mcp/link/socket: the provider has closed the connection (%d)", code)
		case err != nil:
			return false, fmt.Errorf("mcp/link/socket: the connection broke off: %w", err)
		}
	}
}

// take reads a frame and hands it on. One that is too long is read to its end and not kept.
func (c *conn) take(r io.Reader) error {
	frame, err := io.ReadAll(io.LimitReader(r, int64(c.limit)+1))
	if err != nil {
		return err
	}
	if len(frame) <= c.limit {
		c.port.whole(frame)
		return nil
	}
	to, at := c.port.part(frame)
	long := &link.TooLong{Limit: c.limit - envelopeRoom}
	_, _ = long.Glance.Write(frame[at:])
	if _, err := io.Copy(&long.Glance, r); err != nil {
		return err
	}
	if to != nil {
		to.TooLong(long)
	}
	return nil
}
