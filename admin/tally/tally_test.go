package tally

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

func policyOf(ids ...string) *sluice.Policy {
	p := &sluice.Policy{}
	for _, id := range ids {
		p.Rules = append(p.Rules, sluice.Rule{ID: id})
	}
	return p
}

func always(p *sluice.Policy) func() *sluice.Policy { return func() *sluice.Policy { return p } }

func event(kind string, o sluice.Outcome, rules ...sluice.RuleOutcome) *sluice.Event {
	e := &sluice.Event{Call: &sluice.Call{Kind: kind, Subject: "ip:203.0.113.9"}, Outcome: o, Rules: rules}
	if o == sluice.Refused {
		e.Refusal = &sluice.Refusal{Reason: sluice.ReasonRate}
	}
	return e
}

func TestEachDecisionHasOneOutcome(t *testing.T) {
	pass := sluice.RuleOutcome{Rule: "a"}
	for _, c := range []struct {
		name     string
		event    *sluice.Event
		overall  Outcome
		of, ofB  Outcome
		ruleB    *sluice.RuleOutcome
		degraded bool
		waited   time.Duration
	}{
		{name: "admitted at once", event: event("http", sluice.Admitted, pass), overall: Allowed, of: Allowed},
		{name: "admitted after a wait", event: event("http", sluice.Admitted, pass), waited: time.Second, overall: Queued, of: Queued},
		{name: "admitted without the store", event: event("http", sluice.Admitted, pass), degraded: true, overall: Degraded, of: Degraded},
		{name: "the caller left", event: event("http", sluice.Cancelled, pass), overall: Cancelled, of: Cancelled},
		{
			name:    "a refused call is allowed under no rule",
			event:   event("http", sluice.Refused, pass, sluice.RuleOutcome{Rule: "b", Refused: true}),
			overall: Refused, of: RefusedElsewhere, ruleB: &pass, ofB: Refused,
		},
		{
			name:    "I-092 a shadow refusal is told apart",
			event:   event("http", sluice.Admitted, pass, sluice.RuleOutcome{Rule: "b", Refused: true, Shadow: true}),
			overall: ShadowRefused, of: Allowed, ruleB: &pass, ofB: ShadowRefused,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ta := New(always(policyOf("a", "b")))
			c.event.Degraded, c.event.Waited = c.degraded, c.waited
			ta.Count(c.event)
			wantOnly(t, "overall", ta.Overall(), c.overall)
			wantOnly(t, "rule a", ta.Rules()[0].Counts(), c.of)
			if c.ruleB != nil {
				wantOnly(t, "rule b", ta.Rules()[1].Counts(), c.ofB)
			}
		})
	}
}

func wantOnly(t *testing.T, what string, got Counts, want Outcome) {
	t.Helper()
	var c Counts
	c[want] = 1
	if got != c {
		t.Errorf("%s: counts are %v, want one %v", what, got, want)
	}
}

func TestRequestsCountOnce(t *testing.T) {
	ta := New(always(policyOf("a")))
	ta.Count(event("preauth", sluice.Admitted)) // this request's other decision follows
	ta.Count(event("preauth-site", sluice.Admitted))
	ta.Count(event("http", sluice.Admitted))
	ta.Count(event("preauth", sluice.Refused)) // this one's does not
	ta.Count(event("preauth-site", sluice.Refused))
	ta.Count(event("frame", sluice.Admitted))
	all := ta.Overall()
	if all[Allowed] != 2 || all[Refused] != 2 {
		t.Errorf("overall counts are %v, want two allowed, not the passing preauths, and two refused", all)
	}
	none := ta.Tiers()[0]
	ip := keyType("ip:203.0.113.9")
	if a, r := none.Requests(ip, StatusAllowed), none.Requests(ip, StatusRejected); none.Name != None || a != 1 || r != 2 {
		t.Errorf("tier %q has %d allowed and %d rejected requests, want none, 1 and 2", none.Name, a, r)
	}
}

func TestKeyTypes(t *testing.T) {
	for subject, want := range map[string]string{
		"apikey:ab": "apikey", "user:x": "user", "tenant:x": "tenant", "ip:::1": "ip",
		"": None, "ipx:1": Other, "ip": Other, "robot:7": Other,
	} {
		if got := KeyTypes[keyType(subject)]; got != want {
			t.Errorf("subject %q is of type %q, want %q", subject, got, want)
		}
	}
}

