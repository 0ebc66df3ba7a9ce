package stdio_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/front"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/stdio"
	"github.com/sluicegate/sluice/store/memory"
)

// A rig is a broker that runs, with a provider in slot "p".
type rig struct {
	t        *testing.T
	provider *mcptest.Provider
	front    *front.Front
	url      string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, provider: mcptest.New(mcptest.Options{})}
	store := memory.New(memory.Options{})
	ctl, err := sluice.Open(&sluice.Policy{}, store, sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	broker, err := mcp.New(ctl, mcp.Options{Slots: []mcp.Slot{{
		Name: "p", Protocol: "legacy", RequestTimeout: time.Minute,
		Dialer: &loopback.Dialer{Name: "mcptest", Serve: func(c *loopback.Conn) error { return r.provider.Serve(c) }},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	r.front, err = front.New(front.Options{Broker: broker, Identify: func(q *http.Request) (*policy.Caller, error) {
		switch q.Header.Get("Authorization") {
		case "":
			return nil, nil
		case "Bearer good":
			return policy.NewCaller("user:good"), nil
		}
		return nil, errors.New("the token is not valid")
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r.front)
	r.url = "ws" + strings.TrimPrefix(server.URL, "http")
	t.Cleanup(func() {
		r.provider.Close()
		at, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.front.Close(at)
		server.Close()
		broker.Close(at)
		ctl.Close()
		store.Close()
	})
	return r
}

// A client has a bridge to the slot.
type client struct {
	t   *testing.T
	in  *io.PipeWriter
	out *bufio.Scanner
	end chan error
}

func (r *rig) client(change func(*stdio.Options)) *client {
	r.t.Helper()
	in, tell := io.Pipe()
	hear, out := io.Pipe()
	o := stdio.Options{URL: r.url, Slot: "p", In: in, Out: out}
	if change != nil {
		change(&o)
	}
	c := &client{r.t, tell, bufio.NewScanner(hear), make(chan error, 1)}
	c.out.Buffer(nil, 1<<20)
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	go func() {
		err := stdio.Run(ctx, o)
		out.Close()
		c.end <- err
	}()
	r.t.Cleanup(func() { cancel(); tell.Close(); hear.Close() })
	return c
}

func (c *client) say(lines ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, strings.Join(lines, "\n")+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next line, which has to be a frame: stdout carries nothing else.
func (c *client) next() *mcptest.Frame {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatal("no line")
	}
	f, err := mcptest.ReadFrame(c.out.Bytes())
	if err != nil {
		c.t.Fatalf("2.5: %q: %v", c.out.Text(), err)
	}
	return f
}

// ends waits for the bridge's end, after which there is no line.
func (c *client) ends() error {
	c.t.Helper()
	for c.out.Scan() {
		c.t.Error("a line too many:", c.out.Text())
	}
	return <-c.end
}

const ping = `{"jsonrpc":"2.0","id":"p","method":"ping"}`

func TestRun(t *testing.T) {
	r := newRig(t)
	t.Run("2.5 lines to and fro", func(t *testing.T) {
		c := r.client(nil)
		c.say("", string(mcptest.Request("0", "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "t", "version": "1"}})))
		if f := c.next(); f.Result == nil {
			t.Fatal(string(f.Raw))
		}
		c.say(string(mcptest.CallTool("9007199254740993", "progress", `{"n":3}`, "_meta", `{"progressToken":1}`)))
		for range 3 {
			if f := c.next(); f.Method != "notifications/progress" {
				t.Fatal("M-037", string(f.Raw))
			}
		}
		if f := c.next(); string(f.ID) != "9007199254740993" {
			t.Error("M-022", string(f.Raw))
		}
		c.say("no JSON", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, ping)
		for _, failed := range []bool{true, true, false} {
			if f := c.next(); (f.Error != nil) != failed {
				t.Error("M-026", string(f.Raw))
			}
		}
		c.in.Close()
		if err := c.ends(); err != nil {
			t.Error(err)
		}
	})
	t.Run("an answer in several lines is one", func(t *testing.T) {
		c := r.client(nil)
		c.say(string(mcptest.CallTool("1", "raw", `{"frames":["{\"jsonrpc\":\"2.0\",\r\n\"id\":$ID,\n\"result\":{}}"]}`)))
		if f := c.next(); string(f.ID) != "1" {
			t.Error(string(f.Raw))
		}
	})
	t.Run("the end of stdin waits for answers", func(t *testing.T) {
		c := r.client(nil)
		c.say(string(mcptest.CallTool("1", "hold", `{"key":"a"}`)), string(mcptest.CallTool("2", "silent", `{}`)),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		c.in.Close()
		held, err := r.provider.Held(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		_ = held.Text("late")
		if f := c.next(); string(f.ID) != "1" || f.Result == nil {
			t.Error(string(f.Raw))
		}
		if err := c.ends(); err != nil {
			t.Error(err)
		}
	})
	t.Run("but not for ever, and none is left without an answer", func(t *testing.T) {
		c := r.client(func(o *stdio.Options) { o.Grace = 20 * time.Millisecond })
		c.say(string(mcptest.CallTool("1", "silent", `{}`)))
		c.in.Close()
		if f := c.next(); string(f.ID) != "1" || f.Error == nil {
			t.Error(string(f.Raw))
		}
		if err := c.ends(); err != nil {
			t.Error(err)
		}
	})
	t.Run("M-074 a line that is too long", func(t *testing.T) {
		c := r.client(func(o *stdio.Options) { o.MaxFrame = 1000 })
		c.say(string(mcptest.CallTool(`"long"`, "echo", `{"a":"`+strings.Repeat("x", 100_000)+`"}`)), ping)
		if f := c.next(); string(f.ID) != `"long"` || f.Error == nil || !strings.Contains(f.Error.Message, "1000 bytes") {
			t.Error(string(f.Raw))
		}
		if f := c.next(); string(f.ID) != `"p"` {
			t.Error(string(f.Raw))
		}
	})
	t.Run("M-074 an answer of the client's that is too long", func(t *testing.T) {
		r := newRig(t) // calls of other clients would make it unclear whom the provider asks
		c := r.client(func(o *stdio.Options) { o.MaxFrame = 1000 })
		c.say(string(mcptest.Request("0", "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"sampling": map[string]any{}}, "clientInfo": map[string]string{"name": "t", "version": "1"}})))
		c.next()
		c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, string(mcptest.CallTool("1", "ask", `{"method":"sampling/createMessage","params":{}}`)))
		asked := c.next()
		c.say(`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":{"a":"` + strings.Repeat("x", 2000) + `"}}`)
		if f := c.next(); string(f.ID) != "1" || !strings.Contains(string(f.Raw), "1000 bytes") {
			t.Error("whoever asked waits in vain:", string(f.Raw))
		}
	})
	t.Run("M-096 an answer that is too long", func(t *testing.T) {
		c := r.client(func(o *stdio.Options) { o.MaxAnswer = 1000 })
		c.say(string(mcptest.CallTool("1", "big", `{"bytes":2000}`)))
		if f := c.next(); string(f.ID) != "1" || f.Error == nil {
			t.Error(string(f.Raw))
		}
		if err := c.ends(); err == nil || !strings.HasPrefix(err.Error(), "stdio: the connection to the broker is lost: ") {
			t.Error(err)
		}
	})
	t.Run("a token", func(t *testing.T) {
		c := r.client(func(o *stdio.Options) { o.Token = "good" })
		c.say(ping)
		if f := c.next(); f.Result == nil {
			t.Error(string(f.Raw))
		}
	})
}

func TestNoConnection(t *testing.T) {
	r := newRig(t)
	for want, change := range map[string]func(*stdio.Options){
		"it answers 401: the token is not valid":                    func(o *stdio.Options) { o.Token = "bad" },
		"it answers 404: there is no such slot":                     func(o *stdio.Options) { o.Slot = "nosuch" },
		"connection refused":                                        func(o *stdio.Options) { o.URL = "ws://127.0.0.1:1" },
		`the broker's address has to be like "ws://127.0.0.1:8082"`: func(o *stdio.Options) { o.URL = "8082" },
		"stdio: a bridge needs a slot, a reader and a writer":       func(o *stdio.Options) { o.Slot = "" },
	} {
		c := r.client(change)
		if err := c.ends(); err == nil || !strings.HasPrefix(err.Error(), "stdio: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		} else if strings.Contains(err.Error(), "bad") {
			t.Error("the token is in it:", err)
		}
	}
}

// TestBrokerStops stops the broker while the client waits.
func TestBrokerStops(t *testing.T) {
	r := newRig(t)
	c := r.client(nil)
	c.say(string(mcptest.CallTool("1", "silent", `{}`)), ping)
	if f := c.next(); string(f.ID) != `"p"` {
		t.Fatal(string(f.Raw))
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	go r.front.Close(now)
	if f := c.next(); string(f.ID) != "1" || f.Error == nil {
		t.Error(string(f.Raw))
	}
	if err := c.ends(); err == nil || err.Error() != "stdio: the broker has closed the connection: the broker is stopping (code 1001)" {
		t.Error(err)
	}
}

// TestWrongServer has something at the other end that is no broker.
func TestWrongServer(t *testing.T) {
	r := newRig(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		c, err := websocket.Accept(w, q, nil)
		if err == nil {
			_ = c.Write(q.Context(), websocket.MessageBinary, []byte("x"))
			_, _, _ = c.Read(q.Context())
		}
	}))
	defer server.Close()
	c := r.client(func(o *stdio.Options) { o.URL = server.URL })
	if err := c.ends(); err == nil || err.Error() != "stdio: the broker has sent a frame that is no text" {
		t.Error(err)
	}
}

// TestGone ends the context, and lets the client go away.
func TestGone(t *testing.T) {
	r := newRig(t)
	t.Run("the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := stdio.Run(ctx, stdio.Options{URL: r.url, Slot: "p", In: strings.NewReader(""), Out: io.Discard}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("stdout", func(t *testing.T) {
		hear, out := io.Pipe()
		hear.Close()
		in, tell := io.Pipe()
		defer tell.Close()
		go io.WriteString(tell, ping+"\n")
		if err := stdio.Run(t.Context(), stdio.Options{URL: r.url, Slot: "p", In: in, Out: out}); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
	t.Run("stdin", func(t *testing.T) {
		in, tell := io.Pipe()
		tell.CloseWithError(io.ErrNoProgress)
		if err := stdio.Run(t.Context(), stdio.Options{URL: r.url, Slot: "p", In: in, Out: io.Discard}); !errors.Is(err, io.ErrNoProgress) {
			t.Error(err)
		}
	})
}
