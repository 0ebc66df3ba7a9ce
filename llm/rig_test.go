package llm_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/llmtest"
	"github.com/sluicegate/sluice/store/memory"
)

// A rig is a gateway with real providers behind it: "openai" and "backup" speak OpenAI's
// dialect, "claude" Anthropic's, "google" Gemini's and "local" Ollama's.
type rig struct {
	t       *testing.T
	url     string
	gateway *llm.Gateway
	control *sluice.Controller
	mocks   map[string]*llmtest.Provider
	headers map[string]http.Header // of each provider's answers; set them before asking

	mu       sync.Mutex
	attempts []llm.Attempted
	answers  []llm.Answered
}

// plans says what a provider does with its requests, by the provider's name.
type plans map[string]func(*llmtest.Request) llmtest.Plan

// always is a plan for every request.
func always(p llmtest.Plan) func(*llmtest.Request) llmtest.Plan {
	return func(*llmtest.Request) llmtest.Plan { return p }
}

// first does one thing with the first n requests and answers the others.
func first(n int, p llmtest.Plan) func(*llmtest.Request) llmtest.Plan {
	return func(r *llmtest.Request) llmtest.Plan {
		if r.N <= n {
			return p
		}
		return llmtest.Plan{}
	}
}

// newRig starts a rig whose limits are rules, beside the cooldowns that every gateway has.
func newRig(t *testing.T, o llm.Options, p plans, rules ...sluice.Rule) *rig {
	t.Helper()
	r := &rig{t: t, mocks: map[string]*llmtest.Provider{}, headers: map[string]http.Header{}}
	for _, d := range []struct {
		name    string
		dialect dialect.Name
		base    string
	}{{"openai", dialect.OpenAI, "/v1"}, {"backup", dialect.OpenAI, "/v1"}, {"claude", dialect.Anthropic, "/v1"}, {"google", dialect.Gemini, "/v1beta"}, {"local", dialect.Ollama, ""}} {
		r.headers[d.name] = http.Header{}
		mock := llmtest.New(llmtest.Options{Plan: p[d.name], Header: r.headers[d.name]})
		up := httptest.NewServer(mock)
		t.Cleanup(up.Close)
		t.Cleanup(mock.Close)
		r.mocks[d.name] = mock
		o.Providers = append(o.Providers, llm.Provider{Name: d.name, Dialect: d.dialect, BaseURL: up.URL + d.base, Keys: []llm.Key{{ID: "k1", Secret: "s1"}}})
	}
	control, err := sluice.Open(&sluice.Policy{Rules: append(rules, llm.Cooldowns()...)}, memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.control = control
	o.Observer = llm.Observer{
		Attempted: func(a llm.Attempted) { r.mu.Lock(); r.attempts = append(r.attempts, a); r.mu.Unlock() },
		Answered:  func(a llm.Answered) { r.mu.Lock(); r.answers = append(r.answers, a); r.mu.Unlock() },
	}
	if r.gateway, err = llm.New(control, o); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r.gateway)
	r.url = server.URL
	t.Cleanup(func() { server.Close(); control.Close() })
	return r
}

// An answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // the answer was cut
}

// chat asks for a chat in one piece, or as a stream.
func (r *rig) chat(model string, output int, stream bool) answer {
	return r.post(r.t.Context(), "/v1/chat/completions", chatBody(model, output, stream))
}

func chatBody(model string, output int, stream bool) string {
	b := &strings.Builder{}
	b.WriteString(`{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]`)
	if output >= 0 {
		b.WriteString(`,"max_tokens":` + strconv.Itoa(output))
	}
	if stream {
		b.WriteString(`,"stream":true`)
	}
	return b.String() + "}"
}

func (r *rig) post(ctx context.Context, path, body string) answer {
	r.t.Helper()
	return r.postWith(ctx, path, body)
}

// postWith sends a request with further header fields: names and values in turn.
func (r *rig) postWith(ctx context.Context, path, body string, fields ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b), err}
}

// left returns how much of a rule's limit is left for a call.
func (r *rig) left(rule, name string, call sluice.Call) int64 {
	r.t.Helper()
	e, err := r.control.Check(r.t.Context(), call)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range e.Rules {
		for _, l := range e.Rules[i].Limits {
			if e.Rules[i].Rule == rule && l.Level.Name == name {
				return l.Level.Remaining
			}
		}
	}
	r.t.Fatalf("no limit %s of rule %s is about the call: %+v", name, rule, e)
	return 0
}

// attempt is what an attempt at a provider looks like to the rules.
func attempt(provider string) sluice.Call {
	return sluice.Call{Kind: llm.KindAttempt, Provider: provider, Model: "m", Credential: "k1"}
}

// eventually waits until something holds that another goroutine brings about.
func (r *rig) eventually(what string, holds func() bool) {
	r.t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("never: %s", what)
		}
	}
}

// observed returns what the observer was told, and when it was told of n answers.
func (r *rig) observed(n int) ([]llm.Attempted, []llm.Answered) {
	r.t.Helper()
	r.eventually("the answers are reported", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.answers) >= n
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts, r.answers
}

// rule is a rule about attempts at a provider, or about requests if that is empty.
func rule(id, provider string, limits ...sluice.Limit) sluice.Rule {
	is := map[sluice.Dimension][]string{sluice.Kind: {llm.KindRequest}}
	if provider != "" {
		is = map[sluice.Dimension][]string{sluice.Kind: {llm.KindAttempt}, sluice.Provider: {provider}}
	}
	return sluice.Rule{ID: id, Match: sluice.Match{Is: is}, Limits: limits}
}

func tokens(n int64) sluice.Limit {
	return sluice.Limit{Limit: limit.Bucket(n, limit.Minute, n), Unit: sluice.Tokens, Name: "tpm"}
}

func requests(n int64) sluice.Limit {
	return sluice.Limit{Limit: limit.Bucket(n, limit.Minute, n), Name: "rpm"}
}

func slots(n int64) sluice.Limit { return sluice.Limit{Limit: limit.Slots(n)} }

// queueOf is a queue without bounds of its own.
func queueOf() *sluice.Queue { return &sluice.Queue{} }

func withKind(c sluice.Call, kind string) sluice.Call {
	c.Kind = kind
	return c
}

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }
