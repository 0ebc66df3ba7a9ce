package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// TestErasOfMethods asks for every method that one era alone has in the other, which knows none
// of them.
func TestErasOfMethods(t *testing.T) {
	r := newRig(t, nil, nil)
	old, recent := r.client("p", "2025-11-25", nil), r.client("p", "2026-07-28", nil)
	params := map[string]any{"_meta": json.RawMessage(mcptest.Meta), "level": "info", "uri": "test://one", "taskId": "task-1", "protocolVersion": "2025-11-25"}
	for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list", "tasks/result"} {
		t.Run("M-062 "+method+" is no method of 2026-07-28", func(t *testing.T) {
			x := recent.ask(method, params)
			x.refused(-32601)
			if x.status != 404 {
				t.Errorf("status %d", x.status)
			}
		})
	}
	for _, method := range []string{"subscriptions/listen", "tasks/update"} {
		t.Run("M-062 "+method+" is no method before it", func(t *testing.T) {
			x := old.ask(method, map[string]any{"taskId": "task-1"})
			x.refused(-32601)
			if x.status != 200 {
				t.Errorf("status %d", x.status)
			}
		})
	}
}
