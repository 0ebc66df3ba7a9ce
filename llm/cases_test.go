package llm_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/llmtest"
)

func TestQueues(t *testing.T) {
	t.Run("L-036 a full line, and a wait that is over", func(t *testing.T) {
		depth := 1
		queued := rule("openai", "openai", slots(1))
		queued.Queue = &sluice.Queue{Depth: &depth}
		r := newRig(t, llm.Options{QueueTimeout: 500 * time.Millisecond}, plans{"openai": always(llmtest.Plan{Hang: true})}, queued)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.post(ctx, "/v1/chat/completions", chatBody("m", 10, false))
		r.eventually("the slot is taken", func() bool { return r.mocks["openai"].Requests() == 1 })
		late := make(chan answer)
		go func() { late <- r.chat("m", 10, false) }()
		r.eventually("somebody waits", func() bool { return r.control.Waiting()["openai"] == 1 })
		if a := r.chat("m", 10, false); a.status != 429 || a.header.Get("X-Sluice-Reason") != "queue_full" {
			t.Errorf("%d %v", a.status, a.header)
		}
		if a := <-late; a.status != 429 || a.header.Get("X-Sluice-Reason") != "queue_timeout" || a.header.Get("Retry-After") == "" {
			t.Errorf("%d %v", a.status, a.header)
		}
	})
	t.Run("L-038 who has room is not kept waiting by another tenant", func(t *testing.T) {
		byTenant := rule("tenant", "", tokens(1000))
		byTenant.GroupBy, byTenant.Queue = []sluice.Dimension{sluice.Tenant}, queueOf()
		o := llm.Options{Identify: func(_ *http.Request, credential string) (llm.Caller, error) {
			return llm.Caller{Subject: credential, Tenant: credential}, nil
		}}
		r := newRig(t, o, plans{"openai": always(llmtest.Plan{Input: 10, Output: 900})}, byTenant)
		as := func(ctx context.Context, tenant string) answer {
			return r.postWith(ctx, "/v1/chat/completions", chatBody("m", 900, false), "Authorization", "Bearer "+tenant)
		}
		if a := as(t.Context(), "a"); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go as(ctx, "a")
		r.eventually("a waits", func() bool { return r.control.Waiting()["tenant"] == 1 })
		if a := as(t.Context(), "b"); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("B-36 B-W14 who leaves the line leaves nothing behind", func(t *testing.T) {
		queued := rule("openai", "openai", slots(1), tokens(1000))
		queued.Queue = queueOf()
		r := newRig(t, llm.Options{}, plans{"openai": first(1, llmtest.Plan{Hang: true})}, queued, rule("tenant", "", requests(10), tokens(1000)))
		first, letGo := context.WithCancel(t.Context())
		go r.post(first, "/v1/chat/completions", chatBody("m", 10, false))
		r.eventually("the slot is taken", func() bool { return r.mocks["openai"].Requests() == 1 })
		second, leave := context.WithCancel(t.Context())
		go r.post(second, "/v1/chat/completions", chatBody("m", 500, false))
		r.eventually("the second waits", func() bool { return r.control.Waiting()["openai"] == 1 })
		leave()
		r.eventually("nobody waits", func() bool { return r.control.Waiting()["openai"] == 0 })
		letGo()
		r.observed(2)
		whole := withKind(attempt("openai"), llm.KindRequest)
		if tpm, rpm, all := r.left("openai", "tpm", attempt("openai")), r.left("tenant", "rpm", whole), r.left("tenant", "tpm", whole); tpm < 980 || rpm != 9 || all < 980 {
			t.Errorf("%d, %d and %d left", tpm, rpm, all)
		}
	})
}

func TestSlots(t *testing.T) {
	t.Run("L-029 A-68 a provider that does not answer gives its slots back", func(t *testing.T) {
		r := newRig(t, llm.Options{HeaderTimeout: 50 * time.Millisecond, MaxAttempts: 1}, plans{"openai": first(2, llmtest.Plan{Hang: true})}, rule("openai", "openai", slots(2), tokens(1000)))
		for range 2 {
			if a := r.chat("m", 100, false); a.status != 504 || !strings.Contains(a.body, "Model endpoint is unavailable") {
				t.Errorf("A-74 %d %s", a.status, a.body)
			}
		}
		if a := r.chat("m", 100, false); a.status != 200 {
			t.Errorf("the third: %d %s", a.status, a.body)
		}
		if len(r.control.Held()) != 0 {
			t.Errorf("%v are held", r.control.Held())
		}
	})
	t.Run("L-041 L-042 an answer without end has one", func(t *testing.T) {
		endless := llmtest.Plan{Output: 4000, Chunks: 4000, Between: 5 * time.Millisecond}
		r := newRig(t, llm.Options{MaxDuration: 700 * time.Millisecond}, plans{"openai": always(endless)}, rule("openai", "openai", slots(1)))
		a := r.chat("m", -1, true)
		if a.status != 200 || a.err == nil || !strings.Contains(a.body, "upstream-cut") {
			t.Errorf("%d %v %s", a.status, a.err, tail(a.body))
		}
		r.eventually("the slot is free", func() bool { return len(r.control.Held()) == 0 })
		r.eventually("the provider is let go of", func() bool { now, _ := r.mocks["openai"].AtOnce(); return now == 0 })
	})
	t.Run("L-030 a client that leaves is settled all the same", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Output: 1000, Chunks: 1000, Between: 5 * time.Millisecond})},
			rule("openai", "openai", slots(1), window(10_000, sluice.Tokens)), rule("tenant", "", window(10_000, sluice.Tokens)))
		ctx, cancel := context.WithCancel(t.Context())
		go r.post(ctx, "/v1/chat/completions", chatBody("m", 5000, true))
		r.eventually("the stream has begun", func() bool { return r.mocks["openai"].Requests() == 1 })
		cancel()
		r.observed(1)
		whole := withKind(attempt("openai"), llm.KindRequest)
		if a, b := r.left("openai", "tokens", attempt("openai")), r.left("tenant", "tokens", whole); a < 8000 || a == 10_000 || b < 8000 || b == 10_000 {
			t.Errorf("%d and %d left: what came is charged, and no more", a, b)
		}
	})
	t.Run("L-040 what was read for a client that left is charged", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Hang: true})}, rule("openai", "openai", tokens(10_000)), rule("tenant", "", tokens(10_000)))
		ctx, cancel := context.WithCancel(t.Context())
		long := `{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"` + strings.Repeat("some words ", 500) + `"}]}`
		go r.post(ctx, "/v1/chat/completions", long)
		r.eventually("the request has come", func() bool { return r.mocks["openai"].Requests() == 1 })
		cancel()
		r.observed(1)
		whole := withKind(attempt("openai"), llm.KindRequest)
		if a, b := r.left("openai", "tpm", attempt("openai")), r.left("tenant", "tpm", whole); a > 9300 || a < 8500 || b > 9300 || b < 8500 {
			t.Errorf("%d and %d left of 10000: a thousand words were read", a, b)
		}
	})
}

