package provider

import (
	"context"
	"encoding/json"
	"fmt"
)

// A Declaration says what a provider serves: a vocabulary, a part of the tree of resources,
// and limits of equipment. It grants nothing. The broker's operator has to let the provider
// serve there, and only a provider with a secret of its own may declare.
type Declaration struct {
	// Version is the provider's own name for it.
	Version string `json:"version"`
	// Domain is what all capabilities begin with.
	Domain string `json:"domain"`
	// Namespace is the resource that all others lie below.
	Namespace string `json:"-"`
	// Capabilities are 1 to 64, each the domain, a dot, and more.
	Capabilities []string `json:"capabilities"`
	// Resources are named ones, and patterns with limits.
	Resources []Resource `json:"resources,omitempty"`
	// Protects are slots whose protection the provider confirms.
	Protects []string `json:"protects,omitempty"`
	// ResultsRequired are capabilities whose results the provider promises to report.
	ResultsRequired []string `json:"resultsRequired,omitempty"`
	// BudgetUnits are what the provider reserves before native work.
	BudgetUnits []string `json:"budgetUnits,omitempty"`
}

// MarshalJSON writes the declaration as the broker reads it.
func (d *Declaration) MarshalJSON() ([]byte, error) {
	type plain Declaration
	return json.Marshal(struct {
		*plain
		Namespace map[string]string `json:"namespace"`
	}{(*plain)(d), map[string]string{"resource": d.Namespace}})
}

// A Resource is one that is declared: by Name and Path, or by Pattern, Where and Limits.
type Resource struct {
	Name string `json:"resource,omitempty"`     // the provider's own
	Path string `json:"resourcePath,omitempty"` // in the tree
	// Pattern stands for all that lie there, as in "/site/{unit}/pump"; Where holds regular
	// expressions for its names.
	Pattern string            `json:"resourcePattern,omitempty"`
	Where   map[string]string `json:"where,omitempty"`
	// Limits come with every decision that allows. Nil is none.
	Limits *Constraints `json:"limits,omitempty"`
}

// Constraints are what may be written to a resource, whoever writes. The provider applies
// them before it acts; the broker does not see the value.
type Constraints struct {
	MinValue      json.Number       `json:"minValue,omitempty"` // empty is no bound
	MaxValue      json.Number       `json:"maxValue,omitempty"`
	AllowedValues []json.RawMessage `json:"allowedValues,omitempty"` // nil is any
	Destinations  []string          `json:"destinations,omitempty"`
}

// Declare declares anew, now and on each later connection. An error is an [*Error] with
// all problems, if the broker has refused; then the declaration before stays.
func (p *Provider) Declare(ctx context.Context, d *Declaration) error {
	if _, err := p.askAgain(ctx, "broker/authorization/declare", d); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.declared = d
	return nil
}

// A Check is one question: may the caller do this there?
type Check struct {
	Capability string `json:"capability"`
	// Resource is the provider's own name of what it is about, Path its place in the tree.
	Resource string `json:"resource"`
	Path     string `json:"resourcePath"`
}

// A Decision is the broker's answer to a Check.
type Decision struct {
	ID string `json:"decisionId"`
	// Effect is "allow", "allow-with-constraints" or "deny".
	Effect string `json:"effect"`
	Reason string `json:"reason"`
	// Obligations come with "allow-with-constraints"; the provider has to meet them.
	Obligations Obligations `json:"obligations"`
}

// Obligations are what a provider has to see to itself.
type Obligations struct {
	Constraints *Constraints `json:"constraints"` // nil is none
}

// Allowed reports whether the caller may go ahead, if the constraints are met.
func (d *Decision) Allowed() bool { return d.Effect == "allow" || d.Effect == "allow-with-constraints" }

// Authorize asks whether a caller may do what the checks say, 1 to 256 of them, and returns
// an answer to each. The zero CallerReference asks for the provider itself. It takes nothing
// from any limit.
func (p *Provider) Authorize(ctx context.Context, caller CallerReference, checks ...Check) ([]Decision, error) {
	m, err := p.askAgain(ctx, "broker/authorize", map[string]any{"principal": onBehalfOf(caller.Ref), "checks": checks})
	if err != nil {
		return nil, err
	}
	var r struct{ Decisions []Decision }
	if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Decisions) != len(checks) {
		return nil, fmt.Errorf("provider: the broker has not answered each of %d checks", len(checks))
	}
	return r.Decisions, nil
}

// Report says what came of something that a Decision allowed, whose capability is among the
// declaration's ResultsRequired: [Success], [Failure] or [Refused]. It is taken once. What was
// reserved is settled instead.
func (p *Provider) Report(ctx context.Context, d *Decision, result string) error {
	_, err := p.ask(ctx, "broker/audit/result", map[string]string{"decisionId": d.ID, "result": result})
	return err
}

// onBehalfOf names a caller, or the provider itself.
func onBehalfOf(ref string) map[string]string {
	if ref == "" {
		return map[string]string{"type": "provider"}
	}
	return map[string]string{"type": "caller-ref", "ref": ref}
}
