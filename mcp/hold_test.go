package mcp_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

// bubble runs f with a broker whose time is fake.
func bubble(t *testing.T, name string, rules []sluice.Rule, change func(*mcp.Options), f func(t *testing.T, r *rig, c *client)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rules, change)
			f(t, r, r.client("p", "2025-06-18", nil))
		})
	})
}

// heldNow are the ids of the calls that hold anything, with the rules.
func (r *rig) heldNow() (list []string) {
	r.t.Helper()
	held, err := r.Held(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range held {
		list = append(list, fmt.Sprint(h.State, h.Rules))
	}
	return list
}

// key waits for a held call at the provider.
func (r *rig) key(key string) *mcptest.Call {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := r.provider.Held(ctx, key)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// TestDeadline is what a deadline does to slots.
func TestDeadline(t *testing.T) {
	bubble(t, "C-46 hold: the caller gets an error, the slot stays until the late answer", []sluice.Rule{slots("one", 1, sluice.Hold)}, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		f := x.answer()
		if f.Error == nil || f.Error.Code != -32000 || f.Error.Message != `Provider "p" did not respond within 60000ms` {
			t.Errorf("got %s", f.Raw)
		}
		if got := r.heldNow(); !slices.Equal(got, []string{"abandoned[one]"}) {
			t.Errorf("held: %v", got)
		}
		c.call("echo", `{}`).refused(-32029)
		select {
		case <-work.Cancelled():
			t.Error("D20 the provider was told to stop though its answer is what frees the slot")
		default:
		}
		if err := work.Text("late"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := r.audited(audit.Complete); got[len(got)-1].Outcome != audit.Late {
			t.Errorf("the late answer is audited as %+v", got[len(got)-1])
		}
		c.call("echo", `{}`).passed()
	})
	bubble(t, "C-47 release: that rule's slot is freed at the deadline, the others' stay", []sluice.Rule{slots("keeps", 5, sluice.Hold), slots("frees", 1, sluice.Free)}, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		r.key("a")
		x.answer()
		if got := r.heldNow(); !slices.Equal(got, []string{"abandoned[keeps]"}) {
			t.Errorf("held: %v", got)
		}
		c.call("echo", `{}`).passed()
		events := r.audited(audit.Timeout)
		if len(events) != 1 || !slices.Equal(events[0].ReleasedRules, []string{"frees"}) || events[0].Outcome != audit.TimedOut {
			t.Errorf("audited %+v", events)
		}
	})
	bubble(t, "C-W15 the slot comes back within 100 ms of the deadline, and the provider is told", []sluice.Rule{slots("frees", 1, sluice.Free)}, nil, func(t *testing.T, r *rig, c *client) {
		began := time.Now()
		x := c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		x.answer()
		<-work.Cancelled()
		if late := time.Since(began) - time.Minute; late > 100*time.Millisecond {
			t.Errorf("the deadline came %v late", late)
		}
		c.call("echo", `{}`).passed()
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
	})
	bubble(t, "C-49 an answer after the slot was freed is ignored", []sluice.Rule{slots("frees", 1, sluice.Free)}, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a","cancel":"ignore"}`)
		work := r.key("a")
		x.answer()
		second := c.call("hold", `{"key":"b"}`)
		r.key("b")
		if err := work.Text("late"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if x.after != 0 || second.answered() {
			t.Error("the late answer went somewhere")
		}
		c.call("echo", `{}`).refused(-32029) // the second still holds the one slot
	})
	bubble(t, "C-W21 a slot has a longest time", []sluice.Rule{func() sluice.Rule { r := slots("one", 1, sluice.Hold); r.MaxHold = 5 * time.Minute; return r }()}, nil, func(t *testing.T, r *rig, c *client) {
		c.call("silent", `{}`).answer()
		c.call("echo", `{}`).refused(-32029)
		time.Sleep(4*time.Minute + time.Second)
		synctest.Wait()
		c.call("echo", `{}`).passed()
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
	})
	bubble(t, "M-019 progress gives more time, up to the longest", nil, func(o *mcp.Options) { o.Slots[0].MaxRequest = 2 * time.Minute }, func(t *testing.T, r *rig, c *client) {
		began := time.Now()
		x := c.call("hold", `{"key":"a"}`, "_meta", `{"progressToken":"mine"}`)
		work := r.key("a")
		for n := range 4 {
			time.Sleep(25 * time.Second)
			_ = work.Progress(float64(n+1), "")
		}
		f := x.answer()
		if took := time.Since(began); took != 2*time.Minute || f.Error == nil {
			t.Errorf("answered after %v: %s", took, f.Raw)
		}
		if got := len(x.frames); got != 4 {
			t.Errorf("%d notifications of progress within two minutes", got)
		}
	})
	bubble(t, "a tool has a deadline of its own", nil, func(o *mcp.Options) {
		o.Slots[0].ToolTimeouts = map[string]mcp.ToolTimeout{"silent": {Request: time.Second}}
	}, func(t *testing.T, r *rig, c *client) {
		began := time.Now()
		c.call("silent", `{}`).answer()
		if took := time.Since(began); took != time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

// TestCancel is what a cancellation does.
func TestCancel(t *testing.T) {
	cancel := func(c *client, id int) {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	}
	bubble(t, "C-48 M-012 hold: no answer, no word to the provider, the slot stays", []sluice.Rule{slots("one", 1, sluice.Hold)}, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		cancel(c, c.n)
		synctest.Wait()
		if !x.answered() || x.last != nil {
			t.Errorf("the cancelled call was answered: %v", x.last)
		}
		select {
		case <-work.Cancelled():
			t.Error("the provider was told")
		default:
		}
		c.call("echo", `{}`).refused(-32029)
		if got := r.audited(audit.Cancel); len(got) != 1 || got[0].Outcome != audit.Cancelled || len(got[0].ReleasedRules) != 0 {
			t.Errorf("audited %+v", got)
		}
		// M-013 a provider that answers all the same frees the slot, and nobody hears it.
		_ = work.Text("all the same")
		synctest.Wait()
		c.call("echo", `{}`).passed()
		if x.after != 0 {
			t.Error("the answer went to the client")
		}
	})
	bubble(t, "C-48 M-012 M-010 release: the provider is told with the broker's id, the slot is free", []sluice.Rule{slots("one", 1, sluice.Free)}, nil, func(t *testing.T, r *rig, c *client) {
		c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		cancel(c, c.n)
		<-work.Cancelled()
		c.call("echo", `{}`).passed()
	})
	bubble(t, "M-012 a rule may forward the cancellation and hold", []sluice.Rule{slots("one", 1, sluice.Hold)}, func(o *mcp.Options) { o.ForwardCancel = []string{"one"} }, func(t *testing.T, r *rig, c *client) {
		c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		cancel(c, c.n)
		<-work.Cancelled()
		c.call("echo", `{}`).refused(-32029)
	})
	bubble(t, "M-025 an id of another type cancels nothing", nil, nil, func(t *testing.T, r *rig, c *client) {
		x := c.send(string(mcptest.CallTool(`"7"`, "hold", `{"key":"a"}`)))
		work := r.key("a")
		cancel(c, 7)
		synctest.Wait()
		if x.answered() {
			t.Error("7 has cancelled \"7\"")
		}
		_ = work.Text("x")
		if got := x.passed(); string(got.ID) != `"7"` {
			t.Errorf("the id came back as %s", got.ID)
		}
	})
	bubble(t, "M-011 a cancellation of what is not known is ignored", nil, nil, func(t *testing.T, r *rig, c *client) {
		cancel(c, 4711)
		c.call("echo", `{}`).passed()
	})
	t.Run("M-014 cancel and answer at the same instant have one outcome", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{slots("one", 1, sluice.Hold)}, nil)
		c := r.client("p", "2025-06-18", nil)
		const rounds = 2000
		for range rounds {
			x := c.call("hold", `{"key":"a"}`)
			work := r.key("a")
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range rand.IntN(20) {
					cancel(c, -1)
				}
				cancel(c, c.n)
			}()
			_ = work.Text("x")
			<-done
			<-x.done
			for len(r.heldNow()) != 0 { // the answer is under way
			}
			if x.after != 0 {
				t.Fatal("something came after the end")
			}
		}
		for len(r.audited(audit.Complete)) < rounds+1 { // the last is noted after its slot is free
		}
		ended := map[string]int{}
		for _, e := range append(r.audited(audit.Complete), r.audited(audit.Cancel)...) {
			if e.Method == "tools/call" && (e.Action == audit.Complete) {
				ended[e.RequestID]++
			}
		}
		for id, n := range ended {
			if n != 1 {
				t.Fatalf("%s has ended %d times", id, n)
			}
		}
		if len(ended) != rounds {
			t.Errorf("%d calls have ended, want %d", len(ended), rounds)
		}
	})
	bubble(t, "C-W12 a call in a queue leaves it when it is cancelled", []sluice.Rule{func() sluice.Rule { r := slots("one", 1, sluice.Hold); r.Queue = &sluice.Queue{}; return r }()}, nil, func(t *testing.T, r *rig, c *client) {
		c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		waits := c.call("echo", `{"n":1}`)
		synctest.Wait()
		if got := r.heldNow(); !slices.Equal(got, []string{"running[one]", "waiting[]"}) {
			t.Errorf("held: %v", got)
		}
		cancel(c, c.n)
		synctest.Wait()
		if !waits.answered() || r.ctl.Waiting()["one"] != 0 {
			t.Error("it still waits")
		}
		third := c.call("echo", `{"n":2}`)
		synctest.Wait()
		_ = work.Text("x")
		third.passed()
		if n := r.provider.Count("echo"); n != 1 {
			t.Errorf("%d calls of echo have run", n)
		}
	})
}

