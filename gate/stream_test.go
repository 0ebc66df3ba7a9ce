package gate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/limit"
)

// events is a handler of server-sent events, one for everything that comes from next,
// until the client has gone.
func events(next <-chan string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		for {
			select {
			case text := <-next:
				fmt.Fprintf(w, "data: %s\n\n", text)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
}

// serve starts a real server. It is closed before the gate is.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// get sends a GET with a context.
func get(t testing.TB, ctx context.Context, url string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// eventually waits until f is true, and fails if that takes a second longer than it may.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Second); !f(); {
		if time.Now().After(end) {
			t.Fatalf("not within a second: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// free reports whether the slots of kind "stream" admit one more.
func free(t testing.TB, ctl *sluice.Controller, capability string) bool {
	t.Helper()
	e, err := ctl.Check(t.Context(), sluice.Call{Kind: "stream", Subject: "ip:127.0.0.1", IP: "ip:127.0.0.1", Capability: capability})
	if err != nil {
		t.Fatal(err)
	}
	return e.Admitted
}

func TestInFlight(t *testing.T) {
	started, finish := make(chan struct{}, 10), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		select {
		case <-finish:
		case <-r.Context().Done():
		}
	})
	one := slots("one", 1, "http")
	inUse := func(t *testing.T, ctl *sluice.Controller) bool {
		e, err := ctl.Check(t.Context(), sluice.Call{Kind: "http", Subject: "ip:127.0.0.1", IP: "ip:127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		return !e.Admitted
	}
	t.Run("a slot is held while the handler runs", func(t *testing.T) {
		ctl := open(t, one)
		s := serve(t, newGate(t, ctl, gate.Options{}).Handler(slow))
		done := make(chan int, 1)
		go func() { done <- get(t, t.Context(), s.URL).StatusCode }()
		<-started
		resp := get(t, t.Context(), s.URL)
		expect(t, "status of the second", resp.StatusCode, 429)
		finish <- struct{}{}
		expect(t, "status of the first", <-done, 200)
		eventually(t, "the slot is back", func() bool { return !inUse(t, ctl) })
	})
	t.Run("I-108 and comes back when the client leaves before the first byte", func(t *testing.T) {
		ctl := open(t, one)
		s := serve(t, newGate(t, ctl, gate.Options{}).Handler(slow))
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
			_, err := http.DefaultClient.Do(r)
			gone <- err
		}()
		<-started
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		eventually(t, "the slot is back", func() bool { return !inUse(t, ctl) })
	})
	t.Run("I-108 and when the handler panics", func(t *testing.T) {
		ctl := open(t, one)
		h := newGate(t, ctl, gate.Options{}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}))
		func() {
			defer func() { recover() }()
			do(h, from("127.0.0.1:1", request("GET", "/")))
		}()
		expect(t, "in use", inUse(t, ctl), false)
	})
	t.Run("I-114 no slots refuse everything", func(t *testing.T) {
		h := newGate(t, open(t, slots("none", 0, "http")), gate.Options{}).Handler(ok)
		expect(t, "status", do(h, request("GET", "/")).StatusCode, 403)
	})
	t.Run("a queue waits for the slot, and no longer than its client", func(t *testing.T) {
		queued := one
		queued.Queue = &sluice.Queue{}
		ctl := open(t, queued)
		s := serve(t, newGate(t, ctl, gate.Options{}).Handler(slow))
		statuses := make(chan int, 2)
		for range 2 {
			go func() { statuses <- get(t, t.Context(), s.URL).StatusCode }()
		}
		<-started
		eventually(t, "the second stands in line", func() bool { return ctl.Waiting()["one"] == 1 })
		ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer leave()
		r, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
		if _, err := http.DefaultClient.Do(r); err == nil {
			t.Error("the third was answered")
		}
		eventually(t, "the third has left the line", func() bool { return ctl.Waiting()["one"] == 1 })
		finish <- struct{}{}
		<-started
		finish <- struct{}{}
		expect(t, "statuses", <-statuses+<-statuses, 400)
	})
}

func TestServerSentEvents(t *testing.T) {
	two := slots("streams", 2, "stream")
	for _, accept := range []string{"text/event-stream", "*/*"} {
		t.Run("a stream holds a slot until it ends, asked for with Accept: "+accept, func(t *testing.T) {
			ctl := open(t, two)
			next := make(chan string)
			s := serve(t, newGate(t, ctl, gate.Options{}).Handler(events(next)))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			first := get(t, ctx, s.URL, "Accept", accept)
			get(t, t.Context(), s.URL, "Accept", accept)
			third := get(t, t.Context(), s.URL, "Accept", accept)
			expect(t, "status of the third", third.StatusCode, 429)
			expect(t, "its type", third.Header.Get("Content-Type"), "application/problem+json")
			body, err := io.ReadAll(third.Body) // ends although the handler waits for its context alone
			if err != nil || !strings.Contains(string(body), "violated-policies") {
				t.Errorf("its body: %q, %v", body, err)
			}
			expect(t, "status of the first", first.StatusCode, 200)
			leave()
			eventually(t, "a slot is back", func() bool { return free(t, ctl, "sse") })
		})
	}
	t.Run("events reach the client as they are written", func(t *testing.T) {
		next := make(chan string)
		s := serve(t, newGate(t, open(t, two), gate.Options{}).Handler(events(next)))
		lines := bufio.NewReader(get(t, t.Context(), s.URL).Body)
		for i := range 3 {
			next <- fmt.Sprint(i)
			line, err := lines.ReadString('\n')
			if want := fmt.Sprintf("data: %d\n", i); line != want {
				t.Fatalf("got %q, %v, want %q", line, err, want)
			}
			lines.ReadString('\n')
		}
	})
	t.Run("an answer that is no stream gives the slot back at once", func(t *testing.T) {
		ctl := open(t, slots("streams", 1, "stream"))
		running := make(chan struct{})
		h := newGate(t, ctl, gate.Options{}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "no stream")
			if !free(t, ctl, "sse") {
				t.Error("the slot is held")
			}
			close(running)
		}))
		do(h, from("127.0.0.1:1", request("GET", "/", "Accept", "text/event-stream")))
		<-running
	})
	t.Run("I-109 opening and closing again and again meets the open rate", func(t *testing.T) {
		h := newGate(t, open(t, perHour("opens", 10, "stream"), slots("streams", 10, "stream")), gate.Options{}).
			Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				w.WriteHeader(200)
			}))
		expect(t, "admitted", admitted(h, 60, func(int) *http.Request { return request("GET", "/") }), 10)
	})
	t.Run("I-109 an EventSource is told when to come back", func(t *testing.T) {
		rules := []sluice.Rule{perHour("opens", 1, "stream")}
		o := gate.Options{Streams: gate.Streams{RetryEvents: true}, MCP: []gate.MCP{{Pattern: "/mcp"}}}
		h := newGate(t, open(t, rules...), o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: x\n\n")
		}))
		source := func(path string) *http.Request { return request("GET", path, "Accept", "text/event-stream") }
		expect(t, "first", do(h, source("/")).StatusCode, 200)
		resp := do(h, source("/"))
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(string(body), "retry: 3") || strings.Contains(string(body), "data: x") {
			t.Errorf("got %d, %q, %v", resp.StatusCode, body, err)
		}
		expectList(t, "clients that read statuses", statuses(h, request("GET", "/"), source("/mcp")), []int{429, 429})
	})
	t.Run("a refused stream's handler writes to nobody", func(t *testing.T) {
		var wrote error
		h := newGate(t, open(t, slots("streams", 0, "stream")), gate.Options{}).
			Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, wrote = io.WriteString(w, "data: x\n\n")
			}))
		resp := do(h, request("GET", "/"))
		body, _ := io.ReadAll(resp.Body)
		if wrote == nil || strings.Contains(string(body), "data: x") {
			t.Errorf("the handler got %v and the client %q", wrote, body)
		}
	})
	t.Run("on an MCP path the capability is mcp", func(t *testing.T) {
		rule := on(slots("mcp", 0, "stream"), sluice.Capability, "mcp")
		h := newGate(t, open(t, rule), gate.Options{MCP: []gate.MCP{{Pattern: "/mcp"}}}).Handler(events(nil))
		expect(t, "status", do(h, request("GET", "/mcp", "Accept", "text/event-stream")).StatusCode, 403)
	})
	for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run("the longest time ends a stream that sends nothing, on "+proto, func(t *testing.T) {
			ctl := open(t, slots("streams", 1, "stream"))
			o := gate.Options{Streams: gate.Streams{SSE: gate.Stream{MaxDuration: 50 * time.Millisecond}}}
			s := httptest.NewUnstartedServer(newGate(t, ctl, o).Handler(events(nil)))
			s.EnableHTTP2 = proto == "HTTP/2"
			s.StartTLS()
			defer s.Close()
			resp, err := s.Client().Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			io.Copy(io.Discard, resp.Body)
			eventually(t, "the slot is back", func() bool { return free(t, ctl, "sse") })
		})
	}
}

