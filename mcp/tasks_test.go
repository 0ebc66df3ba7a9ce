package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
)

// taskOf is the id of the task that an answer has created.
func taskOf(t *testing.T, f *mcptest.Frame) string {
	t.Helper()
	var r struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	if err := json.Unmarshal(f.Result, &r); err != nil || r.TaskID+r.Task.TaskID == "" {
		t.Fatalf("no task in %s", f.Raw)
	}
	return r.TaskID + r.Task.TaskID
}

// TestManyTasks has more tasks than are noted.
func TestManyTasks(t *testing.T) {
	one := slots("one", 1, sluice.Hold)
	one.Match.Is[sluice.Provider] = []string{"m"}
	bubble(t, "M-116 a task holds its slot, however many that hold none go on", []sluice.Rule{one}, nil, func(t *testing.T, r *rig, _ *client) {
		r.serves(mcp.Slot{Name: "m", Protocol: "legacy"}, mcptest.Options{})
		r.serves(mcp.Slot{Name: "n", Protocol: "legacy"}, mcptest.Options{Forget: true})
		n, m := r.client("n", "2025-11-25", nil), r.client("m", "2025-11-25", nil)
		for range 10_001 {
			n.call("task", `{}`).passed()
		}
		if held := r.heldNow(); len(held) != 10_000 {
			t.Errorf("%d tasks are noted", len(held))
		}
		m.call("task", `{"key":"a"}`).passed()
		m.call("echo", `{}`).refused(-32029)
	})
}

// TestTasks is work that goes on after a call was answered.
func TestTasks(t *testing.T) {
	one := []sluice.Rule{slots("one", 1, sluice.Hold)}
	meta := json.RawMessage(mcptest.Meta)
	eras := []struct {
		version, protocol string
	}{{"2025-11-25", "legacy"}, {"2026-07-28", "modern"}}
	for _, era := range eras {
		with := func(name string, f func(t *testing.T, r *rig, p *mcptest.Provider, c *client)) {
			bubble(t, era.protocol+" "+name, one, nil, func(t *testing.T, r *rig, _ *client) {
				p := r.serves(mcp.Slot{Name: "m", Protocol: era.protocol}, mcptest.Options{})
				f(t, r, p, r.client("m", era.version, policy.NewCaller("user:alice")))
			})
		}
		with("M-116 the slot is held until the client sees that the task is over; asking costs nothing", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
			id := taskOf(t, c.call("task", `{"key":"a"}`, metaOf(era.version)...).passed())
			if got := r.heldNow(); len(got) != 1 || got[0] != "task[one]" {
				t.Errorf("held: %v", got)
			}
			c.call("echo", `{}`, metaOf(era.version)...).refused(refusedIn(era.version))
			for range 20 {
				has(t, c.ask("tasks/get", map[string]any{"taskId": id, "_meta": meta}).passed().Raw, `"working"`)
			}
			finish(r, p, "a")
			has(t, c.ask("tasks/get", map[string]any{"taskId": id, "_meta": meta}).passed().Raw, `"completed"`)
			synctest.Wait()
			c.call("echo", `{}`, metaOf(era.version)...).passed()
			has(t, c.ask("tasks/get", map[string]any{"taskId": id, "_meta": meta}).passed().Raw, `"completed"`)
		})
		with("M-116 where the client does not ask the broker does", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
			c.call("task", `{"key":"a"}`, metaOf(era.version)...).passed()
			time.Sleep(20 * time.Second)
			c.call("echo", `{}`, metaOf(era.version)...).refused(refusedIn(era.version))
			finish(r, p, "a")
			time.Sleep(6 * time.Second)
			synctest.Wait()
			c.call("echo", `{}`, metaOf(era.version)...).passed()
			if got := r.heldNow(); len(got) != 0 {
				t.Errorf("held: %v", got)
			}
		})
		with("M-116 or its time is over", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
			c.call("task", `{"key":"a"}`, metaOf(era.version)...).passed()
			time.Sleep(69 * time.Second)
			c.call("echo", `{}`, metaOf(era.version)...).refused(refusedIn(era.version))
			time.Sleep(2 * time.Second)
			synctest.Wait()
			c.call("echo", `{}`, metaOf(era.version)...).passed()
		})
		with("M-116 an operator frees it", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
			c.call("task", `{"key":"a"}`, metaOf(era.version)...).passed()
			events := r.audited(audit.Admit)
			if ok, err := r.Release(t.Context(), "m", events[len(events)-1].RequestID, "user:op"); !ok || err != nil {
				t.Errorf("not released: %v", err)
			}
			c.call("echo", `{}`, metaOf(era.version)...).passed()
		})
		with("M-117 another user's task is as unknown as one that never was", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
			id := taskOf(t, c.call("task", `{"key":"a"}`, metaOf(era.version)...).passed())
			bob := r.client("m", era.version, policy.NewCaller("user:bob"))
			for _, method := range []string{"tasks/get", "tasks/cancel"} {
				theirs := bob.ask(method, map[string]any{"taskId": id, "_meta": meta})
				never := bob.ask(method, map[string]any{"taskId": "task-4711", "_meta": meta})
				theirs.refused(-32602)
				if a, b := string(theirs.last.Raw), string(never.answer().Raw); strings.SplitN(a, `"error"`, 2)[1] != strings.SplitN(b, `"error"`, 2)[1] {
					t.Errorf("%s differs from %s", a, b)
				}
			}
			has(t, c.ask("tasks/get", map[string]any{"taskId": id, "_meta": meta}).passed().Raw, `"working"`)
			if era.protocol == "legacy" {
				bob.ask("tasks/result", map[string]any{"taskId": id}).refused(-32602)
			}
		})
		with("M-116 a provider's word about a task goes to its owner, and ends it", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
			id := taskOf(t, c.call("task", `{"key":"a"}`, metaOf(era.version)...).passed())
			bob := r.client("m", "2025-11-25", policy.NewCaller("user:bob"))
			p.Notify("notifications/tasks/status", map[string]any{"taskId": id, "status": "failed", "createdAt": "", "ttl": nil})
			synctest.Wait()
			c.call("echo", `{}`, metaOf(era.version)...).passed()
			if len(bob.pushed) != 0 {
				t.Errorf("bob heard %s", (<-bob.pushed).Raw)
			}
			if era.protocol == "legacy" && len(c.pushed) != 1 {
				t.Errorf("alice heard %d times", len(c.pushed))
			}
		})
		with("M-116 a result that only looks like a task is none", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
			c.call("raw", `{"frames":["{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[],\"taskId\":\"t\",\"status\":\"working\"}}"]}`, metaOf(era.version)...).passed()
			c.call("echo", `{}`, metaOf(era.version)...).passed()
		})
	}
	bubble(t, "M-116 in _all, where nobody could ask for one, tasks are not asked for", one, nil, func(t *testing.T, r *rig, _ *client) {
		p := r.serves(mcp.Slot{Name: "m", Protocol: "modern"}, mcptest.Options{})
		r.client(mcp.AllSlot, "2026-07-28", nil).call("m-echo", `{}`, "_meta",
			`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{}}}}`, "task", `{"ttl":1}`).passed()
		has(t, sentTo(t, p), "-modelcontextprotocol/tasks", `"x/y":{}`, `-"task"`)
	})
	bubble(t, "M-117 a list of tasks shows the caller's own", one, nil, func(t *testing.T, r *rig, _ *client) {
		p := mcptest.New(mcptest.Options{})
		t.Cleanup(p.Close)
		r.addSlot(mcp.Slot{Name: "l", Protocol: "legacy", RequestTimeout: time.Minute, Dialer: answering(p, "tasks/list",
			`{"tasks":[{"taskId":"task-1","status":"working"},{"taskId":"task-2","status":"working"},{"status":"working"}],"nextCursor":"c"}`)})
		alice := r.client("l", "2025-11-25", policy.NewCaller("user:alice"))
		id := taskOf(t, alice.call("task", `{"key":"a"}`).passed())
		has(t, alice.ask("tasks/list", map[string]any{}).passed().Raw, fmt.Sprintf(`"tasks":[{"taskId":%q,"status":"working"}]`, id), `"nextCursor":"c"`)
		has(t, r.client("l", "2025-11-25", nil).ask("tasks/list", map[string]any{}).passed().Raw, `"tasks":[]`)
	})
}

// refusedIn is the code of a refusal in a revision.
func refusedIn(version string) int64 {
	if version == "2026-07-28" {
		return 429
	}
	return -32029
}

