package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
)

func rule(id string, matched bool) sluice.RuleExplanation {
	return sluice.RuleExplanation{Rule: id, Matched: matched, Why: "because", Limits: []sluice.LimitExplanation{
		{Text: "1/s", Cost: 1, Level: sluice.Level{Limit: 5, Remaining: 3}},
	}}
}

// asked is one phase that admits.
func asked(kind string, rules ...sluice.RuleExplanation) []gate.Asked {
	return []gate.Asked{{Kind: kind, Explanation: &sluice.Explanation{Admitted: true, Rules: rules}}}
}

func TestAnswerMergesThePhases(t *testing.T) {
	e := &gate.Explanation{
		Asked: asked("preauth", rule("address", true), rule("every", true), rule("tier", false), rule("open", false)),
	}
	e.Asked = append(e.Asked, asked("http", rule("address", false), rule("every", true), rule("tier", true), rule("open", false))...)
	e.Asked = append(e.Asked, asked("stream", rule("address", false), rule("every", false), rule("tier", false), rule("open", true))...)
	a := newAnswer(&question{}, e)
	for i, want := range []string{"preauth", "http", "http", "stream"} {
		if r := a.Rules[i]; !r.Matched || r.Phase != want || r.Limits[0].After != 2 {
			t.Errorf("rule %s is %+v; want it matched in phase %s, with 2 left", r.Rule, r, want)
		}
	}
	if a.Verdict != "admitted" {
		t.Errorf("the verdict is %q", a.Verdict)
	}
}

func TestAnswerOfARefusalTakesNothing(t *testing.T) {
	refused := rule("tier", true)
	refused.Refused, refused.Limits[0].Level.Refused = true, true
	e := &gate.Explanation{
		Status: http.StatusTooManyRequests,
		Asked:  asked("preauth", rule("address", true), refused),
	}
	e.Asked[0].Admitted = false
	e.Asked[0].Refusal = &sluice.Refusal{Reason: sluice.ReasonRate, Rule: "tier", Violated: []string{"tier"}, RetryAfter: 1500 * time.Millisecond}
	a := newAnswer(&question{}, e)
	for _, r := range a.Rules {
		if r.Phase != "preauth" || r.Limits[0].After != 3 {
			t.Errorf("rule %s is %+v; want phase preauth and all 3 left", r.Rule, r)
		}
	}
	var out strings.Builder
	if err := a.write(&out); err != nil {
		t.Fatal(err)
	}
	if want := "\nrefused: 429 Too Many Requests by tier (rate); it would pass in 1.5s\n"; !strings.Contains(out.String(), want) {
		t.Errorf("the verdict is missing from\n%s", &out)
	}
}

func TestAnswerWhereNothingIsAsked(t *testing.T) {
	for _, c := range []struct {
		verdict string
		e       gate.Explanation
		want    string
	}{
		{"not limited", gate.Explanation{Path: "/free", Clean: true, Excluded: true}, "\nnot limited\n"},
		{"malformed", gate.Explanation{Status: 400, Problem: "bad path"}, "400 Bad Request: bad path\nNothing is taken.\n"},
		{"refused", gate.Explanation{Path: "/", Status: 401, Problem: "unknown key", Asked: asked("preauth")}, "\nrefused: 401 Unauthorized: unknown key\n"},
		{"malformed", gate.Explanation{Path: "/", Status: 413, Problem: "too large", Asked: asked("preauth")}, "\nmalformed: 413 Request Entity Too Large: too large\n"},
	} {
		a := newAnswer(&question{Method: "GET", Target: "/", From: "unix"}, &c.e)
		var out strings.Builder
		if err := a.write(&out); err != nil {
			t.Fatal(err)
		}
		if a.Verdict != c.verdict || !strings.HasSuffix(out.String(), c.want) {
			t.Errorf("got %q and\n%swant %q and …%s", a.Verdict, &out, c.verdict, c.want)
		}
	}
}
