package clients_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/llmtest"
	"github.com/sluicegate/sluice/store/memory"
)

// A rig is a gateway with one provider of each dialect behind it.
type rig struct {
	url     string
	mock    *llmtest.Provider
	gateway *llm.Gateway
}

// start starts a rig. The model "tight" has room for 100 tokens a minute.
func start(t testing.TB) *rig {
	mock := llmtest.New(llmtest.Options{})
	provider := httptest.NewServer(mock)
	policy := &sluice.Policy{Rules: append(llm.Cooldowns(), sluice.Rule{ID: "tight",
		Match:  sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {llm.KindRequest}, sluice.Model: {"mock:tight"}}},
		Limits: []sluice.Limit{{Limit: limit.Bucket(100, limit.Minute, 100), Unit: sluice.Tokens}},
	}, sluice.Rule{ID: "slots", Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {llm.KindAttempt}}},
		Limits: []sluice.Limit{{Limit: limit.Slots(8)}}})}
	control, err := sluice.Open(policy, memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var o llm.Options
	for name, d := range map[string]struct {
		dialect dialect.Name
		base    string
	}{"openai": {dialect.OpenAI, "/v1"}, "anthropic": {dialect.Anthropic, "/v1"}, "gemini": {dialect.Gemini, "/v1beta"}} {
		o.Providers = append(o.Providers, llm.Provider{Name: name, Dialect: d.dialect, BaseURL: provider.URL + d.base, Keys: []llm.Key{{ID: "k", Secret: "held-by-the-gateway"}}})
	}
	g, err := llm.New(control, o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g)
	t.Cleanup(func() { server.Close(); mock.Close(); provider.Close(); control.Close() })
	return &rig{server.URL, mock, g}
}

// gone waits until the provider has nothing under way.
func gone(t *testing.T, r *rig) {
	t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if now, _ := r.mock.AtOnce(); now == 0 {
				return
			}
		case <-late:
			t.Fatal("a request is under way still")
		}
	}
}
