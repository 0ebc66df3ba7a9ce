package config

import (
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// mcp makes the rules of the broker's limits block.
func (k *compiler) mcp() {
	m := k.c.MCP
	if m == nil {
		return
	}
	k.authorization(m)
	if m.Limits == nil {
		return
	}
	for i := range m.Limits.Rules {
		k.mcpRule(&m.Limits.Rules[i])
	}
}

// mcpRule makes up to three rules of one: calls and slots, starts (":rate") because a crash
// may forget them, and the budget (":budget") because other calls take it: reservations of
// native work, not calls of tools. All that match are taken together, as if they were one.
// No id of the block has a colon, so what stands before it is the rule's own.
func (k *compiler) mcpRule(r *MCPRule) {
	if r.OnTimeout != "" && r.Concurrency == nil {
		k.problem(&r.OnTimeout, CodeConflict, "is about the slot that a call holds; add concurrency, or remove it")
	}
	if r.RequireReservation && r.Budget == nil {
		k.problem(&r.RequireReservation, CodeConflict, "needs a budget to reserve from; add budget, or remove it")
	}
	if r.MaxHoldMs != nil && r.Concurrency == nil {
		k.problem(&r.MaxHoldMs, CodeConflict, "is about the slot that a call holds; add concurrency, or remove it")
	}
	if r.Calls == nil && r.Rate == nil && r.Concurrency == nil && r.Budget == nil {
		k.problem(&r.ID, CodeRequired, "the rule limits nothing; give calls, rate, concurrency or budget")
	}
	groupBy := k.dimensions(&r.GroupBy, r.GroupBy)
	add := func(suffix, kind string, out sluice.Rule, ls limits) {
		if len(ls) == 0 {
			return
		}
		out.ID, out.Match, out.GroupBy, out.Limits, out.Shadow = r.ID+suffix, sluice.Match{Is: r.Match.dimensions(kind)}, groupBy, ls, r.Shadow
		k.add(&r.ID, out)
	}
	var calls, starts, budget limits
	calls.add(k.window(&r.Calls, r.Calls, ""))
	calls.add(k.slots(&r.Concurrency, r.Concurrency))
	starts.add(k.window(&r.Rate, r.Rate, ""))
	if r.Budget != nil {
		budget.add(k.window(&r.Budget, &r.Budget.Window, r.Budget.Unit))
	}
	held := sluice.Rule{OnTimeout: pick(r.OnTimeout == "release", sluice.Free, sluice.Hold)}
	if r.MaxHoldMs != nil {
		held.MaxHold = k.milliseconds(&r.MaxHoldMs, *r.MaxHoldMs)
	}
	add("", KindTool, held, calls)
	add(":rate", KindTool, sluice.Rule{Volatile: true}, starts)
	add(":budget", KindOperation, sluice.Rule{Settle: sluice.Keep, AllowOverrun: r.AllowOverrun}, budget)
}

func (k *compiler) window(field any, w *Window, unit string) (sluice.Limit, bool) {
	if w == nil {
		return sluice.Limit{}, false
	}
	return k.limit(field, limit.Window(w.Max, limit.Micros(w.WindowMs)*limit.Millisecond), unit)
}

func (m *MCPMatch) dimensions(kind string) map[sluice.Dimension][]string {
	out := is(kind)
	for d, v := range map[sluice.Dimension]string{sluice.Subject: m.Subject, sluice.Provider: m.Provider, sluice.Capability: m.Capability} {
		if v != "" {
			out[d] = []string{v}
		}
	}
	if m.Resource != "" {
		out[sluice.Resource] = resources([]string{m.Resource})
	}
	return out
}

// authorization checks the names that the broker's roles, assignments and providers use.
func (k *compiler) authorization(m *MCP) {
	providers := map[string]*string{}
	for i := range m.Providers {
		p := &m.Providers[i]
		if first, twice := providers[p.ID]; twice {
			k.problem(&p.ID, CodeDuplicate, "two providers have this id; the other is at %s", k.c.places[first].pos)
		}
		providers[p.ID] = &p.ID
	}
	if m.Auth == nil {
		return
	}
	var roles []string
	inherits := map[string][]string{}
	for i := range m.Auth.Roles {
		roles = append(roles, m.Auth.Roles[i].Name)
		inherits[m.Auth.Roles[i].Name] = m.Auth.Roles[i].Inherits
	}
	known := func(field any, name string) {
		if _, ok := inherits[name]; !ok {
			k.problem(field, CodeReference, "there is no role %q%s", name, suggestion(name, roles))
		}
	}
	for i := range m.Auth.Roles {
		r := &m.Auth.Roles[i]
		for _, name := range r.Inherits {
			known(&r.Inherits, name)
		}
		if path := cycle(inherits, r.Name, nil); path != "" {
			k.problem(&r.Inherits, CodeConflict, "the role inherits itself: %s", path)
		}
	}
	for i := range m.Auth.Assignments {
		known(&m.Auth.Assignments[i].Role, m.Auth.Assignments[i].Role)
	}
}

// cycle returns how name leads back to the first of path, or "".
func cycle(inherits map[string][]string, name string, path []string) string {
	if len(path) > 0 && name == path[0] {
		return fmt.Sprintf("%v", append(path, name))
	}
	for _, p := range path {
		if p == name {
			return "" // another role's cycle
		}
	}
	for _, next := range inherits[name] {
		if c := cycle(inherits, next, append(path, name)); c != "" {
			return c
		}
	}
	return ""
}
