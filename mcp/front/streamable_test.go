package front_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

func TestSessions(t *testing.T) {
	r := newRig(t)
	s := r.session("2025-11-25", "Authorization: Bearer alice.1")
	ping := func(header ...string) *mcptest.Reply {
		return r.ask("/p/mcp", mcptest.Ask{Header: header, Body: `{"jsonrpc":"2.0","id":7,"method":"ping"}`})
	}
	alice := "Authorization: Bearer alice.2"
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"M-049 the owner with a renewed token", []string{s, alice}, 200},
		{"M-052 the header twice, alike", []string{s, s, alice}, 200},
		{"M-052 twice in one line", []string{s + ", " + strings.TrimPrefix(s, "Mcp-Session-Id: "), alice}, 200},
		{"M-053 spelt otherwise", []string{"mcp-session-ID: " + strings.TrimPrefix(s, "Mcp-Session-Id: "), alice}, 200},
		{"M-034 the session's version", []string{s, alice, "MCP-Protocol-Version: 2025-11-25"}, 200},
		{"M-053 the version twice, alike", []string{s, alice, "MCP-Protocol-Version: 2025-11-25", "mcp-protocol-version: 2025-11-25"}, 200},
		{"M-034 no version", []string{s, alice}, 200},
		{"M-052 twice, unlike", []string{s, "Mcp-Session-Id: other", alice}, 400},
		{"the version twice, unlike", []string{s, alice, "MCP-Protocol-Version: 2025-11-25", "MCP-Protocol-Version: 2025-06-18"}, 400},
		{"M-034 another version", []string{s, alice, "MCP-Protocol-Version: 2025-03-26"}, 400},
		{"a version that is none", []string{s, alice, "MCP-Protocol-Version: banana"}, 400},
		{"no session", []string{alice}, 400},
		{"M-044 an unknown session", []string{"Mcp-Session-Id: unheard", alice}, 404},
		{"M-049 another's session", []string{s, "Authorization: Bearer mallory"}, 404},
		{"M-049 nobody's", []string{s}, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply := ping(c.header...)
			if reply.StatusCode != c.status {
				t.Fatalf("got %s, want %d", reply.Status, c.status)
			}
			if c.status == 200 {
				if f, _ := answered(t, reply); string(f.ID) != "7" || f.Result == nil {
					t.Error(string(f.Raw))
				}
				return
			}
			f := refused(t, reply)
			if f.id != "7" {
				t.Errorf("M-073: id %s", f.id)
			}
			if c.status == 404 && (f.code != -32001 || f.text != "Session not found") {
				t.Errorf("M-045: %+v", f)
			}
		})
	}
	t.Run("another slot's session", func(t *testing.T) {
		reply := r.ask("/_all/mcp", mcptest.Ask{Header: []string{s, alice}, Body: `{"jsonrpc":"2.0","id":7,"method":"ping"}`})
		if f := refused(t, reply); f.status != 404 || f.code != -32001 {
			t.Error(f)
		}
	})
	t.Run("DELETE ends it", func(t *testing.T) {
		if f := refused(t, r.ask("/p/mcp", mcptest.Ask{Method: "DELETE", Header: []string{s, "Authorization: Bearer mallory"}})); f.status != 404 {
			t.Error("M-049", f)
		}
		if reply := r.ask("/p/mcp", mcptest.Ask{Method: "DELETE", Header: []string{s, alice}}); reply.StatusCode != http.StatusNoContent {
			t.Error(reply.Status)
		}
		if f := refused(t, ping(s, alice)); f.status != 404 || f.code != -32001 {
			t.Error(f)
		}
	})
	t.Run("an initialize whose client leaves leaves none", func(t *testing.T) {
		r := newRig(t, func(s *setting) {
			s.front.Bounds.SessionsPerCaller = 1
			s.broker.Slots = []mcp.Slot{{Name: "mute", Protocol: "legacy", ConnectTimeout: time.Minute, Dialer: &loopback.Dialer{Name: "mute", Serve: func(c *loopback.Conn) error {
				for {
					if _, err := c.Next(); err != nil {
						return err
					}
				}
			}}}}
		})
		ctx, leave := context.WithCancel(within(t))
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for { // until it takes the one place, which what looks whether it is free takes, too
				reply, err := mcptest.Ask{Body: string(initialize("2025-11-25"))}.Send(ctx, r.url+"/mute/mcp")
				if err != nil {
					return
				}
				reply.Close()
				if reply.StatusCode != 503 {
					t.Error(reply.Status)
					return
				}
			}
		}()
		full := func() bool {
			reply := r.ask("/p/mcp", mcptest.Ask{Body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`})
			return reply.StatusCode == 503
		}
		until(t, "the session is there", full)
		leave()
		<-gone
		until(t, "and has gone", func() bool { return !full() })
	})
	t.Run("an initialize that fails leaves none", func(t *testing.T) {
		reply := r.ask("/p/mcp", mcptest.Ask{Body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`})
		if reply.Header.Get("Mcp-Session-Id") != "" {
			t.Error("a session for nothing")
		}
		refused(t, reply)
	})
}

