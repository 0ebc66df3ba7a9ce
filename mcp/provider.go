package mcp

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// What a provider may ask the broker, on its own socket. One that the broker has called has
// no identity of its own, and gets no answer.

// providerAsks answers a request of a provider.
func (b *Broker) providerAsks(k *conn, m *jsonrpc.Message) *jsonrpc.Message {
	answers := map[string]func(*conn, *jsonrpc.Message) (any, *jsonrpc.Error){
		"broker/authorization/declare": b.declare,
		"broker/authorize":             b.authorize,
		"broker/budget/reserve":        b.reserve,
		"broker/budget/settle":         b.settle,
		"broker/audit/result":          b.reported,
	}
	answer, ok := answers[m.Method]
	if !ok || k.provider == nil {
		return jsonrpc.NewError(m.ID, &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "Method not found"})
	}
	result, e := answer(k, m)
	if e != nil {
		return jsonrpc.NewError(m.ID, e)
	}
	return jsonrpc.NewResult(m.ID, result)
}

func invalidParams(text string, data any) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: codeInvalidParams, Message: text}
	if data != nil {
		e.Data, _ = json.Marshal(data)
	}
	return e
}

// errorOf is an error of the table's, in the era of the provider.
func (b *Broker) errorOf(k *conn, what protocol.Situation, text string, data any) *jsonrpc.Error {
	e, _ := b.settings().Table.Error(what, k.agreed(), text, data)
	return e
}

// declare takes a provider's word for what it serves. It grants nothing.
func (b *Broker) declare(k *conn, m *jsonrpc.Message) (any, *jsonrpc.Error) {
	d, problems := b.declarations.Declare(b.settings().Policy, k.provider, k.slot.name, m.Params)
	if problems != nil {
		b.note(audit.Event{Action: audit.Declare, Outcome: audit.Invalid, Slot: k.slot.name, Identity: k.providerName()})
		return nil, invalidParams("The declaration was not accepted", map[string]any{"errors": problems})
	}
	k.declared.Store(d)
	b.note(audit.Event{Action: audit.Declare, Outcome: audit.Granted, Allowed: true, Slot: k.slot.name, Identity: k.providerName()})
	return d.Acceptance(), nil
}

// authorize answers questions about a caller, or about the provider itself. It takes
// nothing from any limit, however often it is asked.
func (b *Broker) authorize(k *conn, m *jsonrpc.Message) (any, *jsonrpc.Error) {
	d := k.declared.Load()
	if d == nil {
		return nil, b.errorOf(k, protocol.NotDeclared, "The provider has not declared what it serves", nil)
	}
	q, err := policy.ParseQuestions(m.Params)
	if err != nil {
		return nil, invalidParams("Invalid parameters: "+err.Error(), nil)
	}
	who, c, correlation := k.provider.Caller(), (*call)(nil), q.CorrelationID
	if q.Ref != "" {
		var e *jsonrpc.Error
		if c, e = b.callOf(k, q.Ref); e != nil {
			return nil, e
		}
		who, correlation = c.caller, c.correlation
	}
	p := b.settings().Policy
	answers := make([]*policy.Answer, 0, len(q.Checks))
	for _, check := range q.Checks {
		a := d.Ask(p, who, check)
		b.noteDecision(k, c, correlation, a)
		b.await(k, a)
		answers = append(answers, a)
	}
	return map[string]any{"policyVersion": b.declarations.Version(p), "decisions": answers}, nil
}

// callOf returns the call that a caller reference stands for.
func (b *Broker) callOf(k *conn, ref string) (*call, *jsonrpc.Error) {
	if c := b.callers.of(ref, k); c != nil {
		return c, nil
	}
	return nil, invalidParams("The caller reference is not that of a request under way here", nil)
}

// noteDecision tells the audit what a provider was answered; c is the call of the caller,
// nil if the provider has asked for itself.
func (b *Broker) noteDecision(k *conn, c *call, correlation string, a *policy.Answer) {
	allowed := a.Effect() != "deny"
	e := audit.Event{Action: audit.Decide, Outcome: pick(allowed, audit.Granted, audit.Denied), Allowed: allowed, Slot: k.slot.name,
		DecisionID: a.ID(), CorrelationID: correlation, Capability: a.Capability, Reason: string(a.Reason), Identity: k.providerName()}
	if c != nil {
		e.RequestID, e.Identity = c.name, c.caller.Identity()
	}
	b.note(e)
}

// readParams reads an object of known members. Names are compared exactly first: the
// decoder would take "Quantity" for "quantity", and the last of both.
func readParams(raw json.RawMessage, into any, known ...string) *jsonrpc.Error {
	var members map[string]json.RawMessage
	err := json.Unmarshal(raw, &members)
	if err == nil {
		for name := range members {
			if !slices.Contains(known, name) {
				return invalidParams("Invalid parameters: a member is not known; there are "+strings.Join(known, ", "), nil)
			}
		}
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return invalidParams("Invalid parameters: "+strings.TrimPrefix(err.Error(), "json: "), nil)
	}
	return nil
}
