package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/sluicegate/sluice/internal/resource"
)

// maxChecks is the most questions in one request.
const maxChecks = 256

var correlationForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// Questions are the parameters of broker/authorize.
type Questions struct {
	// Ref is the reference of the caller on whose behalf the provider asks; empty if it
	// asks for itself.
	Ref string
	// CorrelationID is the provider's, and empty if it has sent none that can be used, or
	// asks for a caller, whose request has one.
	CorrelationID string
	// Checks are 1 to 256 questions.
	Checks []Check
}

// A Check is one question: may the caller do this there?
type Check struct {
	Capability string
	// Resource is the provider's own name of what it is about, ResourcePath its place in
	// the tree.
	Resource, ResourcePath string
}

// An Answer is a decision for a provider. It takes nothing from any limit.
type Answer struct {
	Decision
	// Constraints are the limits that come with a decision that allows; nil is none.
	// Sources say who has set them, for audit.
	Constraints *Limits
	Sources     []string
	// ResultRequired says that the provider has promised to report what came of it.
	ResultRequired bool
}

// Effect is "allow", "allow-with-constraints" or "deny".
func (a *Answer) Effect() string {
	switch {
	case !a.Allowed:
		return "deny"
	case a.Constraints != nil:
		return "allow-with-constraints"
	}
	return "allow"
}

// MarshalJSON writes the answer as the provider gets it. "allowed" there is true for an
// allow without constraints alone: a provider that reads nothing else refuses, rather than
// oversteps a limit.
func (a *Answer) MarshalJSON() ([]byte, error) {
	type obligations struct {
		Constraints *Limits `json:"constraints"`
	}
	out := struct {
		DecisionID  string       `json:"decisionId"`
		Effect      string       `json:"effect"`
		Allowed     bool         `json:"allowed"`
		Reason      Reason       `json:"reason"`
		Policies    []string     `json:"policies,omitempty"`
		Obligations *obligations `json:"obligations,omitempty"`
	}{DecisionID: a.ID(), Effect: a.Effect(), Reason: a.Reason}
	out.Allowed = out.Effect == "allow"
	if a.Policy != "" {
		out.Policies = []string{a.Policy}
	}
	if a.Constraints != nil {
		out.Obligations = &obligations{a.Constraints}
	}
	return json.Marshal(out)
}

// Ask answers a question of the provider that has declared d, on behalf of a caller. A
// provider asks about its own vocabulary and its own part of the tree alone.
func (d *Declaration) Ask(p *Policy, c *Caller, check Check) *Answer {
	path, err := resource.Clean(check.ResourcePath)
	a := &Answer{Decision: decision(check.Capability, path)}
	named, isNamed := d.resources[check.Resource]
	_, spoken := slices.BinarySearch(d.Capabilities, check.Capability)
	switch {
	case !spoken:
		a.Reason, a.Capability = UndeclaredCapability, ""
	case err != nil, !resource.Within(d.Namespace, path), !d.stillAllowed(p):
		a.Reason = UndeclaredResource
	case isNamed && named.path != path:
		a.Reason = UndeclaredResource // elsewhere it would escape its limits
	case !p.Enforced():
		a.Reason = NoPolicy
	default:
		a.Decision = p.Decide(c, check.Capability, path)
	}
	if a.Allowed {
		d.constrain(p, a, check.Resource)
	}
	_, promised := slices.BinarySearch(d.ResultsRequired, check.Capability)
	a.ResultRequired = a.Allowed && promised
	return a
}

// stillAllowed reports whether the provider may be where it has declared under a policy
// that may be newer than the declaration.
func (d *Declaration) stillAllowed(p *Policy) bool {
	who := p.Principal(d.Principal)
	return who != nil && who.refuse() == "" && who.allows(d.Namespace)
}

// constrain adds all limits that hold for what a is about. Limits only ever narrow, so
// their order does not matter; if they leave no value, the answer is a deny.
func (d *Declaration) constrain(p *Policy, a *Answer, name string) {
	var all Limits
	satisfiable := true
	narrow := func(l *Limits, source string) {
		satisfiable = all.intersect(l) && satisfiable
		a.Sources = append(a.Sources, source)
	}
	if named := d.resources[name]; !named.limits.empty() {
		narrow(&named.limits, "declaration:"+named.path)
	}
	for _, s := range []areas{d.areas, p.limits} {
		for _, area := range s.over(a.Resource) {
			narrow(&area.limits, area.source)
		}
	}
	switch {
	case !satisfiable:
		a.Allowed, a.Reason = false, EmptyLimits
	case len(a.Sources) > 0:
		a.Constraints = &all
	}
}

// ParseQuestions reads the parameters of broker/authorize. The error says what is wrong
// with them; it is the provider's, and may be sent to it.
func ParseQuestions(params json.RawMessage) (*Questions, error) {
	var f form
	q := &Questions{}
	m := f.object(params, "params", "principal", "correlationId", "traceId", "checks")
	q.principal(&f, m)
	list := f.list(m["checks"], "checks", maxChecks)
	if list != nil && len(list) == 0 {
		f.problem("checks must have at least one entry")
	}
	for i, raw := range list {
		q.Checks = append(q.Checks, f.question(raw, fmt.Sprintf("checks[%d]", i)))
	}
	if len(f.problems) > 0 {
		return nil, errors.New(f.problems[0])
	}
	return q, nil
}

// principal reads on whose behalf is asked. An identity is never accepted: the broker
// looks up whom a reference stands for.
func (q *Questions) principal(f *form, m map[string]json.RawMessage) {
	who := f.object(m["principal"], "principal", "type", "ref")
	if who == nil {
		return
	}
	kind, _ := f.text(who["type"], "principal.type", maxName)
	switch kind {
	case "caller-ref":
		q.Ref, _ = f.text(who["ref"], "principal.ref", 128)
	case "provider":
		if _, ok := who["ref"]; ok {
			f.problem("principal.ref: a provider that asks for itself has none")
		}
		var id string
		if json.Unmarshal(m["correlationId"], &id) == nil && correlationForm.MatchString(id) {
			q.CorrelationID = id
		}
	default:
		f.problem(`principal.type must be "caller-ref" or "provider"`)
	}
}

// question reads one check. Its attributes are for the provider's own audit: they may
// hold what is secret, and go no further than this.
func (f *form) question(raw json.RawMessage, what string) (c Check) {
	m := f.object(raw, what, "capability", "resource", "resourcePath", "attributes")
	if m == nil {
		return c
	}
	c.Capability, _ = f.text(m["capability"], what+".capability", maxName)
	c.Resource, _ = f.text(m["resource"], what+".resource", maxName)
	// A path that is none is outside the declaration: that is a decision, and no fault of
	// the protocol.
	_ = json.Unmarshal(m["resourcePath"], &c.ResourcePath)
	if raw, ok := m["attributes"]; ok && raw[0] != '{' {
		f.problem("%s.attributes must be an object", what)
	}
	return c
}
