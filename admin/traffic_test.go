package admin

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// traffic is a policy and a plausible day at the gate, for the tests that need figures
// to look at. The same seed makes the same figures.
type traffic struct {
	policy *sluice.Policy
	rng    *rand.Rand
}

func newTraffic() *traffic {
	http := func(d sluice.Dimension, v string) sluice.Match {
		return sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {"http"}, d: {v}}}
	}
	rule := func(id string, m sluice.Match, by sluice.Dimension, l limit.Limit) sluice.Rule {
		return sluice.Rule{ID: id, Match: m, GroupBy: []sluice.Dimension{by}, Limits: []sluice.Limit{{Limit: l}}}
	}
	pre := sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {"preauth"}}}
	heavy := rule("endpoint-api-v1-memory-consolidate", http(sluice.Route, "endpoint-api-v1-memory-consolidate"), sluice.Subject, limit.Bucket(20, limit.Minute, 5))
	heavy.Queue = &sluice.Queue{Timeout: 5 * time.Second}
	shadow := rule("tier-standard-tighter", http(sluice.Tier, "standard"), sluice.Subject, limit.Bucket(60, limit.Second, 120))
	shadow.Shadow = true
	return &traffic{
		rng: rand.New(rand.NewPCG(1, 2)),
		policy: &sluice.Policy{Rules: []sluice.Rule{
			rule("preauth", pre, sluice.IP, limit.Bucket(1000, limit.Second, 2000)),
			rule("tier-anonymous", http(sluice.Tier, "anonymous"), sluice.Subject, limit.Bucket(10, limit.Second, 20)),
			rule("tier-standard", http(sluice.Tier, "standard"), sluice.Subject, limit.Bucket(100, limit.Second, 200)),
			rule("tier-premium", http(sluice.Tier, "premium"), sluice.Subject, limit.Bucket(500, limit.Second, 1000)),
			shadow,
			rule("endpoint-api-v1-auth-any", http(sluice.Route, "endpoint-api-v1-auth-any"), sluice.Subject, limit.Bucket(30, limit.Minute, 10)),
			heavy,
		}},
	}
}

// options returns Options over t with a store that is well.
func (t *traffic) options() Options {
	return Options{
		Policy:  func() *sluice.Policy { return t.policy },
		Waiting: func() map[string]int { return map[string]int{"endpoint-api-v1-memory-consolidate": 3} },
		Held:    func() map[string]int { return map[string]int{"tier-premium": 12, "tier-standard": 31} },
		Stats: func() Stats {
			return Stats{Backend: "in-memory", Keys: 18_342, MaxKeys: 1_000_000, Hits: 812_331, Misses: 20_114, Evictions: 1_772}
		},
		Summary: func() Summary {
			return Summary{
				Enabled: true, DefaultTier: "standard",
				Tiers:     map[string]Tier{"anonymous": {10, 20}, "standard": {100, 200}},
				Endpoints: []Endpoint{{"/api/v1/auth/**", 30, 10}},
			}
		},
		Reset: func(_ context.Context, identity string) (int, error) {
			if identity == "ip:198.51.100.77" {
				return 3, nil
			}
			return 0, nil
		},
		ResetAll: func(context.Context) (int, error) { return 18_342, nil },
		Version:  "v0.1.0",
		Logger:   slog.New(slog.DiscardHandler),
	}
}

// run plays seconds of traffic that end now.
func (t *traffic) run(a *Admin, seconds int) {
	start := time.Now().Add(-time.Duration(seconds) * time.Second)
	for s := range seconds {
		t.second(a, s)
		a.tally.Sample(start.Add(time.Duration(s+1) * time.Second))
		a.talkers.Tick()
		a.recent.Tick()
	}
}

