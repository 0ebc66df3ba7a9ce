package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
)

// tools are the names that a client's list has.
func (c *client) tools() (names []string) {
	c.r.t.Helper()
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(c.ask("tools/list", map[string]any{}).passed().Result, &list); err != nil {
		c.r.t.Fatal(err)
	}
	for _, t := range list.Tools {
		names = append(names, t.Name)
	}
	return names
}

// named are tools that do what echo does.
func named(names ...string) (list []mcptest.Tool) {
	for _, name := range names {
		list = append(list, mcptest.Tool{Name: name, Does: "echo"})
	}
	return list
}

// heard counts what a client was told, and forgets it.
func (c *client) heard(method string) (n int) {
	for {
		select {
		case f := <-c.pushed:
			if f.Method == method {
				n++
			}
		default:
			return n
		}
	}
}

const listChanged = "notifications/tools/list_changed"

func never(context.Context, link.Inbox) (link.Link, error) { return nil, fmt.Errorf("never") }

// A dead provider is never reached.
type dead struct{ hangs bool }

func (d dead) Dial(ctx context.Context, in link.Inbox) (link.Link, error) {
	if d.hangs {
		<-ctx.Done()
	}
	return never(ctx, in)
}

func (dead) String() string { return "dead" }

// A gate is a provider that cannot be reached while it is shut.
type gate struct {
	*loopback.Dialer
	shut *atomic.Bool
}

func (g gate) Dial(ctx context.Context, in link.Inbox) (link.Link, error) {
	if g.shut.Load() {
		return never(ctx, in)
	}
	return g.Dialer.Dial(ctx, in)
}