func TestDrain(t *testing.T) {
	mock := llmtest.New(llmtest.Options{Plan: always(llmtest.Plan{Input: 50, Output: 400, Chunks: 40, Between: 5 * time.Millisecond})})
	s := newSpy(t, mock.ServeHTTP)
	p := s.provider("spy", llm.Key{ID: "k1", Secret: "x"})
	p.Drain = true
	r := newRig(t, llm.Options{Providers: []llm.Provider{p}}, nil, rule("spy", "spy", tokens(10_000), slots(1)))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/spy/v1/chat/completions", strings.NewReader(chatBody("m", 1000, true)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	res.Body.Close()
	if a := r.post(t.Context(), "/spy/v1/chat/completions", chatBody("m", 10, false)); a.status != 429 {
		t.Errorf("L-084 the slot is free before the provider is done: %d", a.status)
	}
	wait, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := r.gateway.Wait(wait); err != nil {
		t.Fatal(err)
	}
	if served := mock.Served(); len(served) != 1 || !served[0].Whole {
		t.Errorf("L-084 it was not read to its end: %+v", served)
	}
	if left := r.left("spy", "tpm", attempt("spy")); left < 9550 || left > 9700 { // some come back by themselves meanwhile
		t.Errorf("L-084 %d left of 10000, and 450 were used", left)
	}
}

