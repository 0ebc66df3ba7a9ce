package llm_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/llmtest"
	"github.com/sluicegate/sluice/llm/translate"
)

// abroad sends a model to OpenAI's provider and then to Anthropic's, or the other way round.
func abroad(from, to string) llm.Options {
	return llm.Options{Models: []llm.Model{{Name: "m", MaxOutput: 4096,
		Targets: []llm.Target{{Provider: from}, {Provider: to, Model: "other", Translate: true}}}}}
}

const claudeBody = `{"model":"m","max_tokens":40,"messages":[{"role":"user","content":"hi"}]`

func TestForeignTargets(t *testing.T) {
	down := always(llmtest.Plan{Status: 503})
	answer := llmtest.Plan{Input: 50, CacheRead: 20, Output: 30, Text: "hello there"}
	tool := llmtest.Plan{Input: 50, Output: 30, Tool: true}
	for _, c := range []struct {
		name, from, to, path, body string
		plan                       llmtest.Plan
		want                       []string
	}{
		{"chat, whole", "openai", "claude", "/v1/chat/completions", chatBody("m", 40, false), answer,
			[]string{`"object":"chat.completion"`, `"model":"other"`, `"content":"hello there"`, `"finish_reason":"stop"`, `"prompt_tokens":50,"completion_tokens":30,"total_tokens":80,"prompt_tokens_details":{"cached_tokens":20}`}},
		{"chat, streamed", "openai", "claude", "/v1/chat/completions", chatBody("m", 40, true), answer,
			[]string{`"object":"chat.completion.chunk"`, `"role":"assistant"`, `{"content":"he"}`, `"finish_reason":"stop"`, "data: [DONE]\n\n"}},
		{"chat, a tool", "openai", "claude", "/v1/chat/completions", chatBody("m", 40, false), tool,
			[]string{`"tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]`, `"finish_reason":"tool_calls"`}},
		{"chat, a tool, streamed", "openai", "claude", "/v1/chat/completions", chatBody("m", 40, true), tool,
			[]string{`"id":"toolu_1"`, `{"arguments":"{\"city\":\"Paris\"}"}`, `"finish_reason":"tool_calls"`, "data: [DONE]\n\n"}},
		{"messages, whole", "claude", "openai", "/v1/messages", claudeBody + "}", answer,
			[]string{`"type":"message"`, `"model":"other"`, `[{"type":"text","text":"hello there"}]`, `"stop_reason":"end_turn"`, `"input_tokens":30,"cache_creation_input_tokens":0,"cache_read_input_tokens":20,"output_tokens":30`}},
		{"messages, streamed", "claude", "openai", "/v1/messages", claudeBody + `,"stream":true}`, answer,
			[]string{"event: message_start\n", "event: content_block_delta\n", `"text":"he"`, `"stop_reason":"end_turn"`, `"input_tokens":30,"cache_creation_input_tokens":0,"cache_read_input_tokens":20,"output_tokens":30`, "event: message_stop\n"}},
		{"messages, a tool", "claude", "openai", "/v1/messages", claudeBody + "}", tool,
			[]string{`{"type":"tool_use","id":"call_1","name":"weather","input":{"city":"Paris"}}`, `"stop_reason":"tool_use"`}},
		{"messages, a tool, streamed", "claude", "openai", "/v1/messages", claudeBody + `,"stream":true}`, tool,
			[]string{`"id":"call_1"`, `"partial_json":"{\"city\":\"Paris\"}"`, `"stop_reason":"tool_use"`, "event: message_stop\n"}},
	} {
		t.Run("B-33 D24 L-097 "+c.name, func(t *testing.T) {
			for _, bytes := range []int{0, 3} {
				c.plan.Bytes = bytes
				r := newRig(t, abroad(c.from, c.to), plans{c.from: down, c.to: always(c.plan)}, rule("to", c.to, tokens(1000)), rule("from", c.from, tokens(1000)))
				a := r.postWith(t.Context(), c.path, c.body, "Authorization", "Bearer of-the-client", "X-Api-Key", "of-the-client", "Anthropic-Version", "2023-06-01", "X-Stainless-Lang", "go")
				if a.status != 200 || a.err != nil {
					t.Fatalf("%d %v %s", a.status, a.err, a.body)
				}
				for _, s := range c.want {
					if !strings.Contains(a.body, s) {
						t.Errorf("no %s in\n%s", s, a.body)
					}
				}
				if n := strings.Count(a.body, "event: message_start"); n > 1 || strings.Contains(a.body, `"error"`) {
					t.Errorf("L-110 L-121 %s", a.body)
				}
				attempts, answers := r.observed(1)
				if u := attempts[1].Usage; len(attempts) != 2 || !attempts[1].Told || u.Prompt() != 50 || u.Output != 30 || answers[0].Failovers != 1 {
					t.Errorf("%+v %+v", attempts, answers)
				}
				at := attempt(c.to)
				at.Model = "other"
				if used := 1000 - r.left("to", "tpm", at); used > attempts[1].Settled || used < attempts[1].Settled-20 /* some come back by themselves */ || r.left("from", "tpm", attempt(c.from)) != 1000 {
					t.Errorf("L-065 %d tokens are charged, want %d", used, attempts[1].Settled)
				}
			}
		})
	}
}

