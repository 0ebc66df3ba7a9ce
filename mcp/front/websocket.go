package front

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// subprotocol is what the TypeScript client asks for. MCP over WebSocket is in no revision.
const subprotocol = "mcp"

// socket is MCP over WebSocket: one message a text frame, and a session that lives as long as
// the connection.
func (v *visit) socket() *fault {
	switch {
	case v.r.Method != http.MethodGet:
		return notAllowed(http.MethodGet)
	case !shakesHands(v.r):
		return invalid(http.StatusUpgradeRequired, jsonrpc.ID{}, "This is a WebSocket; MCP over HTTP is at /<slot>/mcp")
	}
	found, need := v.f.o.Broker.Access(v.slot, v.who)
	if !found {
		return notFound("there is no such slot")
	}
	v.f.sockets.Add(1)
	defer v.f.sockets.Done()
	if need != mcp.Open { // a browser hides the status of a handshake, and shows a close code
		if c := v.upgrade(); c != nil {
			_ = c.Close(websocket.StatusPolicyViolation, "this slot is not open to you") // it may have gone
		}
		return nil
	}
	s, f := v.open("websocket", jsonrpc.ID{})
	if f != nil {
		return f
	}
	defer s.close()
	c := v.upgrade()
	if c == nil {
		return nil
	}
	c.SetReadLimit(int64(v.f.o.Bounds.Frame.MaxBytes))
	w := &webSocket{f: v.f, c: c, s: s, sender: v.sender()}
	w.run()
	return nil
}

// shakesHands reports whether a request asks for a WebSocket (RFC 6455, 4.2.1).
func shakesHands(r *http.Request) bool {
	return r.ProtoMajor == 1 && hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "websocket") &&
		r.Header.Get("Sec-WebSocket-Version") == "13" && r.Header.Get("Sec-WebSocket-Key") != ""
}

func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for t := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// upgrade takes the connection over. It returns nil if that failed, and then has answered.
func (v *visit) upgrade() *websocket.Conn {
	c, err := websocket.Accept(v.w, v.r, &websocket.AcceptOptions{
		Subprotocols:       []string{subprotocol},
		InsecureSkipVerify: true, // the guard has looked at Origin
	})
	if err != nil {
		return nil
	}
	return c
}

// A webSocket is a WebSocket that speaks MCP. One goroutine reads, one writes, one pings.
type webSocket struct {
	sender
	f *Front
	c *websocket.Conn
	s *session
}

// run serves until either side ends the connection.
func (w *webSocket) run() {
	o := w.s.push.open()
	defer o.close()
	ctx, end := context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() { w.write(ctx, o) })
	others.Go(func() { w.ping(ctx) })
	w.read(ctx)
	end()
	_ = w.c.CloseNow() // whatever is to be said has been
	others.Wait()
}

func (w *webSocket) read(ctx context.Context) {
	for w.next(ctx) {
	}
}

// next takes a message, and reports whether another may follow. The connection of a message
// that does not arrive in its time ends.
func (w *webSocket) next(ctx context.Context) bool {
	ctx, late := context.WithCancel(ctx)
	defer late()
	kind, r, err := w.c.Reader(ctx)
	if err != nil {
		return false
	}
	if kind != websocket.MessageText {
		_ = w.c.Close(websocket.StatusUnsupportedData, "text frames alone") // it may have gone
		return false
	}
	defer time.AfterFunc(w.f.o.Bounds.BodyTimeout, late).Stop()
	x := &line{sender: w.sender, out: w.s.push}
	data, err := x.load.read(r, w.f.room)
	switch {
	case errors.Is(err, errCrowded):
		x.Answer(crowded().err.Frame(), 0)
		_, err = io.Copy(io.Discard, r)
		return err == nil
	case err != nil:
		x.load.release()
		return false
	}
	m, e := jsonrpc.Parse(data, w.f.o.Bounds.Frame)
	if e != nil {
		x.Answer(e.Frame(), 0)
		return true
	}
	w.f.receive(w.s, m, x)
	return true
}

// write writes what comes out of the outlet, and ends the connection when the session ends or
// the client reads too slowly.
func (w *webSocket) write(ctx context.Context, o *outlet) {
	for end := ""; ; {
		t := o.take()
		if t.lost {
			_ = w.c.CloseNow() // the client reads too slowly for a close frame, too
			return
		}
		for _, e := range t.events {
			if w.within(ctx, func(ctx context.Context) error { return w.c.Write(ctx, websocket.MessageText, e.frame) }) != nil {
				_ = w.c.CloseNow() // the reader notices
				return
			}
		}
		if end != "" {
			_ = w.c.Close(websocket.StatusGoingAway, end)
			return
		}
		select { // what has come by the end is still written
		case <-o.ready:
		case <-ctx.Done():
			return
		case <-w.s.end:
			end = "the session has ended"
		case <-w.f.stop:
			end = "the broker is stopping"
		}
	}
}

// ping ends a connection on which nobody answers.
func (w *webSocket) ping(ctx context.Context) {
	beat := time.NewTicker(w.f.o.Bounds.KeepAlive)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			if w.within(ctx, w.c.Ping) != nil {
				_ = w.c.CloseNow()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (w *webSocket) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.f.o.Bounds.WriteTimeout)
	defer cancel()
	return do(ctx)
}
