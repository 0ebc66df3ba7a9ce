package mcp

import (
	"encoding/json"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/cache"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// fromCache answers the call with a result that was kept, which takes nothing from any
// rule. If there is none, and the tool is one whose results may be kept, the call's own
// will be.
func (c *call) fromCache(t *tool) bool {
	rule := c.slot.cacheRule(t)
	if rule == nil {
		return false
	}
	scope := cache.Subject(c.caller.Identity())
	if rule.Shared {
		scope = cache.Shared("all")
	}
	key := c.b.cache.Key(cache.Call{Slot: c.slot.name, Tool: t.name, Scope: scope, Params: c.request.Params})
	if result, ok := c.b.cache.Get(key); ok {
		c.resultRaw(result)
		return true
	}
	c.learn(func() { c.cached = func(result json.RawMessage) { c.b.cache.Put(key, result, rule.TTL) } })
	return false
}

// cacheRule returns what the operator has said about a tool's results. One that does not
// say that it only reads needs his word for it.
func (sl *slot) cacheRule(t *tool) *CacheRule {
	rules := sl.conf().Cache
	for i := range rules {
		if r := &rules[i]; r.Tool == t.name && r.TTL > 0 && (t.readOnly || r.Writes) {
			return r
		}
	}
	return nil
}

// resultRaw answers with a result that was kept.
func (c *call) resultRaw(result json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release()
	m := jsonrpc.NewResult(c.request.ID, result)
	if !c.modern() {
		m = m.Edit(jsonrpc.Delete("result", "resultType"))
	}
	if c.answer(c.dress(m), okStatus, audit.CacheHit) {
		c.note(audit.Event{Action: audit.Admit, Outcome: audit.CacheHit, Allowed: true})
	}
}
