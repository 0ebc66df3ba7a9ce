package socket_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/linktest"
	"github.com/sluicegate/sluice/mcp/link/socket"
)

// provide runs a provider that is dialled, until the test ends.
func provide(t testing.TB, f func(ctx context.Context, c *websocket.Conn)) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Done()
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}})
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		c.SetReadLimit(-1)
		f(ctx, c)
	}))
	t.Cleanup(func() { cancel(); running.Wait(); srv.Close() })
	return "ws" + strings.TrimPrefix(srv.URL, "http")
}

// echo answers each request with its params, and repeats notifications.
func echo(ctx context.Context, c *websocket.Conn) {
	for {
		_, frame, err := c.Read(ctx)
		if err != nil {
			return
		}
		m, bad := jsonrpc.Parse(frame, jsonrpc.Bounds{MaxBytes: 64 << 20})
		if bad != nil {
			return
		}
		if m.Kind == jsonrpc.Request {
			result, _ := m.Param()
			if result == nil {
				result = []byte("{}")
			}
			m = jsonrpc.NewResult(m.ID, result)
		}
		if c.Write(ctx, websocket.MessageText, m.Raw) != nil {
			return
		}
	}
}

func TestDial(t *testing.T) {
	t.Run("M-032 200 calls at once", func(t *testing.T) {
		l, in := linktest.Dial(t, &socket.Server{URL: provide(t, echo)})
		if !l.Shared() {
			t.Error("there is one stream")
		}
		linktest.AtOnce(t, l, in)
	})
	t.Run("M-074 a frame beyond the bound fails its call alone", func(t *testing.T) {
		l, in := linktest.Dial(t, &socket.Server{MaxFrame: 1000, URL: provide(t, func(ctx context.Context, c *websocket.Conn) {
			_, _, _ = c.Read(ctx)
			_ = c.Write(ctx, websocket.MessageText, jsonrpc.NewResult(jsonrpc.StringID("a"), strings.Repeat("x", 5000)).Raw)
			_ = c.Write(ctx, websocket.MessageText, jsonrpc.NewResult(jsonrpc.StringID("b"), strings.Repeat("x", 1000)).Raw)
			_ = c.Write(ctx, websocket.MessageText, jsonrpc.NewResult(jsonrpc.StringID("c"), nil).Raw)
			<-ctx.Done()
		})})
		if err := l.Send(t.Context(), link.Outgoing{Message: linktest.Ask("a", strings.Repeat("x", 2000))}); !errors.Is(err, link.ErrNotSent) {
			t.Errorf("out: %v", err)
		}
		linktest.Send(t, l, "", linktest.Ask("a", nil))
		for _, id := range []string{"a", "b"} {
			if f := linktest.Get(t, in.Losses); f.ID != jsonrpc.StringID(id) || !f.Stopped {
				t.Errorf("lost %s: %+v", f.ID, f.Failure)
			}
		}
		if m := linktest.Get(t, in.Messages); m.ID != jsonrpc.StringID("c") {
			t.Errorf("got %s", m.Raw)
		}
	})
	t.Run("a cancellation carries the id", func(t *testing.T) {
		l, in := linktest.Dial(t, &socket.Server{URL: provide(t, echo)})
		l.Cancel(jsonrpc.StringID("brk-7"), "gone")
		if m := linktest.Get(t, in.Messages); string(m.Params) != `{"requestId":"brk-7","reason":"gone"}` {
			t.Errorf("got %s", m.Raw)
		}
	})
	t.Run("binary frames end the connection with 1003", func(t *testing.T) {
		status := make(chan websocket.StatusCode, 1)
		_, in := linktest.Dial(t, &socket.Server{URL: provide(t, func(ctx context.Context, c *websocket.Conn) {
			_ = c.Write(ctx, websocket.MessageBinary, []byte("{}"))
			_, _, err := c.Read(ctx)
			status <- websocket.CloseStatus(err)
		})})
		if err := linktest.Get(t, in.Ends); !strings.Contains(err.Error(), "binary") {
			t.Errorf("down: %v", err)
		}
		if got := linktest.Get(t, status); got != websocket.StatusUnsupportedData {
			t.Errorf("closed with %d", got)
		}
	})
	t.Run("the provider's end is the link's, and names its code", func(t *testing.T) {
		l, in := linktest.Dial(t, &socket.Server{URL: provide(t, func(_ context.Context, c *websocket.Conn) { _ = c.Close(websocket.StatusNormalClosure, "hunter2") })})
		if err := linktest.Get(t, in.Ends); !strings.Contains(err.Error(), "1000") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("down: %v", err)
		}
		if err := l.Send(t.Context(), link.Outgoing{Message: linktest.Ask("a", nil)}); !errors.Is(err, link.ErrNotSent) {
			t.Errorf("after the end: %v", err)
		}
		if l.(link.Prober).Alive(t.Context()) {
			t.Error("it is alive")
		}
	})
	t.Run("a close is polite, and told once", func(t *testing.T) {
		status := make(chan websocket.StatusCode, 1)
		l, in := linktest.Dial(t, &socket.Server{URL: provide(t, func(ctx context.Context, c *websocket.Conn) {
			_, _, err := c.Read(ctx)
			status <- websocket.CloseStatus(err)
		})})
		_ = l.Close()
		_ = l.Close()
		if err := linktest.Get(t, in.Ends); err != link.ErrClosed || len(in.Ends) > 0 {
			t.Errorf("down: %v, and %d more", err, len(in.Ends))
		}
		if got := linktest.Get(t, status); got != websocket.StatusGoingAway {
			t.Errorf("closed with %d", got)
		}
	})
}

