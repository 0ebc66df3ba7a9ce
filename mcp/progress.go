package mcp

import (
	"strconv"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// step passes one notification of progress on, if it goes forward, and gives the call
// more time.
func (c *call) step(m *jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered {
		return
	}
	c.extend()
	if c.token == nil {
		return
	}
	raw, _ := m.Param("progress")
	next, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return
	}
	edits := []jsonrpc.Edit{jsonrpc.Set(c.token, "params", "progressToken")}
	said, _ := m.Param("message")
	switch {
	case c.progress == nil || next > *c.progress:
		c.progress, c.shown = &next, raw
	case len(said) == 0 || string(said) == string(c.said):
		return
	default: // there is something new to say all the same
		edits = append(edits, jsonrpc.Set(c.shown, "params", "progress"))
	}
	c.said = said
	c.x.Notify(m.Edit(edits...).Raw)
}

// tell passes on a message that came on the call's own stream.
func (c *call) tell(m *jsonrpc.Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered {
		return false
	}
	c.x.Notify(m.Raw)
	return true
}