func TestStreamOptions(t *testing.T) {
	mock := llmtest.New(llmtest.Options{Plan: always(llmtest.Plan{Input: 50, Output: 40})})
	asked := 0
	s := newSpy(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "stream_options") {
			asked++
			w.WriteHeader(http.StatusUnprocessableEntity)
			io.WriteString(w, `{"detail":"stream_options: extra fields not permitted"}`)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		mock.ServeHTTP(w, r)
	})
	r := newRig(t, llm.Options{MaxAttempts: 1, Providers: []llm.Provider{s.provider("spy", llm.Key{ID: "k1", Secret: "x"})}}, nil)
	for range 3 {
		if a := r.post(t.Context(), "/spy/v1/chat/completions", chatBody("m", 100, true)); a.status != 200 || a.err != nil {
			t.Errorf("L-102 %d %s", a.status, a.body)
		}
	}
	if _, answers := r.observed(3); asked != 1 || answers[0].Attempts != 1 {
		t.Errorf("L-102 asked %d times, %+v", asked, answers[0])
	}
	own := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`
	if a := r.post(t.Context(), "/spy/v1/chat/completions", own); a.status != 422 {
		t.Errorf("what the client itself asks for is its own mistake: %d %s", a.status, a.body)
	}
}

func TestCounting(t *testing.T) {
	t.Run("L-117 a stream is one request", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Output: 100, Chunks: 50})}, rule("openai", "openai", requests(10)))
		r.chat("m", 100, true)
		r.observed(1)
		if left := r.left("openai", "rpm", attempt("openai")); left != 9 {
			t.Errorf("%d left", left)
		}
	})
	t.Run("L-022 what was used is the same in every dialect", func(t *testing.T) {
		plan := always(llmtest.Plan{Input: 1000, CacheRead: 800, Output: 50})
		r := newRig(t, llm.Options{}, plans{"openai": plan, "claude": plan})
		r.chat("m", 100, false)
		r.post(t.Context(), "/v1/messages", `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`)
		if attempts, _ := r.observed(2); attempts[0].Usage != attempts[1].Usage || attempts[0].Usage.Input != 200 {
			t.Errorf("%+v and %+v", attempts[0].Usage, attempts[1].Usage)
		}
	})
	t.Run("L-133 L-083 B-31 an answer that does not say what it used is charged by its text", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Output: 200, NoUsage: true})}, rule("openai", "openai", tokens(10_000)), rule("tenant", "", tokens(10_000)))
		r.chat("m", 1000, false)
		attempts, _ := r.observed(1)
		if attempts[0].Told || attempts[0].Settled < 150 || attempts[0].Settled > 300 {
			t.Errorf("%+v", attempts[0])
		}
		if left := r.left("tenant", "tpm", withKind(attempt("openai"), llm.KindRequest)); left < 9700 || left > 9850 {
			t.Errorf("the tenant has %d left", left)
		}
	})
	t.Run("several answers are reserved for", func(t *testing.T) {
		o := llm.Options{Models: []llm.Model{{Name: "m", MaxOutput: 100, Targets: []llm.Target{{Provider: "openai"}}}}}
		r := newRig(t, o, plans{"openai": always(llmtest.Plan{Hang: true})}, rule("openai", "openai", tokens(10_000)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.post(ctx, "/v1/chat/completions", `{"model":"m","n":50,"max_tokens":100,"messages":[]}`)
		r.eventually("it has come", func() bool { return r.mocks["openai"].Requests() == 1 })
		if left := r.left("openai", "tpm", attempt("openai")); left > 5100 {
			t.Errorf("%d left of 10000, with 50 answers of 100 tokens under way", left)
		}
	})
	t.Run("L-146 what a client says of itself changes nothing", func(t *testing.T) {
		perTenant := rule("tenant", "", requests(2))
		perTenant.GroupBy = []sluice.Dimension{sluice.Tenant}
		var sent http.Header
		r := newRig(t, llm.Options{}, plans{"openai": func(q *llmtest.Request) llmtest.Plan { sent = q.Header; return llmtest.Plan{Status: 400} }}, perTenant)
		for i, want := range []int{400, 400, 429} {
			a := r.postWith(t.Context(), "/v1/chat/completions", chatBody("m", 10, false), "X-Should-Retry", "true", "X-Stainless-Retry-Count", "999999",
				"X-Tenant-Id", string(rune('a'+i)), "X-Sluice-Tenant", string(rune('a'+i)))
			if a.status != want || a.header.Get("X-Should-Retry") == "true" {
				t.Errorf("%d. request: %d %v", i, a.status, a.header)
			}
		}
		if _, answers := r.observed(3); answers[0].Client != 100 || sent.Get("X-Should-Retry") != "" {
			t.Errorf("%+v, %v", answers[0], sent)
		}
	})
	t.Run("names that a provider does not know are told to nobody", func(t *testing.T) {
		r := newRig(t, both("known"), plans{"openai": always(llmtest.Plan{Status: 404}), "backup": always(llmtest.Plan{Status: 404})})
		r.chat("known", 10, false)
		r.chat("text of a caller", 10, false)
		if attempts, _ := r.observed(2); attempts[0].Model != "known" || attempts[1].Model != "" {
			t.Errorf("%q and %q", attempts[0].Model, attempts[1].Model)
		}
	})
}

func TestCutEvents(t *testing.T) {
	const event = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
	broken := func(sent string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, sent)
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	for _, c := range []struct{ name, sent, begins string }{
		{"L-112 half an event is not passed on", event + `data: {"choices":[{"del`, event + `data: {"error":`},
		{"L-112 L-114 one that was passed on in part is ended", event + `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 300<<10), event + `data: {"choices"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSpy(t, broken(c.sent))
			r := newRig(t, llm.Options{Providers: []llm.Provider{s.provider("spy")}}, nil)
			a := r.post(t.Context(), "/spy/v1/chat/completions", chatBody("m", 10, true))
			last := a.body[strings.LastIndex(strings.TrimSuffix(a.body, "\n\n"), "\n\n")+2:]
			if a.err == nil || !strings.HasPrefix(a.body, c.begins) || !strings.HasPrefix(last, `data: {"error":`) || !strings.HasSuffix(last, "}\n\n") {
				t.Errorf("%v …%q", a.err, tail(a.body))
			}
		})
	}
	t.Run("L-110 a stream that breaks in its first event is asked for elsewhere", func(t *testing.T) {
		s := newSpy(t, broken(`data: {"choices":[{"delta":{"content":"half`))
		o := llm.Options{Providers: []llm.Provider{s.provider("spy")}, Models: []llm.Model{{Name: "m", Targets: []llm.Target{{Provider: "spy"}, {Provider: "backup"}}}}}
		r := newRig(t, o, nil)
		if a := r.chat("m", 10, true); a.status != 200 || a.err != nil || strings.Contains(a.body, "half") {
			t.Errorf("%d %v %s", a.status, a.err, tail(a.body))
		}
	})
	t.Run("an end without an empty line is one", func(t *testing.T) {
		s := newSpy(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, event+"data: [DONE]")
		})
		r := newRig(t, llm.Options{Providers: []llm.Provider{s.provider("spy")}}, nil)
		if a := r.post(t.Context(), "/spy/v1/chat/completions", chatBody("m", 10, true)); a.err != nil || a.body != event+"data: [DONE]" {
			t.Errorf("%v %q", a.err, a.body)
		}
	})
}
