package mcp_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
)

// without are options without a slot.
func without(o mcp.Options, slot string) mcp.Options {
	o.Slots = slices.DeleteFunc(slices.Clone(o.Slots), func(s mcp.Slot) bool { return s.Name == slot })
	return o
}

// TestReload is a broker that gets other options while clients are there.
func TestReload(t *testing.T) {
	one := []sluice.Rule{slots("one", 1, sluice.Hold)}
	bubble(t, "a slot that stays as it is keeps its connection and its calls", one, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		r.serves(mcp.Slot{Name: "new"}, mcptest.Options{})
		o := r.options
		o.Slots = slices.Clone(o.Slots)
		o.Slots[0].RequestTimeout = time.Second // no other mark
		r.reload(o)
		synctest.Wait()
		_ = work.Text("x")
		x.passed()
		began := time.Now()
		c.call("silent", `{}`).answer()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the new deadline is not the one: %v", took)
		}
	})
	bubble(t, "a slot with another provider keeps its clients; what was under way there is lost, and holds", one, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		r.key("a")
		next := mcptest.New(mcptest.Options{Tools: named("echo", "new")})
		t.Cleanup(next.Close)
		o := remarked(r.options, "p")
		o.Slots[0].Dialer = inProcess(next)
		r.reload(o)
		x.refused(-32000)
		synctest.Wait()
		if got := r.heldNow(); !slices.Equal(got, []string{"abandoned[one]"}) {
			t.Errorf("held: %v", got)
		}
		if names := c.tools(); !slices.Equal(names, []string{"echo", "new"}) {
			t.Errorf("the client sees %v", names)
		}
		time.Sleep(time.Second)
		if n := c.heard(listChanged); n != 1 {
			t.Errorf("it was told %d times", n)
		}
	})
	bubble(t, "a slot that is gone answers that nobody is there; one of its name serves the same clients", nil, nil, func(t *testing.T, r *rig, c *client) {
		o := r.options
		r.reload(without(o, "p"))
		c.call("echo", `{}`).refused(-32000)
		if _, err := r.Connect("p", nil, mcp.ConnectOptions{}); err != mcp.ErrNoSlot {
			t.Errorf("a new client: %v", err)
		}
		if found, _ := r.Access("p", nil); found {
			t.Error("it is found")
		}
		r.reload(o)
		c.call("echo", `{}`).passed()
	})
	bubble(t, "the same while a request waits for the connection", nil, nil, func(t *testing.T, r *rig, _ *client) {
		r.addSlot(mcp.Slot{Name: "hangs", Dialer: dead{hangs: true}})
		x := r.client("hangs", "", nil).call("echo", `{}`)
		synctest.Wait()
		began := time.Now()
		r.reload(without(r.options, "hangs"))
		x.refused(-32000)
		if took := time.Since(began); took > 0 {
			t.Errorf("it waited for %v", took)
		}
	})
	bubble(t, "only the tools that the operator lists are there, at once, at the slot and in _all", nil, nil, func(t *testing.T, r *rig, c *client) {
		all := r.client(mcp.AllSlot, "2025-06-18", nil)
		o := r.options
		o.Slots = slices.Clone(o.Slots)
		o.Slots[0].Tools = []string{"echo"}
		r.reload(o)
		if a, b := c.tools(), all.tools(); !slices.Equal(a, []string{"echo"}) || !slices.Equal(b, []string{"p-echo"}) {
			t.Errorf("they see %v and %v", a, b)
		}
		c.call("big", `{}`).refused(-32602)
		all.call("p-big", `{}`).refused(-32602)
		c.call("echo", `{}`).passed()
		if n := r.provider.Count("big"); n != 0 {
			t.Errorf("it was called %d times", n)
		}
	})
	bubble(t, "M-084 and where the provider's list is not known", nil, func(o *mcp.Options) { o.ListTimeout = time.Second }, func(t *testing.T, r *rig, _ *client) {
		p := mcptest.New(mcptest.Options{})
		t.Cleanup(p.Close)
		first := true
		r.addSlot(mcp.Slot{Name: "q", Protocol: "legacy", RequestTimeout: time.Minute, Tools: []string{"echo", "fail"}, Dialer: &loopback.Dialer{Name: "q", Serve: func(c *loopback.Conn) error {
			return p.Serve(firstLost{c, &first})
		}}})
		o := r.options
		o.Policy = mustPolicy(policy.Config{
			Roles: []policy.Role{{Name: "r", Capabilities: []string{"mcp.tools.list", "mcp.tools.call"}}}, ToolCapabilities: map[string]string{"fail": "x.no"},
			Assignments: []policy.Assignment{{Subject: "user:alice", Role: "r", Resource: "/q"}},
		})
		r.reload(o)
		r.status("q")
		c := r.client("q", "2025-06-18", policy.NewCaller("user:alice"))
		if names := c.tools(); !slices.Equal(names, []string{"echo"}) {
			t.Errorf("the client sees %v", names)
		}
		c.call("big", `{}`).refused(-32602)
		c.call("fail", `{}`).refused(-32001)
		c.call("echo", `{}`).passed()
	})
	t.Run("options that are wrong change nothing", func(t *testing.T) {
		r := newRig(t, nil, nil)
		c := r.client("p", "2025-06-18", nil)
		for _, slots := range [][]mcp.Slot{{{Name: "_all"}}, {{Name: ""}}, {{Name: "a/b"}}, {{Name: "a"}, {Name: "a"}}} {
			o := r.options
			o.Slots = slots
			if err := r.Reload(o); err == nil {
				t.Errorf("%+v was taken", slots)
			}
		}
		o := r.options
		o.Slots, o.Requirements = nil, []mcp.Requirement{{Rule: "r", Resource: "a/../b"}}
		if err := r.Reload(o); err == nil {
			t.Error("a wrong pattern was taken")
		}
		c.call("echo", `{}`).passed()
	})
	t.Run("many at once, under calls", func(t *testing.T) {
		r := newRig(t, nil, nil)
		other := mcptest.New(mcptest.Options{})
		t.Cleanup(other.Close)
		c := r.client("p", "2025-06-18", nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n := range 100 {
				o := r.options
				if n%2 == 1 {
					o = remarked(o, "p")
					o.Slots[0].Dialer = inProcess(other)
				}
				if n%5 == 4 {
					o = without(o, "p")
				}
				if err := r.Reload(o); err != nil {
					t.Error(err)
				}
			}
			if err := r.Reload(r.options); err != nil {
				t.Error(err)
			}
		}()
		for n := 0; ; n++ {
			select {
			case <-done:
			default:
				c.call("echo", `{}`).answer()
				continue
			}
			break
		}
		r.status("p")
		c.call("echo", `{}`).passed()
	})
}

