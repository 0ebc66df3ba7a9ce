package config

import (
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// mcp checks the broker's section and makes the rules of its limits block.
func (k *compiler) mcp() {
	m := k.c.MCP
	if m == nil {
		if k.c.Listen.MCP != "" {
			k.problem(&k.c.Listen.MCP, CodeRequired, "the broker listens and has no section; add mcp, such as mcp: {slots: [{slot: files, command: [mcp-files]}]}")
		}
		return
	}
	k.authorization(m)
	k.slotList(m)
	k.oauth(m)
	if m.Limits == nil {
		return
	}
	k.mcpErrors(&m.Limits.Errors)
	ids := map[string]*string{}
	for i := range m.Limits.Rules {
		r := &m.Limits.Rules[i]
		if first, twice := ids[r.ID]; twice { // a refusal by one of them would not say which
			k.problem(&r.ID, CodeDuplicate, "two rules have this id; the other is at %s; give one of them another id", k.c.places[first].pos)
			continue
		}
		ids[r.ID] = &r.ID
		k.mcpRule(r)
	}
}

// methodCall is the method that a rule of the block counts if it names none.
const methodCall = "tools/call"

// mcpRule makes up to three rules of one: calls and slots, starts (":rate") because a crash
// may forget them, and the budget (":budget") because other calls take it: reservations of
// native work, not calls of tools. All that match are taken together, as if they were one.
// No id of the block has a colon, so what stands before it is the rule's own.
func (k *compiler) mcpRule(r *MCPRule) {
	k.mcpRuleKeys(r)
	groupBy, weights := k.dimensions(&r.GroupBy, r.GroupBy), shares(r.Weights)
	add := func(suffix string, match map[sluice.Dimension][]string, out sluice.Rule, ls limits) {
		if len(ls) == 0 {
			return
		}
		out.ID, out.Match, out.GroupBy, out.Limits, out.Shadow = r.ID+suffix, sluice.Match{Is: match}, groupBy, ls, r.Shadow
		k.add(&r.ID, out)
	}
	var calls, starts, budget limits
	calls.add(k.window(&r.Calls, r.Calls, ""))
	calls.add(k.slots(&r.Concurrency, r.Concurrency))
	starts.add(k.window(&r.Rate, r.Rate, ""))
	line := k.queue(r.Queue, nil)
	held := sluice.Rule{OnTimeout: pick(r.OnTimeout == "release", sluice.Free, sluice.Hold), Weights: weights, Queue: line}
	if r.MaxHoldMs != nil {
		held.MaxHold = k.milliseconds(&r.MaxHoldMs, *r.MaxHoldMs)
	}
	add("", r.callsMatched(), held, calls)
	add(":rate", r.callsMatched(), sluice.Rule{Volatile: true, Weights: weights, Queue: line}, starts)
	if b := r.Budget; b != nil {
		w := b.Window
		if b.StartWithinMs != nil {
			w.WindowMs += *b.StartWithinMs
		}
		budget.add(k.window(&r.Budget, &w, b.Unit))
		settle := pick(b.Settle == "refund", sluice.Refund, sluice.Keep)
		add(":budget", r.Match.dimensions(KindOperation), sluice.Rule{Settle: settle, AllowOverrun: b.AllowOverrun}, budget)
	}
}

// mcpRuleKeys refuses keys that are about something the rule does not have.
func (k *compiler) mcpRuleKeys(r *MCPRule) {
	slot := "is about the slot that a call holds; add concurrency, or remove it"
	call := "is about calls, and the rule limits none; add calls, rate or concurrency, or remove it"
	noSlot, noCall := r.Concurrency == nil, r.Calls == nil && r.Rate == nil && r.Concurrency == nil
	for _, c := range []struct {
		field        any
		given, lacks bool
		why          string
	}{
		{&r.OnTimeout, r.OnTimeout != "", noSlot, slot},
		{&r.OnCancel, r.OnCancel != "", noSlot, slot},
		{&r.MaxHoldMs, r.MaxHoldMs != nil, noSlot, slot},
		{&r.Queue, r.Queue != nil, noCall, call},
		{&r.Weights, len(r.Weights) > 0, noCall, call},
		{&r.Methods, len(r.Methods) > 0, noCall, call},
		{&r.RequireReservation, r.RequireReservation, r.Budget == nil, "needs a budget to reserve from; add budget, or remove it"},
		{&r.ID, true, noCall && r.Budget == nil, "the rule limits nothing; give calls, rate, concurrency or budget"},
	} {
		if c.given && c.lacks {
			k.problem(c.field, pick(c.field == any(&r.ID), CodeRequired, CodeConflict), "%s", c.why)
		}
	}
	switch told := r.OnCancel == "forward-and-hold"; {
	case told && r.OnTimeout == "release":
		k.problem(&r.OnCancel, CodeConflict, "onTimeout: release frees the slot and tells the provider anyway; remove one")
	case told && r.MaxHoldMs == nil:
		k.problem(&r.OnCancel, WarnMissing, "a provider that is told of a cancel need not answer any more, and then only an operator frees the slot; add maxHoldMs")
	}
}

func (k *compiler) window(field any, w *Window, unit string) (sluice.Limit, bool) {
	if w == nil {
		return sluice.Limit{}, false
	}
	return k.limit(field, limit.Window(w.Max, limit.Micros(w.WindowMs)*limit.Millisecond), unit)
}

// callsMatched selects the calls that the rule counts: those of tools, or those of the methods
// that it names.
func (r *MCPRule) callsMatched() map[sluice.Dimension][]string {
	out := r.Match.dimensions(KindTool)
	if len(r.Methods) == 0 {
		return out
	}
	out[sluice.Method] = r.Methods
	switch tools := slices.Contains(r.Methods, methodCall); {
	case !tools:
		out[sluice.Kind] = []string{KindMethod}
	case len(r.Methods) > 1:
		out[sluice.Kind] = []string{KindTool, KindMethod}
	}
	return out
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

// mcpErrors refuses codes that mean something else already. Revision 2026-07-28 keeps the range
// -32020 to -32099 for itself (basic, "error codes"); JSON-RPC 2.0 the lower one (section 5.1).
func (k *compiler) mcpErrors(e *MCPErrors) {
	for _, c := range []struct {
		code   **int64
		modern bool
	}{{&e.Legacy.Code, false}, {&e.Modern.Code, true}} {
		if *c.code == nil {
			continue
		}
		switch n := **c.code; {
		case n == 0:
			k.problem(c.code, CodeValue, "0 is no error; take another code")
		case n >= -32768 && n <= -32600:
			k.problem(c.code, CodeConflict, "%d means a broken message in JSON-RPC; take another code", n)
		case c.modern && n >= -32099 && n <= -32020:
			k.problem(c.code, CodeConflict, "%d is kept for the protocol itself from revision 2026-07-28 on; take another code, such as 429", n)
		}
	}
}