// TestNamesInAll is how tools are called in the union of all providers.
func TestNamesInAll(t *testing.T) {
	empty, same := "", "same-"
	bubble(t, "M-080 the slot is the prefix, and an operator's prefix another; of two with one name the first slot's counts, whoever came first", nil, nil, func(t *testing.T, r *rig, _ *client) {
		late := r.serves(mcp.Slot{Name: "z", Prefix: &same}, mcptest.Options{Tools: named("one", "other")})
		time.Sleep(time.Second)
		first := r.serves(mcp.Slot{Name: "a", Prefix: &same}, mcptest.Options{Tools: named("one")})
		r.serves(mcp.Slot{Name: "bare", Prefix: &empty}, mcptest.Options{Tools: named("bare-one", "two")})
		time.Sleep(time.Second)
		c := r.client(mcp.AllSlot, "2025-06-18", nil)
		names := c.tools()
		for _, want := range []string{"same-one", "same-other", "two", "bare-one", "p-echo"} {
			if !slices.Contains(names, want) {
				t.Errorf("%s is not in %v", want, names)
			}
		}
		if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("a name is there twice: %v", names)
		}
		for range 5 {
			c.call("same-one", `{}`).passed()
		}
		if first.Count("one") != 5 || late.Count("one") != 0 {
			t.Errorf("a has run %d, z %d", first.Count("one"), late.Count("one"))
		}
		has(t, r.client(mcp.BrokerSlot, "2025-06-18", nil).call("broker_diagnose", `{}`).passed().Raw, "same-one")
	})
	bubble(t, "M-081 a name that is too long ends in a digest, can be called, and none is another's", nil, func(o *mcp.Options) { o.MaxName = 40 }, func(t *testing.T, r *rig, _ *client) {
		long := strings.Repeat("x", 60)
		p := r.serves(mcp.Slot{Name: "long"}, mcptest.Options{Tools: named(long+"a", long+"b", strings.Repeat("ü", 30))})
		c := r.client(mcp.AllSlot, "2025-06-18", nil)
		names := c.tools()
		seen := map[string]bool{}
		for _, name := range names {
			if len(name) > 40 || seen[name] {
				t.Errorf("%q is too long, or there twice", name)
			}
			seen[name] = true
			if strings.HasPrefix(name, "long-") {
				c.call(name, `{}`).passed()
			}
		}
		if p.Count(long+"a") != 1 || p.Count(long+"b") != 1 || p.Count("") != 3 {
			t.Errorf("the provider saw %+v", p.Seen())
		}
		if again := c.tools(); !slices.Equal(again, names) {
			t.Error("the names are others now")
		}
	})
	bubble(t, "C-40 M-081 a call is counted at its provider, once, under the tool's own name", []sluice.Rule{
		only(window("p", 2, 3_600_000_000), sluice.Provider, "p"), only(window("all", 0, 3_600_000_000), sluice.Provider, mcp.AllSlot),
	}, nil, func(t *testing.T, r *rig, c *client) {
		all := r.client(mcp.AllSlot, "2025-06-18", nil)
		all.call("p-echo", `{}`).passed()
		c.call("echo", `{}`).passed()
		if got := all.call("p-echo", `{}`).refused(-32029); got.RuleID != "p" {
			t.Errorf("got %+v", got)
		}
		synctest.Wait()
		events := r.audited(audit.Admit)
		for _, e := range events {
			if e.Slot != "p" || e.Tool != "echo" {
				t.Errorf("audited %+v", e)
			}
		}
		if len(events) != 3 {
			t.Errorf("audited %d calls, want 3", len(events))
		}
	})
	bubble(t, "4.2.14 what is forbidden looks like what is unknown", nil, func(o *mcp.Options) {
		o.Policy = mustPolicy(policy.Config{
			Roles: []policy.Role{{Name: "r", Capabilities: []string{"mcp.tools.list", "mcp.tools.call"}}}, ToolCapabilities: map[string]string{"big": "x.no"},
			Assignments: []policy.Assignment{{Subject: "user:alice", Role: "r", Resource: "/p"}, {Subject: "user:alice", Role: "r", Resource: "/_system/all"}},
		})
	}, func(t *testing.T, r *rig, _ *client) {
		r.serves(mcp.Slot{Name: "secret"}, mcptest.Options{})
		c := r.client(mcp.AllSlot, "2025-06-18", policy.NewCaller("user:alice"))
		names := c.tools()
		if !slices.Contains(names, "p-echo") || slices.Contains(names, "p-big") || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "secret") }) {
			t.Errorf("the list is %v", names)
		}
		unknown := c.call("p-nobody", `{}`)
		unknown.refused(-32602)
		for _, name := range []string{"p-big", "secret-echo", "nobody"} {
			x := c.call(name, `{}`)
			x.refused(-32602)
			if got, want := strings.SplitN(string(x.last.Raw), `"error"`, 2)[1], strings.SplitN(string(unknown.last.Raw), `"error"`, 2)[1]; got != want {
				t.Errorf("%s: %s differs from %s", name, got, want)
			}
		}
		c.call("p-echo", `{}`).passed()
	})
	bubble(t, "4.2.4 4.2.6 who may not use _all is told so", nil, func(o *mcp.Options) {
		o.Policy = mustPolicy(policy.Config{
			Roles:       []policy.Role{{Name: "r", Capabilities: []string{"mcp.tools.list", "mcp.tools.call"}}},
			Assignments: []policy.Assignment{{Subject: "user:alice", Role: "r", Resource: "/p"}},
		})
	}, func(t *testing.T, r *rig, _ *client) {
		c := r.client(mcp.AllSlot, "2025-06-18", policy.NewCaller("user:alice"))
		c.ask("tools/list", map[string]any{}).refused(-32001)
		c.call("p-echo", `{}`).refused(-32001)
		r.client("p", "2025-06-18", policy.NewCaller("user:alice")).call("echo", `{}`).passed()
	})
	bubble(t, "M-085 a provider that is dead, or hangs, is missing from the list and delays it once", nil, func(o *mcp.Options) { o.ListTimeout = 2 * time.Second }, func(t *testing.T, r *rig, _ *client) {
		r.addSlot(mcp.Slot{Name: "dead", Dialer: dead{}})
		r.addSlot(mcp.Slot{Name: "hangs", Dialer: dead{hangs: true}})
		c := r.client(mcp.AllSlot, "2025-06-18", nil)
		began := time.Now()
		if names := c.tools(); !slices.Contains(names, "p-echo") || time.Since(began) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), names)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		if names := c.tools(); !slices.Contains(names, "p-echo") || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), names)
		}
		has(t, r.client(mcp.BrokerSlot, "2025-06-18", nil).call("broker_diagnose", `{}`).passed().Raw, "dead", "hangs", "never")
	})
	bubble(t, "M-085 what is asked first waits for the first connection", nil, nil, func(t *testing.T, r *rig, _ *client) {
		p := mcptest.New(mcptest.Options{Versions: []string{"2025-06-18"}})
		t.Cleanup(p.Close)
		r.addSlot(mcp.Slot{Name: "slow", RequestTimeout: time.Minute, Dialer: &loopback.Dialer{Name: "slow", Serve: func(c *loopback.Conn) error {
			return p.Serve(filtered{c, "server/discover", false})
		}}})
		if names := r.client(mcp.AllSlot, "2025-06-18", nil).tools(); !slices.Contains(names, "slow-echo") {
			t.Errorf("the list is %v", names)
		}
	})
	bubble(t, "_all has tools and nothing else", nil, nil, func(t *testing.T, r *rig, _ *client) {
		c := r.client(mcp.AllSlot, "2025-11-25", nil)
		for _, method := range []string{"resources/list", "resources/read", "resources/subscribe", "prompts/list", "logging/setLevel", "tasks/list", "tasks/get", "vendor/x"} {
			c.ask(method, map[string]any{"uri": "a", "level": "info"}).refused(-32601)
		}
	})
}

