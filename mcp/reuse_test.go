package mcp_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
)

// TestReuse is a result that is given again.
func TestReuse(t *testing.T) {
	readOnly := json.RawMessage(`{"readOnlyHint":true}`)
	tools := []mcptest.Tool{
		{Name: "read", Does: "echo", Annotations: readOnly, Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
		{Name: "write", Does: "echo"}, {Name: "fails", Does: "fail", Annotations: readOnly}, {Name: "error", Annotations: readOnly},
		{Name: "task", Annotations: readOnly}, {Name: "input", Annotations: readOnly}, {Name: "hold"},
	}
	const ttl = time.Minute
	rules := []mcp.CacheRule{{Tool: "read", TTL: ttl}, {Tool: "write", TTL: ttl}, {Tool: "fails", TTL: ttl}, {Tool: "error", TTL: ttl}, {Tool: "task", TTL: ttl}, {Tool: "input", TTL: ttl}}
	alice, bob := policy.NewCaller("user:alice"), policy.NewCaller("user:bob")
	with := func(name string, change func(*mcp.Slot), f func(t *testing.T, r *rig, p *mcptest.Provider)) {
		bubble(t, name, []sluice.Rule{slots("one", 1, sluice.Hold), window("ten", 10, 3_600_000_000)}, nil, func(t *testing.T, r *rig, _ *client) {
			slot := mcp.Slot{Name: "c", Cache: rules}
			if change != nil {
				change(&slot)
			}
			p := r.serves(slot, mcptest.Options{Tools: tools})
			r.status("c")
			f(t, r, p)
		})
	}
	with("M-003 M-121 a hit takes nothing from any rule and is audited", nil, func(t *testing.T, r *rig, p *mcptest.Provider) {
		c := r.client("c", "2025-06-18", alice)
		c.call("read", `{"n":1}`).passed()
		c.call("hold", `{"key":"a"}`)
		if _, err := p.Held(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			c.call("read", `{ "n" : 1 }`).passed()
		}
		c.call("read", `{"n":2}`).refused(-32029)
		synctest.Wait() // the audit hears of it after the client
		hits := 0
		for _, e := range r.audited(audit.Admit) {
			if e.Outcome == audit.CacheHit && e.Tool == "read" && e.Identity == "user:alice" {
				hits++
			}
		}
		if hits != 20 || p.Count("read") != 1 {
			t.Errorf("%d hits, %d calls", hits, p.Count("read"))
		}
	})
	with("M-095 a hit is checked like a call: permission and arguments", nil, func(t *testing.T, r *rig, p *mcptest.Provider) {
		o := r.options
		o.Policy = mustPolicy(policy.Config{Roles: []policy.Role{{Name: "r", Capabilities: []string{"mcp.tools.call"}}}, Assignments: []policy.Assignment{{Subject: "user:alice", Role: "r", Resource: "/c"}}})
		r.reload(o)
		c := r.client("c", "2025-06-18", alice)
		c.call("read", `{"n":1}`).passed()
		c.call("read", `{"n":1}`).passed()
		c.call("read", `{"n":"1"}`).refused(-32602)
		o.Policy = mustPolicy(policy.Config{Roles: []policy.Role{{Name: "r", Capabilities: []string{"mcp.tools.list"}}}, Assignments: []policy.Assignment{{Subject: "user:alice", Role: "r", Resource: "/c"}}})
		r.reload(o)
		c.call("read", `{"n":1}`).refused(-32001)
		if n := p.Count("read"); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
	with("M-093 each caller has its own, unless the operator says they are shared", nil, func(t *testing.T, r *rig, p *mcptest.Provider) {
		for n, who := range []*policy.Caller{alice, bob, nil, policy.NewCaller("user:alice", "group:x")} {
			r.client("c", "2025-06-18", who).call("read", `{"n":1}`).passed()
			if want := min(n+1, 3); p.Count("read") != want {
				t.Errorf("%d calls after the caller %d, want %d", p.Count("read"), n, want)
			}
		}
	})
	with("M-093 shared", func(s *mcp.Slot) { s.Cache = []mcp.CacheRule{{Tool: "read", TTL: ttl, Shared: true}} }, func(t *testing.T, r *rig, p *mcptest.Provider) {
		for _, who := range []*policy.Caller{alice, bob, nil} {
			r.client("c", "2025-06-18", who).call("read", `{"n":1}`).passed()
		}
		if n := p.Count("read"); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
	with("M-093 a result goes to clients of both eras, each in its words", func(s *mcp.Slot) { s.Protocol = "modern" }, func(t *testing.T, r *rig, p *mcptest.Provider) {
		for range 2 {
			has(t, r.client("c", "2025-06-18", alice).call("read", `{"n":1}`).passed().Raw, "-resultType", `"n":1`)
			has(t, r.client("c", "2026-07-28", alice).call("read", `{"n":1}`, "_meta", mcptest.Meta).passed().Raw, `"resultType":"complete"`, `"n":1`)
		}
		if n := p.Count("read"); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
	with("M-094 what is no result to keep is asked for again", func(s *mcp.Slot) { s.Protocol = "modern" }, func(t *testing.T, r *rig, p *mcptest.Provider) {
		c := r.client("c", "2026-07-28", alice)
		for tool, arguments := range map[string]string{"write": `{}`, "fails": `{}`, "error": `{"code":-1,"message":"m"}`} {
			c.call(tool, arguments, "_meta", mcptest.Meta).answer()
			c.call(tool, arguments, "_meta", mcptest.Meta).answer()
			if n := p.Count(tool); n != 2 {
				t.Errorf("%s was called %d times", tool, n)
			}
		}
		c.call("input", `{}`, "_meta", mcptest.Meta).passed()
		c.call("input", `{}`, "_meta", mcptest.Meta, "inputResponses", `{}`).refused(429) // the first holds the slot: it is no hit
	})
	with("M-094 a task is none", func(s *mcp.Slot) { s.Protocol = "modern" }, func(t *testing.T, r *rig, p *mcptest.Provider) {
		c := r.client("c", "2026-07-28", alice)
		c.call("task", `{"key":"a"}`, "_meta", mcptest.Meta).passed()
		c.call("task", `{"key":"a"}`, "_meta", mcptest.Meta).refused(429)
	})
	with("M-094 an operator's word lets results of tools be kept that may write", func(s *mcp.Slot) { s.Cache = []mcp.CacheRule{{Tool: "write", TTL: ttl, Writes: true}} }, func(t *testing.T, r *rig, p *mcptest.Provider) {
		c := r.client("c", "2025-06-18", alice)
		c.call("write", `{}`).passed()
		c.call("write", `{}`).passed()
		if n := p.Count("write"); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
	for name, forget := range map[string]func(r *rig, p *mcptest.Provider, c *client){
		"its time": func(*rig, *mcptest.Provider, *client) { time.Sleep(ttl) },
		"other tools": func(_ *rig, p *mcptest.Provider, _ *client) {
			p.SetTools(append(tools[:1:1], named("new")...)...)
			time.Sleep(time.Second)
		},
		"a provider that has come back": func(r *rig, p *mcptest.Provider, c *client) {
			r.reload(remarked(r.options, "c"))
			time.Sleep(time.Second)
		},
	} {
		with("M-094 forgotten: "+name, nil, func(t *testing.T, r *rig, p *mcptest.Provider) {
			c := r.client("c", "2025-06-18", alice)
			c.call("read", `{"n":1}`).passed()
			forget(r, p, c)
			synctest.Wait()
			c.call("read", `{"n":1}`).passed()
			if n := p.Count("read"); n != 2 {
				t.Errorf("%d calls", n)
			}
		})
	}
	with("M-021 a hit has the id of who asks, whatever it is", nil, func(t *testing.T, r *rig, p *mcptest.Provider) {
		c := r.client("c", "2025-06-18", alice)
		for _, id := range []string{`"a"`, `9007199254740993`, `1.0`} {
			if f := c.send(string(mcptest.CallTool(id, "read", `{}`))).passed(); string(f.ID) != id {
				t.Errorf("%s came back as %s", id, f.ID)
			}
		}
		if n := p.Count("read"); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}
