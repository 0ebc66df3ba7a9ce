package metrics

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin/tally"
)

func testPolicy() *sluice.Policy {
	is := func(d sluice.Dimension, v string) sluice.Match {
		return sluice.Match{Is: map[sluice.Dimension][]string{d: {v}}}
	}
	return &sluice.Policy{Rules: []sluice.Rule{
		{ID: "tier-standard", Match: is(sluice.Tier, "standard")},
		{ID: "llm-openai", Match: is(sluice.Provider, "openai")},
	}}
}

func newMetrics(policy func() *sluice.Policy) *Metrics {
	return New(Sources{
		Tally:   tally.New(policy),
		Waiting: func() map[string]int { return map[string]int{"llm-openai": 4} },
		Held:    func() map[string]int { return map[string]int{"llm-openai": 9} },
		Store: func() Store {
			return Store{Backend: "in-memory", Keys: 77, KeysByRule: map[string]int64{"tier-standard": 70}, Overflow: 5, Bytes: 4096, Records: 12, Degraded: true, Breaker: true,
				Leases: &Leases{Keys: 2, Spent: 90, Asked: 10}}
		},
		Version: "v1.2.3",
	})
}

// scraped reads the metrics as Prometheus does, by its own parser, and returns the value
// of each series; of a histogram its count and its sum.
func scraped(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for name, family := range families {
		if !strings.HasPrefix(name, namespace) {
			continue
		}
		if family.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
		for _, metric := range family.GetMetric() {
			addSeries(series, strings.TrimPrefix(name, namespace+"_"), metric)
		}
	}
	return series
}

