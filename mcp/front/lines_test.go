package front_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/front"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
)

// openToAlice protects the slot for alice, who may do everything there but call the tool
// "fail".
func openToAlice(s *setting) {
	p, err := policy.New(policy.Config{
		Roles:            []policy.Role{{Name: "all", Capabilities: []string{"*"}}},
		Assignments:      []policy.Assignment{{Subject: "user:alice", Role: "all", Resource: "/**"}},
		Providers:        []policy.Provider{{ID: "owner", Secret: policy.Secret("a secret of some length"), Subjects: []string{"user:alice"}}},
		ProtectedSlots:   map[string]policy.Protection{"p": {DeclaredBy: "owner", PublishedBy: "owner"}},
		ToolCapabilities: map[string]string{"fail": "secret.use"},
		Denies:           []policy.Deny{{Subject: "user:alice", Capabilities: []string{"secret.use"}, Resource: "/**"}},
	})
	if err != nil {
		panic(err)
	}
	s.broker.Policy = p
}

// sse opens a stream of HTTP with SSE and returns where to post.
func (r *rig) sse(header ...string) (stream *mcptest.Reply, post string) {
	r.t.Helper()
	stream = r.ask("/p/sse", mcptest.Ask{Method: "GET", Header: append(header, "Accept: text/event-stream")})
	name, data, err := stream.NextEvent()
	if err != nil || name != "endpoint" {
		r.t.Fatalf("M-065: %q %q %v", name, data, err)
	}
	return stream, data
}

func TestSSE(t *testing.T) {
	r := newRig(t, openToAlice, func(s *setting) { s.front.Bounds.KeepAlive = 5 * time.Millisecond })
	alice := "Authorization: Bearer alice"
	t.Run("M-065 endpoint is the first", func(t *testing.T) {
		l := linesOf(t, r.ask("/p/sse", mcptest.Ask{Method: "GET", Header: []string{alice}}))
		l.want("event: endpoint|data: /p/messages?sessionId=*")
		l.want(": ka") // M-064
	})
	stream, post := r.sse(alice)
	tell := func(body string, status int, header ...string) *mcptest.Reply {
		t.Helper()
		reply := r.ask(post, mcptest.Ask{Header: append(header, alice), Body: body})
		if reply.StatusCode != status {
			t.Fatalf("%s: got %s, want %d", body, reply.Status, status)
		}
		return reply
	}
	tell(string(initialize("2024-11-05")), 202)
	if name, data, err := stream.NextEvent(); err != nil || name != "message" || !strings.Contains(data, `"protocolVersion":"2024-11-05"`) {
		t.Fatal(name, data, err)
	}
	tell(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202)
	t.Run("4.2.2 202, and the answer on the stream", func(t *testing.T) {
		reply := tell(string(mcptest.CallTool(`"x"`, "progress", `{"n":2}`, "_meta", `{"progressToken":"t"}`)), 202)
		if _, data, err := reply.NextEvent(); err == nil {
			t.Error("a body:", data)
		}
		if f, before := answered(t, stream); before != 2 || string(f.ID) != `"x"` {
			t.Error(before, string(f.Raw))
		}
	})
	t.Run("4.2.4 a denial is 403", func(t *testing.T) {
		reply := tell(string(mcptest.CallTool("5", "fail", "{}")), 403)
		if f := refused(t, reply); f.code != -32001 || f.id != "5" {
			t.Error(f)
		}
		tell(`{"jsonrpc":"2.0","id":6,"method":"ping"}`, 202)
		if f, _ := answered(t, stream); string(f.ID) != "6" {
			t.Error("the denial stands on the stream, too:", string(f.Raw))
		}
	})
	t.Run("4.2.2 what needs no answer is accepted at once", func(t *testing.T) {
		const denial = 50 * time.Millisecond // that one is waited for
		least := denial
		for range 20 {
			began := time.Now()
			tell(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, 202)
			least = min(least, time.Since(began))
		}
		if least >= denial {
			t.Error("a notification waits for a denial that cannot come")
		}
	})
	t.Run("M-020 an id that is under way", func(t *testing.T) {
		tell(string(mcptest.CallTool("1", "hold", `{"key":"a"}`)), 202)
		c := r.held("a")
		tell(string(mcptest.CallTool("1", "echo", `{}`)), 202)
		if f, _ := answered(t, stream); f.Error == nil || f.Error.Code != -32600 {
			t.Error(string(f.Raw))
		}
		_ = c.Text("one")
		if f, _ := answered(t, stream); f.Result == nil {
			t.Error(string(f.Raw))
		}
	})
	t.Run("M-049, M-073 another caller, and none", func(t *testing.T) {
		for header, status := range map[string]int{"Authorization: Bearer mallory": 403, "X-Nobody: 1": 401} {
			if f := refused(t, r.ask(post, mcptest.Ask{Header: []string{header}, Body: `{"jsonrpc":"2.0","id":6,"method":"ping"}`})); f.status != status {
				t.Error(f)
			}
		}
		for _, path := range []string{"/p/messages?sessionId=unheard", "/p/messages"} {
			if f := refused(t, r.ask(path, mcptest.Ask{Header: []string{alice}, Body: `{"jsonrpc":"2.0","id":6,"method":"ping"}`})); f.status != 404 || f.code != -32001 {
				t.Error(f)
			}
		}
		id := "Mcp-Session-Id: " + post[strings.Index(post, "=")+1:]
		if f := refused(t, r.ask("/p/mcp", mcptest.Ask{Header: []string{alice, id}, Body: `{"jsonrpc":"2.0","id":6,"method":"ping"}`})); f.status != 404 {
			t.Error("a session of another transport", f)
		}
	})
	t.Run("what is no message", func(t *testing.T) {
		if f := refused(t, tell("{", 400)); f.code != -32700 {
			t.Error(f)
		}
	})
	t.Run("M-082 what belongs to no request", func(t *testing.T) {
		r.provider.SetTools(mcptest.Tool{Name: "new"})
		if f, err := stream.Next(); err != nil || f.Method != "notifications/tools/list_changed" {
			t.Error(f, err)
		}
	})
	t.Run("the session ends with the stream", func(t *testing.T) {
		stream.Close()
		until(t, "the session has ended", func() bool {
			reply := r.ask(post, mcptest.Ask{Header: []string{alice}, Body: `{"jsonrpc":"2.0","method":"notifications/x"}`})
			return reply.StatusCode == 404
		})
	})
}

