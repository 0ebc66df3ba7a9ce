// Package socket watches a WebSocket connection without taking part in it: it has each
// message of the client's judged by its frame headers, and can end the conversation
// politely. Payloads pass by undecoded.
package socket

import (
	"io"
	"net"
	"sync"
	"time"
)

// Close codes (RFC 6455, 7.4.1, and the IANA registry of WebSocket close codes).
const (
	GoingAway = 1001 // the server stops, or the time is up
	Policy    = 1008 // the peer broke a rule
	TryLater  = 1013 // the server has too much to do
)

// goodbyeWait bounds the writing of a last frame to a peer that may not read, and the
// wait for its answer.
const goodbyeWait = time.Second

// A Verdict is what becomes of a frame.
type Verdict uint8

// The verdicts.
const (
	Pass Verdict = iota
	Drop         // the whole message vanishes; the conversation ends if that is impossible
	Part         // the conversation ends with [Policy]
)

// Options say how a [Conn] watches.
type Options struct {
	// Early are bytes that the HTTP server has read beyond the request.
	Early []byte
	// Responded says that the HTTP response has been written; otherwise it is the first
	// thing that is written to the connection.
	Responded bool
	// Judge is asked about every frame of a message as it is read. It may wait, which
	// holds the client back. Required.
	Judge func(Frame) Verdict
	// End is called once, when the connection has been closed. Required.
	End func()
}

// A Conn is a hijacked connection that speaks WebSocket. Like every [net.Conn] it may
// be read by one goroutine and written by another; Expire and Close may be called by
// any.
type Conn struct {
	net.Conn
	judge func(Frame) Verdict
	end   func()

	// The reading side. One goroutine reads.
	ready    []byte // bytes that are judged and not yet handed out
	early    []byte
	in       scanner
	skipping bool // in the payload of a frame that is dropped
	dropping bool // in a message that is dropped
	over     bool // nothing more is read; ready ends with a close frame for the server

	// The writing side, which the reading side and timers end.
	mu      sync.Mutex
	head    bool // the HTTP response is still being written
	newline int  // how much of its last "\r\n\r\n" has been
	out     scanner
	ending  []byte // a close frame for the client, due at the next boundary
	ended   bool   // it has been written: nothing follows

	once sync.Once
}

// New watches c.
func New(c net.Conn, o Options) *Conn {
	return &Conn{Conn: c, judge: o.Judge, end: o.End, early: o.Early, head: !o.Responded}
}

// Read hands out the client's bytes without the frames that are dropped. A header is
// held back until it is complete, because it is judged first.
func (c *Conn) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if len(c.ready) > 0 {
			n := copy(p, c.ready)
			c.ready = c.ready[n:]
			return n, nil
		}
		if c.over {
			return 0, io.EOF
		}
		var n int
		var err error
		if c.in.have > 0 {
			err = c.readHeader()
		} else {
			n, err = c.fill(p)
			n = c.sift(p[:n])
		}
		if n > 0 || err != nil && len(c.ready) == 0 {
			return n, err
		}
	}
	return 0, nil
}

func (c *Conn) fill(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// readHeader reads the rest of a header that came in pieces.
func (c *Conn) readHeader() error {
	var b [maxFrameHeader]byte
	before := c.in.have
	n, err := c.fill(b[:c.in.length()-before])
	n, f, complete := c.in.header(b[:n])
	if complete && c.passes(f) {
		c.ready = append(c.ready, c.in.head[:before+n]...)
	}
	return err
}

// sift removes from b, in place, what is dropped, and returns how much is left. What
// it cannot judge yet stays in the scanner; what follows the end of the conversation
// is lost.
func (c *Conn) sift(b []byte) (kept int) {
	for i := 0; i < len(b) && !c.over; {
		keep := !c.skipping
		n := c.in.payload(b[i:])
		if n == 0 {
			var f Frame
			var complete bool
			n, f, complete = c.in.header(b[i:])
			keep = complete && c.passes(f)
		}
		if keep {
			kept += copy(b[kept:], b[i:i+n])
		}
		i += n
	}
	return kept
}

// passes has a frame judged. Control frames always pass, also between the frames of a
// message that is dropped. A compressed message cannot be dropped, because the next
// one may refer back to it, and neither can the rest of one that has begun: the
// conversation ends instead.
func (c *Conn) passes(f Frame) bool {
	c.skipping = false
	if f.control() {
		return true
	}
	if f.First() {
		c.dropping = false
	}
	v := Drop
	if !c.dropping {
		v = c.judge(f)
		if v == Drop && (f.compressed || !f.First()) {
			v = Part
		}
	}
	switch v {
	case Drop:
		c.dropping, c.skipping = true, true
	case Part:
		c.over = true
		c.ready = append(c.ready, closeFrame(Policy, "", true)...)
		c.goodbye(Policy, "too many messages")
	}
	return v == Pass
}

// Write passes the server's bytes on, until the conversation has ended.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Write(p[:c.trackLocked(p)])
	if err == nil && c.ending != nil && !c.head && c.out.boundary() {
		err = c.endLocked()
	}
	if err == nil && n < len(p) {
		err = net.ErrClosed
	}
	return n, err
}

// trackLocked follows p through the response's head and the frames. It returns how
// much of p may be written: all, or up to the boundary where the conversation ends.
func (c *Conn) trackLocked(p []byte) int {
	i := 0
	for c.head && i < len(p) {
		if p[i] == "\r\n\r\n"[c.newline] {
			c.newline++
		} else {
			c.newline = 0
			if p[i] == '\r' {
				c.newline = 1
			}
		}
		c.head = c.newline < len("\r\n\r\n")
		i++
	}
	for i < len(p) {
		if c.ending != nil && c.out.boundary() {
			return i
		}
		n := c.out.payload(p[i:])
		if n == 0 {
			n, _, _ = c.out.header(p[i:])
		}
		i += n
	}
	return i
}

func (c *Conn) endLocked() error {
	c.ended = true
	_, err := c.Conn.Write(c.ending)
	return err
}

// goodbye ends the conversation with a close frame as soon as no frame of the server's
// is half written. It does not wait for one.
func (c *Conn) goodbye(code uint16, reason string) {
	// First, so that a writer whose client does not read lets go of the lock.
	c.Conn.SetWriteDeadline(time.Now().Add(goodbyeWait))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.ending != nil {
		return
	}
	c.ending = closeFrame(code, reason, false)
	if !c.head && c.out.boundary() {
		_ = c.endLocked() // the connection is given up in any case
	}
}

// Expire ends the conversation with a close frame and gives the client a moment to
// answer. reason is at most 123 bytes of it.
func (c *Conn) Expire(code uint16, reason string) {
	c.goodbye(code, reason)
	c.Conn.SetReadDeadline(time.Now().Add(goodbyeWait))
}

// Close closes the connection and ends the stream, once.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.end)
	return err
}