// TestLadder sends the nine probes of M-062 and what is beside them.
func TestLadder(t *testing.T) {
	r := newRig(t, func(s *setting) {
		s.provider.Tools = []mcptest.Tool{{Name: "echo"}, {Name: "größe"}, {Name: "region", Schema: []byte(
			`{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}`)}}
	})
	version := func(v string) string { return "MCP-Protocol-Version: " + v }
	meta := func(members string) string {
		return `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":{},"_meta":{` + members + `}}}`
	}
	const (
		v    = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
		caps = `"io.modelcontextprotocol/clientCapabilities":{}`
	)
	good := []string{version("2026-07-28"), "Mcp-Method: tools/call", "Mcp-Name: echo"}
	region := `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"region","arguments":{"r":"eu"},"_meta":` + mcptest.Meta + `}}`
	for _, c := range []struct {
		name   string
		header []string
		body   string
		status int
		code   int64
		says   string
	}{
		{"M-062 all is well", good, meta(v + "," + caps), 200, 0, ""},
		{"M-062 another method", []string{good[0], "Mcp-Method: tools/list", good[2]}, meta(v + "," + caps), 400, -32020, "Mcp-Method"},
		{"M-060 no method", []string{good[0], good[2]}, meta(v + "," + caps), 400, -32020, "Mcp-Method is missing"},
		{"M-062 no name", good[:2], meta(v + "," + caps), 400, -32020, "Mcp-Name is missing"},
		{"M-057 another name", []string{good[0], good[1], "Mcp-Name: cheap"}, meta(v + "," + caps), 400, -32020, "Mcp-Name"},
		{"two names", append(good, "Mcp-Name: cheap"), meta(v + "," + caps), 400, -32020, "Mcp-Name"},
		{"a name that is no base64", []string{good[0], good[1], "Mcp-Name: =?base64?%%?="}, meta(v + "," + caps), 400, -32020, "Mcp-Name"},
		{"M-056 the name in base64", []string{good[0], good[1], "Mcp-Name: =?base64?ZWNobw==?="}, meta(v + "," + caps), 200, 0, ""},
		{"M-056 größe", []string{good[0], good[1], "Mcp-Name: =?base64?Z3LDtsOfZQ==?="}, strings.Replace(meta(v+","+caps), "echo", "größe", 1), 200, 0, ""},
		{"M-060 no version", good[1:], meta(v + "," + caps), 400, -32020, "MCP-Protocol-Version is missing"},
		{"M-062 another version", append([]string{version("2025-11-25")}, good[1:]...), meta(v + "," + caps), 400, -32020, "MCP-Protocol-Version"},
		{"M-062 no version in the body", good, meta(caps), 400, -32602, "protocolVersion"},
		{"M-062 no capabilities in the body", good, meta(v), 400, -32602, "clientCapabilities"},
		{"M-062 a version of the future", append([]string{version("2099-01-01")}, good[1:]...), meta(strings.Replace(v, "2026-07-28", "2099-01-01", 1) + "," + caps), 400, -32022, ""},
		{"M-062 an unknown method", []string{good[0], "Mcp-Method: foo/bar"}, `{"jsonrpc":"2.0","id":"a","method":"foo/bar","params":{"_meta":` + mcptest.Meta + `}}`, 404, -32601, ""},
		{"M-062 a parameter is missing", []string{good[0], good[1], "Mcp-Name: region"}, region, 400, -32020, "Mcp-Param-Region"},
		{"M-062 another parameter", []string{good[0], good[1], "Mcp-Name: region", "Mcp-Param-Region: us"}, region, 400, -32020, "Mcp-Param-Region"},
		{"M-062 the parameter", []string{good[0], good[1], "Mcp-Name: region", "mcp-param-region: =?base64?ZXU=?="}, region, 200, 0, ""},
		{"M-058 discovery", []string{good[0], "Mcp-Method: server/discover"}, `{"jsonrpc":"2.0","id":"a","method":"server/discover","params":{"_meta":` + mcptest.Meta + `}}`, 200, 0, ""},
		{"a response", good[:1], `{"jsonrpc":"2.0","id":"a","result":{}}`, 400, -32600, ""},
		{"a batch", good[:1], `[` + meta(v+","+caps) + `]`, 400, -32600, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := r.provider.Count("")
			reply := r.ask("/p/mcp", mcptest.Ask{Header: append([]string{"Mcp-Session-Id: ignored"}, c.header...), Body: c.body})
			if reply.StatusCode != c.status {
				t.Fatalf("got %s, want %d", reply.Status, c.status)
			}
			if reply.Header.Get("Mcp-Session-Id") != "" {
				t.Error("a session in an era without")
			}
			if c.status == 200 {
				if f, _ := answered(t, reply); string(f.ID) != `"a"` || f.Result == nil {
					t.Error(string(f.Raw))
				}
				return
			}
			if f := refused(t, reply); f.code != c.code || !strings.Contains(f.text, c.says) {
				t.Errorf("got %+v", f)
			} else if c.code == -32022 && !strings.Contains(f.data, `"requested":"2099-01-01"`) {
				t.Error(f.data)
			}
			if n := r.provider.Count(""); n != before {
				t.Error("the provider has seen it")
			}
		})
	}
	for name, header := range map[string][]string{
		"M-062 a notification":                    {good[0], "Mcp-Method: notifications/x"},
		"M-061 a notification without Mcp-Method": {good[0]},
	} {
		t.Run(name, func(t *testing.T) {
			reply := r.ask("/p/mcp", mcptest.Ask{Header: header, Body: `{"jsonrpc":"2.0","method":"notifications/x"}`})
			if _, _, err := reply.NextEvent(); reply.StatusCode != http.StatusAccepted || err == nil {
				t.Error(reply.Status, err)
			}
		})
	}
	t.Run("a notification with another Mcp-Method", func(t *testing.T) {
		reply := r.ask("/p/mcp", mcptest.Ask{Header: []string{good[0], "Mcp-Method: tools/call"}, Body: `{"jsonrpc":"2.0","method":"notifications/x"}`})
		if f := refused(t, reply); f.code != -32020 {
			t.Error(f)
		}
	})
	t.Run("M-062 legacy requests pass by", func(t *testing.T) {
		s := r.session("2025-06-18")
		if f, _ := answered(t, r.ask("/p/mcp", call("1", "echo", "{}", s, "Mcp-Name: other", "Mcp-Method: other"))); f.Result == nil {
			t.Error("M-057", string(f.Raw))
		}
	})
	for _, method := range []string{"GET", "DELETE"} {
		t.Run(method+" is not allowed", func(t *testing.T) {
			reply := r.ask("/p/mcp", mcptest.Ask{Method: method, Header: good[:1]})
			if f := refused(t, reply); f.status != 405 || reply.Header.Get("Allow") != "POST" {
				t.Error(f, reply.Header)
			}
		})
	}
}

