package llm_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/store/memory"
)

// policy limits the provider "openai" to these tokens a minute and calls at once.
func policy(tokens, slots int64) *sluice.Policy {
	return &sluice.Policy{Rules: []sluice.Rule{{
		ID:    "llm-openai",
		Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {llm.KindAttempt, llm.KindObserved}, sluice.Provider: {"openai"}}},
		Limits: []sluice.Limit{{Limit: limit.Bucket(tokens, limit.Minute, tokens), Unit: sluice.Tokens, Name: "tpm"},
			{Limit: limit.Slots(slots)}},
	}}}
}

func open(t *testing.T, p *sluice.Policy) *sluice.Controller {
	t.Helper()
	c, err := sluice.Open(p, memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// serve starts a gateway in front of a provider.
func serve(t *testing.T, p *sluice.Policy, provider http.HandlerFunc) *httptest.Server {
	t.Helper()
	up := httptest.NewServer(provider)
	t.Cleanup(up.Close)
	g, err := llm.New(open(t, p), llm.Options{Providers: []llm.Provider{{Name: "openai", Dialect: dialect.OpenAI, BaseURL: up.URL + "/v1",
		Keys: []llm.Key{{ID: "k1", Secret: "provider-secret"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return s
}

func post(t *testing.T, url, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(b)
}

func TestWholeAnswer(t *testing.T) {
	const answer = `{"id":"x","choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}}`
	s := serve(t, policy(1000, 1), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer provider-secret" {
			http.Error(w, "no", http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer)
	})
	for range 50 { // far more than would pass if reservations stayed
		r, body := post(t, s.URL+"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":500}`)
		if r.StatusCode != 200 || body != answer {
			t.Fatalf("%d %s", r.StatusCode, body)
		}
	}
}

func TestStream(t *testing.T) {
	s := serve(t, policy(1000, 1), func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(b), `"include_usage":true`) {
			http.Error(w, "no usage asked for", http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range []string{`{"choices":[{"delta":{"role":"assistant"}}]}`, `{"choices":[{"delta":{"content":"hi"}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7}}`, `[DONE]`} {
			fmt.Fprintf(w, "data: %s\n\n", d)
			w.(http.Flusher).Flush()
		}
	})
	r, body := post(t, s.URL+"/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}],"max_tokens":500}`)
	if r.StatusCode != 200 || !strings.Contains(body, `"content":"hi"`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Fatalf("%d %s", r.StatusCode, body)
	}
	if strings.Contains(body, "usage") {
		t.Errorf("L-098 the client sees usage that it has not asked for: %s", body)
	}
}

func TestRefusal(t *testing.T) {
	s := serve(t, policy(1000, 1), func(w http.ResponseWriter, r *http.Request) { http.Error(w, "not reached", http.StatusTeapot) })
	r, body := post(t, s.URL+"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":5000}`)
	if r.StatusCode != 429 || r.Header.Get("X-Should-Retry") != "false" || !strings.Contains(body, `"reason":"too_large"`) {
		t.Errorf("L-012 %d %v %s", r.StatusCode, r.Header, body)
	}
}
