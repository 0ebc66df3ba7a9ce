package front_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// array reads a reply that is a JSON array.
func array(t *testing.T, reply *mcptest.Reply) []mcptest.Frame {
	t.Helper()
	_, data, err := reply.NextEvent()
	var list []mcptest.Frame
	if err != nil || json.Unmarshal([]byte(data), &list) != nil {
		t.Fatalf("%s: %q, %v", reply.Status, data, err)
	}
	return list
}

func TestBatches(t *testing.T) {
	free, limited := newRig(t), newRig(t, func(s *setting) { s.broker.Limits, s.front.Bounds.BatchItems = true, 5 })
	const (
		ping   = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
		note   = `{"jsonrpc":"2.0","method":"notifications/x"}`
		silent = `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`
	)
	echo := string(mcptest.CallTool("1", "echo", `{}`))
	batch := func(items ...string) string { return "[" + strings.Join(items, ",") + "]" }
	t.Run("2.1 in 2025-03-26, without limits, item by item", func(t *testing.T) {
		s := free.session("2025-03-26")
		list := array(t, free.ask("/p/mcp", mcptest.Ask{Header: []string{s}, Body: batch(ping, note, echo, `{"jsonrpc":"2.0","id":null}`)}))
		ids := map[string]bool{}
		for _, f := range list {
			ids[string(f.ID)] = f.Error == nil
		}
		if len(list) != 3 || !ids[`"p"`] || !ids["1"] || ids["null"] {
			t.Errorf("%v", list)
		}
		if reply := free.ask("/p/mcp", mcptest.Ask{Header: []string{s}, Body: batch(note, note)}); reply.StatusCode != 202 {
			t.Error(reply.Status)
		}
		reply := free.ask("/p/mcp", mcptest.Ask{Header: []string{s}, Body: batch(string(mcptest.CallTool("2", "progress", `{"n":2}`, "_meta", `{"progressToken":1}`)), ping)})
		for range 2 {
			if f, err := reply.Next(); err != nil || f.Method != "notifications/progress" {
				t.Fatal(f, err)
			}
		}
		if list := array(t, reply); len(list) != 2 {
			t.Error("M-037", list)
		}
	})
	s := limited.session("2025-03-26")
	t.Run("C-36, C-W14 with limits, one with a tool is refused whole", func(t *testing.T) {
		list := array(t, limited.ask("/p/mcp", mcptest.Ask{Header: []string{s}, Body: batch(ping, note, echo, silent)}))
		if len(list) != 2 {
			t.Fatal(list)
		}
		for _, f := range list {
			if f.Error == nil || f.Error.Code != -32029 || !strings.Contains(string(f.Error.Data), `"untracked-batch"`) {
				t.Errorf("%s: %v", f.ID, f.Error)
			}
		}
		if n := len(limited.audited("untracked-batch")); n != 2 {
			t.Error("audited:", n)
		}
	})
	t.Run("C-37, C-W14 a tool's notification is dropped and audited", func(t *testing.T) {
		if reply := limited.ask("/p/mcp", mcptest.Ask{Header: []string{s}, Body: silent}); reply.StatusCode != 202 {
			t.Error(reply.Status)
		}
		if n := len(limited.audited("untracked-notification")); n != 1 {
			t.Error("audited:", n)
		}
	})
	for _, c := range []struct {
		name, body string
		header     []string
		drops      int
	}{
		{"M-033 another revision", batch(echo, echo), []string{limited.session("2025-11-25")}, 2},
		{"M-034 another revision, and a header that claims this one", batch(ping), []string{limited.session("2025-11-25"), "MCP-Protocol-Version: 2025-03-26"}, 0},
		{"M-033 the modern era", batch(echo, ping), []string{"MCP-Protocol-Version: 2026-07-28"}, 1},
		{"no session", batch(echo), nil, 0},
		{"2.6 initialize", batch(string(initialize("2025-03-26")), ping), []string{s}, 0},
		{"too many", batch(ping, ping, ping, ping, ping, ping), []string{s}, 0},
		{"none", batch(), []string{s}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(limited.audited("untracked-batch"))
			if f := refused(t, limited.ask("/p/mcp", mcptest.Ask{Header: c.header, Body: c.body})); f.status != 400 || f.code != -32600 || f.id != "null" {
				t.Error(f)
			}
			if n := len(limited.audited("untracked-batch")) - before; n != c.drops {
				t.Error("C-W14 audited:", n)
			}
		})
	}
	t.Run("over HTTP with SSE", func(t *testing.T) {
		stream, post := limited.sse()
		tell := func(body string) {
			if reply := limited.ask(post, mcptest.Ask{Body: body}); reply.StatusCode != 202 {
				t.Fatal(reply.Status)
			}
		}
		tell(string(initialize("2025-03-26")))
		answered(t, stream)
		tell(batch(echo, ping))
		if list := array(t, stream); len(list) != 2 || list[0].Error.Code != -32029 {
			t.Error("C-36", list)
		}
		tell(batch(ping, ping))
		if list := array(t, stream); len(list) != 2 {
			t.Error(list)
		}
	})
	if n := limited.provider.Count(""); n != 0 {
		t.Error("C-36, M-033: the provider was called", n)
	}
}