// TestBadRequests sends what is no message, in the ways in which it can be none.
func TestBadRequests(t *testing.T) {
	r := newRig(t, func(s *setting) { s.front.Bounds.Frame.MaxBytes = 10_000 })
	s := r.session("2025-11-25")
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	for _, c := range []struct {
		name   string
		ask    mcptest.Ask
		status int
		code   int64
		id     string
	}{
		{"no JSON", mcptest.Ask{Body: `{"jsonrpc`}, 400, -32700, "null"},
		{"nothing", mcptest.Ask{Body: ``}, 400, -32700, "null"},
		{"M-024 id null", mcptest.Ask{Body: ping("null")}, 400, -32600, "null"},
		{"M-026 id true", mcptest.Ask{Body: ping("true")}, 400, -32600, "null"},
		{"M-026 id {}", mcptest.Ask{Body: ping("{}")}, 400, -32600, "null"},
		{"M-023 id 1.5", mcptest.Ask{Body: ping("1.5")}, 400, -32600, "null"},
		{"M-028 two methods", mcptest.Ask{Body: `{"jsonrpc":"2.0","id":3,"method":"ping","method":"tools/list"}`}, 400, -32600, "3"},
		{"M-029 METHOD", mcptest.Ask{Body: `{"jsonrpc":"2.0","id":3,"METHOD":"ping"}`}, 400, -32600, "3"},
		{"M-032 no UTF-8", mcptest.Ask{Body: "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}"}, 400, -32700, ""},
		{"too large", mcptest.Ask{Body: `{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":"` + strings.Repeat("x", 10_000) + `"}}`}, 413, -32600, "null"},
		{"too large, chunked", mcptest.Ask{Header: []string{"Transfer-Encoding: chunked", "Content-Length-Not: 0"}, Body: "4e20\r\n" + strings.Repeat("x", 20_000) + "\r\n0\r\n\r\n"}, 413, -32600, "null"},
		{"another type", mcptest.Ask{Header: []string{"Content-Type: text/plain"}, Body: ping("3")}, 415, -32600, "null"},
		{"an encoding", mcptest.Ask{Header: []string{"Content-Encoding: gzip"}, Body: ping("3")}, 415, -32600, "null"},
		{"JSON alone accepted", mcptest.Ask{Header: []string{"Accept: application/json"}, Body: ping("3")}, 406, -32600, "3"},
		{"events refused", mcptest.Ask{Header: []string{"Accept: */*, text/event-stream;q=0"}, Body: ping("3")}, 406, -32600, "3"},
		{"GET of JSON", mcptest.Ask{Method: "GET", Header: []string{"Accept: application/json"}}, 406, -32600, "null"},
		{"PUT", mcptest.Ask{Method: "PUT", Body: ping("3")}, 405, -32600, "null"},
		{"OPTIONS of no page", mcptest.Ask{Method: "OPTIONS"}, 405, -32600, "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.ask.Header = append(c.ask.Header, s)
			f := refused(t, r.ask("/p/mcp", c.ask))
			if f.status != c.status || f.code != c.code || c.id != "" && f.id != c.id {
				t.Errorf("got %+v", f)
			}
		})
	}
	for path, status := range map[string]int{"/": 404, "/p/nothing": 404, "/p/mcp/more": 404, "/nosuch/mcp": 404, "/nosuch/sse": 404,
		"/nosuch": 426, "/p": 426, "/providers": 404, "/provider/x": 404, "/.well-known/oauth-protected-resource": 404} {
		if f := refused(t, r.ask(path, mcptest.Ask{Method: "GET"})); f.status != status {
			t.Errorf("M-073 %s: %+v", path, f)
		}
	}
	for _, accept := range []string{"*/*", "application/*, text/*", "Text/Event-Stream;q=0.1,application/JSON"} {
		if reply := r.ask("/p/mcp", mcptest.Ask{Header: []string{s, "Accept: " + accept}, Body: ping("1.0")}); reply.StatusCode != 200 {
			t.Error(accept, reply.Status)
		} else if f, _ := answered(t, reply); string(f.ID) != "1.0" {
			t.Error("M-023", string(f.Raw))
		}
	}
	if f, _ := answered(t, r.ask("/p/mcp", mcptest.Ask{Header: []string{s}, Body: ping("9007199254740993")})); string(f.ID) != "9007199254740993" {
		t.Error("M-022", string(f.Raw))
	}
}