func TestWhatIsSentAbroad(t *testing.T) {
	var chat, messages *llmtest.Request
	p := plans{"openai": func(q *llmtest.Request) llmtest.Plan { chat = q; return llmtest.Plan{} },
		"claude": func(q *llmtest.Request) llmtest.Plan { messages = q; return llmtest.Plan{} }}
	o := llm.Options{Models: []llm.Model{{Name: "to-claude", MaxOutput: 4096, Targets: []llm.Target{{Provider: "claude", Translate: true}}},
		{Name: "to-openai", Targets: []llm.Target{{Provider: "openai", Translate: true}}}}}
	r := newRig(t, o, p)
	fields := []string{"Authorization", "Bearer of-the-client", "X-Api-Key", "of-the-client", "Openai-Organization", "org", "Anthropic-Version", "1999-01-01", "X-Stainless-Lang", "go"}
	if a := r.postWith(t.Context(), "/v1/chat/completions", chatBody("to-claude", -1, true), fields...); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if want := `{"model":"to-claude","max_tokens":4096,"messages":[{"role":"user","content":"hi"}],"stream":true}`; string(messages.Body) != want || messages.Path != "/v1/messages" {
		t.Errorf("%s got %s", messages.Path, messages.Body)
	}
	if a := r.postWith(t.Context(), "/v1/messages", strings.Replace(claudeBody, `"m"`, `"to-openai"`, 1)+`,"stream":true}`, fields...); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if want := `{"model":"to-openai","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":40,"stream":true,"stream_options":{"include_usage":true}}`; string(chat.Body) != want || chat.Path != "/v1/chat/completions" {
		t.Errorf("%s got %s", chat.Path, chat.Body)
	}
	for _, q := range []*llmtest.Request{chat, messages} {
		for name, values := range q.Header {
			if strings.Contains(strings.Join(values, " "), "of-the-client") || name == "Openai-Organization" || name == "X-Stainless-Lang" {
				t.Errorf("%s: %s went along: %v", q.Path, name, values)
			}
		}
	}
	for _, q := range []*llmtest.Request{chat, messages} {
		if kind := q.Header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s: %q", q.Path, kind)
		}
	}
	if v, key := messages.Header.Get("Anthropic-Version"), messages.Header.Get("X-Api-Key"); v != "2023-06-01" || key != "s1" {
		t.Errorf("%s %s", v, key)
	}
	if key := chat.Header.Get("Authorization"); key != "Bearer s1" {
		t.Errorf("%s", key)
	}
}

