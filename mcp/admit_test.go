package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
)

// window is a rule of n calls of tools in any per.
func window(id string, n int64, per limit.Micros, group ...sluice.Dimension) sluice.Rule {
	return sluice.Rule{ID: id, Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {"tool"}}}, GroupBy: group,
		Limits: []sluice.Limit{{Limit: limit.Window(n, per)}}}
}

// only narrows a rule.
func only(r sluice.Rule, d sluice.Dimension, value string) sluice.Rule {
	is := map[sluice.Dimension][]string{d: {value}}
	for k, v := range r.Match.Is {
		is[k] = v
	}
	r.Match.Is = is
	return r
}

func TestRules(t *testing.T) {
	alice, bob := policy.NewCaller("user:alice", "group:a"), policy.NewCaller("user:bob")
	t.Run("C-17 one refusal debits none", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("global", 2, limit.Hour), only(window("alice", 1, limit.Hour), sluice.Subject, "user:alice")}, nil)
		a, b := r.client("p", "2025-06-18", alice), r.client("p", "2025-06-18", bob)
		a.call("echo", `{}`).passed()
		for range 5 {
			if got := a.call("echo", `{}`).refused(-32029); got.RuleID != "alice" || got.Reason != "limit-exceeded" {
				t.Errorf("got %+v", got)
			}
		}
		b.call("echo", `{}`).passed()
		if got := b.call("echo", `{}`).refused(-32029); got.RuleID != "global" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("C-18 selectors intersect, and a subject is any of the caller's", func(t *testing.T) {
		rule := only(only(window("both", 1, limit.Hour), sluice.Subject, "group:a"), sluice.Provider, "p")
		r := newRig(t, []sluice.Rule{rule, only(window("elsewhere", 0, limit.Hour), sluice.Resource, "/q/**")}, nil)
		a, b := r.client("p", "2025-06-18", alice), r.client("p", "2025-06-18", bob)
		a.call("echo", `{}`).passed()
		a.call("echo", `{}`).refused(-32029)
		for range 3 {
			b.call("echo", `{}`).passed()
		}
	})
	t.Run("C-15 a call without a rule passes and leaves no record", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.client("p", "2025-06-18", nil).call("echo", `{}`).passed()
		if n, ok := r.ctl.Recorded(); n != 0 || !ok {
			t.Errorf("%d records", n)
		}
	})
	t.Run("C-19 C-39 without groupBy all share one counter, over every transport", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("all", 3, limit.Hour)}, nil)
		for _, who := range []*policy.Caller{alice, bob, nil} {
			r.client("p", "2025-06-18", who).call("echo", `{}`).passed()
		}
		r.client("p", "2025-06-18", alice).call("echo", `{}`).refused(-32029)
	})
	t.Run("C-20 C-21 groups never count for groupBy subject", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("each", 1, limit.Hour, sluice.Subject)}, nil)
		for _, who := range []struct {
			subjects []string
			passes   bool
		}{
			{[]string{"user:alice", "group:a"}, true}, {[]string{"group:b", "user:alice"}, false},
			{[]string{"service:s", "client:c"}, true}, {[]string{"service:s", "client:d"}, false},
			{[]string{"client:c"}, true}, {[]string{"group:a"}, true}, {nil, false},
		} {
			x := r.client("p", "2025-06-18", policy.NewCaller(who.subjects...)).call("echo", `{}`)
			if got := x.answer(); (got.Error == nil) != who.passes {
				t.Errorf("%v: %s", who.subjects, got.Raw)
			}
		}
	})
	t.Run("C-W25 groupBy ip tells anonymous callers apart", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("each", 1, limit.Hour, sluice.IP)}, nil)
		for _, ip := range []string{"ip:192.0.2.1", "ip:192.0.2.2"} {
			c := r.client("p", "2025-06-18", &policy.Caller{IP: ip})
			c.call("echo", `{}`).passed()
			c.call("echo", `{}`).refused(-32029)
		}
	})
	t.Run("C-W30 a capability has a weight", func(t *testing.T) {
		rule := window("weighed", 10, limit.Hour)
		rule.Weights = map[string]int64{"dear": 8}
		p, err := policy.New(policy.Config{ToolCapabilities: map[string]string{"big": "dear"}})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, []sluice.Rule{rule}, func(o *mcp.Options) { o.Policy = p })
		c := r.client("p", "2025-06-18", nil)
		c.call("big", `{"bytes":1}`).passed()
		c.call("echo", `{}`).passed()
		c.call("echo", `{}`).passed()
		c.call("echo", `{}`).refused(-32029)
	})
	t.Run("C-29 in one rule calls and rate come before concurrency", func(t *testing.T) {
		rule := slots("r", 1, sluice.Hold)
		r := newRig(t, []sluice.Rule{rule, func() sluice.Rule { r := window("r:rate", 1, limit.Hour); r.Volatile = true; return r }()}, nil)
		c := r.client("p", "2025-06-18", nil)
		c.call("hold", `{"key":"a"}`)
		r.key("a")
		if got := c.call("echo", `{}`).refused(-32029); got.Reason != "limit-exceeded" || got.RuleID != "r" || got.RetryAfterMs != nil {
			t.Errorf("got %+v; time alone does not help while the slot is held", got)
		}
	})
	t.Run("C-27 more than a rule ever admits is never retried", func(t *testing.T) {
		rule := window("r", 1, limit.Hour)
		rule.Weights = map[string]int64{"mcp.tools.call": 2}
		r := newRig(t, []sluice.Rule{rule}, nil)
		if got := r.client("p", "2025-06-18", nil).call("echo", `{}`).refused(-32029); got.Reason != "quantity-exceeds-limit" || got.RetryAfterMs != nil {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("C-38 M-097 other methods cost nothing", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("one", 1, limit.Hour)}, nil)
		c := r.client("p", "2025-06-18", nil)
		for range 1000 {
			c.ask("tools/list", map[string]any{}).passed()
		}
		c.ask("ping", nil).passed()
		c.call("echo", `{}`).passed()
	})
	t.Run("D22 a rule may be about other methods", func(t *testing.T) {
		rule := sluice.Rule{ID: "reads", Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {"method"}, sluice.Method: {"prompts/get"}}},
			Limits: []sluice.Limit{{Limit: limit.Window(1, limit.Hour)}}}
		r := newRig(t, []sluice.Rule{rule}, func(o *mcp.Options) { o.Methods = true })
		c := r.client("p", "2025-06-18", nil)
		c.ask("prompts/get", map[string]any{"name": "x"}).answer()
		if got := c.ask("prompts/get", map[string]any{"name": "x"}).refused(-32029); got.RuleID != "reads" {
			t.Errorf("got %+v", got)
		}
		c.ask("prompts/list", map[string]any{}).answer()
	})
	t.Run("C-37 C-W14 a call without an id is dropped, and audited", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("one", 1, limit.Hour)}, nil)
		c := r.client("p", "2025-06-18", nil)
		c.send(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{}}}`)
		c.call("echo", `{}`).passed()
		if n := r.provider.Count(""); n != 1 {
			t.Errorf("the provider has run %d calls", n)
		}
		if got := r.audited(audit.Admit); got[0].Outcome != audit.Dropped {
			t.Errorf("audited %+v", got[0])
		}
	})
	t.Run("C-34 M-098 refusals never reach the provider and cost nothing", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("one", 1, limit.Hour)}, nil)
		c := r.client("p", "2025-06-18", nil)
		c.call("echo", `{}`).passed()
		first := *c.call("echo", `{}`).refused(-32029).RetryAfterMs
		for range 100 {
			c.call("echo", `{}`).refused(-32029)
		}
		if last := *c.call("echo", `{}`).refused(-32029).RetryAfterMs; last > first {
			t.Errorf("the wait has grown from %d to %d ms", first, last)
		}
		if n := r.provider.Count("echo"); n != 1 {
			t.Errorf("the provider has run %d", n)
		}
	})
	t.Run("a shadow rule refuses nobody", func(t *testing.T) {
		rule := window("shadow", 0, limit.Hour)
		rule.Shadow = true
		r := newRig(t, []sluice.Rule{rule}, nil)
		r.client("p", "2025-06-18", nil).call("echo", `{}`).passed()
	})
}

// TestRefusal is what a refusal says.
func TestRefusal(t *testing.T) {
	for _, era := range []struct {
		version string
		code    int64
	}{{"2024-11-05", -32029}, {"2025-03-26", -32029}, {"2025-06-18", -32029}, {"2025-11-25", -32029}, {"2026-07-28", 429}} {
		t.Run("C-33 M-102 D12 "+era.version, func(t *testing.T) {
			r := newRig(t, []sluice.Rule{window("one", 1, limit.Hour)}, nil)
			c := r.client("p", era.version, nil)
			meta := []string{}
			if era.code == 429 {
				meta = []string{"_meta", mcptest.Meta}
			}
			c.call("echo", `{}`, meta...).passed()
			x := c.call("echo", `{}`, meta...)
			got := x.refused(era.code)
			if got.Reason != "limit-exceeded" || got.RuleID != "one" || got.RetryAfterMs == nil || *got.RetryAfterMs < 3_599_000 || *got.RetryAfterMs > 3_600_000 || x.status != 200 {
				t.Errorf("status %d, %+v", x.status, got)
			}
			if want := fmt.Sprintf("Tool admission refused by rule one: limit-exceeded; retry in %d ms", *got.RetryAfterMs); x.last.Error.Message != want {
				t.Errorf("got %q, want %q", x.last.Error.Message, want)
			}
			if strings.Contains(string(x.last.Error.Data), "null") {
				t.Errorf("a member is null: %s", x.last.Error.Data)
			}
		})
	}
	bubble(t, "C-24 C-26 M-104 waiting the hint is enough, and a millisecond less is not", []sluice.Rule{window("one", 1, limit.Second)}, nil, func(t *testing.T, r *rig, c *client) {
		for n := range 20 {
			c.call("echo", `{}`).passed()
			time.Sleep(time.Duration(n*37%1000) * time.Millisecond)
			wait := time.Duration(*c.call("echo", `{}`).refused(-32029).RetryAfterMs) * time.Millisecond
			time.Sleep(wait - time.Millisecond)
			c.call("echo", `{}`).refused(-32029)
			time.Sleep(time.Millisecond)
		}
	})
	bubble(t, "C-W5 the hint is that of the longest wait", []sluice.Rule{window("short", 1, limit.Second), window("long", 1, limit.Minute)}, nil, func(t *testing.T, r *rig, c *client) {
		c.call("echo", `{}`).passed()
		got := c.call("echo", `{}`).refused(-32029)
		if got.RuleID != "short" || *got.RetryAfterMs != 60_000 {
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Duration(*got.RetryAfterMs) * time.Millisecond)
		c.call("echo", `{}`).passed()
	})
	bubble(t, "C-W12 D2 a queue waits, in order, and says when it is full", []sluice.Rule{func() sluice.Rule {
		r := slots("one", 1, sluice.Hold)
		depth := 2
		r.Queue = &sluice.Queue{Depth: &depth, Timeout: 10 * time.Second}
		return r
	}()}, nil, func(t *testing.T, r *rig, c *client) {
		c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		var waiting []*exchange
		for range 2 {
			waiting = append(waiting, c.call("echo", `{}`))
			synctest.Wait()
		}
		if got := c.call("echo", `{}`).refused(-32029); got.Reason != "queue-full" {
			t.Errorf("got %+v", got)
		}
		time.Sleep(5 * time.Second)
		_ = work.Text("x")
		for _, x := range waiting {
			x.passed()
		}
		c.call("silent", `{}`)
		synctest.Wait()
		began := time.Now()
		if got := c.call("echo", `{}`).refused(-32029); got.Reason != "queue-timeout" || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}
	})
}

// TestReloadRules is limits that change while calls run.
func TestReloadRules(t *testing.T) {
	t.Run("M-005 C-W16 a changed limit counts at once, and calls that run end", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{slots("r", 5, sluice.Hold)}, nil)
		c := r.client("p", "2025-06-18", nil)
		var held []*exchange
		for n := range 3 {
			held = append(held, c.call("hold", fmt.Sprintf(`{"key":"%d"}`, n)))
		}
		var work []*mcptest.Call
		for n := range 3 {
			work = append(work, r.key(fmt.Sprint(n)))
		}
		if err := r.ctl.SetPolicy(&sluice.Policy{Rules: []sluice.Rule{slots("r", 1, sluice.Hold)}}); err != nil {
			t.Fatal(err)
		}
		for n, w := range work {
			c.call("echo", `{}`).refused(-32029)
			_ = w.Text("x")
			held[n].passed() // its slot comes back before its answer
		}
		c.call("echo", `{}`).passed()
	})
	t.Run("M-005 a rule that goes leaves no call behind", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{slots("r", 5, sluice.Hold)}, nil)
		c := r.client("p", "2025-06-18", nil)
		x := c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		if err := r.ctl.SetPolicy(&sluice.Policy{}); err != nil {
			t.Fatal(err)
		}
		_ = work.Text("x")
		x.passed()
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
	})
}

// TestRequirement is rules that want reservations.
func TestRequirement(t *testing.T) {
	need := func(o *mcp.Options) {
		o.Requirements = []mcp.Requirement{{Rule: "budget", Unit: "op", Provider: "p"}}
		o.Order = []string{"first", "budget", "last"}
	}
	t.Run("C-30 a provider that has not declared the unit gets no call", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("last", 1, limit.Hour)}, need)
		c := r.client("p", "2025-06-18", nil)
		for range 3 {
			if got := c.call("echo", `{}`).refused(-32029); got.Reason != "reservation-unsupported" || got.RuleID != "budget" || got.RetryAfterMs != nil {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("C-29 a rule that stands before it is reported", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("first", 0, limit.Hour)}, need)
		if got := r.client("p", "2025-06-18", nil).call("echo", `{}`).refused(-32029); got.RuleID != "first" {
			t.Errorf("got %+v", got)
		}
	})
	queued := slots("first", 1, sluice.Hold)
	queued.Queue = &sluice.Queue{}
	bubble(t, "C-30 C-W12 no call waits in the queue of a rule that stands before it, and is let through then", []sluice.Rule{queued}, need, func(t *testing.T, r *rig, c *client) {
		r.serves(mcp.Slot{Name: "q", Protocol: "legacy"}, mcptest.Options{})
		first := r.client("q", "2025-06-18", nil).call("silent", `{}`)
		synctest.Wait()
		x := c.call("echo", `{}`)
		synctest.Wait()
		if !x.answered() {
			first.cancel()
			held := r.onlyHeld()
			_, _ = r.Release(t.Context(), "q", held.RequestID, "me")
			t.Fatalf("the call waits, and is answered %s", x.answer().Raw)
		}
		if got := x.refused(-32029); got.RetryAfterMs != nil {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("M-104 a rule that stands before it gives no time after which it would pass", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("first", 1, limit.Hour)}, need)
		r.serves(mcp.Slot{Name: "q", Protocol: "legacy"}, mcptest.Options{})
		r.client("q", "2025-06-18", nil).call("echo", `{}`).passed()
		if got := r.client("p", "2025-06-18", nil).call("echo", `{}`).refused(-32029); got.RuleID != "first" || got.RetryAfterMs != nil {
			t.Errorf("got %+v", got)
		}
	})
}

// TestBuiltinAdmission is what the broker's own tools cost.
func TestBuiltinAdmission(t *testing.T) {
	p, err := policy.New(policy.Config{
		Roles:       []policy.Role{{Name: "op", Capabilities: []string{"*"}}, {Name: "user", Capabilities: []string{"broker.providers.read", "mcp.tools.list"}}},
		Assignments: []policy.Assignment{{Subject: "user:op", Role: "op", Resource: "/**"}, {Subject: "user:u", Role: "user", Resource: "/_system/broker"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	op, user := policy.NewCaller("user:op"), policy.NewCaller("user:u")
	t.Run("C-41 C-100 global rules count them, but for the way out", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{slots("one", 1, sluice.Hold)}, func(o *mcp.Options) { o.Policy, o.Limits, o.Order = p, true, []string{"one"} })
		c := r.client("p", "2025-06-18", op)
		x := c.call("silent", `{}`)
		r.await(func(e audit.Event) bool { return e.Outcome == audit.Dispatched })
		b := r.client(mcp.BrokerSlot, "2025-06-18", op)
		if got := b.call("broker_info", `{}`).refused(-32029); got.RuleID != "one" {
			t.Errorf("got %+v", got)
		}
		var d struct {
			StructuredContent mcp.Diagnosis `json:"structuredContent"`
		}
		if err := json.Unmarshal(b.call("broker_diagnose", `{"slot":"p"}`).passed().Result, &d); err != nil {
			t.Fatal(err)
		}
		calls := d.StructuredContent.Calls.Calls
		if len(calls) != 1 || calls[0].Slot != "p" || calls[0].Tool != "silent" || calls[0].Identity != "user:op" || fmt.Sprint(calls[0].Rules) != "[one]" {
			t.Fatalf("C-W20 the calls are %+v", calls)
		}
		// C-52 somebody without the capability does not get to the tool.
		args := fmt.Sprintf(`{"slot":"p","requestId":%q}`, calls[0].RequestID)
		u := r.client(mcp.BrokerSlot, "2025-06-18", user)
		u.call("broker_limits_release", args).refused(-32001)
		// C-54 arguments that are wrong change nothing.
		for _, wrong := range []string{`{}`, `{"slot":"p","requestId":"x"}`, `{"slot":"q","requestId":"x"}`} {
			f := b.call("broker_limits_release", wrong).answer()
			if f.Error == nil && !strings.Contains(string(f.Result), `"isError":true`) {
				t.Errorf("%s: %s", wrong, f.Raw)
			}
		}
		f := b.call("broker_limits_release", args).passed()
		var released struct {
			StructuredContent map[string]any `json:"structuredContent"`
		}
		_ = json.Unmarshal(f.Result, &released)
		if s := released.StructuredContent; s["released"] != true || s["by"] != "user:op" || s["slot"] != "p" || s["note"] == "" {
			t.Errorf("C-51 got %s", f.Raw)
		}
		x.answer()
		b.call("broker_info", `{}`).passed()
	})
	t.Run("C-55 without limits the tool is not there", func(t *testing.T) {
		r := newRig(t, nil, func(o *mcp.Options) { o.Policy = p })
		b := r.client(mcp.BrokerSlot, "2025-06-18", op)
		if list := string(b.ask("tools/list", map[string]any{}).passed().Result); strings.Contains(list, "broker_limits_release") || !strings.Contains(list, "broker_diagnose") {
			t.Errorf("the tools: %s", list)
		}
		b.call("broker_limits_release", `{"slot":"p","requestId":"x"}`).refused(-32602)
	})
	t.Run("C-53 without a policy nobody is an operator", func(t *testing.T) {
		r := newRig(t, nil, func(o *mcp.Options) { o.Limits = true })
		f := r.client(mcp.BrokerSlot, "2025-06-18", op).call("broker_limits_release", `{"slot":"p","requestId":"x"}`).passed()
		if !strings.Contains(string(f.Result), `"isError":true`) {
			t.Errorf("got %s", f.Raw)
		}
	})
}