func TestCountersOutliveAPolicy(t *testing.T) {
	policy := policyOf("kept", "gone")
	ta := New(func() *sluice.Policy { return policy })
	ta.Count(event("x", sluice.Admitted, sluice.RuleOutcome{Rule: "kept"}, sluice.RuleOutcome{Rule: "gone"}))
	policy = policyOf("new", "kept")
	// The first call of a new rule finds the new policy by itself.
	ta.Count(event("x", sluice.Admitted, sluice.RuleOutcome{Rule: "new"}, sluice.RuleOutcome{Rule: "kept"}))
	ta.Count(event("x", sluice.Admitted, sluice.RuleOutcome{Rule: "gone"}))
	var got []string
	for _, r := range append(ta.Rules(), ta.OtherRule()) {
		c := r.Counts()
		got = append(got, fmt.Sprint(r.ID, " ", c.Total()))
	}
	if want := fmt.Sprint([]string{"new 1", "kept 2", "other 1"}); fmt.Sprint(got) != want {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestShareInUse(t *testing.T) {
	ta := New(always(policyOf("a", "b")))
	e := event("x", sluice.Admitted, sluice.RuleOutcome{Rule: "a"}, sluice.RuleOutcome{Rule: "b"})
	e.Levels = []sluice.Level{
		{Rule: "a", Kind: limit.KindBucket, Limit: 10, Remaining: 9},
		{Rule: "a", Kind: limit.KindSlots, Limit: 4, Remaining: 0, Refused: true},
		{Rule: "b", Kind: limit.KindCooldown, Limit: 1 << 62, Remaining: 1},
	}
	ta.Count(e)
	counts, sum := ta.Rules()[0].Used()
	if counts != [7]uint64{0: 1, 6: 1} || sum != 1.1 {
		t.Errorf("shares %v with sum %v, want one at 0.1 and one at 1", counts, sum)
	}
	if counts, _ := ta.Rules()[1].Used(); counts != [7]uint64{} {
		t.Errorf("a cooldown has no capacity, yet shares are %v", counts)
	}
}

func TestRemainingIsTheTightestEnforcedRate(t *testing.T) {
	p := &sluice.Policy{Rules: []sluice.Rule{{ID: "a", Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Tier: {"gold"}}}}}}
	ta := New(always(p))
	e := event("http", sluice.Admitted, sluice.RuleOutcome{Rule: "a"})
	e.Call.Tier = "gold"
	e.Levels = []sluice.Level{
		{Rule: "a", Limit: 20, Remaining: 12, Window: time.Second},
		{Rule: "a", Limit: 9, Remaining: 7, Window: time.Second, Unit: sluice.Calls},
		{Rule: "a", Limit: 9, Remaining: 1, Window: time.Second, Shadow: true},
		{Rule: "a", Limit: 9, Remaining: 2}, // slots
		{Rule: "a", Limit: 9, Remaining: 3, Window: time.Second, Unit: sluice.Tokens},
	}
	if _, ok := ta.Tiers()[0].Remaining(); ok {
		t.Error("a tier that nobody has used says what is left")
	}
	ta.Count(e)
	if n, ok := ta.Tiers()[0].Remaining(); !ok || n != 7 {
		t.Errorf("remaining is %d, %v; want 7", n, ok)
	}
	e.Levels[1].Remaining = 9
	for range 400 { // the shards are chosen by chance; none is left out
		ta.Count(e)
	}
	if n, _ := ta.Tiers()[0].Remaining(); n != 9 {
		t.Errorf("within a second remaining is %d, want what the shards saw last, 9", n)
	}
	ta.Sample(time.Now())
	e.Levels[1].Remaining = 11
	ta.Count(e)
	if n, _ := ta.Tiers()[0].Remaining(); n != 11 {
		t.Errorf("in a new second remaining is %d, want 11", n)
	}
}

func TestSeries(t *testing.T) {
	ta := New(always(policyOf("a")))
	start := time.Unix(1000, 0)
	for s := range Seconds + 2 { // once around
		for range s % 3 {
			ta.Count(event("x", sluice.Refused, sluice.RuleOutcome{Rule: "a", Refused: true}))
		}
		ta.Sample(start.Add(time.Duration(s) * time.Second))
	}
	rows, end := ta.Series(4)
	points := ta.RuleSeries(ta.Rules()[0], 4)
	for i, s := range []uint32{Seconds - 2, Seconds - 1, Seconds, Seconds + 1} {
		if rows[i][Refused] != s%3 || points[i] != (Point{s % 3, s % 3}) {
			t.Errorf("second %d has %v and %v, want %d refused", s, rows[i], points[i], s%3)
		}
	}
	if want := start.Add((Seconds + 1) * time.Second); !end.Equal(want) {
		t.Errorf("the series ends at %v, want %v", end, want)
	}
}

func TestNothingIsLostUnderConcurrency(t *testing.T) {
	var policy atomic.Pointer[sluice.Policy]
	policy.Store(policyOf("a", "b"))
	ta := New(policy.Load)
	const callers, each = 8, 5000
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				ta.Count(event("http", sluice.Admitted, sluice.RuleOutcome{Rule: "a"}))
				if c == 0 && i%100 == 0 {
					policy.Store(policyOf("a", fmt.Sprint("b", i)))
					ta.Sample(time.Now())
				}
			}
		})
	}
	wg.Wait()
	rule, all := ta.Rules()[0].Counts(), ta.Overall()
	if rule[Allowed] != callers*each || all[Allowed] != callers*each {
		t.Errorf("counted %d under the rule and %d in all, want %d", rule[Allowed], all[Allowed], callers*each)
	}
}

func TestCountDoesNotAllocate(t *testing.T) {
	ta := New(always(policyOf("a")))
	e := event("http", sluice.Admitted, sluice.RuleOutcome{Rule: "a"})
	if n := testing.AllocsPerRun(1000, func() { ta.Count(e) }); n != 0 {
		t.Errorf("Count allocates %v times", n)
	}
}
