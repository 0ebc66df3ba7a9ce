package llm_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/llmtest"
)

func TestExplain(t *testing.T) {
	r := newRig(t, both("m"), nil, rule("tenant", "", tokens(1000)), rule("openai", "openai", tokens(50)))
	ask := func(body string) *llm.Explanation {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.RemoteAddr = "203.0.113.9:1"
		e, err := r.gateway.Explain(req)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for range 2 { // nothing is taken
		e := ask(chatBody("m", 100, true))
		if e.Fault != nil || e.Model != "m" || !e.Stream || e.Caller.IP != "ip:203.0.113.9" || e.Input < 1 || e.Output != 100 || !e.Rules.Admitted {
			t.Fatalf("%+v", e)
		}
		if len(e.Places) != 2 || e.Places[0].Rules.Admitted || !e.Places[1].Rules.Admitted || e.Places[1].Model != "other" || e.Places[0].Tokens < 100 {
			t.Errorf("%+v", e.Places)
		}
	}
	if e := ask("["); e.Fault == nil || e.Fault.Code != "malformed" {
		t.Errorf("%+v", e.Fault)
	}
}

func TestFlights(t *testing.T) {
	r := newRig(t, both("m"), plans{"openai": always(llmtest.Plan{Status: 503}), "backup": always(llmtest.Plan{Hang: true})})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.post(ctx, "/v1/chat/completions", chatBody("m", 100, true))
	r.eventually("it hangs", func() bool { return r.mocks["backup"].Requests() == 1 })
	list := r.gateway.Flights()
	if len(list) != 1 || list[0].Provider != "backup" || list[0].Attempts != 2 || list[0].Model != "m" || !list[0].Stream || time.Since(list[0].Since) > time.Minute {
		t.Errorf("%+v", list)
	}
	if err := r.gateway.Reload(llm.Options{Providers: []llm.Provider{}}); err != nil {
		t.Fatal(err)
	}
	if len(r.gateway.Flights()) != 1 {
		t.Error("a reload forgets what is under way")
	}
	cancel()
	r.eventually("nothing is under way", func() bool { return len(r.gateway.Flights()) == 0 })
}

func TestDiscovered(t *testing.T) {
	r := newRig(t, llm.Options{}, nil)
	if n := len(r.gateway.Discovered()); n != 0 {
		t.Fatalf("%d limits of nobody", n)
	}
	r.headers["openai"].Set("X-Ratelimit-Limit-Tokens", "30000")
	r.headers["openai"].Set("X-Ratelimit-Remaining-Tokens", "29000")
	r.chat("m", 10, false)
	list := r.gateway.Discovered()
	if len(list) != 1 || list[0].Provider != "openai" || list[0].Model != "m" || list[0].Standings[0].Limit != 30000 || list[0].Standings[0].Remaining != 29000 {
		t.Errorf("%+v", list)
	}
}
