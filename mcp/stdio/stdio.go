// Package stdio connects a client that speaks MCP over stdin and stdout to one slot of a
// broker that runs elsewhere: each line becomes a text frame of a WebSocket, and each frame a
// line.
//
// The bridge adds nothing to what is said and leaves nothing out. It looks at frames only to
// know which requests are still to be answered, so that it neither ends before their answers
// have come nor leaves one without any. Stdout carries MCP alone.
package stdio

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

// Options say what is connected to what.
type Options struct {
	// URL is the broker's address, with the scheme ws, wss, http or https, such as
	// "ws://127.0.0.1:8082". Required.
	URL string
	// Slot is the provider's name, "_all" or "_broker". Required.
	Slot string
	// Token is sent as a bearer token; empty is an anonymous client. It is the program's to
	// keep it out of its arguments, which others on the machine can read.
	Token string
	// In and Out are the client's, one message a line. Required.
	In  io.Reader
	Out io.Writer
	// MaxFrame bounds what the client sends, and MaxAnswer what the broker does, in bytes;
	// zero is 4 MiB, and 64 MiB.
	MaxFrame, MaxAnswer int
	// Grace is how long answers are waited for once In has ended; zero is a minute.
	Grace time.Duration
	// Timeout is how long connecting may take, a frame, or the broker's answer to a ping;
	// zero is 30 seconds.
	Timeout time.Duration
}

// Run carries messages to and fro until In has ended and everything that was asked has been
// answered, or Grace has passed, which is no error; or until ctx ends or the broker is lost,
// which are. It does not connect again: the client's session would be another one. Requests
// without an answer then get an error. Run does not wait for a Read of In.
func Run(ctx context.Context, o Options) error {
	o.MaxFrame, o.MaxAnswer = cmp.Or(o.MaxFrame, link.MaxFrame), cmp.Or(o.MaxAnswer, 64<<20)
	o.Grace, o.Timeout = cmp.Or(o.Grace, time.Minute), cmp.Or(o.Timeout, 30*time.Second)
	if o.Slot == "" || o.In == nil || o.Out == nil {
		return errors.New("stdio: a bridge needs a slot, a reader and a writer")
	}
	c, err := dial(ctx, &o)
	if err != nil {
		return err
	}
	b := &bridge{o: o, c: c, open: map[jsonrpc.ID]int{}, answered: make(chan struct{})}
	return b.run(ctx)
}

// pingEvery is how often the broker is asked whether it is still there.
const pingEvery = 20 * time.Second

func dial(ctx context.Context, o *Options) (*websocket.Conn, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New(`stdio: the broker's address has to be like "ws://127.0.0.1:8082"`)
	}
	u = u.JoinPath(url.PathEscape(o.Slot))
	h := http.Header{}
	if o.Token != "" {
		h.Set("Authorization", "Bearer "+o.Token)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	c, answer, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPHeader: h, Subprotocols: []string{"mcp"}})
	if err != nil {
		return nil, fmt.Errorf("stdio: no connection to the broker at %s://%s: %w", u.Scheme, u.Host, reason(answer, err))
	}
	c.SetReadLimit(int64(o.MaxAnswer))
	return c, nil
}

// reason is what the broker says about a connection that it does not want, or else err.
func reason(answer *http.Response, err error) error {
	if answer == nil || answer.Body == nil {
		return err
	}
	body, _ := io.ReadAll(answer.Body) // what could be read has been
	var said struct{ Error struct{ Message string } }
	if json.Unmarshal(body, &said) != nil || said.Error.Message == "" {
		return err
	}
	return fmt.Errorf("it answers %d: %s", answer.StatusCode, said.Error.Message)
}

// A bridge carries messages between one client and one connection.
type bridge struct {
	o Options
	c *websocket.Conn

	writing sync.Mutex // one line at a time

	mu       sync.Mutex
	open     map[jsonrpc.ID]int // requests without an answer
	eof      bool               // nothing more is asked
	answered chan struct{}      // closed once nothing more is asked and everything is answered
}

