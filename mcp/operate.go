package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/protocol"
)

const noArguments = `{"type":"object","properties":{},"additionalProperties":false}`

const slotArgument = `{"type":"object","properties":{"slot":{"type":"string"}},"required":["slot"],"additionalProperties":false}`

const callArguments = `{"type":"object","properties":{"slot":{"type":"string"},"requestId":{"type":"string"}},"required":["slot","requestId"],"additionalProperties":false}`

const declarationArguments = `{"type":"object","properties":{"provider":{"type":"string"},"slot":{"type":"string"}},"required":["provider","slot"],"additionalProperties":false}`

const pageArguments = `{"type":"object","properties":{"slot":{"type":"string"},"capability":{"type":"string"},"rule":{"type":"string"},"identity":{"type":"string"},` +
	`"state":{"enum":["waiting","running","awaiting-input","task","abandoned","earlier"]},` +
	`"offset":{"type":"integer","minimum":0},"limit":{"type":"integer","minimum":1,"maximum":500}},"additionalProperties":false}`

// ownTools are the broker's own tools.
func (b *Broker) ownTools() []ownTool {
	return []ownTool{
		{tool: describe("broker_info", "What this broker is and how it is set up.", noArguments, true), run: b.infoTool},
		{tool: describe("providers_list", "All providers: connected or not, protocol revision, number of tools.", noArguments, true), run: b.providersTool},
		{tool: describe("provider_status", "One provider in detail: why it is not connected, which tools it has, what is wrong with them.", slotArgument, true), run: b.providerTool},
		{tool: describe("broker_guide", "How to use this broker: slots, names of tools, what a refusal means and what to do about it.", noArguments, true), run: b.guideTool},
		{tool: describe("broker_diagnose", "What is wrong now, what shows it, and what to do: providers, limits, calls that hold slots. "+
			"With slot, capability, rule, identity or state only the calls that match are listed; offset and limit page through them.", pageArguments, true),
			recovers: true, run: b.diagnoseTool},
		{tool: describe("broker_limits_release", "Free the slots of a call whose work has stopped. Check first that it has: no quota comes back, "+
			"and work that still runs is no longer counted.", callArguments, false),
			recovers: true, limits: true, run: b.releaseTool},
		{tool: describe("broker_declaration_release", "Take away what a provider has declared, and its domains, once it does not serve the slot any more: "+
			"when its identity moves elsewhere.", declarationArguments, false),
			recovers: true, run: b.withdrawTool},
	}
}

// releaseTool frees a call's slots on an operator's word.
func (b *Broker) releaseTool(ctx context.Context, c *call, arguments json.RawMessage) any {
	if !b.settings().Policy.Enforced() {
		return toolError("This broker has no authorization policy, so that nobody is an operator here. Give auth roles and assignments, or use sluice release on the broker's machine.")
	}
	slot, request, by := argument(arguments, "slot"), argument(arguments, "requestId"), c.caller.Identity()
	ok, err := b.Release(ctx, slot, request, by)
	switch {
	case err != nil:
		b.log.Error("mcp: the ledger did not take a release", "slot", slot, "error", err)
		return toolError("The ledger cannot be asked now; try again.")
	case !ok:
		return toolError("No such call holds anything. broker_diagnose lists the calls that do.")
	}
	return map[string]any{"released": true, "slot": slot, "requestId": request, "by": by,
		"note": "The slots are free. No quota was refunded. If the work still runs, it now runs uncounted."}
}

// withdrawTool takes a declaration away on an operator's word.
func (b *Broker) withdrawTool(_ context.Context, c *call, arguments json.RawMessage) any {
	p := b.settings().Policy
	if !p.Enforced() {
		return toolError("This broker has no authorization policy, so that nobody is an operator here.")
	}
	provider, name := argument(arguments, "provider"), argument(arguments, "slot")
	if sl := b.slotNamed(name); sl != nil {
		if k := sl.connection(); k != nil && k.provider != nil && k.provider.ID == provider {
			return toolError("The provider serves the slot now. Stop it first.")
		}
	}
	w, ok := b.declarations.Withdraw(p, provider, name)
	if !ok {
		return toolError("The provider has declared nothing there.")
	}
	b.note(audit.Event{Action: audit.Declare, Outcome: audit.Released, Allowed: true, Slot: name, Identity: "provider:" + provider, By: c.caller.Identity()})
	return map[string]any{"withdrawn": true, "provider": provider, "slot": name, "domains": w.Domains, "policyVersion": w.PolicyVersion}
}

func (b *Broker) infoTool(_ context.Context, _ *call, _ json.RawMessage) any {
	s := b.settings()
	return map[string]any{
		"name": b.info["name"], "version": b.info["version"], "protocolVersions": protocol.Versions(),
		"slots": len(b.providers()), "policy": s.Policy.Enforced(), "policyVersion": b.declarations.Version(s.Policy),
		"limits": s.Limits, "rules": len(s.Order), "uptimeMs": time.Since(b.started).Milliseconds(),
	}
}