func mustPolicy(c policy.Config) *policy.Policy {
	p, err := policy.New(c)
	if err != nil {
		panic(err)
	}
	return p
}

// TestListChanged is who hears that tools have changed.
func TestListChanged(t *testing.T) {
	grants := mustPolicy(policy.Config{
		Roles:            []policy.Role{{Name: "some", Capabilities: []string{"mcp.tools.list", "mcp.tools.call"}}, {Name: "all", Capabilities: []string{"*"}}},
		ToolCapabilities: map[string]string{"hidden": "x.y"},
		Assignments:      []policy.Assignment{{Subject: "user:some", Role: "some", Resource: "/**"}, {Subject: "user:all", Role: "all", Resource: "/**"}},
	})
	bubble(t, "M-082 those who see others than before, once", nil, func(o *mcp.Options) { o.Policy = grants }, func(t *testing.T, r *rig, _ *client) {
		p := r.serves(mcp.Slot{Name: "m"}, mcptest.Options{Tools: named("one")})
		q := r.serves(mcp.Slot{Name: "n"}, mcptest.Options{Tools: named("one")})
		r.status("m")
		r.status("n")
		var clients []*client
		for _, who := range []string{"user:some", "user:all"} {
			for _, slot := range []string{"m", mcp.AllSlot, "n", mcp.BrokerSlot} {
				clients = append(clients, r.client(slot, "2025-06-18", policy.NewCaller(who)))
			}
		}
		clients[0].tools()
		time.Sleep(time.Second)
		hears := func(what string, want ...int) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			var got []int
			for _, c := range clients {
				got = append(got, c.heard(listChanged))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v have heard of it, want %v", what, got, want)
			}
		}
		hears("nothing", 0, 0, 0, 0, 0, 0, 0, 0)
		p.SetTools(named("one")...)
		hears("the same again", 0, 0, 0, 0, 0, 0, 0, 0)
		for range 20 {
			p.SetTools(named("one", "hidden")...)
		}
		hears("a tool that some may not see", 0, 0, 0, 0, 1, 1, 0, 0)
		p.SetTools(named("one", "two", "hidden")...)
		hears("one that all may see", 1, 1, 0, 0, 1, 1, 0, 0)
		q.SetTools(named("one", "three")...)
		hears("another provider's", 0, 1, 1, 0, 0, 1, 1, 0)
		o := r.options
		o.Policy = nil
		r.reload(o)
		hears("another policy", 1, 1, 0, 1, 0, 0, 0, 0)
		r.reload(o)
		hears("the same policy", 0, 0, 0, 0, 0, 0, 0, 0)
	})
	bubble(t, "M-082 a provider that goes and comes back changes _all, unless it was away for a moment", nil, nil, func(t *testing.T, r *rig, _ *client) {
		r.serves(mcp.Slot{Name: "m"}, mcptest.Options{Tools: named("one")})
		c := r.client(mcp.AllSlot, "2025-06-18", nil)
		c.tools()
		time.Sleep(time.Second)
		c.heard(listChanged)
		c.call("p-echo", `{}`).passed()
		r.reload(remarked(r.options, "m"))
		time.Sleep(time.Second)
		if n := c.heard(listChanged); n != 0 {
			t.Errorf("told %d times of a moment", n)
		}
		with := r.options
		r.reload(without(with, "m"))
		time.Sleep(time.Second)
		if n := c.heard(listChanged); n != 1 || slices.Contains(c.tools(), "m-one") {
			t.Errorf("told %d times that it has gone: %v", n, c.tools())
		}
		r.reload(with)
		time.Sleep(time.Second)
		if n := c.heard(listChanged); n != 1 || !slices.Contains(c.tools(), "m-one") {
			t.Errorf("told %d times that it is back: %v", n, c.tools())
		}
	})
	bubble(t, "M-082 M-085 one that cannot be reached for a while is told of, and that it is back", nil, nil, func(t *testing.T, r *rig, _ *client) {
		p := mcptest.New(mcptest.Options{Tools: named("one", "die")})
		t.Cleanup(p.Close)
		var shut atomic.Bool
		r.addSlot(mcp.Slot{Name: "m", RequestTimeout: time.Minute, Dialer: gate{inProcess(p), &shut}})
		c := r.client(mcp.AllSlot, "2025-06-18", nil)
		c.tools()
		time.Sleep(time.Second)
		c.heard(listChanged)
		shut.Store(true)
		r.reload(remarked(r.options, "m"))
		for _, step := range []struct {
			shut bool
			told int
		}{{true, 1}, {true, 0}, {false, 1}, {false, 0}} {
			shut.Store(step.shut)
			time.Sleep(time.Minute)
			if n := c.heard(listChanged); n != step.told || slices.Contains(c.tools(), "m-one") == step.shut {
				t.Errorf("shut %v: told %d times, want %d: %v", step.shut, n, step.told, c.tools())
			}
		}
	})
	bubble(t, "2.10 a modern client hears only what it listens to", nil, nil, func(t *testing.T, r *rig, _ *client) {
		p := r.serves(mcp.Slot{Name: "m", Protocol: "modern"}, mcptest.Options{Tools: named("one")})
		deaf, hears := r.client("m", "2026-07-28", nil), r.client("m", "2026-07-28", nil)
		deaf.call("one", `{}`, "_meta", mcptest.Meta).passed()
		x := hears.send(`{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"_meta":` + mcptest.Meta + `,"notifications":{"toolsListChanged":true,"promptsListChanged":true}}}`)
		has(t, (<-x.frames).Raw, "notifications/subscriptions/acknowledged", `subscriptionId":"L"`, `"toolsListChanged":true`, "-promptsListChanged")
		p.SetTools(named("one", "two")...)
		has(t, (<-x.frames).Raw, listChanged, `subscriptionId":"L"`)
		synctest.Wait()
		if len(deaf.pushed)+len(hears.pushed) != 0 {
			t.Error("something came outside of the subscription")
		}
		if len(r.heldNow()) != 0 {
			t.Error("listening is taken for a call that is under way")
		}
		r.Close(context.Background())
		has(t, x.passed().Raw, `subscriptionId":"L"`, `"resultType":"complete"`)
	})
}
