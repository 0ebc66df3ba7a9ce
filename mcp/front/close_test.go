package front_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/front"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

// TestClose stops a front with one of everything open.
func TestClose(t *testing.T) {
	r := newRig(t)
	s := r.session("2025-11-25")
	listening := r.ask("/p/mcp", mcptest.Ask{Method: "GET", Header: []string{s}})
	stream, _ := r.sse()
	socket := r.dial()
	answer := make(chan *mcptest.Frame, 1)
	go func() {
		f, _ := answered(t, r.ask("/p/mcp", call("1", "hold", `{"key":"a"}`, s)))
		answer <- f
	}()
	held := r.held("a")
	parted := make(chan error, 1)
	go func() {
		_, _, err := socket.Read(within(t))
		parted <- err
	}()
	closed := make(chan error, 1)
	go func() { closed <- r.front.Close(within(t)) }()
	until(t, "M-017 new requests are refused", func() bool {
		reply := r.ask("/p/mcp", mcptest.Ask{Body: string(initialize("2025-11-25"))})
		return reply.StatusCode == http.StatusServiceUnavailable && reply.Header.Get("Retry-After") == "1"
	})
	select {
	case err := <-closed:
		t.Fatal("M-017 closed before the answer:", err)
	default:
	}
	_ = held.Text("the last")
	if f := <-answer; !strings.Contains(string(f.Result), "the last") {
		t.Error(string(f.Raw))
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for name, reply := range map[string]*mcptest.Reply{"GET": listening, "SSE": stream} {
		if f, err := reply.Next(); err == nil {
			t.Error(name, string(f.Raw))
		}
	}
	if err := <-parted; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Error(err)
	}
	if err := r.front.Close(within(t)); err != nil {
		t.Error("a second time:", err)
	}
}

// TestCloseTellsAll stops a front while a client is still reading what came before the last
// answer.
func TestCloseTellsAll(t *testing.T) {
	for range 20 {
		r := newRig(t)
		socket := r.dial()
		socket.SetReadLimit(-1)
		stream, _ := r.sse()
		for _, m := range [][]byte{mcptest.CallTool("6", "hold", `{"key":"a"}`), mcptest.CallTool("7", "hold", `{"key":"b"}`)} {
			if err := socket.Write(within(t), websocket.MessageText, m); err != nil {
				t.Fatal(err)
			}
		}
		_ = r.held("a").Text(strings.Repeat("x", 3_000_000))
		held := r.held("b")
		_, first, err := socket.Reader(within(t))
		if err == nil {
			_, err = io.ReadFull(first, make([]byte, 10))
		}
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- r.front.Close(within(t)) }()
		_ = held.Text("the last")
		if f, err := stream.Next(); err == nil { // it ends when the front waits for no answer any more
			t.Error(string(f.Raw))
		}
		if n, err := io.Copy(io.Discard, first); err != nil || n < 3_000_000 {
			t.Fatalf("the first answer: %d bytes, %v", n, err)
		}
		if _, data, err := socket.Read(within(t)); err != nil || !strings.Contains(string(data), "the last") {
			t.Fatalf("M-017 the last answer got lost: %s, %v", data, err)
		}
		if _, _, err := socket.Read(within(t)); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Error(err)
		}
		<-closed
	}
}

// TestCloseWaitsNoLonger has a call that nobody answers.
func TestCloseWaitsNoLonger(t *testing.T) {
	r := newRig(t, func(s *setting) { s.front.Bounds.Patience = time.Millisecond })
	s := r.session("2025-11-25")
	reply := r.ask("/p/mcp", call("1", "silent", `{}`, s))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.front.Close(ctx); err == nil {
		t.Error("M-017 no error, though a call was under way")
	}
	for {
		if _, err := reply.Next(); err != nil {
			return // the stream has ended
		}
	}
}

