package mcp_test

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

// TestListsWithoutEnd has providers whose lists of tools have a next page for ever.
func TestListsWithoutEnd(t *testing.T) {
	for _, c := range []struct{ name, tools, says string }{
		{"of one tool", `{"name":"a"}`, "has no end"},
		{"of the same tools again and again", strings.Repeat(`{"name":"a"},`, 199) + `{"name":"a"}`, "more than 10000 tools"},
		{"of what is no tool", strings.Repeat(`0,`, 199) + `0`, "more than 10000 tools"},
		{"of long descriptions", `{"name":"a","description":"` + strings.Repeat("x", 4_000_000) + `"}`, "more than 16 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			p := mcptest.New(mcptest.Options{})
			t.Cleanup(p.Close)
			r.addSlot(mcp.Slot{Name: "l", Protocol: "legacy", Dialer: answering(p, "tools/list", `{"tools":[`+c.tools+`],"nextCursor":"next"}`)})
			r.client("l", "2025-11-25", nil) // waits until the provider is connected
			for _, s := range r.Diagnose(t.Context(), mcp.Query{Slot: "l"}).Slots {
				if s.Slot == "l" && (!s.Connected || !strings.Contains(s.ToolsError, c.says)) {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}