func TestPassedBy(t *testing.T) {
	busy := always(llmtest.Plan{Status: 503, RetryAfter: time.Millisecond})
	for _, c := range []struct {
		name, body string
		fields     []string
	}{
		{"a field", strings.Replace(chatBody("m", 40, false), `"model"`, `"seed":7,"model"`, 1), nil},
		{"a header", chatBody("m", 40, false), []string{"Openai-Beta", "x"}},
	} {
		t.Run("D24 what would lose something is not sent there: "+c.name, func(t *testing.T) {
			o := abroad("openai", "claude")
			o.MaxAttempts = 2
			r := newRig(t, o, plans{"openai": busy})
			if a := r.postWith(t.Context(), "/v1/chat/completions", c.body, c.fields...); a.status != 503 {
				t.Errorf("%d %s", a.status, a.body)
			}
			if a, b := r.mocks["openai"].Requests(), r.mocks["claude"].Requests(); a != 2 || b != 0 {
				t.Errorf("%d and %d attempts", a, b)
			}
		})
		t.Run("D24 and is told what it was, if nobody else is there: "+c.name, func(t *testing.T) {
			o := abroad("openai", "claude")
			o.Models[0].Targets = o.Models[0].Targets[1:]
			r := newRig(t, o, nil, rule("tenant", "", requests(10)))
			a := r.postWith(t.Context(), "/v1/chat/completions", c.body, c.fields...)
			if a.status != 400 || a.header.Get("X-Sluice-Reason") != "untranslatable" || a.header.Get("X-Should-Retry") != "false" || !strings.Contains(a.body, "without loss: ") || !strings.Contains(a.body, " is not known in the other dialect.") {
				t.Errorf("%d %v %s", a.status, a.header, a.body)
			}
			if left := r.left("tenant", "rpm", withKind(attempt(""), llm.KindRequest)); left != 10 {
				t.Errorf("%d requests are left", left)
			}
		})
	}
	t.Run("D24 only where it is asked for", func(t *testing.T) {
		o := abroad("openai", "claude")
		o.Models[0].Targets[1].Translate = false
		o.MaxAttempts = 2
		r := newRig(t, o, plans{"openai": busy})
		if a := r.chat("m", 40, false); a.status != 503 || r.mocks["claude"].Requests() != 0 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("D24 only chat and messages", func(t *testing.T) {
		r := newRig(t, abroad("openai", "claude"), plans{"openai": always(llmtest.Plan{Status: 400})})
		if a := r.post(t.Context(), "/v1/responses", `{"model":"m","input":"x"}`); a.status != 400 || r.mocks["claude"].Requests() != 0 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("nothing is translated before its turn", func(t *testing.T) {
		r := newRig(t, abroad("openai", "claude"), nil)
		direct := record(llmtest.New(llmtest.Options{}), "/v1/chat/completions", chatBody("m", 40, false))
		if a := r.chat("m", 40, false); a.body != direct {
			t.Errorf("%s", a.body)
		}
	})
	t.Run("translate is for two dialects", func(t *testing.T) {
		o := llm.Options{Providers: []llm.Provider{{Name: "g", Dialect: dialect.Gemini, BaseURL: "http://g"}}, Models: []llm.Model{{Name: "m", Targets: []llm.Target{{Provider: "g", Translate: true}}}}}
		r := newRig(t, llm.Options{}, nil)
		if _, err := llm.New(r.control, o); err == nil || !strings.Contains(err.Error(), "only openai and anthropic") {
			t.Errorf("%v", err)
		}
	})
	t.Run("an explanation says so", func(t *testing.T) {
		r := newRig(t, abroad("openai", "claude"), nil)
		q, _ := http.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(strings.Replace(chatBody("m", 40, false), `"model"`, `"n":2,"model"`, 1)))
		e, err := r.gateway.Explain(q)
		if err != nil || len(e.Places) != 2 || e.Places[0].Lost != nil {
			t.Fatalf("%+v %v", e, err)
		}
		if l, ok := errors.AsType[*translate.Loss](e.Places[1].Lost); !ok || l.Where != "n" {
			t.Errorf("%v", e.Places[1].Lost)
		}
	})
}

func TestForeignFailures(t *testing.T) {
	only := func(to string) llm.Options {
		return llm.Options{MaxAttempts: 1, Models: []llm.Model{{Name: "m", MaxOutput: 100, Targets: []llm.Target{{Provider: to, Translate: true}}}}}
	}
	t.Run("L-110 a stream that fails before its content is answered in the other dialect", func(t *testing.T) {
		for _, code := range []string{"", "rate_limit_exceeded"} {
			r := newRig(t, abroad("openai", "claude"), plans{"openai": always(llmtest.Plan{FailAt: 1, Code: code}), "claude": always(llmtest.Plan{Text: "hello"})})
			if a := r.chat("m", 40, true); a.status != 200 || a.err != nil || strings.Contains(a.body, `"error"`) || strings.Count(a.body, `"role":"assistant"`) != 1 || !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
				t.Errorf("%d %v %s", a.status, a.err, a.body)
			}
			r = newRig(t, abroad("claude", "openai"), plans{"claude": always(llmtest.Plan{FailAt: 1, Code: code}), "openai": always(llmtest.Plan{Text: "hello"})})
			if a := r.post(t.Context(), "/v1/messages", claudeBody+`,"stream":true}`); a.status != 200 || a.err != nil || strings.Contains(a.body, `"error"`) || strings.Count(a.body, "event: message_start") != 1 || !strings.Contains(a.body, "event: message_stop") {
				t.Errorf("%d %v %s", a.status, a.err, a.body)
			}
		}
	})
	t.Run("L-110 and one that fails abroad is answered at home", func(t *testing.T) {
		o := abroad("openai", "claude")
		o.Models[0].Targets[0], o.Models[0].Targets[1] = o.Models[0].Targets[1], o.Models[0].Targets[0]
		r := newRig(t, o, plans{"claude": always(llmtest.Plan{FailAt: 1}), "openai": always(llmtest.Plan{Text: "hello"})})
		if a := r.chat("m", 40, true); a.status != 200 || strings.Contains(a.body, `"error"`) || strings.Count(a.body, `"role":"assistant"`) != 1 || !strings.Contains(a.body, "chatcmpl-1") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("L-121 L-122 a failure in the middle is told in the client's dialect", func(t *testing.T) {
		for _, plan := range []llmtest.Plan{{FailAt: 3}, {CutAt: 3}, {CutAt: 3, Silent: true}} {
			r := newRig(t, only("claude"), plans{"claude": always(plan)})
			a := r.chat("m", 40, true)
			if a.status != 200 || a.err == nil || !strings.Contains(a.body, "\ndata: {\"error\":{") || strings.Contains(a.body, "[DONE]") || strings.Contains(a.body, "event:") {
				t.Errorf("%d %v %s", a.status, a.err, a.body)
			}
			r = newRig(t, only("openai"), plans{"openai": always(plan)})
			a = r.post(t.Context(), "/v1/messages", claudeBody+`,"stream":true}`)
			if a.status != 200 || a.err == nil || !strings.Contains(a.body, "\nevent: error\ndata: {\"type\":\"error\"") || strings.Contains(a.body, "message_stop") {
				t.Errorf("%d %v %s", a.status, a.err, a.body)
			}
		}
	})
	t.Run("a refusal is told in the client's dialect, with its wait", func(t *testing.T) {
		r := newRig(t, only("claude"), plans{"claude": always(llmtest.Plan{Status: 529, RetryAfter: 2 * time.Second})})
		if a := r.chat("m", 40, false); a.status != 503 || !strings.HasPrefix(a.body, `{"error":{"message":`) || a.header.Get("Retry-After") != "2" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		r = newRig(t, only("openai"), plans{"openai": always(llmtest.Plan{Status: 429, Code: "insufficient_quota"})})
		if a := r.post(t.Context(), "/v1/messages", claudeBody+"}"); a.status != 429 || !strings.HasPrefix(a.body, `{"type":"error","error":{"type":"rate_limit_error"`) || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	})
	t.Run("an answer has its own length, and its name where the client looks for it", func(t *testing.T) {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Request-Id", "req_9")
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"id":"msg_9","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn"}`)
		}))
		defer up.Close()
		o := only("named")
		o.Providers = []llm.Provider{{Name: "named", Dialect: dialect.Anthropic, BaseURL: up.URL + "/v1"}}
		r := newRig(t, o, nil)
		if a := r.chat("m", 40, false); a.err != nil || a.header.Get("X-Request-Id") != "req_9" || !strings.HasSuffix(a.body, `"finish_reason":"stop"}]}`) {
			t.Errorf("%v %v %s", a.err, a.header, a.body)
		}
	})
	t.Run("what another tokenizer counts teaches nothing about this model", func(t *testing.T) {
		r := newRig(t, abroad("openai", "claude"), plans{"openai": first(3, llmtest.Plan{Status: 503}), "claude": always(llmtest.Plan{Input: 50_000})})
		expected := func() int64 {
			q, _ := http.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody("m", 40, false)))
			q.RemoteAddr = "127.0.0.1:1" // who has asked
			e, err := r.gateway.Explain(q)
			if err != nil {
				t.Fatal(err)
			}
			return e.Input
		}
		before := expected()
		for range 3 {
			if a := r.chat("m", 40, false); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		r.observed(3)
		if after := expected(); after != before || r.mocks["claude"].Requests() == 0 {
			t.Errorf("%d tokens were expected, and %d are now", before, after)
		}
	})
	t.Run("what is rejected abroad may pass at home", func(t *testing.T) {
		o := abroad("openai", "claude")
		r := newRig(t, o, plans{"claude": always(llmtest.Plan{Status: 400}), "openai": first(1, llmtest.Plan{Status: 503, RetryAfter: 50 * time.Millisecond})})
		if a := r.chat("m", 40, false); a.status != 200 || r.mocks["claude"].Requests() != 1 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("L-114 arguments of a mebibyte", func(t *testing.T) {
		for _, long := range []int{1 << 20, 5 << 20} {
			r := newRig(t, only("claude"), plans{"claude": always(llmtest.Plan{Long: long})})
			a := r.chat("m", 40, true)
			if small := long < 4<<20; (a.err == nil) != small || strings.Contains(a.body, strings.Repeat("x", long)) != small || strings.Contains(a.body, "untranslatable") == small {
				t.Errorf("%d bytes: %v, %d bytes came", long, a.err, len(a.body))
			}
		}
	})
	t.Run("D24 an answer that cannot be translated is met elsewhere, charged, and nobody's fault", func(t *testing.T) {
		o := abroad("claude", "openai")
		o.Models[0].Targets[0], o.Models[0].Targets[1] = o.Models[0].Targets[1], o.Models[0].Targets[0]
		odd := `{"id":"a","choices":[{"index":0,"message":{"role":"assistant","content":"x","audio":{"data":"x"}},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":30}}`
		r := newRig(t, o, plans{"openai": always(llmtest.Plan{Body: odd}), "claude": always(llmtest.Plan{Text: "hello"})}, rule("openai", "openai", tokens(10_000)))
		for range 8 {
			if a := r.post(t.Context(), "/v1/messages", claudeBody+"}"); a.status != 200 || !strings.Contains(a.body, "hello") {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		if n := r.mocks["openai"].Requests(); n != 8 {
			t.Errorf("%d requests: the breaker has opened", n)
		}
		at := attempt("openai")
		at.Model = "other"
		if left := r.left("openai", "tpm", at); left < 10_000-8*80 || left > 10_000-6*80 {
			t.Errorf("%d left", left)
		}
	})
	t.Run("L-102 usage is not asked for twice where it is refused", func(t *testing.T) {
		r := newRig(t, only("openai"), plans{"openai": func(q *llmtest.Request) llmtest.Plan {
			if strings.Contains(string(q.Body), "stream_options") {
				return llmtest.Plan{Status: 400, Body: `{"error":{"message":"stream_options is not known"}}`}
			}
			return llmtest.Plan{Text: "hello"}
		}})
		for range 2 {
			if a := r.post(t.Context(), "/v1/messages", claudeBody+`,"stream":true}`); a.status != 200 || !strings.Contains(a.body, "message_stop") {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		if n := r.mocks["openai"].Requests(); n != 3 {
			t.Errorf("%d requests", n)
		}
	})
}