func TestFull(t *testing.T) {
	t.Run("M-048 sessions", func(t *testing.T) {
		r := newRig(t, func(s *setting) { s.front.Bounds.SessionsPerCaller = 1 })
		r.session("2025-11-25")
		for _, c := range []struct {
			path string
			ask  mcptest.Ask
			id   string
		}{
			{"/p/mcp", mcptest.Ask{Body: string(initialize("2025-11-25"))}, "0"},
			{"/p/sse", mcptest.Ask{Method: "GET"}, "null"},
			{"/p", mcptest.Ask{Method: "GET", Bare: true, Header: []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="}}, "null"},
		} {
			reply := r.ask(c.path, c.ask)
			if f := refused(t, reply); f.status != 503 || f.id != c.id || reply.Header.Get("Retry-After") != "10" || !strings.Contains(f.data, `"retryAfterMs":10000`) {
				t.Error(c.path, f, reply.Header)
			}
		}
		if f, _ := answered(t, r.ask("/p/mcp", modern("1", "echo", "{}"))); f.Result == nil {
			t.Error("the modern era has no sessions:", string(f.Raw))
		}
	})
	t.Run("requests under way", func(t *testing.T) {
		r := newRig(t, func(s *setting) { s.front.Bounds.Exchanges = 1 })
		s := r.session("2025-11-25")
		socket := r.dial()
		go func() {
			reply, err := call("1", "hold", `{"key":"a"}`, s).Send(within(t), r.url+"/p/mcp")
			if err == nil {
				defer reply.Close()
				_, _, _ = reply.Answer() // told below
			}
		}()
		held := r.held("a")
		if f := refused(t, r.ask("/p/mcp", call("2", "echo", "{}", s))); f.status != 503 {
			t.Error(f)
		}
		if f := say(t, socket, `{"jsonrpc":"2.0","id":9,"method":"ping"}`); f.Error == nil || string(f.ID) != "9" {
			t.Error(string(f.Raw))
		}
		_ = held.Text("done")
		until(t, "there is room again", func() bool {
			return say(t, socket, `{"jsonrpc":"2.0","id":9,"method":"ping"}`).Error == nil
		})
		if f := say(t, socket, `{"jsonrpc":"2.0","id":9,"method":"ping"}`); f.Error != nil {
			t.Error("an answered request is still counted:", string(f.Raw))
		}
	})
}

// TestLeaks connects and drops 10 000 clients of each transport, some in the middle of a call
// (M-054, C-W29).
func TestLeaks(t *testing.T) {
	cycles, parallel := 10_000, 40
	if testing.Short() || raceDetector {
		cycles = 2000 // the detector makes everything ten times as slow, and goroutines not fewer
	}
	r := newRig(t, func(s *setting) {
		s.front.Bounds = front.Bounds{SessionsPerCaller: 1 << 20, Sessions: 1 << 20, StartsPerMinute: 1 << 20, Patience: time.Millisecond, SessionIdle: 50 * time.Millisecond}
	})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 40}}
	defer client.CloseIdleConnections()
	do := func(ctx context.Context, method, path, body string, header ...string) *http.Response {
		q, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return nil
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			q.Header.Set(name, value)
		}
		reply, err := client.Do(q)
		if err != nil {
			t.Error(err)
			return nil
		}
		return reply
	}
	wait := string(mcptest.CallTool("1", "wait", `{"ms":5}`))
	for name, cycle := range map[string]func(ctx context.Context){
		"Streamable HTTP": func(ctx context.Context) {
			started := do(ctx, "POST", "/p/mcp", string(initialize("2025-11-25")))
			if started == nil || started.StatusCode != 200 {
				t.Error(started)
				return
			}
			started.Body.Close()
			do(ctx, "POST", "/p/mcp", wait, "Mcp-Session-Id: "+started.Header.Get("Mcp-Session-Id"))
		},
		"the modern era": func(ctx context.Context) {
			do(ctx, "POST", "/p/mcp", modern("1", "wait", `{"ms":5}`).Body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: wait")
		},
		"HTTP with SSE": func(ctx context.Context) { do(ctx, "GET", "/p/sse", "") },
		"WebSocket": func(ctx context.Context) {
			c, _, err := websocket.Dial(ctx, r.url+"/p", &websocket.DialOptions{HTTPClient: client})
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.Write(ctx, websocket.MessageText, []byte(wait))
			_ = c.CloseNow()
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			var clients sync.WaitGroup
			for range parallel {
				clients.Go(func() {
					for range cycles / parallel {
						ctx, drop := context.WithCancel(t.Context())
						cycle(ctx)
						drop() // the response, if there is one, is not read
					}
				})
			}
			clients.Wait()
			client.CloseIdleConnections()
			until(t, "M-054 goroutines end", func() bool { return runtime.NumGoroutine() <= before+16 })
			if t.Failed() {
				t.Log(runtime.NumGoroutine(), before)
			}
		})
	}
}