func addSeries(series map[string]float64, name string, m *dto.Metric) {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName()+"="+l.GetValue())
	}
	key := name + "{" + strings.Join(labels, ",") + "}"
	if h := m.GetHistogram(); h != nil {
		series[key+" count"], series[key+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
		return
	}
	series[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

func requestEvent(tier, subject string, o sluice.Outcome, rules ...sluice.RuleOutcome) *sluice.Event {
	e := &sluice.Event{Call: &sluice.Call{Kind: "http", Tier: tier, Subject: subject}, Outcome: o, Rules: rules}
	if o == sluice.Refused {
		e.Refusal = &sluice.Refusal{Reason: sluice.ReasonRate}
	}
	return e
}

func TestEveryMetric(t *testing.T) {
	policy := testPolicy()
	m := newMetrics(func() *sluice.Policy { return policy })
	pass := requestEvent("standard", "apikey:ab", sluice.Admitted, sluice.RuleOutcome{Rule: "tier-standard"})
	pass.Levels = []sluice.Level{{Rule: "tier-standard", Limit: 200, Remaining: 50, Window: time.Second}}
	m.tally.Count(pass)
	m.tally.Count(requestEvent("standard", "ip:::1", sluice.Refused, sluice.RuleOutcome{Rule: "tier-standard", Refused: true}))
	storeDown := requestEvent("standard", "ip:::1", sluice.Refused)
	storeDown.Refusal.Reason, storeDown.Degraded = sluice.ReasonStore, true
	m.tally.Count(storeDown)
	m.LLM(&sluice.Event{Call: &sluice.Call{Kind: "llm-attempt", Provider: "openai"}, Levels: []sluice.Level{
		{Unit: sluice.Tokens, Limit: 1000, Remaining: 400, Window: time.Minute},
		{Unit: sluice.Tokens, Limit: 9000, Remaining: 8000, Window: time.Minute},
		{Limit: 500, Remaining: 488, Window: time.Minute},
		{Limit: 20, Remaining: 1}, // slots are no rate
	}})
	m.Wait("llm-openai", 1500*time.Millisecond)
	m.Decision(2 * time.Microsecond)
	m.Request("gate", 429, "refused")
	m.AuthFailure("jwt")
	m.ClientIPFallback("untrusted")
	m.Loaded("5be1c0ff", time.Unix(1700000000, 500e6), nil)

	got := scraped(t, m)
	for _, c := range []struct {
		name, series string
		want         float64
	}{
		{"B-63 requests allowed", "requests_total{key_type=apikey,status=allowed,tier=standard}", 1},
		{"B-63 requests rejected", "requests_total{key_type=ip,status=rejected,tier=standard}", 2},
		{"B-64 tokens remaining", "tokens_remaining{tier=standard}", 50},
		{"B-65 tokens a minute", "llm_tpm_usage{provider=openai}", 600},
		{"B-65 requests a minute", "llm_rpm_usage{provider=openai}", 12},
		{"A-W19 B-66 wait time", "wait_time_seconds{rule=llm-openai} sum", 1.5},
		{"A-W19 decisions allowed", "decisions_total{outcome=allowed,rule=tier-standard}", 1},
		{"A-W19 decisions refused", "decisions_total{outcome=refused,rule=tier-standard}", 1},
		{"responses", "http_responses_total{class=4xx,listener=gate,outcome=refused}", 1},
		{"decision time", "decision_seconds{store=in-memory} count", 1},
		{"in flight", "inflight{rule=llm-openai}", 9},
		{"A-W19 queue depth", "queue_depth{rule=llm-openai}", 4},
		{"keys of a rule", "keys{rule=tier-standard}", 70},
		{"keys of the store", "store_keys{store=in-memory}", 77},
		{"overflow", "keys_overflow_total{}", 5},
		{"leased keys", "lease_keys{}", 2},
		{"decided ahead", "lease_decisions_total{by=process}", 90},
		{"decided by the store", "lease_decisions_total{by=store}", 10},
		{"state bytes", "state_bytes{store=in-memory}", 4096},
		{"store refused", "store_errors_total{kind=refused,store=in-memory}", 1},
		{"store degraded", "store_errors_total{kind=degraded,store=in-memory}", 1},
		{"C-87 store out of order", "store_degraded{store=in-memory}", 1},
		{"records", "store_records{store=in-memory}", 12},
		{"breaker", "store_breaker_state{store=in-memory}", 1},
		{"auth failures", "auth_failures_total{kind=jwt}", 1},
		{"client address", "client_ip_fallback_total{reason=untrusted}", 1},
		{"reload", "config_last_reload_successful{}", 1},
		{"reload time", "config_last_reload_timestamp_seconds{}", 1700000000.5},
		{"config", "config_info{hash=5be1c0ff}", 1},
		{"ratio used", "ratio_used{rule=tier-standard} sum", 0.75},
	} {
		t.Run(c.name, func(t *testing.T) {
			if v, ok := got[c.series]; !ok || v != c.want {
				t.Errorf("%s is %v (there: %v), want %v; have %v", c.series, v, ok, c.want, slices.Sorted(maps.Keys(got)))
			}
		})
	}
}

func TestLLMMetricsAppearWithTheFirstCall(t *testing.T) {
	m := newMetrics(testPolicy)
	for series := range scraped(t, m) {
		if strings.HasPrefix(series, "llm_") {
			t.Errorf("B-65: %s is there before any LLM call", series)
		}
	}
}

func TestReloads(t *testing.T) {
	policy := testPolicy()
	m := newMetrics(func() *sluice.Policy { return policy })
	m.tally.Count(requestEvent("standard", "ip:::1", sluice.Admitted, sluice.RuleOutcome{Rule: "tier-standard"}))
	m.Loaded("aa", time.Unix(1, 0), nil)
	m.Loaded("bb", time.Unix(2, 0), nil)
	m.Loaded("", time.Unix(3, 0), errors.New("line 3: no"))
	policy = testPolicy()
	policy.Rules = append(policy.Rules, sluice.Rule{ID: "new"})
	got := scraped(t, m)
	for series, want := range map[string]float64{
		"decisions_total{outcome=allowed,rule=tier-standard}":      1, // it survived
		"decisions_total{outcome=allowed,rule=new}":                0, // and is there before its first call
		"requests_total{key_type=ip,status=allowed,tier=standard}": 1,
		"config_last_reload_successful{}":                          0,
		"config_last_reload_timestamp_seconds{}":                   2,
		"config_info{hash=bb}":                                     1,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", series, v, ok, want)
		}
	}
	if _, ok := got["config_info{hash=aa}"]; ok {
		t.Error("the hash of an old configuration is still shown")
	}
}

func TestCallersMakeNoSeries(t *testing.T) {
	m := newMetrics(testPolicy)
	noise := func(from int) {
		for i := from; i < from+10_000; i++ {
			name := fmt.Sprintf("x%d\n{}\"", i)
			e := requestEvent(name, name+":y", sluice.Refused, sluice.RuleOutcome{Rule: name, Refused: true})
			e.Call.Kind = "llm-attempt"
			e.Call.Resource, e.Call.Provider = name, name
			e.Levels = []sluice.Level{{Limit: 2, Remaining: 1, Window: 1}}
			m.tally.Count(e)
			m.LLM(e)
			e.Call.Kind = "http"
			m.tally.Count(e)
			m.Wait(name, time.Second)
			m.Request(fmt.Sprint("l", i), 200+i, fmt.Sprint("o", i))
			m.AuthFailure(fmt.Sprint("k", i))
			m.ClientIPFallback(name)
		}
	}
	noise(0)
	before := scraped(t, m)
	noise(10_000)
	after := scraped(t, m)
	if len(before) != len(after) {
		t.Errorf("I-124: 10 000 more names made %d series of %d", len(after), len(before))
	}
	if after["decisions_total{outcome=refused,rule=other}"] != 40_000 {
		t.Errorf("I-124: refusals of unknown rules are not all under other: %v", after["decisions_total{outcome=refused,rule=other}"])
	}
}
