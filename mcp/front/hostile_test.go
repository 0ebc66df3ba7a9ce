package front_test

import (
	"net/http"
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