// finish ends a held call or a task at the provider, past the broker.
func finish(r *rig, p *mcptest.Provider, key string) {
	r.t.Helper()
	if n := p.Finish(key); n != 1 {
		r.t.Fatalf("%d calls and tasks were released", n)
	}
}

// TestMoreInput is a tool of the newest revision that wants more input from a client of it.
func TestMoreInput(t *testing.T) {
	rules := []sluice.Rule{slots("one", 1, sluice.Hold), window("two", 2, 3_600_000_000)}
	with := func(name string, f func(t *testing.T, r *rig, p *mcptest.Provider, c *client)) {
		bubble(t, name, rules, nil, func(t *testing.T, r *rig, _ *client) {
			p := r.serves(mcp.Slot{Name: "m", Protocol: "modern"}, mcptest.Options{})
			f(t, r, p, r.client("m", "2026-07-28", policy.NewCaller("user:alice")))
		})
	}
	begin := func(t *testing.T, c *client) string {
		t.Helper()
		var r struct{ RequestState, ResultType string }
		f := c.call("input", `{}`, "_meta", mcptest.Meta).passed()
		if err := json.Unmarshal(f.Result, &r); err != nil || r.ResultType != "input_required" {
			t.Fatalf("got %s", f.Raw)
		}
		has(t, f.Raw, "-state of")
		return r.RequestState
	}
	again := func(c *client, tool, state string) *exchange {
		return c.call(tool, `{}`, "_meta", mcptest.Meta, "requestState", state, "inputResponses", `{"name":{"action":"decline"}}`)
	}
	with("M-118 two requests are one call, which holds its slot in between", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
		state := begin(t, c)
		if got := r.heldNow(); len(got) != 1 || got[0] != "awaiting-input[one]" {
			t.Errorf("held: %v", got)
		}
		c.call("echo", `{}`, "_meta", mcptest.Meta).refused(429)
		again(c, "input", fmt.Sprintf("%q", state)).passed()
		has(t, sentTo(t, p), `"requestState":"state of `)
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
		c.call("echo", `{}`, "_meta", mcptest.Meta).passed() // the second of two
		if got := c.call("echo", `{}`, "_meta", mcptest.Meta).refused(429); got.RuleID != "two" {
			t.Errorf("got %+v", got)
		}
	})
	with("M-118 a state is good once; then the call is a new one", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
		state := fmt.Sprintf("%q", begin(t, c))
		again(c, "input", state).passed()
		again(c, "input", state).passed() // the second of two
		if got := again(c, "input", state).refused(429); got.RuleID != "two" {
			t.Errorf("got %+v", got)
		}
	})
	with("M-118 a state that the broker has not given, or not to this caller, or for another tool, is worth nothing", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
		state := begin(t, c)
		before := p.Count("")
		bent := []byte(state)
		bent[len(bent)/2] ^= 1
		for _, hostile := range []string{`""`, `1`, `null`, `{}`, `"state of 1"`, fmt.Sprintf("%q", bent), fmt.Sprintf("%q", state[:20]), fmt.Sprintf("%q", strings.Repeat("A", 100_000))} {
			again(c, "input", hostile).refused(-32602)
		}
		again(r.client("m", "2026-07-28", policy.NewCaller("user:bob")), "input", fmt.Sprintf("%q", state)).refused(-32602)
		again(c, "echo", fmt.Sprintf("%q", state)).refused(-32602)
		if n := p.Count(""); n != before {
			t.Errorf("the provider saw %d of them", n-before)
		}
		again(c, "input", fmt.Sprintf("%q", state)).passed()
	})
	with("M-118 after its time the slot is free, and the call a new one", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
		state := fmt.Sprintf("%q", begin(t, c))
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
		again(c, "input", state).passed()
		if got := again(c, "input", state).refused(429); got.RuleID != "two" {
			t.Errorf("got %+v", got)
		}
	})
	with("M-118 an operator may free it", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
		state := fmt.Sprintf("%q", begin(t, c))
		events := r.audited(audit.Admit)
		if ok, _ := r.Release(t.Context(), "m", events[len(events)-1].RequestID, "user:op"); !ok {
			t.Error("not released")
		}
		again(c, "input", state).passed()
	})
}