// echo is a WebSocket server that sends back what it gets.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover})
	if err != nil {
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(-1)
	for {
		kind, b, err := c.Read(r.Context())
		if err != nil {
			return
		}
		if c.Write(r.Context(), kind, b) != nil {
			return
		}
	}
})

// dial opens a WebSocket.
func dial(t testing.TB, url string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	c, resp, err := websocket.Dial(t.Context(), url, nil)
	if err == nil {
		c.SetReadLimit(-1)
		t.Cleanup(func() { c.CloseNow() })
	}
	return c, resp, err
}

// say sends a text and returns the answer.
func say(t testing.TB, c *websocket.Conn, text string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		return "", err
	}
	_, b, err := c.Read(ctx)
	return string(b), err
}

// messages is a rule on WebSocket messages.
func messages(n int64) sluice.Rule { return perHour("messages", n, "frame") }

func TestWebSocket(t *testing.T) {
	mounts := map[string]func(*testing.T, *gate.Gate) string{
		"middleware": func(t *testing.T, g *gate.Gate) string { return serve(t, g.Handler(echo)).URL },
		"proxy":      func(t *testing.T, g *gate.Gate) string { return serve(t, g.Proxy()).URL },
	}
	for name, mount := range mounts {
		start := func(t *testing.T, o gate.Options, rules ...sluice.Rule) (*sluice.Controller, *gate.Gate, string) {
			o.Upstreams = []upstream.Options{{Name: "echo", URL: serve(t, echo).URL}}
			ctl := open(t, rules...)
			g := newGate(t, ctl, o)
			return ctl, g, mount(t, g)
		}
		t.Run(name+": a connection holds a slot until it closes", func(t *testing.T) {
			ctl, _, url := start(t, gate.Options{}, slots("sockets", 1, "stream"))
			c, _, err := dial(t, url)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				long := strings.Repeat(fmt.Sprint(i), 1<<(i*4)) // every length of header
				if got, err := say(t, c, long); got != long {
					t.Fatalf("message %d: got %d bytes, %v", i, len(got), err)
				}
			}
			_, resp, err := dial(t, url)
			if err == nil || resp.StatusCode != 429 {
				t.Fatalf("the second was answered %v", resp.StatusCode)
			}
			c.Close(websocket.StatusNormalClosure, "")
			eventually(t, "the slot is back", func() bool { return free(t, ctl, "websocket") })
		})
		t.Run(name+": I-112 messages over the limit are dropped", func(t *testing.T) {
			_, _, url := start(t, gate.Options{}, messages(3))
			c, _, err := dial(t, url)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if got, err := say(t, c, fmt.Sprint(i)); got != fmt.Sprint(i) {
					t.Fatalf("got %q, %v", got, err)
				}
			}
			for range 10 {
				c.Write(t.Context(), websocket.MessageText, []byte("too many"))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, b, err := c.Read(ctx); err == nil {
				t.Errorf("a message over the limit came back: %q", b)
			}
		})
		t.Run(name+": I-112 or end the conversation with 1008", func(t *testing.T) {
			ctl, _, url := start(t, gate.Options{Streams: gate.Streams{CloseOverLimit: true}}, messages(2), slots("sockets", 1, "stream"))
			c, _, err := dial(t, url)
			if err != nil {
				t.Fatal(err)
			}
			say(t, c, "1")
			say(t, c, "2")
			_, err = say(t, c, "3")
			expect(t, "close code", websocket.CloseStatus(err), websocket.StatusPolicyViolation)
			eventually(t, "the slot is back", func() bool { return free(t, ctl, "websocket") })
		})
		t.Run(name+": a rule on bytes counts payloads", func(t *testing.T) {
			r := perHour("bytes", 10, "frame")
			r.Limits[0].Unit = sluice.Bytes
			_, _, url := start(t, gate.Options{Streams: gate.Streams{CloseOverLimit: true}}, r)
			c, _, err := dial(t, url)
			if err != nil {
				t.Fatal(err)
			}
			say(t, c, "12345")
			say(t, c, "67890")
			_, err = say(t, c, "x")
			expect(t, "close code", websocket.CloseStatus(err), websocket.StatusPolicyViolation)
		})
		t.Run(name+": a rule with a queue holds the client back", func(t *testing.T) {
			r := messages(1)
			r.Limits[0].Limit = limit.Pace(20 * limit.Millisecond)
			r.Queue = &sluice.Queue{}
			_, _, url := start(t, gate.Options{}, r)
			c, _, err := dial(t, url)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for i := range 5 {
				if got, err := say(t, c, fmt.Sprint(i)); got != fmt.Sprint(i) {
					t.Fatalf("got %q, %v", got, err)
				}
			}
			if d := time.Since(began); d < 80*time.Millisecond {
				t.Errorf("five messages at one in 20 ms took %v", d)
			}
		})
		t.Run(name+": I-113 a refused handshake can be a close code that browsers see", func(t *testing.T) {
			_, _, url := start(t, gate.Options{Streams: gate.Streams{AcceptThenClose: true}}, slots("sockets", 0, "stream"))
			c, _, err := dial(t, url)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = c.Read(t.Context())
			expect(t, "close code", websocket.CloseStatus(err), websocket.StatusTryAgainLater)
		})
		t.Run(name+": the longest time ends with 1001", func(t *testing.T) {
			o := gate.Options{Streams: gate.Streams{WebSocket: gate.Stream{MaxDuration: 50 * time.Millisecond}}}
			_, _, url := start(t, o)
			c, _, err := dial(t, url)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = c.Read(t.Context())
			expect(t, "close code", websocket.CloseStatus(err), websocket.StatusGoingAway)
		})
		t.Run(name+": a drain ends with 1001, and waits for that", func(t *testing.T) {
			ctl, g, url := start(t, gate.Options{}, slots("sockets", 1, "stream"))
			c, _, err := dial(t, url)
			if err != nil {
				t.Fatal(err)
			}
			closed := make(chan error, 1)
			go func() {
				_, _, err := c.Read(context.Background())
				closed <- err
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := g.Drain(ctx); err != nil {
				t.Fatal(err)
			}
			expect(t, "close code", websocket.CloseStatus(<-closed), websocket.StatusGoingAway)
			expect(t, "the slot is back", free(t, ctl, "websocket"), true)
		})
	}
	t.Run("a request that only looks like one is none", func(t *testing.T) {
		h := newGate(t, open(t, slots("sockets", 0, "stream")), gate.Options{}).Handler(ok)
		for _, r := range []*http.Request{
			request("GET", "/", "Upgrade", "websocket"), request("GET", "/", "Connection", "upgrade"),
			request("GET", "/", "Upgrade", "h2c", "Connection", "upgrade"),
		} {
			expect(t, "status", do(h, r).StatusCode, 200)
		}
	})
	t.Run("an upgrade that the application declines gives the slot back", func(t *testing.T) {
		ctl := open(t, slots("sockets", 1, "stream"))
		h := newGate(t, ctl, gate.Options{}).Handler(ok)
		r := from("127.0.0.1:1", request("GET", "/", "Upgrade", "WebSocket", "Connection", "keep-alive, Upgrade"))
		expect(t, "status", do(h, r).StatusCode, 200)
		expect(t, "the slot is back", free(t, ctl, "websocket"), true)
	})
}