func TestPulse(t *testing.T) {
	deaf := func(ctx context.Context, c *websocket.Conn) { <-ctx.Done() } // who does not read answers no ping
	t.Run("a provider that does not answer is gone", func(t *testing.T) {
		_, in := linktest.Dial(t, &socket.Server{URL: provide(t, deaf), Pulse: socket.Pulse{Every: 10 * time.Millisecond, Within: 20 * time.Millisecond}})
		if err := linktest.Get(t, in.Ends); !strings.Contains(err.Error(), "pings") {
			t.Errorf("down: %v", err)
		}
	})
	t.Run("one that does answer is not", func(t *testing.T) {
		l, in := linktest.Dial(t, &socket.Server{URL: provide(t, echo), Pulse: socket.Pulse{Every: time.Millisecond}})
		for range 100 {
			linktest.Send(t, l, "", linktest.Ask("a", nil))
			linktest.Get(t, in.Messages)
		}
		if !l.(link.Prober).Alive(t.Context()) || len(in.Ends) > 0 {
			t.Error("it is gone")
		}
	})
	t.Run("and it may ask too", func(t *testing.T) {
		answered := make(chan error, 1)
		linktest.Dial(t, &socket.Server{URL: provide(t, func(ctx context.Context, c *websocket.Conn) {
			go func() { answered <- c.Ping(ctx) }()
			echo(ctx, c)
		})})
		if err := linktest.Get(t, answered); err != nil {
			t.Error(err)
		}
	})
	t.Run("4.2.1 liveness is a question of now", func(t *testing.T) {
		l, _ := linktest.Dial(t, &socket.Server{URL: provide(t, deaf)})
		within, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if l.(link.Prober).Alive(within) {
			t.Error("it is alive")
		}
	})
	t.Run("a provider that does not read blocks nobody for ever", func(t *testing.T) {
		l, in := linktest.Dial(t, &socket.Server{URL: provide(t, deaf)})
		within, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		big := linktest.Ask("a", map[string]string{"t": strings.Repeat("x", 1<<20)})
		var err error
		for err == nil {
			err = l.Send(within, link.Outgoing{Message: big})
		}
		if !errors.Is(err, link.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		_ = l.Close()
		if f := linktest.Get(t, in.Losses); !f.NotRun {
			t.Errorf("M-004 what was in the queue did not leave: %+v", f.Failure)
		}
		linktest.Get(t, in.Ends)
	})
}

func TestDialErrors(t *testing.T) {
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/s3cr3t/401":
			w.WriteHeader(401)
		case "/s3cr3t/302":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}
	}))
	defer refuse.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for url, says := range map[string]string{
		refuse.URL + "/s3cr3t/401": "credentials",
		refuse.URL + "/s3cr3t/302": "does not speak WebSocket",
		refuse.URL + "/s3cr3t/200": "does not speak WebSocket",
		gone.URL + "/s3cr3t":       "refused",
		"ftp://host/s3cr3t":        "has to be ws://",
	} {
		in := linktest.NewInbox()
		_, err := (&socket.Server{URL: url, Header: http.Header{"Authorization": {"Bearer s3cr3t"}}}).Dial(t.Context(), in)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
		if len(in.Ends) > 0 {
			t.Error("a link that never was is down")
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&socket.Server{URL: refuse.URL}).Dial(over, linktest.NewInbox()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestNothingIsLeft dials and drops two thousand connections, from either end.
func TestNothingIsLeft(t *testing.T) {
	url := provide(t, func(ctx context.Context, c *websocket.Conn) {
		if _, frame, _ := c.Read(ctx); strings.Contains(string(frame), "drop") {
			return
		}
		echo(ctx, c)
	})
	cycle := func(i int) {
		in := linktest.NewInbox()
		l, err := (&socket.Server{URL: url}).Dial(t.Context(), in)
		if err != nil {
			t.Error(err)
			return
		}
		switch i % 4 {
		case 0:
			linktest.Send(t, l, "", linktest.Ask("a", nil))
		case 1:
			linktest.Send(t, l, "", jsonrpc.NewNotification("drop", nil))
			linktest.Get(t, in.Ends)
			return
		}
		_ = l.Close()
		linktest.Get(t, in.Ends)
	}
	cycle(0)
	before := runtime.NumGoroutine()
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Go(func() {
			for i := range 500 {
				cycle(i + worker)
			}
		})
	}
	workers.Wait()
	linktest.Settles(t, before)
}