// TestSameIDTwice sends two requests with one id in one session, as a large client does.
func TestSameIDTwice(t *testing.T) {
	r := newRig(t)
	s := r.session("2025-11-25")
	first := make(chan *mcptest.Frame, 1)
	go func() {
		reply, err := call("1", "hold", `{"key":"a"}`, s).Send(within(t), r.url+"/p/mcp")
		if err != nil {
			t.Error(err)
			close(first)
			return
		}
		defer reply.Close()
		f, _, err := reply.Answer()
		if err != nil {
			t.Error(err)
		}
		first <- f
	}()
	held := r.held("a")
	second, _ := answered(t, r.ask("/p/mcp", call("1", "echo", `{"second":true}`, s)))
	if !strings.Contains(string(second.Result), "second") {
		t.Errorf("M-020 got %s", second.Raw)
	}
	if err := held.Text("the first"); err != nil {
		t.Fatal(err)
	}
	if f := <-first; f == nil || !strings.Contains(string(f.Result), "the first") || string(f.ID) != "1" {
		t.Errorf("M-020 got %v", f)
	}
}

func TestCorrelation(t *testing.T) {
	r := newRig(t, func(s *setting) { s.broker.Limits = true })
	s := r.session("2025-03-26")
	for _, c := range []struct{ sent, kept string }{{"a.b:c-1_", "a.b:c-1_"}, {"no good", ""}, {strings.Repeat("x", 129), ""}} {
		answered(t, r.ask("/p/mcp", call("1", "nosuch", "{}", s, "X-Correlation-Id: "+c.sent)))
		list := r.audited("unknown-tool")
		got := list[len(list)-1].CorrelationID
		if c.kept != "" && got != c.kept || c.kept == "" && (got == c.sent || got == "") {
			t.Errorf("4.2.12: of %q %q was kept", c.sent, got)
		}
	}
}

// TestStreamCloseCancels closes connections of calls under way, in both eras.
func TestStreamCloseCancels(t *testing.T) {
	r := newRig(t)
	leave := func(a mcptest.Ask, key string) *mcptest.Call {
		ctx, cancel := context.WithCancel(within(t))
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if reply, err := a.Send(ctx, r.url+"/p/mcp"); err == nil {
				_, _, err = reply.Answer()
				if err == nil {
					t.Error("an answer to nobody")
				}
			}
		}()
		c := r.held(key)
		cancel()
		<-gone
		return c
	}
	t.Run("M-015 modern: it is the cancel", func(t *testing.T) {
		<-leave(modern("1", "hold", `{"key":"m"}`), "m").Cancelled()
	})
	t.Run("M-016 legacy: the call goes on", func(t *testing.T) {
		s := r.session("2025-11-25")
		c := leave(call("1", "hold", `{"key":"l"}`, s), "l")
		// The session is asked something afterwards, so that what the disconnect does has been done.
		answered(t, r.ask("/p/mcp", call("2", "echo", "{}", s)))
		select {
		case <-c.Cancelled():
			t.Error("the provider was told to stop")
		default:
		}
		if err := c.Text("late"); err != nil {
			t.Error(err)
		}
	})
}
