package llm_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/llmtest"
)

// both sends a model to two providers, in order.
func both(model string) llm.Options {
	return llm.Options{Models: []llm.Model{{Name: model, Targets: []llm.Target{{Provider: "openai"}, {Provider: "backup", Model: "other"}}}}}
}

func TestAttempts(t *testing.T) {
	t.Run("L-064 D18 B-W13 an attempt counts for the provider, the request once for the tenant", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": first(1, llmtest.Plan{Status: 429, RetryAfter: 10 * time.Millisecond})},
			rule("openai", "openai", requests(10), tokens(1000)), rule("tenant", "", requests(10), tokens(1000)))
		if a := r.chat("m", 60, false); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		r.observed(1)
		call := attempt("openai")
		if rpm, tpm := r.left("openai", "rpm", call), r.left("openai", "tpm", call); rpm != 8 || tpm < 970 {
			t.Errorf("the provider has %d requests and %d tokens left", rpm, tpm)
		}
		if rpm := r.left("tenant", "rpm", withKind(call, llm.KindRequest)); rpm != 9 {
			t.Errorf("the tenant has %d requests left", rpm)
		}
	})
	t.Run("L-057 L-058 A-69 one budget for retries and failover", func(t *testing.T) {
		o := both("m")
		o.MaxAttempts = 3
		down := always(llmtest.Plan{Status: 503})
		r := newRig(t, o, plans{"openai": down, "backup": down})
		if a := r.chat("m", 10, false); a.status != 503 {
			t.Errorf("%d %s", a.status, a.body)
		}
		if n := r.mocks["openai"].Requests() + r.mocks["backup"].Requests(); n != 3 {
			t.Errorf("%d attempts, want 3", n)
		}
		if _, answers := r.observed(1); answers[0].Attempts != 3 || answers[0].Failovers == 0 {
			t.Errorf("%+v", answers[0])
		}
	})
	for _, c := range []struct {
		name   string
		plan   llmtest.Plan
		status int
		tries  int
	}{
		{"L-052 no money is not asked for twice", llmtest.Plan{Status: 429, Code: "insufficient_quota"}, 429, 1},
		{"L-073 B-W19 a malformed request is not sent again", llmtest.Plan{Status: 400}, 400, 1},
		{"B-W19 a bad key is not shown again", llmtest.Plan{Status: 401, Body: `{"error":{"message":"Incorrect key: sk-part"}}`}, 502, 1},
		{"L-053 what can never fit", llmtest.Plan{Status: 429, Body: `{"error":{"message":"Limit 10, Requested 12.","type":"tokens","code":"rate_limit_exceeded"}}`}, 429, 1},
		{"L-047 L-050 nobody sleeps for a day", llmtest.Plan{Status: 429, RetryAfter: 24 * time.Hour}, 429, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, llm.Options{}, plans{"openai": always(c.plan)})
			began := time.Now()
			a := r.chat("m", 10, false)
			if n := r.mocks["openai"].Requests(); a.status != c.status || n != c.tries || time.Since(began) > 5*time.Second {
				t.Errorf("%d after %d attempts and %v: %s", a.status, n, time.Since(began), a.body)
			}
			if strings.Contains(a.body, "sk-part") {
				t.Errorf("a part of the gateway's key is shown: %s", a.body)
			}
			if c.status == 429 && a.header.Get("X-Should-Retry") != "false" {
				t.Errorf("the client would come again: %v", a.header)
			}
		})
	}
	t.Run("A-71 B-32 a hint is waited out", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": first(1, llmtest.Plan{Status: 429, RetryAfter: 300 * time.Millisecond})})
		began := time.Now()
		if a := r.chat("m", 10, false); a.status != 200 || time.Since(began) < 300*time.Millisecond {
			t.Errorf("%d after %v", a.status, time.Since(began))
		}
	})
	t.Run("B-W20 whoever waits to try again holds no slot", func(t *testing.T) {
		queued := rule("openai", "openai", slots(1))
		r := newRig(t, llm.Options{}, plans{"openai": func(q *llmtest.Request) llmtest.Plan {
			if strings.Contains(string(q.Body), `"model":"busy"`) && q.N == 1 {
				return llmtest.Plan{Status: 429, RetryAfter: time.Second}
			}
			return llmtest.Plan{}
		}}, queued)
		done := make(chan answer)
		go func() { done <- r.chat("busy", 10, false) }()
		r.eventually("the first has been refused", func() bool { return len(r.mocks["openai"].Served()) == 1 })
		r.eventually("another passes", func() bool { return r.chat("m", 10, false).status == 200 })
		if a := <-done; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestFailover(t *testing.T) {
	t.Run("L-065 B-33 the reservation moves with the call", func(t *testing.T) {
		r := newRig(t, both("m"), plans{"openai": always(llmtest.Plan{Status: 503}), "backup": always(llmtest.Plan{Input: 20, Output: 20})},
			rule("openai", "openai", tokens(1000)), rule("backup", "backup", tokens(1000)), rule("tenant", "", tokens(1000)))
		if a := r.chat("m", 60, false); a.status != 200 || !strings.Contains(a.body, `"model":"other"`) {
			t.Fatalf("%d %s", a.status, a.body)
		}
		r.observed(1)
		at, whole := attempt("backup"), withKind(attempt(""), llm.KindRequest)
		if a, b, c := r.left("openai", "tpm", attempt("openai")), r.left("backup", "tpm", at), r.left("tenant", "tpm", whole); a != 1000 || b < 959 || b > 965 || c < 959 || c > 965 {
			t.Errorf("%d, %d and %d left", a, b, c)
		}
	})
	t.Run("B-33 a quota that is used up here sends the call elsewhere", func(t *testing.T) {
		r := newRig(t, both("m"), nil, rule("openai", "openai", requests(1)))
		for range 3 {
			if a := r.chat("m", 10, false); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		if a, b := r.mocks["openai"].Requests(), r.mocks["backup"].Requests(); a != 1 || b != 2 {
			t.Errorf("%d and %d", a, b)
		}
	})
	t.Run("L-108 L-109 L-110 a failure before the first content is met elsewhere, and nobody sees it", func(t *testing.T) {
		for _, code := range []string{"", "rate_limit_exceeded", "insufficient_quota"} {
			r := newRig(t, both("m"), plans{"openai": always(llmtest.Plan{FailAt: 1, Code: code})})
			for path, body := range map[string]string{"/v1/chat/completions": chatBody("m", 10, true), "/v1/responses": `{"model":"m","input":"hi","stream":true}`} {
				a := r.post(t.Context(), path, body)
				if a.status != 200 || strings.Contains(a.body, `"error":{`) || strings.Count(a.body, "response.created") > 2 || !strings.Contains(a.body, `"other"`) {
					t.Errorf("%s, %q: %d %s", path, code, a.status, a.body)
				}
			}
		}
	})
	t.Run("A-73 L-112 after it, the failure is told", func(t *testing.T) {
		r := newRig(t, both("m"), plans{"openai": always(llmtest.Plan{CutAt: 3, Silent: true})})
		a := r.chat("m", 10, true)
		if a.status != 200 || a.err == nil || !strings.Contains(a.body, "upstream-cut") || strings.Contains(a.body, "[DONE]") {
			t.Errorf("%d %v %s", a.status, a.err, a.body)
		}
		if n := r.mocks["backup"].Requests(); n != 0 {
			t.Errorf("%d attempts elsewhere", n)
		}
	})
	t.Run("L-072 a dead key is left alone", func(t *testing.T) {
		r := newRig(t, llm.Options{Providers: []llm.Provider{}, Models: []llm.Model{{Name: "m", Targets: []llm.Target{{Provider: "openai"}, {Provider: "backup"}}}}},
			plans{"openai": always(llmtest.Plan{Status: 401})})
		for range 10 {
			if a := r.chat("m", 10, false); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		if n := r.mocks["openai"].Requests(); n != 1 {
			t.Errorf("the dead key was shown %d times", n)
		}
	})
	t.Run("L-066 L-082 a cooldown is shared, and about one model", func(t *testing.T) {
		r := newRig(t, llm.Options{MaxAttempts: 1, QueueTimeout: 100 * time.Millisecond}, plans{"openai": first(1, llmtest.Plan{Status: 429, RetryAfter: 5 * time.Second})})
		r.chat("m", 10, false)
		if a := r.chat("m", 10, false); a.status != 429 || a.header.Get("X-Sluice-Reason") == "" {
			t.Errorf("the same model: %d %v", a.status, a.header)
		}
		if a := r.chat("another", 10, false); a.status != 200 {
			t.Errorf("another model: %d %s", a.status, a.body)
		}
		if n := r.mocks["openai"].Requests(); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("L-069 all are cooling, and one is free in time", func(t *testing.T) {
		brief := first(1, llmtest.Plan{Status: 429, RetryAfter: 200 * time.Millisecond})
		o := both("m")
		o.QueueTimeout = 20 * time.Second
		r := newRig(t, o, plans{"openai": brief, "backup": brief})
		if a := r.chat("m", 10, false); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("L-074 L-076 L-077 the breaker opens for failures, not for limits", func(t *testing.T) {
		r := newRig(t, llm.Options{MaxAttempts: 1}, plans{"openai": func(q *llmtest.Request) llmtest.Plan {
			if strings.HasPrefix(q.Model, "limited") {
				return llmtest.Plan{Status: 429, RetryAfter: time.Millisecond}
			}
			return llmtest.Plan{Status: 500}
		}})
		for i := range 10 {
			r.chat(fmt.Sprint("limited", i), 10, false)
		}
		if n := r.mocks["openai"].Requests(); n != 10 {
			t.Fatalf("%d of 10 requests were sent", n)
		}
		for range 10 {
			r.chat("m", 10, false)
		}
		if n := r.mocks["openai"].Requests(); n != 15 {
			t.Errorf("%d failures were sent, want 5", n-10)
		}
		if a := r.chat("m", 10, false); a.status != 503 || a.header.Get("X-Sluice-Reason") != "provider-failing" {
			t.Errorf("L-070 %d %v", a.status, a.header)
		}
	})
	t.Run("L-113 an error in a 200", func(t *testing.T) {
		r := newRig(t, both("m"), plans{"openai": always(llmtest.Plan{Status: 400})})
		if a := r.chat("m", 10, false); a.status != 400 || !strings.Contains(a.body, "error") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestStreams(t *testing.T) {
	for _, c := range []struct{ name, path, body string }{
		{"chat", "/v1/chat/completions", chatBody("m", 40, true)},
		{"completions", "/v1/completions", `{"model":"m","prompt":"x","max_tokens":40,"stream":true}`},
		{"responses", "/v1/responses", `{"model":"m","input":"x","stream":true}`},
		{"messages", "/v1/messages", `{"model":"m","max_tokens":40,"messages":[{"role":"user","content":"x"}],"stream":true}`},
		{"gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"x"}]}]}`},
		{"gemini as an array", "/v1beta/models/m:streamGenerateContent", `{"contents":[{"parts":[{"text":"x"}]}]}`},
		{"ollama", "/api/chat", `{"model":"m","messages":[{"content":"x"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := llmtest.Plan{Input: 50, Output: 30, Chunks: 20}
			r := newRig(t, llm.Options{}, plans{"openai": always(plan), "claude": always(plan), "google": always(plan), "local": always(plan)})
			direct := llmtest.New(llmtest.Options{Plan: always(plan)})
			want := record(direct, c.path, c.body)
			a := r.post(t.Context(), c.path, c.body)
			if a.err != nil || a.status != 200 || a.body != want {
				t.Errorf("L-098 %d %v: the bytes differ:\n%s\nwant\n%s", a.status, a.err, a.body, want)
			}
			attempts, answers := r.observed(1)
			if len(attempts) != 1 || !attempts[0].Told || attempts[0].Usage.Prompt() != 50 || attempts[0].Usage.Output != 30 || answers[0].Status != 200 {
				t.Errorf("L-105 %+v %+v", attempts, answers)
			}
		})
	}
	t.Run("L-114 a line of a mebibyte", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Input: 50, Output: 30, Long: 1 << 20})})
		a := r.chat("m", 40, true)
		if a.err != nil || strings.Count(a.body, "x") < 1<<20 || !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
			t.Errorf("%v, %d bytes", a.err, len(a.body))
		}
		if attempts, _ := r.observed(1); !attempts[0].Told {
			t.Errorf("%+v", attempts)
		}
	})
	t.Run("L-086 L-083 a stream without usage is charged by its text", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Output: 200, NoUsage: true})}, rule("openai", "openai", tokens(10_000)))
		r.chat("m", 1000, true)
		r.observed(1)
		if left := r.left("openai", "tpm", attempt("openai")); left < 9700 || left > 9850 {
			t.Errorf("%d left", left)
		}
	})
}

// record is what a provider sends to a client by itself.
func record(p http.Handler, path, body string) string {
	w := newRecorder()
	r, _ := http.NewRequest(http.MethodPost, path, strings.NewReader(body))
	p.ServeHTTP(w, r)
	return w.Body.String()
}