// firstLost is a connection on which the first request for the list of tools is lost.
type firstLost struct {
	*loopback.Conn
	first *bool
}

func (f firstLost) Next() ([]byte, error) {
	frame, err := f.Conn.Next()
	if err == nil && *f.first {
		if m, _ := mcptest.ReadFrame(frame); m != nil && m.Method == "tools/list" {
			*f.first = false
			return f.Conn.Next()
		}
	}
	return frame, err
}

// TestLeaks connects, calls and goes, in every way to go, and looks what has stayed.
func TestLeaks(t *testing.T) {
	r := newRig(t, []sluice.Rule{slots("many", 1000, sluice.Free)}, nil)
	cycle := func(n int) {
		version := []string{"2025-06-18", "2026-07-28"}[n%2]
		c := r.client("p", version, nil)
		c.call("echo", `{}`, metaOf(version)...).passed()
		switch n % 5 {
		case 0:
			c.call("wait", `{"ms":1}`, metaOf(version)...)
		case 1:
			c.call("hold", `{"key":"gone"}`, metaOf(version)...).cancel()
		case 2:
			x := c.send(`{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"_meta":` + mcptest.Meta + `,"notifications":{"toolsListChanged":true}}}`)
			x.cancel()
		case 3:
			c.send(string(mcptest.CallTool(`"x"`, "wait", `{"ms":1}`)))
			c.send(string(mcptest.CallTool(`"x"`, "wait", `{"ms":1}`)))
		}
		c.Close()
	}
	for n := range 20 {
		cycle(n)
	}
	settle := func() int {
		for range 200 {
			if len(r.heldNow()) == 0 {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		runtime.GC()
		return runtime.NumGoroutine()
	}
	before := settle()
	for n := range 1000 {
		cycle(n)
	}
	t.Run("M-054 M-009 goroutines are as many as before", func(t *testing.T) {
		after := settle()
		for range 100 {
			if after <= before+2 {
				break
			}
			time.Sleep(10 * time.Millisecond)
			after = settle()
		}
		if after > before+2 {
			stacks := make([]byte, 1<<16)
			t.Errorf("%d goroutines, before %d\n%s", after, before, stacks[:runtime.Stack(stacks, true)])
		}
	})
	t.Run("M-001 nothing is held, and nobody is there", func(t *testing.T) {
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
		for _, s := range r.Providers() {
			if s.Clients != 0 {
				t.Errorf("%d clients", s.Clients)
			}
		}
	})
	t.Run("M-017 the broker ends in its time", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		r.Close(ctx)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
