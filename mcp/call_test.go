package mcp_test

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// slots is a rule of n slots.
func slots(id string, n int64, mode sluice.AbandonMode) sluice.Rule {
	return sluice.Rule{ID: id, Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {"tool"}}},
		Limits: []sluice.Limit{{Limit: limit.Slots(n)}}, OnTimeout: mode}
}

func TestSequentialCalls(t *testing.T) {
	t.Run("M-001 sequential calls leak no slot", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{slots("two", 2, sluice.Hold)}, nil)
		c := r.client("p", "2025-06-18", nil)
		for range 20 {
			c.call("echo", `{"x":1}`).passed()
		}
		if held, err := r.Held(t.Context()); err != nil || len(held) != 0 {
			t.Errorf("held: %v, %v", held, err)
		}
	})
	t.Run("C-43 the slot is held until the answer", func(t *testing.T) {
		r := newRig(t, []sluice.Rule{slots("one", 1, sluice.Hold)}, nil)
		c := r.client("p", "2025-06-18", nil)
		first := c.call("hold", `{"key":"a"}`)
		held, err := r.provider.Held(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.call("echo", `{}`).refused(-32029); got.Reason != "concurrency-exceeded" || got.RuleID != "one" || got.RetryAfterMs != nil {
			t.Errorf("got %+v", got)
		}
		if err := held.Text("done"); err != nil {
			t.Fatal(err)
		}
		first.passed()
		c.call("echo", `{}`).passed()
	})
}
