package mcp_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

// parks calls a tool that needs input, and returns the state that the client carries back.
func (c *client) parks() (state string) {
	c.r.t.Helper()
	f := c.call("input", `{"n":1}`, "_meta", mcptest.Meta).passed()
	var r struct {
		ResultType   string `json:"resultType"`
		RequestState string `json:"requestState"`
	}
	if err := json.Unmarshal(f.Result, &r); err != nil || r.ResultType != "input_required" || r.RequestState == "" {
		c.r.t.Fatalf("got %s", f.Raw)
	}
	return strconv.Quote(r.RequestState)
}

// brings calls the tool again with the input.
func (c *client) brings(state string) *exchange {
	return c.call("input", `{"n":1}`, "requestState", state, "inputResponses", `{"name":{"action":"accept"}}`, "_meta", mcptest.Meta)
}

// onlyHeld is the one call that is under way or holds anything.
func (r *rig) onlyHeld() mcp.Held {
	r.t.Helper()
	held, err := r.Held(r.t.Context())
	if err != nil || len(held) != 1 {
		r.t.Fatalf("held: %+v, %v", held, err)
	}
	return held[0]
}

// TestParked is a client of the newest revision that is asked for input, and comes back
// with it.
func TestParked(t *testing.T) {
	with := func(name string, f func(t *testing.T, r *rig, c *client)) {
		bubble(t, name, []sluice.Rule{slots("one", 1, sluice.Hold)}, nil, func(t *testing.T, r *rig, _ *client) {
			r.serves(mcp.Slot{Name: "m", Protocol: "modern"}, mcptest.Options{})
			f(t, r, r.client("m", "2026-07-28", nil))
		})
	}
	free := func(t *testing.T, r *rig, c *client) {
		t.Helper()
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
		c.call("echo", `{}`, "_meta", mcptest.Meta).passed()
	}
	with("M-118 both calls are one: the first keeps its slot, and the second goes on with it", func(t *testing.T, r *rig, c *client) {
		state := c.parks()
		if got := r.heldNow(); !slices.Equal(got, []string{"awaiting-input[one]"}) {
			t.Errorf("held: %v", got)
		}
		c.call("echo", `{}`, "_meta", mcptest.Meta).refused(429)
		c.brings(state).passed()
		free(t, r, c)
	})
	with("M-118 a client that cancels when it comes back leaves nothing held", func(t *testing.T, r *rig, c *client) {
		c.brings(c.parks()).cancel()
		synctest.Wait()
		free(t, r, c)
	})
	with("M-118 C-51 the second is listed once, and an operator frees it by the name of either", func(t *testing.T, r *rig, c *client) {
		for _, which := range []string{"first", "second"} {
			state := c.parks()
			first := r.onlyHeld()
			x := c.call("input", `{"key":"a"}`, "requestState", state, "inputResponses", `{}`, "_meta", mcptest.Meta)
			synctest.Wait()
			second := r.onlyHeld()
			if second.State != mcp.Running || second.RequestID == first.RequestID {
				t.Errorf("%+v goes on as %+v", first, second)
			}
			name := map[string]string{"first": first.RequestID, "second": second.RequestID}[which]
			if ok, err := r.Release(t.Context(), "m", name, "me"); !ok || err != nil {
				t.Errorf("the %s: %v, %v", which, ok, err)
			}
			x.refused(-32603)
			synctest.Wait()
			free(t, r, c)
		}
	})
	with("M-118 a client that comes back too late makes a new call, and the first holds nothing", func(t *testing.T, r *rig, c *client) {
		state := c.parks()
		time.Sleep(10*time.Minute + 2*time.Second)
		free(t, r, c)
		c.brings(state).passed()
		free(t, r, c)
	})
	bubble(t, "M-118 the state of one tool is not another's, even if nobody knows the provider's tools", nil, nil, func(t *testing.T, r *rig, _ *client) {
		p := mcptest.New(mcptest.Options{})
		t.Cleanup(p.Close)
		r.addSlot(mcp.Slot{Name: "m", Protocol: "modern", RequestTimeout: time.Minute,
			Dialer: &loopback.Dialer{Name: "listless", Serve: func(c *loopback.Conn) error { return p.Serve(filtered{c, "tools/list", false}) }}})
		c := r.client("m", "2026-07-28", nil)
		state := c.parks()
		c.call("echo", `{}`, "requestState", state, "inputResponses", `{}`, "_meta", mcptest.Meta).refused(-32602)
		c.brings(state).passed()
	})
	bubble(t, "M-118 of more than 10000 that wait the next gives its slot back, and may come back as a new call", nil, nil, func(t *testing.T, r *rig, _ *client) {
		r.serves(mcp.Slot{Name: "m", Protocol: "modern"}, mcptest.Options{Forget: true})
		c := r.client("m", "2026-07-28", nil)
		for range 10_000 {
			c.parks()
		}
		state := c.parks()
		if held, _ := r.Held(t.Context()); len(held) != 10_000 {
			t.Errorf("%d wait", len(held))
		}
		c.brings(state).passed()
	})
}