// second plays one second: a calm wave, one client that runs wild for a minute, and a
// few that guess passwords.
func (t *traffic) second(a *Admin, s int) {
	wave := 1 + 0.22*math.Sin(float64(s)/31) + 0.1*math.Sin(float64(s)/7)
	for range int(90*wave) + t.rng.IntN(14) {
		name := []string{
			"apikey:7f3a1c9e04d2b86fa1530c97e2d84b6f", "apikey:c40b92e1783ad65f20cb71e49a0df385", "apikey:2e8d510fb7c9436a9d04e8f1c25ba760",
		}[min(t.rng.IntN(5), 2)]
		t.one(a, "premium", name, "tier-premium", false)
	}
	for range int(60*wave) + t.rng.IntN(12) {
		name := []string{"user:ada", "user:grace", "user:linus", "user:barbara", "user:ken"}[min(t.rng.IntN(8), 4)]
		t.one(a, "standard", name, "tier-standard", t.rng.IntN(40) == 0)
	}
	for range int(14 * wave) {
		t.one(a, "anonymous", fmt.Sprintf("ip:203.0.113.%d", t.rng.IntN(40)), "tier-anonymous", false)
	}
	if wild := s > 120 && s < 205 || s > 262; wild {
		for i := range 62 + t.rng.IntN(20) {
			t.one(a, "anonymous", "ip:198.51.100.77", "tier-anonymous", i > 10)
		}
	}
	if s%9 == 0 {
		t.guess(a)
	}
	t.consolidate(a)
}

// one decides one request of the gate.
func (t *traffic) one(a *Admin, tier, subject, rule string, refuse bool) {
	call := &sluice.Call{Kind: "http", Subject: subject, Tier: tier, Method: "GET", Resource: "/api/v1/search"}
	e := &sluice.Event{Call: call, Rules: []sluice.RuleOutcome{{Rule: rule}}}
	e.Levels = []sluice.Level{{Rule: rule, Kind: limit.KindBucket, Limit: 200, Window: 2 * time.Second, Remaining: int64(t.rng.IntN(200))}}
	switch {
	case refuse && rule == "tier-standard": // only the shadow rule would have refused
		e.Rules = append(e.Rules, sluice.RuleOutcome{Rule: "tier-standard-tighter", Refused: true, Shadow: true})
	case refuse:
		e.Outcome, e.Rules[0].Refused = sluice.Refused, true
		e.Refusal = &sluice.Refusal{Reason: sluice.ReasonRate, Rule: rule, RetryAfter: 87 * time.Millisecond}
	case rule == "tier-standard":
		e.Rules = append(e.Rules, sluice.RuleOutcome{Rule: "tier-standard-tighter", Shadow: true})
	}
	a.Observe(e)
}

func (t *traffic) guess(a *Admin) {
	const rule = "endpoint-api-v1-auth-any"
	for i := range 5 {
		call := &sluice.Call{Kind: "http", Subject: "ip:2001:db8:7:1::/64", Tier: "anonymous", Method: "POST", Route: rule}
		e := &sluice.Event{Call: call, Rules: []sluice.RuleOutcome{{Rule: "tier-anonymous"}, {Rule: rule}}}
		if i > 3 {
			e.Outcome, e.Rules[1].Refused = sluice.Refused, true
			e.Refusal = &sluice.Refusal{Reason: sluice.ReasonRate, Rule: rule, RetryAfter: 1900 * time.Millisecond}
		}
		a.Observe(e)
	}
}

func (t *traffic) consolidate(a *Admin) {
	const rule = "endpoint-api-v1-memory-consolidate"
	call := &sluice.Call{Kind: "http", Subject: "user:grace", Tier: "standard", Method: "POST", Route: rule}
	for range 4 + t.rng.IntN(4) {
		a.Observe(&sluice.Event{
			Call: call, Waited: time.Duration(200+t.rng.IntN(2000)) * time.Millisecond,
			Rules: []sluice.RuleOutcome{{Rule: "tier-standard"}, {Rule: rule}},
		})
	}
}