func (b *bridge) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan error, 3) // of each carrier; the first counts
	var carriers sync.WaitGroup
	carriers.Go(func() { ends <- b.receive(ctx) })
	carriers.Go(func() { ends <- b.ping(ctx) })
	go func() { ends <- b.send(ctx) }() // may never come back from its Read
	var err error
	select {
	case err = <-ends:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		_ = b.c.Close(websocket.StatusNormalClosure, "") // it may have gone
	}
	cancel()
	_ = b.c.CloseNow()
	carriers.Wait()
	b.failOpen()
	return err
}

// send carries the client's lines to the broker.
func (b *bridge) send(ctx context.Context) error {
	lines := link.NewLines(b.o.In, b.o.MaxFrame)
	for {
		line, err := lines.Next()
		if long, ok := errors.AsType[*link.TooLong](err); ok {
			if err := b.tooLong(ctx, long); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			b.ended()
			if err != io.EOF {
				return fmt.Errorf("stdio: reading from the client: %w", err)
			}
			b.grace(ctx)
			return nil
		}
		b.asked(line)
		if err := b.tell(ctx, line); err != nil {
			return err
		}
	}
}

// tooLong answers what was skipped: to the client if that was a request, and in its place if it
// was the client's answer to one.
func (b *bridge) tooLong(ctx context.Context, long *link.TooLong) error {
	id, text := long.Glance.ID(), fmt.Sprintf("The message is larger than %d bytes", long.Limit)
	if long.Glance.Answer {
		return b.tell(ctx, errorFrame(id, jsonrpc.InternalError, text))
	}
	if !long.Glance.Asks {
		id = jsonrpc.ID{}
	}
	return b.write(errorFrame(id, jsonrpc.InvalidRequest, text))
}

// tell sends the broker a frame.
func (b *bridge) tell(ctx context.Context, frame []byte) error {
	if err := b.within(ctx, func(ctx context.Context) error { return b.c.Write(ctx, websocket.MessageText, frame) }); err != nil {
		return lost(err)
	}
	return nil
}

// grace gives the answers that are still to come their time.
func (b *bridge) grace(ctx context.Context) {
	late := time.NewTimer(b.o.Grace)
	defer late.Stop()
	select {
	case <-late.C:
	case <-b.answered:
	case <-ctx.Done():
	}
}

// receive carries the broker's frames to the client. It returns why it ended.
func (b *bridge) receive(ctx context.Context) error {
	for {
		kind, frame, err := b.c.Read(ctx)
		if err != nil {
			return lost(err)
		}
		if kind != websocket.MessageText {
			return errors.New("stdio: the broker has sent a frame that is no text")
		}
		if err := b.write(frame); err != nil {
			return err
		}
		b.told(frame)
	}
}

// lost says how the connection has ended, in the broker's words if it gave any.
func lost(err error) error {
	if c, ok := errors.AsType[websocket.CloseError](err); ok {
		return fmt.Errorf("stdio: the broker has closed the connection: %s (code %d)", cmp.Or(c.Reason, "without a reason"), c.Code)
	}
	return fmt.Errorf("stdio: the connection to the broker is lost: %w", err)
}

// ping returns when the broker does not answer any more.
func (b *bridge) ping(ctx context.Context) error {
	beat := time.NewTicker(pingEvery)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			if err := b.within(ctx, b.c.Ping); err != nil {
				return lost(err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *bridge) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.o.Timeout)
	defer cancel()
	return do(ctx)
}

// write writes one line. Line breaks in a frame are nothing but space between tokens.
func (b *bridge) write(frame []byte) error {
	line := strings.NewReplacer("\r", " ", "\n", " ").Replace(string(frame)) + "\n"
	b.writing.Lock()
	defer b.writing.Unlock()
	if _, err := io.WriteString(b.o.Out, line); err != nil {
		return fmt.Errorf("stdio: writing to the client: %w", err)
	}
	return nil
}

func errorFrame(id jsonrpc.ID, code int64, message string) []byte {
	return (&jsonrpc.Error{Code: code, Message: message, ID: id}).Frame()
}
