package mcp

import (
	"bytes"
	"encoding/json"
	"io"
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
	e, _ := b.settings().Table.Error(what, k.hello.version, text, data)
	return e
}

// declare takes a provider's word for what it serves. It grants nothing.
func (b *Broker) declare(k *conn, m *jsonrpc.Message) (any, *jsonrpc.Error) {
	d, problems := b.declarations.Declare(b.settings().Policy, k.provider, k.slot.name, m.Params)
	if problems != nil {
		b.note(audit.Event{Action: audit.Declare, Outcome: audit.Invalid, Slot: k.slot.name, Identity: "provider:" + k.provider.ID})
		return nil, invalidParams("The declaration was not accepted", map[string]any{"errors": problems})
	}
	k.declared.Store(d)
	b.note(audit.Event{Action: audit.Declare, Outcome: audit.Granted, Allowed: true, Slot: k.slot.name, Identity: "provider:" + k.provider.ID})
	return d.Acceptance(), nil
}

// A principal is whom a question of a provider's is about.
type principal struct {
	Type string `json:"type"`
	Ref  string `json:"ref"`
}

// A query is a question about what a caller may do.
type query struct {
	Principal    principal `json:"principal"`
	Capability   string    `json:"capability"`
	Resource     string    `json:"resource"`
	ResourcePath string    `json:"resourcePath"`
}

// authorize answers a question about a caller, or about the provider itself. It takes
// nothing from any limit, however often it is asked.
func (b *Broker) authorize(k *conn, m *jsonrpc.Message) (any, *jsonrpc.Error) {
	var q query
	if e := readParams(m, &q); e != nil {
		return nil, e
	}
	d := k.declared.Load()
	if d == nil {
		return nil, b.errorOf(k, protocol.NotDeclared, "The provider has not declared what it serves", nil)
	}
	who, c, e := b.subjectOf(k, q.Principal)
	if e != nil {
		return nil, e
	}
	a := d.Ask(b.settings().Policy, who, policy.Check{Capability: q.Capability, Resource: q.Resource, ResourcePath: q.ResourcePath})
	b.noteDecision(k, c, audit.Decide, a)
	return a, nil
}

// subjectOf returns who a question is about; c is the call of a caller reference.
func (b *Broker) subjectOf(k *conn, p principal) (*policy.Caller, *call, *jsonrpc.Error) {
	switch p.Type {
	case "provider":
		return k.provider.Caller(), nil, nil
	case "caller-ref":
		if c := b.callers.of(p.Ref, k); c != nil {
			return c.caller, c, nil
		}
		return nil, nil, invalidParams("The caller reference is not that of a request under way here", nil)
	}
	return nil, nil, invalidParams(`principal.type is "caller-ref" or "provider"`, nil)
}

// noteDecision tells the audit what a provider was answered.
func (b *Broker) noteDecision(k *conn, c *call, action audit.Action, a *policy.Answer) {
	allowed := a.Effect() != "deny"
	e := audit.Event{Action: action, Outcome: pick(allowed, audit.Granted, audit.Denied), Allowed: allowed, Slot: k.slot.name,
		DecisionID: a.ID(), Capability: a.Capability, Reason: string(a.Reason), Identity: "provider:" + k.provider.ID}
	if c != nil {
		e.RequestID, e.CorrelationID, e.Identity = c.id.String(), c.correlation, c.caller.Identity()
	}
	b.note(e)
}

// readParams reads parameters that may hold nothing else.
func readParams(m *jsonrpc.Message, into any) *jsonrpc.Error {
	d := json.NewDecoder(bytes.NewReader(m.Params))
	d.DisallowUnknownFields()
	d.UseNumber()
	err := d.Decode(into)
	if err == nil {
		_, err = d.Token()
		if err == io.EOF {
			return nil
		}
	}
	return invalidParams("Invalid parameters: "+strings.TrimPrefix(err.Error(), "json: "), nil)
}
