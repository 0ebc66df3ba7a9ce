package front_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// TestSlowBody sends requests whose bodies never end. The server reads what is left of a body
// before it sends an answer, so that a refusal without a deadline would never be sent, and its
// connection stay for ever, whoever has opened it.
func TestSlowBody(t *testing.T) {
	r := newRig(t, func(s *setting) {
		s.front.Bounds.BodyTimeout = 50 * time.Millisecond
		s.front.Providers = http.NotFoundHandler()
	})
	s := r.session("2025-11-25")
	const long = "Content-Length: 100"
	for _, c := range []struct {
		name, method, path string
		header             []string
		status             int
	}{
		{"that is read", "POST", "/p/mcp", []string{long}, 408},
		{"in chunks", "POST", "/p/mcp", []string{"Transfer-Encoding: chunked"}, 408},
		{"to another host", "POST", "/p/mcp", []string{long, "Host: evil.example"}, 403},
		{"with a bad token", "POST", "/p/mcp", []string{long, "Authorization: Bearer bad"}, 401},
		{"to no slot", "POST", "/nosuch/mcp", []string{long}, 404},
		{"to no door", "POST", "/p/nothing", []string{long}, 404},
		{"of another type", "POST", "/p/mcp", []string{long, "Content-Type: text/plain"}, 415},
		{"to no session of SSE", "POST", "/p/messages?sessionId=x", []string{long}, 404},
		{"of DELETE", "DELETE", "/p/mcp", []string{long, s}, 204},
		{"of a stream", "GET", "/p/sse", []string{long}, 200},
		{"of no WebSocket", "GET", "/p", []string{long}, 426},
		{"to providers' door", "GET", "/providers", []string{long}, 404},
		{"of metadata", "POST", "/.well-known/oauth-protected-resource", []string{long}, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply := r.ask(c.path, mcptest.Ask{Method: c.method, Header: c.header, Body: "64\r\n{"})
			if reply.StatusCode != c.status || !reply.Response.Close {
				t.Errorf("%s, and the connection ends: %v", reply.Status, reply.Response.Close)
			}
		})
	}
	if reply := r.ask("/p/mcp", mcptest.Ask{Header: []string{r.session("2025-11-25")}, Body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`}); reply.StatusCode != 200 {
		t.Error("then:", reply.Status)
	}
}

// TestLongMessages has clients that send long messages, and do not end them.
func TestLongMessages(t *testing.T) {
	r := newRig(t, func(s *setting) { s.front.Bounds.LongInAll = 300_000 })
	s := r.session("2025-11-25")
	ping := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", n) + `"}}`
	}
	post := func(body string) mcptest.Ask { return mcptest.Ask{Header: []string{s}, Body: body} }
	c := r.dial()
	say(t, c, string(initialize("2025-11-25")))
	served := func(what string) {
		t.Helper()
		if f := say(t, c, ping(150_000)); f.Error != nil {
			t.Errorf("%s, over WebSocket: %s", what, f.Raw)
		}
		if reply := r.ask("/p/mcp", post(ping(150_000))); reply.StatusCode != 200 {
			t.Errorf("%s: %s", what, reply.Status)
		}
	}
	served("before")
	announced, forget := context.WithCancel(t.Context())
	for range 20 { // who announces and does not send takes no room
		go func() {
			_, _ = mcptest.Ask{Header: []string{s, "Content-Length: 1000000"}, Body: "{"}.Send(announced, r.url+"/p/mcp")
		}()
	}
	served("beside those who only announce")
	begun, leave := context.WithCancel(t.Context())
	go func() {
		for begun.Err() == nil { // while one who asks whether there is room has it, this one is refused
			_, _ = mcptest.Ask{Header: []string{s, "Content-Length: 1000000"}, Body: ping(150_000)}.Send(begun, r.url+"/p/mcp")
		}
	}()
	until(t, "there is no room", func() bool { return r.ask("/p/mcp", post(ping(150_000))).StatusCode == 503 })
	if f := refused(t, r.ask("/p/mcp", post(ping(150_000)))); f.status != 503 || f.code != -32000 || f.id != "null" {
		t.Errorf("got %+v", f)
	}
	if f := say(t, c, ping(150_000)); f.Error == nil || f.Error.Code != -32000 || !strings.Contains(f.Error.Message, "long messages") {
		t.Errorf("over WebSocket: %s", f.Raw)
	}
	if f := say(t, c, ping(10)); f.Error != nil {
		t.Errorf("a short one, over WebSocket: %s", f.Raw)
	}
	if reply := r.ask("/p/mcp", post(ping(10))); reply.StatusCode != 200 {
		t.Errorf("a short one: %s", reply.Status)
	}
	leave()
	until(t, "there is room again", func() bool { return r.ask("/p/mcp", post(ping(150_000))).StatusCode == 200 })
	served("after")
	forget()
}

// TestSlowFrame sends half of a frame over WebSocket.
func TestSlowFrame(t *testing.T) {
	r := newRig(t, func(s *setting) { s.front.Bounds.BodyTimeout = 50 * time.Millisecond })
	c := r.dial()
	say(t, c, string(initialize("2025-11-25")))
	w, err := c.Writer(within(t), websocket.MessageText)
	if err == nil {
		_, err = w.Write([]byte(`{"jsonrpc":`))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	if _, _, err := c.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the connection goes on: %v", err)
	}
}

// TestFloodOfProgress has a provider that tells more of its progress than the client reads. The
// answer comes all the same, and the connection stays, which may have calls of others' on it.
func TestFloodOfProgress(t *testing.T) {
	r := newRig(t, func(s *setting) { s.front.Bounds.Backlog = 100_000 })
	c := r.dial()
	if err := c.Write(within(t), websocket.MessageText, mcptest.CallTool("7", "progress", `{"n":100000}`, "_meta", `{"progressToken":1}`)); err != nil {
		t.Fatal(err)
	}
	for heard := 0; ; heard++ {
		_, data, err := c.Read(within(t))
		if err != nil {
			t.Fatalf("after %d frames: %v", heard, err)
		}
		if f, err := mcptest.ReadFrame(data); err == nil && f.Method == "" {
			if string(f.ID) != "7" || f.Result == nil {
				t.Errorf("%s after %d frames", f.Raw, heard)
			}
			return
		}
	}
}