// An eavesdropper lets a test speak to the inbox of a link.
type eavesdropper struct {
	link.Dialer
	link.Inbox
}

func (e *eavesdropper) Dial(ctx context.Context, in link.Inbox) (link.Link, error) {
	e.Inbox = in
	return e.Dialer.Dial(ctx, in)
}

// TestGone is what happens when one side goes.
func TestGone(t *testing.T) {
	bubble(t, "C-44 M-016 a client that leaves stops nothing", []sluice.Rule{slots("one", 1, sluice.Free)}, nil, func(t *testing.T, r *rig, c *client) {
		c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		c.Close()
		other := r.client("p", "2025-06-18", nil)
		other.call("echo", `{}`).refused(-32029)
		_ = work.Text("x")
		synctest.Wait()
		other.call("echo", `{}`).passed()
	})
	bubble(t, "C-45 D21 a provider that goes fails its calls at once, and the slots stay", []sluice.Rule{slots("one", 1, sluice.Hold)}, nil, func(t *testing.T, r *rig, c *client) {
		began := time.Now()
		x := c.call("hold", `{"key":"a"}`)
		r.key("a")
		c.call("echo", `{}`).refused(-32029)
		r.provider.Close()
		f := x.answer()
		if f.Error == nil || f.Error.Code != -32000 || time.Since(began) > 100*time.Millisecond {
			t.Errorf("after %v: %s", time.Since(began), f.Raw)
		}
		if got := r.heldNow(); !slices.Equal(got, []string{"abandoned[one]"}) {
			t.Errorf("held: %v", got)
		}
	})
	bubble(t, "C-45 C-47 the deadline of a call whose provider has gone still frees the slots of rules that say so", []sluice.Rule{slots("keeps", 5, sluice.Hold), slots("frees", 1, sluice.Free)}, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		r.key("a")
		r.provider.Close()
		x.refused(-32000)
		if got := r.heldNow(); !slices.Equal(got, []string{"abandoned[keeps frees]"}) {
			t.Errorf("held: %v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.heldNow(); !slices.Equal(got, []string{"abandoned[keeps]"}) {
			t.Errorf("held after the deadline: %v", got)
		}
		if events := r.audited(audit.Timeout); len(events) != 1 || !slices.Equal(events[0].ReleasedRules, []string{"frees"}) {
			t.Errorf("audited %+v", events)
		}
	})
	bubble(t, "M-018 D21 exitProvesStop frees them", []sluice.Rule{slots("one", 1, sluice.Hold)}, func(o *mcp.Options) { o.Slots[0].ExitProvesStop = true }, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		r.key("a")
		r.provider.Close()
		x.answer()
		synctest.Wait()
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
	})
	var heard *eavesdropper
	bubble(t, "M-018 exitProvesStop frees those that were lost before the end, at the end", []sluice.Rule{slots("one", 1, sluice.Hold)}, func(o *mcp.Options) {
		heard = &eavesdropper{Dialer: o.Slots[0].Dialer}
		o.Slots[0].ExitProvesStop, o.Slots[0].Dialer = true, heard
	}, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		heard.Lost(jsonrpc.RawID(work.ID), link.Failure{Err: io.ErrUnexpectedEOF}) // its output has ended, and it lives
		x.answer()
		if got := r.heldNow(); !slices.Equal(got, []string{"abandoned[one]"}) {
			t.Errorf("held: %v", got)
		}
		r.provider.Close()
		synctest.Wait()
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
	})
	bubble(t, "M-017 the broker stops in its time, whoever does not answer", []sluice.Rule{slots("one", 1, sluice.Hold)}, func(o *mcp.Options) { o.Slots[0].RequestTimeout = 0 }, func(t *testing.T, r *rig, c *client) {
		c.call("silent", `{}`)
		synctest.Wait()
		began := time.Now()
		r.Close(context.Background())
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		if _, err := r.Connect("p", nil, mcp.ConnectOptions{}); err != mcp.ErrStopping {
			t.Errorf("a new client: %v", err)
		}
	})
}

