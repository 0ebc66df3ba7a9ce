package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/coder/websocket"
)

// A Wire carries frames both ways. Send may be called by several goroutines, Next by one.
type Wire interface {
	// Send sends frames, in one write if the transport can.
	Send(frames ...[]byte) error
	// Next waits for a frame. It is valid until the next call.
	Next() ([]byte, error)
	// Close ends the connection; a Next that waits returns then.
	Close() error
}

// Pipe is a wire of lines, as over stdin and stdout. Close closes both ends that can be closed.
func Pipe(r io.Reader, w io.Writer) Wire { return &pipe{r: r, in: bufio.NewReader(r), w: w} }

type pipe struct {
	r  io.Reader
	in *bufio.Reader
	mu sync.Mutex
	w  io.Writer
}

func (p *pipe) Send(frames ...[]byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.w.Write(append(bytes.Join(frames, []byte("\n")), '\n'))
	return err
}

func (p *pipe) Next() ([]byte, error) {
	for {
		line, err := p.in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *pipe) Close() error {
	var failed []error
	for _, end := range []any{p.w, p.r} {
		if c, ok := end.(io.Closer); ok {
			failed = append(failed, c.Close())
		}
	}
	return errors.Join(failed...)
}

// maxFrame is far above what a broker lets through, so that it is the broker that refuses.
const maxFrame = 128 << 20

// Dial opens a WebSocket as a client, with the subprotocol "mcp".
func Dial(ctx context.Context, url string, header http.Header) (Wire, error) {
	c, answer, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: header, Subprotocols: []string{"mcp"}})
	if err != nil {
		if answer != nil {
			err = errors.Join(err, errors.New(answer.Status))
		}
		return nil, err
	}
	return newSocket(c), nil
}

func newSocket(c *websocket.Conn) *socket {
	c.SetReadLimit(maxFrame)
	ctx, cancel := context.WithCancel(context.Background())
	return &socket{c: c, ctx: ctx, cancel: cancel}
}

type socket struct {
	c      *websocket.Conn
	ctx    context.Context
	cancel context.CancelFunc
}

func (s *socket) Send(frames ...[]byte) error {
	for _, f := range frames {
		if err := s.c.Write(s.ctx, websocket.MessageText, f); err != nil {
			return err
		}
	}
	return nil
}

func (s *socket) Next() ([]byte, error) {
	_, frame, err := s.c.Read(s.ctx)
	return frame, err
}

// Close does not wait for the peer's part of the handshake: a peer that hangs must not hang a test.
func (s *socket) Close() error {
	defer s.cancel()
	return s.c.CloseNow()
}

// Socket serves providers as WebSocket servers: the side that a broker dials.
func (p *Provider) Socket() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}, InsecureSkipVerify: true})
		if err == nil {
			_ = p.Serve(newSocket(c)) // ends with the peer
		}
	})
}

// DialIn connects a provider to a broker that waits for it, and serves until either side
// closes the line. Cancelling the context does not close it.
func (p *Provider) DialIn(ctx context.Context, url string, header http.Header) (*Line, error) {
	w, err := Dial(ctx, url, header)
	if err != nil {
		return nil, err
	}
	l := p.newLine(w)
	go func() {
		defer l.ended()
		_ = l.serve(w)
	}()
	return l, nil
}

// An envelope is a frame on a socket that several providers share.
type envelope struct {
	Provider string          `json:"provider"`
	Payload  json.RawMessage `json:"payload"`
}

// DialMany connects several providers over one socket, each under the name of its slot. Each
// registers itself by a first frame, which says that its tools have changed. Closing one line
// closes all.
func DialMany(ctx context.Context, url string, header http.Header, providers map[string]*Provider) (map[string]*Line, error) {
	w, err := Dial(ctx, url, header)
	if err != nil {
		return nil, err
	}
	lines := map[string]*Line{}
	for slot, p := range providers {
		lines[slot] = p.newLine(enveloped{w, slot})
		if err := lines[slot].Notify("notifications/tools/list_changed", nil); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	go func() {
		defer w.Close()
		for frame, err := w.Next(); err == nil; frame, err = w.Next() {
			var e envelope
			if json.Unmarshal(frame, &e) == nil && lines[e.Provider] != nil {
				lines[e.Provider].take(e.Payload, nil, enveloped{w, e.Provider})
			}
		}
		for _, l := range lines {
			l.ended()
		}
	}()
	return lines, nil
}

// enveloped sends a slot's frames over a shared socket.
type enveloped struct {
	Wire
	slot string
}

// Send does not look at what it sends: a frame that is no JSON makes an envelope that is none.
func (e enveloped) Send(frames ...[]byte) error {
	name, err := json.Marshal(e.slot)
	if err != nil {
		return err
	}
	var list [][]byte
	for _, f := range frames {
		list = append(list, fmt.Appendf(nil, `{"provider":%s,"payload":%s}`, name, f))
	}
	return e.Wire.Send(list...)
}
