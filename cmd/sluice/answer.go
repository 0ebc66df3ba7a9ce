package main

import (
	"net/http"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
)

// An answer is an explanation as it is printed and sent: what the gate says, with the
// rules of all phases in one list.
type answer struct {
	Method  string `json:"method"`
	Target  string `json:"target"`
	From    string `json:"from"`
	Verdict string `json:"verdict"` // "admitted", "refused", "malformed" or "not limited"
	Status  int    `json:"status,omitempty"`

	Problem string        `json:"problem,omitempty"`
	Client  clientAnswer  `json:"client"`
	Caller  callerAnswer  `json:"caller"`
	Path    pathAnswer    `json:"path"`
	Rules   []ruleAnswer  `json:"rules,omitempty"`
	Refusal *refusalWords `json:"refusal,omitempty"`
	Headers http.Header   `json:"headers,omitempty"`
}

type clientAnswer struct {
	Identity string   `json:"identity,omitempty"`
	Why      string   `json:"why,omitempty"`
	Hops     []string `json:"hops,omitempty"`
	Ignored  []string `json:"ignoredHeaders,omitempty"`
}

type callerAnswer struct {
	Subject string   `json:"subject,omitempty"`
	Label   string   `json:"label,omitempty"`
	Tenant  string   `json:"tenant,omitempty"`
	Tier    string   `json:"tier,omitempty"`
	Groups  []string `json:"groups,omitempty"`
	Why     string   `json:"why,omitempty"`
}

type pathAnswer struct {
	Canonical   string `json:"canonical,omitempty"`
	Clean       bool   `json:"clean"`
	Endpoint    string `json:"endpoint,omitempty"`
	EndpointWhy string `json:"endpointWhy,omitempty"`
	Upstream    string `json:"upstream,omitempty"`
	Cost        int64  `json:"cost,omitempty"`
	Capability  string `json:"capability,omitempty"`
}

// A ruleAnswer is one rule's part.
type ruleAnswer struct {
	Rule    string        `json:"rule"`
	Source  string        `json:"source,omitempty"`
	Phase   string        `json:"phase,omitempty"` // the kind of call that it is about, if it is about the request
	Matched bool          `json:"matched"`
	Why     string        `json:"why"`
	Shadow  bool          `json:"shadow,omitempty"`
	Refused bool          `json:"refused,omitempty"`
	Key     string        `json:"key,omitempty"`
	Limits  []limitAnswer `json:"limits,omitempty"`
}

type limitAnswer struct {
	Limit   string `json:"limit"`
	Cost    int64  `json:"cost"`
	Of      int64  `json:"of"` // what there is when it is full
	Before  int64  `json:"before"`
	After   int64  `json:"after"`
	NextMs  int64  `json:"nextMs,omitempty"` // until there is one more
	Lease   string `json:"lease,omitempty"`  // how units are taken ahead
	Refused bool   `json:"refused,omitempty"`
}

type refusalWords struct {
	Reason       string   `json:"reason"`
	Rule         string   `json:"rule"`
	Violated     []string `json:"violated"`
	RetryAfterMs int64    `json:"retryAfterMs,omitempty"`
	Permanent    bool     `json:"permanent,omitempty"`
}

func newAnswer(q *question, e *gate.Explanation) *answer {
	a := &answer{
		Method: q.Method, Target: q.Target, From: q.From, Status: e.Status, Problem: e.Problem, Headers: e.Headers,
		Client: clientAnswer{e.Client, e.ClientWhy, e.ClientHops, e.ClientIgnored},
		Caller: callerAnswer{e.Subject, e.Label, e.Tenant, e.Tier, e.Groups, e.CallerWhy},
		Path:   pathAnswer{e.Path, e.Clean, e.Route, e.RouteWhy, e.Upstream, e.Cost, e.Capability},
	}
	switch {
	case e.Status == http.StatusUnauthorized:
		a.Verdict = "refused"
	case e.Problem != "":
		a.Verdict = "malformed"
	case len(e.Asked) == 0:
		a.Verdict = "not limited"
	case e.Admitted():
		a.Verdict = "admitted"
	default:
		a.Verdict = "refused"
	}
	if len(e.Asked) == 0 {
		return a
	}
	last := e.Asked[len(e.Asked)-1]
	if r := last.Refusal; r != nil {
		a.Refusal = &refusalWords{r.Reason.String(), r.Rule, r.Violated, r.RetryAfter.Milliseconds(), r.Permanent}
	}
	for i := range last.Rules {
		x, phase := part(e.Asked, i)
		a.Rules = append(a.Rules, newRuleAnswer(x, phase, last.Admitted))
	}
	return a
}

// part returns what rule i does to a request, and in which phase: in the last of those
// that it is about.
func part(asked []gate.Asked, i int) (x *sluice.RuleExplanation, phase string) {
	for _, a := range slices.Backward(asked) {
		if i >= len(a.Rules) {
			continue // a reload came between two questions
		}
		if x == nil || a.Rules[i].Matched || !x.Matched && a.Kind == "http" {
			x, phase = &a.Rules[i], a.Kind
		}
		if x.Matched {
			break
		}
	}
	return x, phase
}

// newRuleAnswer says what a rule would take, if the request goes through.
func newRuleAnswer(x *sluice.RuleExplanation, phase string, admitted bool) ruleAnswer {
	r := ruleAnswer{Rule: x.Rule, Source: x.Source, Matched: x.Matched, Why: x.Why, Shadow: x.Shadow, Refused: x.Refused, Key: x.Key}
	if !x.Matched {
		return r
	}
	r.Phase = phase
	for _, l := range x.Limits {
		after := l.Level.Remaining
		if admitted && !l.Level.Refused {
			after = max(0, after-l.Cost)
		}
		r.Limits = append(r.Limits, limitAnswer{
			Limit: l.Text, Cost: l.Cost, Of: l.Level.Limit, Before: l.Level.Remaining, After: after,
			NextMs: l.Level.Next.Milliseconds(), Lease: l.Lease, Refused: l.Level.Refused,
		})
	}
	return r
}