// TestRelease is an operator's way out.
func TestRelease(t *testing.T) {
	bubble(t, "C-51 C-56 all slots of the call are freed, no quota comes back", []sluice.Rule{slots("one", 1, sluice.Hold), slots("two", 1, sluice.Hold),
		{ID: "quota", Limits: []sluice.Limit{{Limit: limit.Window(3, limit.Hour)}}}}, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("silent", `{}`)
		x.answer()
		held, _ := r.Held(context.Background())
		if len(held) != 1 {
			t.Fatalf("held: %+v", held)
		}
		c.call("echo", `{}`).refused(-32029)
		// C-50 C-54 another slot's name, or no such call, frees nothing.
		for _, wrong := range [][2]string{{"q", held[0].RequestID}, {"p", "brk-0-1"}} {
			if ok, err := r.Release(context.Background(), wrong[0], wrong[1], "op"); ok || err != nil {
				t.Errorf("released %v: %v", wrong, err)
			}
		}
		if ok, err := r.Release(context.Background(), "p", held[0].RequestID, "user:op"); !ok || err != nil {
			t.Fatalf("not released: %v", err)
		}
		if ok, _ := r.Release(context.Background(), "p", held[0].RequestID, "user:op"); ok {
			t.Error("released twice")
		}
		c.call("echo", `{}`).passed()
		c.call("echo", `{}`).passed()
		if got := c.call("echo", `{}`).refused(-32029); got.Reason != "limit-exceeded" || got.RuleID != "quota" {
			t.Errorf("the quota came back: %+v", got)
		}
		if got := r.audited(audit.Release); len(got) != 1 || got[0].By != "user:op" || !slices.Equal(got[0].ReleasedRules, []string{"one", "two"}) {
			t.Errorf("audited %+v", got)
		}
	})
	bubble(t, "a client that still waits is told", []sluice.Rule{slots("one", 1, sluice.Hold)}, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		r.key("a")
		held, _ := r.Held(context.Background())
		if ok, _ := r.Release(context.Background(), "p", held[0].RequestID, "op"); !ok {
			t.Fatal("not released")
		}
		if f := x.answer(); f.Error == nil || f.Error.Code != -32000 {
			t.Errorf("got %s", f.Raw)
		}
	})
}
