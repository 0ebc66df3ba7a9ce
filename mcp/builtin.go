package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// _broker offers tools of the broker's own, for operators and for models that help them.

// A builtin is the set of them.
type builtin struct{ tools []ownTool }

// An ownTool is one of them.
type ownTool struct {
	tool
	// recovers is set for those that an operator needs when a rule is saturated: they take
	// nothing.
	recovers bool
	// limits is set for those that are there only if there is a limits block.
	limits bool
	run    func(context.Context, *call, json.RawMessage) any // returns what is shown, or a toolResult
}

func (b *Broker) newBuiltin() *slot {
	sl := &slot{b: b, name: BrokerSlot, builtin: &builtin{tools: b.ownTools()}}
	sl.options.Store(&Slot{Name: BrokerSlot})
	return sl
}

// hello is what a slot of the broker's own says of itself.
func (b *Broker) hello(*slot) hello {
	return hello{capabilities: json.RawMessage(`{"tools":{"listChanged":true}}`), info: b.infoJSON}
}

func (s *Session) offers(t *ownTool) bool { return !t.limits || s.b.settings().Limits }

// callBuiltin runs one of the broker's own tools.
func (s *Session) callBuiltin(c *call, name string) {
	if !c.allowed(name) {
		return
	}
	var t *ownTool
	for i := range s.slot.builtin.tools {
		if own := &s.slot.builtin.tools[i]; own.name == name && s.offers(own) {
			t = own
		}
	}
	if t == nil {
		c.failWith(protocol.UnknownTool, audit.Event{Action: audit.Admit, Outcome: audit.Invalid, Reason: "unknown-tool"}, "Unknown tool", nil)
		return
	}
	c.learn(func() { c.tool = &t.tool })
	if !c.valid(&t.tool) {
		return
	}
	if !t.recovers && !c.admitTool(nil, t.name) {
		return
	}
	arguments, _ := c.request.Param("arguments")
	ctx, cancel := context.WithTimeout(c.ctx, defaultConnect)
	defer cancel()
	c.result(shown(t.run(ctx, c, arguments)), audit.Completed)
}

// shown is what a tool returns, as text and as a value.
func shown(v any) toolResult {
	if r, is := v.(toolResult); is {
		return r
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return toolError("The result cannot be written")
	}
	return toolResult{Content: []content{{"text", string(text)}}, StructuredContent: v}
}

// describe makes one of the broker's own tools.
func describe(name, description, inputSchema string, readOnly bool) tool {
	text, _ := json.Marshal(map[string]any{
		"name": name, "description": description, "inputSchema": json.RawMessage(inputSchema),
		"annotations": map[string]bool{"readOnlyHint": readOnly, "openWorldHint": false},
	})
	return tool{name: name, raw: text, sum: sha256.Sum256(text), readOnly: readOnly}
}

// argument returns a text among a tool's arguments.
func argument(arguments json.RawMessage, name string) string {
	raw, _ := jsonrpc.Lookup(arguments, name)
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}
