package sluice

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluicegate/sluice/ledger"
)

// An Explanation is what would happen to a call now, and why.
type Explanation struct {
	// Admitted is true if the call would go ahead without waiting.
	Admitted bool
	// Refusal is why not, if so.
	Refusal *Refusal
	// Rules are all rules of the policy, in configuration order.
	Rules []RuleExplanation
}

// A RuleExplanation is one rule's part in an Explanation.
type RuleExplanation struct {
	Rule   string
	Source string // where the rule was written
	Shadow bool
	// Matched is true if the rule is about the call.
	Matched bool
	// Why says which selector decided that.
	Why string
	// Key is the values that the call is grouped by, such as "subject=user:alice".
	Key string
	// Limits are the matching rule's limits and where they stand.
	Limits []LimitExplanation
	// Refused is true if one of them would refuse.
	Refused bool
}

// A LimitExplanation is one limit of a matching rule.
type LimitExplanation struct {
	Text  string // such as "10/s burst 20"
	Cost  int64  // units the call takes
	Level Level  // before the call
	// Lease says how units are taken ahead, such as "at most 50 ahead, for 1s; under load at
	// least 93% pass". Empty if every call asks the store.
	Lease string
}

// Matching returns the rules that are about call, in configuration order, and asks no store. The
// rules must not be changed.
func (c *Controller) Matching(call *Call) []*Rule {
	var list []*Rule
	for _, r := range c.policy.Load().candidates(call.Kind) {
		if r.match(call) {
			list = append(list, r.Rule)
		}
	}
	return list
}

// Check says what would happen to call, and takes nothing. Callers in line are not
// looked at.
func (c *Controller) Check(ctx context.Context, call Call) (*Explanation, error) {
	d := &Decision{WantLevels: true}
	p := c.policy.Load()
	d.reset(c, p)
	e := &Explanation{Admitted: d.plan(p, &call)}
	if e.Admitted && len(d.steps) > 0 {
		ok, err := d.apply(ctx, ledger.Peek)
		if err != nil {
			return nil, err
		}
		e.Admitted = ok
	}
	if !e.Admitted {
		e.Refusal = d.Refusal().Clone()
	}
	for _, r := range p.rules {
		e.Rules = append(e.Rules, d.explain(r, &call))
	}
	return e, nil
}

func (d *Decision) explain(r *rule, call *Call) RuleExplanation {
	x := RuleExplanation{Rule: r.ID, Source: r.Source, Shadow: r.Shadow}
	x.Matched, x.Why = r.why(call)
	if !x.Matched {
		return x
	}
	x.Key = r.keyText(call)
	for i, at := range d.places {
		if at.rule != r {
			continue
		}
		l := LimitExplanation{Text: r.textOf(at.limit), Cost: d.steps[i].N, Lease: at.limit.lease}
		if i < len(d.levels) {
			l.Level = d.levels[i]
			x.Refused = x.Refused || l.Level.Refused
		}
		x.Limits = append(x.Limits, l)
	}
	if missing := d.group(call, &match{rule: r}); missing != MissingIP {
		x.Why += ", but the call lacks what the rule groups by"
		x.Refused = missing == MissingDeny
	}
	return x
}

// textOf is a limit of r in words.
func (r *rule) textOf(l *ruleLimit) string {
	if r.Calendar != nil {
		return fmt.Sprintf("%d each %s", l.Max, r.Calendar)
	}
	return l.String()
}

// why reports whether r is about call, and which selector decided it.
func (r *rule) why(call *Call) (bool, string) {
	for i := range r.is {
		if s := &r.is[i]; !s.match(call) {
			return false, fmt.Sprintf("%s is %q, not %s", s.dim, call.Get(s.dim), oneOf(s.values))
		}
	}
	for i := range r.not {
		if s := &r.not[i]; s.match(call) {
			return false, fmt.Sprintf("%s is %q, which is excluded", s.dim, call.Get(s.dim))
		}
	}
	if len(r.is) == 0 {
		return true, "matches every call"
	}
	var parts []string
	for i := range r.is {
		parts = append(parts, fmt.Sprintf("%s is %q", r.is[i].dim, call.Get(r.is[i].dim)))
	}
	return true, strings.Join(parts, ", ")
}

func oneOf(values []string) string {
	if len(values) == 1 {
		return fmt.Sprintf("%q", values[0])
	}
	return fmt.Sprintf("one of %q", values)
}

// keyText is the grouping of a call in words.
func (r *rule) keyText(call *Call) string {
	if len(r.group) == 0 {
		return "shared by all"
	}
	var parts []string
	for _, dim := range r.group {
		v := call.Get(dim)
		if v == "" && r.Missing == MissingIP {
			parts = append(parts, fmt.Sprintf("ip=%s (%s is missing)", call.IP, dim))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s=%s", dim, v))
	}
	return strings.Join(parts, " ")
}