// ProviderStatus is what the broker knows of a provider.
type ProviderStatus struct {
	Slot      string `json:"slot"`
	Connected bool   `json:"connected"`
	// Kind is "dialled" for a provider that the broker calls, "dials-in" for the others.
	Kind     string `json:"kind"`
	Protocol string `json:"protocolVersion,omitempty"`
	Provider string `json:"provider,omitempty"` // the id of one that has dialled in
	Tools    int    `json:"tools"`
	Clients  int    `json:"clients"`
	// Error is why it is not connected.
	Error      string   `json:"error,omitempty"`
	BadFrames  int64    `json:"badFrames,omitempty"`
	ToolsError string   `json:"toolsError,omitempty"`
	Declared   bool     `json:"declared"`
	Units      []string `json:"budgetUnits,omitempty"`
	// Problems are tools whose arguments are not checked, or that cannot be called.
	Problems []ToolProblem `json:"problems,omitempty"`
}

// A ToolProblem is what is wrong with a provider's tool.
type ToolProblem struct {
	Tool    string `json:"tool"`
	Problem string `json:"problem"`
}

func (sl *slot) status(detail bool) ProviderStatus {
	sl.mu.Lock()
	k, lastErr := sl.current, sl.lastErr
	sl.mu.Unlock()
	list := sl.tools.Load()
	s := ProviderStatus{Slot: sl.name, Connected: k != nil, Kind: pick(sl.conf().Dialer != nil, "dialled", "dials-in"), Tools: list.count(), Clients: sl.b.sessions.count(sl)}
	if k == nil {
		if lastErr != nil {
			s.Error = lastErr.Error()
		}
		return s
	}
	s.Protocol, s.BadFrames = k.hello.version, k.bad.Load()
	if k.provider != nil {
		s.Provider = k.provider.ID
	}
	if d := k.declared.Load(); d != nil {
		s.Declared, s.Units = true, d.BudgetUnits
	}
	if list != nil && list.err != nil {
		s.ToolsError = list.err.Error()
	}
	if detail {
		s.Problems = list.problems()
	}
	return s
}

// problems are what is wrong with the tools of a list.
func (l *catalog) problems() (found []ToolProblem) {
	if l == nil {
		return nil
	}
	found = slices.Clone(l.unfit)
	for _, name := range l.twice {
		found = append(found, ToolProblem{name, "listed twice; the first counts"})
	}
	for _, t := range l.tools {
		s, problem := t.compiled()
		if problem != nil {
			found = append(found, ToolProblem{t.name, "the input schema cannot be used, so that arguments are not checked: " + problem.String()})
			continue
		}
		if s == nil {
			continue
		}
		for _, n := range s.Notes() {
			found = append(found, ToolProblem{t.name, n})
		}
	}
	return found
}

// Providers says what is known of all providers, by slot.
func (b *Broker) Providers() []ProviderStatus {
	var list []ProviderStatus
	for _, sl := range b.providers() {
		list = append(list, sl.status(false))
	}
	return list
}

func (b *Broker) providersTool(_ context.Context, c *call, _ json.RawMessage) any {
	visible := []ProviderStatus{}
	for _, sl := range b.providers() {
		if b.settings().Policy.Reachable(c.caller, sl.name) {
			visible = append(visible, sl.status(false))
		}
	}
	return map[string]any{"providers": visible}
}

func (b *Broker) providerTool(_ context.Context, c *call, arguments json.RawMessage) any {
	name := argument(arguments, "slot")
	sl := b.slotNamed(name)
	if sl == nil || sl.all || sl.builtin != nil || !b.settings().Policy.Reachable(c.caller, name) {
		return toolError("There is no such provider. providers_list says which there are.")
	}
	return sl.status(true)
}

const guide = `Each provider has a slot. Connect to /<slot>/mcp for one provider's tools under their own names, or to /_all/mcp for all of them, named <slot>-<tool>.

A call may be refused before it reaches a provider. The error's data says why:
- limit-exceeded: wait retryAfterMs, then call again. Earlier is refused again, and costs nothing.
- concurrency-exceeded: as many calls run as the rule ruleId allows. Wait for one to end.
- reservation-unsupported, quantity-exceeds-limit: the same call will never pass; tell a person.
- ledger-full, storage-unavailable: the broker cannot keep its books; tell a person.

A call that was cancelled or has timed out may still run at its provider and hold its slot. broker_diagnose shows such calls; broker_limits_release frees one, once somebody has made sure that its work has stopped.`

func (b *Broker) guideTool(context.Context, *call, json.RawMessage) any {
	return toolResult{Content: []content{{"text", guide}}}
}
