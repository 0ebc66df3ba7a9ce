package mcp

import (
	"encoding/json"
	"slices"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// callTool admits a call of a tool and passes it on. Nothing is taken before the last step:
// what is denied, unknown, malformed or known already costs nothing.
func (s *Session) callTool(c *call) {
	name := c.toolName()
	if name == "" {
		c.failCode(codeInvalidParams, okStatus, "tools/call needs the tool's name")
		return
	}
	switch {
	case s.slot.all:
		if c.allowed("") { // to call anything here; what else it takes the tool's own slot says
			s.callAny(c, name)
		}
	case s.slot.builtin != nil:
		s.callBuiltin(c, name)
	default:
		s.callProvider(c, name)
	}
}

// toolName returns the tool that a call names, which may be one that nobody knows.
func (c *call) toolName() string {
	raw, _ := c.request.Param("name")
	name, _ := jsonrpc.Text(raw)
	return name
}

func (s *Session) callProvider(c *call, name string) {
	if !c.allowed(name) {
		return
	}
	k := s.provider(c)
	if k == nil {
		return
	}
	list := c.slot.tools.Load()
	t := list.tool(name)
	if t == nil && list.known() || !c.slot.offers(name) {
		c.failWith(protocol.UnknownTool, audit.Event{Action: audit.Admit, Outcome: audit.Invalid, Reason: "unknown-tool"}, "Unknown tool", nil)
		return
	}
	c.learn(func() { c.tool = t })
	if t != nil && (!c.repeats(t) || !c.valid(t)) {
		return
	}
	if again, ok := c.unpark(); !ok || again {
		if ok {
			c.dispatch(k)
		}
		return
	}
	if t != nil && c.fromCache(t) {
		return
	}
	if c.admitTool(k, t.nameOr("")) {
		c.dispatch(k)
	}
}

// valid checks the arguments against the tool's schema. What does not fit never reaches
// the provider, and is answered in the way in which models learn from it.
func (c *call) valid(t *tool) bool {
	if c.slot.conf().NoValidation {
		return true
	}
	arguments, _ := c.request.Param("arguments")
	wrong := t.check(arguments)
	if wrong == "" {
		return true
	}
	if c.version == "" || protocol.EraOf(c.version) == protocol.Legacy && c.version < protocol.V20251125 {
		c.failWith(protocol.BadArguments, audit.Event{Action: audit.Admit, Outcome: audit.Invalid, Reason: "invalid-arguments"}, "Invalid arguments: "+wrong, nil)
		return false
	}
	c.resultWith(toolError("Invalid arguments: "+wrong), audit.Event{Action: audit.Admit, Outcome: audit.Invalid, Reason: "invalid-arguments"})
	return false
}

// A toolResult is a result of a tool of the broker's own.
type toolResult struct {
	Content           []content `json:"content"`
	StructuredContent any       `json:"structuredContent,omitempty"`
	IsError           bool      `json:"isError,omitempty"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// toolError is a result that tells a model what went wrong.
func toolError(text string) toolResult {
	return toolResult{Content: []content{{"text", text}}, IsError: true}
}

// listTools lists the tools that the caller may call, from the same table that calls are
// looked up in.
func (s *Session) listTools(c *call) {
	if !c.allowed("") {
		return
	}
	if s.slot.all || s.slot.builtin != nil {
		if s.slot.all {
			s.b.gather(c.ctx)
		}
		c.result(toolList{Tools: s.visibleTools()}, audit.Completed)
		return
	}
	k := s.provider(c)
	if k == nil {
		return
	}
	list := s.slot.tools.Load()
	if !list.known() {
		c.filter = s.onlyVisible
		c.dispatch(k) // the provider says what there is, or why not
		return
	}
	r := toolList{Tools: s.visibleTools()}
	if c.modern() {
		r.TTLMs = list.ttl
	}
	c.result(r, audit.Completed)
}

type toolList struct {
	Tools []json.RawMessage `json:"tools"`
	TTLMs *int64            `json:"ttlMs,omitempty"`
}

// onlyVisible takes from a provider's own list what the caller may not call.
func (s *Session) onlyVisible(m *jsonrpc.Message) *jsonrpc.Message {
	return keepOnly(m, "tools", func(raw json.RawMessage) bool {
		var t struct {
			Name string `json:"name"`
		}
		return json.Unmarshal(raw, &t) == nil && s.maySee(s.slot, t.Name)
	})
}

// keepOnly takes from a list in a result the elements that keep does not want.
func keepOnly(m *jsonrpc.Message, member string, keep func(json.RawMessage) bool) *jsonrpc.Message {
	raw, _ := jsonrpc.Lookup(m.Result, member)
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return m
	}
	kept := jsonrpc.Encode(slices.DeleteFunc(list, func(raw json.RawMessage) bool { return !keep(raw) }))
	return m.Edit(jsonrpc.Set(kept, "result", member))
}

// maySee asks the same as a call would be asked.
func (s *Session) maySee(sl *slot, tool string) bool {
	return sl.offers(tool) && s.b.settings().Policy.May(s.caller(), sl.name, "tools/call", tool).Allowed
}
