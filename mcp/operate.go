package mcp

import (
	"context"
	"encoding/json"
)

const noArguments = `{"type":"object","properties":{},"additionalProperties":false}`

const callArguments = `{"type":"object","properties":{"slot":{"type":"string"},"requestId":{"type":"string"}},"required":["slot","requestId"],"additionalProperties":false}`

// ownTools are the broker's own tools.
func (b *Broker) ownTools() []ownTool {
	return []ownTool{
		{tool: describe("broker_limits_release", "Free the slots of a call whose work has stopped. Check first that it has.", callArguments, false),
			recovers: true, limits: true, run: b.releaseTool},
	}
}

// releaseTool frees a call's slots on an operator's word.
func (b *Broker) releaseTool(ctx context.Context, c *call, arguments json.RawMessage) any {
	if !b.settings().Policy.Enforced() {
		return toolError("This broker has no authorization policy: nobody is an operator here")
	}
	slot, request, by := argument(arguments, "slot"), argument(arguments, "requestId"), c.caller.Identity()
	ok, err := b.Release(ctx, slot, request, by)
	switch {
	case err != nil:
		return toolError("The ledger cannot be asked now; try again")
	case !ok:
		return toolError("No such call holds anything")
	}
	return map[string]any{"released": true, "slot": slot, "requestId": request, "by": by,
		"note": "The slots are free. No quota was refunded. If the work still runs, it now runs uncounted."}
}