// dial connects a WebSocket.
func (r *rig) dial(header ...string) *websocket.Conn {
	r.t.Helper()
	h := http.Header{}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	c, _, err := websocket.Dial(within(r.t), r.url+"/p", &websocket.DialOptions{HTTPHeader: h, Subprotocols: []string{"mcp"}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.CloseNow() })
	return c
}

// say sends a text and returns the next frame that is no notification.
func say(t *testing.T, c *websocket.Conn, text string) *mcptest.Frame {
	t.Helper()
	ctx := within(t)
	if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
	for {
		_, data, err := c.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		f, err := mcptest.ReadFrame(data)
		if err != nil {
			t.Fatal(err)
		}
		if f.Method == "" {
			return f
		}
	}
}

func TestWebSocket(t *testing.T) {
	r := newRig(t, openToAlice, func(s *setting) { s.front.Bounds.Frame.MaxBytes = 10_000 })
	const alice = "Authorization: Bearer alice"
	ping := `{"jsonrpc":"2.0","id":"1","method":"ping"}`
	t.Run("2.5 one message a text frame", func(t *testing.T) {
		c := r.dial(alice)
		if c.Subprotocol() != "mcp" {
			t.Error("the subprotocol is", c.Subprotocol())
		}
		if f := say(t, c, string(initialize("2025-06-18"))); f.Result == nil {
			t.Fatal(string(f.Raw))
		}
		if f := say(t, c, string(mcptest.CallTool("9007199254740993", "progress", `{"n":3}`, "_meta", `{"progressToken":1}`))); string(f.ID) != "9007199254740993" {
			t.Error("M-022", string(f.Raw))
		}
		for _, bad := range []string{"{", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `[]`} {
			if f := say(t, c, bad); f.Error == nil {
				t.Error(bad, string(f.Raw))
			}
		}
		if f := say(t, c, ping); string(f.ID) != `"1"` || f.Result == nil {
			t.Error("M-026 the connection is lost:", string(f.Raw))
		}
		if f := say(t, c, string(mcptest.CallTool("2", "echo", `{"modern":1}`, "_meta", mcptest.Meta))); f.Result == nil {
			t.Error("2.5 the body says which era:", string(f.Raw))
		}
	})
	t.Run("without a subprotocol", func(t *testing.T) {
		c, _, err := websocket.Dial(within(t), r.url+"/p", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer alice"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		if f := say(t, c, ping); f.Result == nil {
			t.Error(string(f.Raw))
		}
	})
	closed := func(t *testing.T, c *websocket.Conn, code websocket.StatusCode) {
		t.Helper()
		if _, _, err := c.Read(within(t)); websocket.CloseStatus(err) != code {
			t.Errorf("got %v, want %d", err, code)
		}
	}
	t.Run("2.5 a binary frame is 1003", func(t *testing.T) {
		c := r.dial(alice)
		if err := c.Write(within(t), websocket.MessageBinary, []byte(ping)); err != nil {
			t.Fatal(err)
		}
		closed(t, c, websocket.StatusUnsupportedData)
	})
	t.Run("too large a frame is 1009", func(t *testing.T) {
		c := r.dial(alice)
		if err := c.Write(within(t), websocket.MessageText, []byte(strings.Repeat(" ", 10_001))); err != nil {
			t.Fatal(err)
		}
		closed(t, c, websocket.StatusMessageTooBig)
	})
	t.Run("4.2.4 a slot that is not open is 1008", func(t *testing.T) {
		closed(t, r.dial(), websocket.StatusPolicyViolation)
		closed(t, r.dial("Authorization: Bearer mallory"), websocket.StatusPolicyViolation)
	})
	t.Run("a bad token is 401", func(t *testing.T) {
		_, answer, err := websocket.Dial(within(t), r.url+"/p", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer bad"}}})
		if err == nil || answer.StatusCode != 401 {
			t.Error(answer, err)
		}
	})
	t.Run("M-070 a page that may not", func(t *testing.T) {
		_, answer, err := websocket.Dial(within(t), r.url+"/p", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://evil.example"}, "Authorization": {"Bearer alice"}}})
		if err == nil || answer.StatusCode != 403 {
			t.Error(answer, err)
		}
	})
	t.Run("M-020 an id that is under way", func(t *testing.T) {
		c := r.dial(alice)
		if err := c.Write(within(t), websocket.MessageText, mcptest.CallTool("1", "hold", `{"key":"a"}`)); err != nil {
			t.Fatal(err)
		}
		held := r.held("a")
		if f := say(t, c, string(mcptest.CallTool("1", "echo", "{}"))); f.Error == nil || f.Error.Code != -32600 {
			t.Error(string(f.Raw))
		}
		_ = held.Text("one")
	})
}

// TestDeadSocket has a client that never reads, and so answers no ping.
func TestDeadSocket(t *testing.T) {
	r := newRig(t, func(s *setting) {
		s.front.Bounds = front.Bounds{KeepAlive: 5 * time.Millisecond, WriteTimeout: 50 * time.Millisecond, SessionsPerCaller: 1}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, _, err := websocket.Dial(ctx, r.url+"/p", nil); err != nil {
		t.Fatal(err)
	}
	until(t, "its place is free", func() bool {
		c, _, err := websocket.Dial(ctx, r.url+"/p", nil)
		if err == nil {
			c.CloseNow()
		}
		return err == nil
	})
}

// TestSlowReader sends more than may wait for a client that does not read.
func TestSlowReader(t *testing.T) {
	r := newRig(t, func(s *setting) {
		s.front.Bounds.Backlog, s.front.Bounds.WriteTimeout, s.front.Bounds.SessionsPerCaller = 100_000, 100*time.Millisecond, 1
	})
	c := r.dial()
	for n := range 60 {
		if c.Write(within(t), websocket.MessageText, mcptest.CallTool(toJSON(n), "big", `{"bytes":1000000}`)) != nil {
			break // it has been cut off
		}
	}
	until(t, "it is cut off", func() bool {
		next, _, err := websocket.Dial(within(t), r.url+"/p", nil)
		if err == nil {
			next.CloseNow()
		}
		return err == nil
	})
}

// TestLargeAnswer is an answer of more bytes than may wait for a slow client.
func TestLargeAnswer(t *testing.T) {
	r := newRig(t, func(s *setting) { s.front.Bounds.Backlog = 1000 })
	if f, _ := answered(t, r.ask("/p/mcp", call("1", "big", `{"bytes":100000}`, r.session("2025-11-25")))); len(f.Result) < 100_000 {
		t.Error("over HTTP:", string(f.Raw))
	}
	if f, _ := answered(t, r.ask("/p/mcp", modern("1", "big", `{"bytes":100000}`))); len(f.Result) < 100_000 {
		t.Error("in the modern era:", string(f.Raw))
	}
	socket := r.dial()
	socket.SetReadLimit(-1)
	if f := say(t, socket, string(mcptest.CallTool("1", "big", `{"bytes":100000}`))); len(f.Result) < 100_000 {
		t.Error("over WebSocket:", string(f.Raw))
	}
}
