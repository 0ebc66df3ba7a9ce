package mcp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
)

func TestCapUnderLoad(t *testing.T) {
	t.Run("M-006 no more run at once than there are slots, whatever comes", func(t *testing.T) {
		rule := slots("cap", 7, sluice.Hold)
		rule.Queue = &sluice.Queue{}
		r := newRig(t, []sluice.Rule{rule}, nil)
		const callers, calls = 200, 25
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() {
				c := r.client("p", "2025-06-18", policy.NewCaller(fmt.Sprintf("user:%d", n)))
				for range calls {
					c.call("echo", `{}`).passed()
				}
			})
		}
		all.Wait()
		if ran, most := r.provider.Count("echo"), r.provider.Most("echo"); ran != callers*calls || most > 7 {
			t.Errorf("%d calls have run, %d at once", ran, most)
		}
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
	})
	seed := uint64(time.Now().UnixNano())
	bubble(t, "M-002 M-009 a slot comes back whenever the client goes", []sluice.Rule{slots("one", 1, sluice.Hold)}, nil, func(t *testing.T, r *rig, _ *client) {
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		for range 1000 {
			c := r.client("p", "2025-06-18", nil)
			c.call("wait", `{"ms":60}`)
			time.Sleep(time.Duration(random.IntN(120)) * time.Millisecond)
			if random.IntN(2) == 0 {
				c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.n))
			}
			c.Close()
			time.Sleep(time.Second)
			synctest.Wait()
			if got := r.heldNow(); len(got) != 0 {
				t.Fatalf("held: %v", got)
			}
		}
	})
}

func TestFaults(t *testing.T) {
	t.Run("C-32 a store that has gone refuses what it controls, with its own reason", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{slots("one", 1, sluice.Hold)}, nil)
		c := r.client("p", "2025-06-18", nil)
		r.ctl.Close()
		if got := c.call("echo", `{}`).refused(-32029); got.Reason != "admission-error" && got.Reason != "storage-unavailable" {
			t.Errorf("got %+v", got)
		}
		if n := r.provider.Count("echo"); n != 0 {
			t.Errorf("%d calls have run", n)
		}
	})
	t.Run("C-35 an internal client without a name that the policy denies takes no quota", func(t *testing.T) {
		p, err := policy.New(policy.Config{Roles: []policy.Role{{Name: "r", Capabilities: []string{"mcp.tools.call"}}},
			Assignments: []policy.Assignment{{Subject: "user:alice", Role: "r", Resource: "/p"}}})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, []sluice.Rule{window("one", 1, limit.Hour)}, func(o *mcp.Options) { o.Policy = p })
		s, err := r.Connect("p", nil, mcp.ConnectOptions{Transport: "internal"})
		if err != nil {
			t.Fatal(err)
		}
		internal := &client{Session: s, r: r}
		for range 3 {
			if got := internal.call("echo", `{}`).refused(-32029); got.Reason != "authorization-denied" {
				t.Errorf("got %+v", got)
			}
		}
		r.client("p", "2025-06-18", policy.NewCaller("user:alice")).call("echo", `{}`).passed()
	})
	t.Run("M-105 refusals are no failures of the provider", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{only(window("none", 0, limit.Hour), sluice.Subject, "user:busy")}, nil)
		busy := r.client("p", "2025-06-18", policy.NewCaller("user:busy"))
		for range 500 {
			busy.call("echo", `{}`).refused(-32029)
		}
		r.client("p", "2025-06-18", nil).call("echo", `{}`).passed()
		if s := r.Providers()[0]; !s.Connected || s.Error != "" {
			t.Errorf("the provider is %+v", s)
		}
	})
	t.Run("M-112 a call is never made twice", func(t *testing.T) {
		r := newRig(t, nil, nil)
		c := r.client("p", "2025-06-18", nil)
		x := c.call("die", `{}`)
		if f := x.answer(); f.Error == nil || !strings.Contains(f.Error.Message, "outcome is unknown") {
			t.Errorf("got %s", f.Raw)
		}
		r.status("p")
		c.call("echo", `{}`).passed()
		if n := r.provider.Count("die"); n != 1 {
			t.Errorf("it was made %d times", n)
		}
	})
	t.Run("M-100 C-101 books in memory say that they count one process", func(t *testing.T) {
		r := newRig(t, nil, nil)
		if notes := strings.Join(r.Diagnose(context.Background(), mcp.Query{}).Notes, " "); !strings.Contains(notes, "this process alone") {
			t.Errorf("the notes: %s", notes)
		}
	})
	t.Run("M-122 a new session is no new caller", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{window("each", 2, limit.Hour, sluice.Subject)}, nil)
		for n := range 5 {
			f := r.client("p", "2025-06-18", policy.NewCaller("user:alice")).call("echo", `{}`).answer()
			if (f.Error == nil) != (n < 2) {
				t.Errorf("session %d: %s", n, f.Raw)
			}
		}
	})
	t.Run("M-050 one client's cancellation does not hit another's call of the same id", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{slots("two", 2, sluice.Free)}, nil)
		a, b := r.client("p", "2025-06-18", nil), r.client("p", "2025-06-18", nil)
		a.send(string(mcptest.CallTool("7", "hold", `{"key":"a"}`)))
		x := b.send(string(mcptest.CallTool("7", "hold", `{"key":"b"}`)))
		wa, wb := r.key("a"), r.key("b")
		a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		<-wa.Cancelled()
		select {
		case <-wb.Cancelled():
			t.Error("the other client's call was cancelled")
		default:
		}
		_ = wb.Text("b")
		x.passed()
	})
	t.Run("M-021 M-038 two clients with the same ids and tokens get their own", func(t *testing.T) {
		r := newRig(t, nil, nil)
		a, b := r.client("p", "2025-06-18", nil), r.client("p", "2025-06-18", nil)
		frame := func(key string) string {
			return string(mcptest.CallTool("7", "hold", fmt.Sprintf(`{"key":%q,"n":2}`, key), "_meta", `{"progressToken":7}`))
		}
		xa, xb := a.send(frame("a")), b.send(frame("b"))
		wa, wb := r.key("a"), r.key("b")
		_, _ = wb.Text("b"), wa.Text("a")
		for _, x := range []struct {
			*exchange
			want string
		}{{xa, "a"}, {xb, "b"}} {
			f := x.passed()
			if string(f.ID) != "7" || !strings.Contains(string(f.Result), `"`+x.want+`"`) {
				t.Errorf("got %s, want %s", f.Raw, x.want)
			}
			for len(x.frames) > 0 {
				if p := <-x.frames; !strings.Contains(string(p.Params), `"progressToken":7`) {
					t.Errorf("progress %s", p.Raw)
				}
			}
		}
	})
}
