package llm_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/llmtest"
)

func TestTokensAreTakenBefore(t *testing.T) {
	t.Run("L-001 B-26 a burst does not pass the limit", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Input: 3, Output: 90, Latency: 200 * time.Millisecond})}, rule("openai", "openai", tokens(200)))
		var all sync.WaitGroup
		passed := make(chan int, 5)
		for range 5 {
			all.Go(func() { passed <- r.chat("m", 100, false).status })
		}
		all.Wait()
		close(passed)
		var ok int
		for status := range passed {
			if status == 200 {
				ok++
			}
		}
		if n := r.mocks["openai"].Requests(); ok != 1 || n != 1 {
			t.Errorf("%d passed and %d reached the provider, want 1", ok, n)
		}
	})
	t.Run("L-002 L-010 L-032 B-27 a refusal leaves everything as it was", func(t *testing.T) {
		r := newRig(t, llm.Options{}, nil, rule("tenant", "", requests(10), tokens(10_000)), rule("openai", "openai", requests(10), tokens(1000), slots(1)))
		for range 5 {
			if a := r.chat("m", 2000, false); a.status != 429 || a.header.Get("X-Should-Retry") != "false" {
				t.Fatalf("L-012 B-W16 a request larger than the limit: %d %v", a.status, a.header)
			}
		}
		call := attempt("openai")
		if rpm, tpm := r.left("openai", "rpm", call), r.left("openai", "tpm", call); rpm != 10 || tpm != 1000 {
			t.Errorf("the provider has %d requests and %d tokens left", rpm, tpm)
		}
		call.Kind = llm.KindRequest
		if rpm, tpm := r.left("tenant", "rpm", call), r.left("tenant", "tpm", call); rpm != 10 || tpm != 10_000 {
			t.Errorf("the tenant has %d requests and %d tokens left", rpm, tpm)
		}
	})
	t.Run("L-004 responses are reserved like chats", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Hang: true})}, rule("openai", "openai", tokens(100)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		body := `{"model":"m","input":"` + strings.Repeat("some words ", 9) + `","max_output_tokens":50}`
		go r.post(ctx, "/v1/responses", body)
		r.eventually("the first has come", func() bool { return r.mocks["openai"].Requests() == 1 })
		if a := r.post(t.Context(), "/v1/responses", body); a.status != 429 {
			t.Errorf("the second: %d", a.status)
		}
	})
	t.Run("L-005 nothing to say takes next to nothing", func(t *testing.T) {
		r := newRig(t, llm.Options{}, nil, rule("openai", "openai", tokens(1000)))
		if a := r.post(t.Context(), "/v1/embeddings", `{"model":"m","input":[]}`); a.status != 200 {
			t.Fatal(a)
		}
		r.observed(1)
		if left := r.left("openai", "tpm", attempt("openai")); left < 990 {
			t.Errorf("%d left", left)
		}
	})
}

func TestSettlement(t *testing.T) {
	for _, c := range []struct {
		name string
		plan llmtest.Plan
		left int64 // of 1000
	}{
		{"L-034 B-29 what was not used comes back", llmtest.Plan{Input: 10, Output: 20}, 970},
		{"L-009 B-29 B-30 B-W15 more than was reserved is debited", llmtest.Plan{Input: 900, Output: 80}, 20},
		{"L-028 zero is a figure", llmtest.Plan{ZeroUsage: true}, 1000},
		{"B-W14 L-025 a failure gives the tokens back", llmtest.Plan{Status: 400}, 1000},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				r := newRig(t, llm.Options{}, plans{"openai": always(c.plan)}, rule("openai", "openai", tokens(1000), slots(1)), rule("tenant", "", tokens(1000)))
				r.chat("m", 100, stream)
				r.observed(1)
				call := attempt("openai")
				if left := r.left("openai", "tpm", call); left < c.left || left > c.left+20 {
					t.Errorf("stream %v: the provider has %d left, want %d", stream, left, c.left)
				}
				call.Kind = llm.KindRequest
				if left := r.left("tenant", "tpm", call); left < c.left || left > c.left+20 {
					t.Errorf("stream %v: the tenant has %d left, want %d", stream, left, c.left)
				}
			})
		}
	}
	t.Run("L-006 L-009 debt delays the next", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": first(1, llmtest.Plan{Input: 600})}, rule("openai", "openai", tokens(100)))
		r.chat("m", 10, false)
		a := r.chat("m", 10, false)
		if a.status != 429 || a.header.Get("Retry-After") < "300" || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d %v", a.status, a.header)
		}
	})
	t.Run("L-021 what a cache had costs Anthropic's limit nothing", func(t *testing.T) {
		plan := always(llmtest.Plan{Input: 1000, CacheRead: 800, Output: 10})
		r := newRig(t, llm.Options{}, plans{"openai": plan, "claude": plan}, rule("openai", "openai", tokens(5000)), rule("claude", "claude", tokens(5000)))
		r.chat("m", 10, false)
		r.post(t.Context(), "/v1/messages", `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hi"}]}`)
		r.observed(2)
		if left := r.left("openai", "tpm", attempt("openai")); left < 3990 || left > 4010 {
			t.Errorf("OpenAI has %d left", left)
		}
		if left := r.left("claude", "tpm", attempt("claude")); left < 4790 || left > 4810 {
			t.Errorf("Anthropic has %d left", left)
		}
	})
	t.Run("L-033 L-026 a slot is held to the end of a stream, and comes back when the client leaves", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": first(1, llmtest.Plan{Output: 1000, Chunks: 1000, Between: 10 * time.Millisecond})},
			rule("openai", "openai", tokens(100_000), slots(1)))
		ctx, cancel := context.WithCancel(t.Context())
		go r.post(ctx, "/v1/chat/completions", chatBody("m", 1000, true))
		r.eventually("the stream has begun", func() bool { return r.mocks["openai"].Requests() == 1 })
		if a := r.chat("m", 10, false); a.status != 429 {
			t.Errorf("while it runs: %d", a.status)
		}
		cancel()
		r.eventually("the slot is free", func() bool { return r.chat("m", 10, false).status == 200 })
		r.eventually("L-042 nothing runs at the provider", func() bool { now, _ := r.mocks["openai"].AtOnce(); return now == 0 })
	})
	t.Run("L-085 B-W21 a stream that is left early is charged by what came", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"claude": always(llmtest.Plan{Input: 10, Output: 900, CutAt: 3, Chunks: 4})}, rule("claude", "claude", tokens(10_000)))
		a := r.post(t.Context(), "/v1/messages", `{"model":"m","max_tokens":1000,"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
		if !strings.Contains(a.body, "event: error") || a.err == nil {
			t.Errorf("L-112 the cut is not told: %v …%s", a.err, tail(a.body))
		}
		r.observed(1)
		if left := r.left("claude", "tpm", attempt("claude")); left > 9700 || left < 9300 {
			t.Errorf("%d left: half of 900 tokens came", left)
		}
	})
	t.Run("L-040 a client that leaves before an answer is charged its input", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Hang: true})}, rule("openai", "openai", tokens(10_000), slots(1)))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			r.eventually("the request has come", func() bool { return r.mocks["openai"].Requests() == 1 })
			cancel()
		}()
		r.post(ctx, "/v1/chat/completions", chatBody("m", 1000, false))
		r.eventually("the provider is let go of", func() bool { now, _ := r.mocks["openai"].AtOnce(); return now == 0 })
		r.observed(1)
		if left := r.left("openai", "tpm", attempt("openai")); left < 9900 {
			t.Errorf("%d left", left)
		}
	})
}

func tail(s string) string { return s[max(0, len(s)-200):] }

func TestQueue(t *testing.T) {
	t.Run("B-26 waits for its turn, in one deadline", func(t *testing.T) {
		queued := rule("openai", "openai", slots(1))
		queued.Queue = queueOf()
		r := newRig(t, llm.Options{QueueTimeout: 5 * time.Second}, plans{"openai": always(llmtest.Plan{Latency: 50 * time.Millisecond})}, queued)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if a := r.chat("m", 10, false); a.status != 200 {
					t.Errorf("%d %s", a.status, a.body)
				}
			})
		}
		all.Wait()
		if _, most := r.mocks["openai"].AtOnce(); most != 1 {
			t.Errorf("%d at once", most)
		}
	})
	t.Run("L-037 B-W17 a wait that cannot succeed is refused at once", func(t *testing.T) {
		queued := rule("openai", "openai", tokens(100))
		queued.Queue = queueOf()
		r := newRig(t, llm.Options{QueueTimeout: 300 * time.Millisecond}, plans{"openai": first(1, llmtest.Plan{Input: 10, Output: 90})}, queued)
		r.chat("m", 80, false)
		began := time.Now()
		if a := r.chat("m", 50, false); a.status != 429 || a.header.Get("X-Sluice-Reason") != "queue_timeout" || time.Since(began) > 250*time.Millisecond {
			t.Errorf("%d %v after %v", a.status, a.header, time.Since(began))
		}
	})
	t.Run("the client's own time-out is the deadline", func(t *testing.T) {
		queued := rule("openai", "openai", slots(1))
		queued.Queue = queueOf()
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Hang: true})}, queued)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.post(ctx, "/v1/chat/completions", chatBody("m", 10, false))
		r.eventually("the slot is taken", func() bool { return r.mocks["openai"].Requests() == 1 })
		if a := r.postWith(t.Context(), "/v1/chat/completions", chatBody("m", 10, false), "X-Stainless-Read-Timeout", "0.2"); a.status != 429 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestBounds(t *testing.T) {
	r := newRig(t, llm.Options{MaxBody: 1000}, nil, rule("openai", "openai", tokens(1_000_000), requests(3)))
	for _, c := range []struct {
		name, path, body string
		status           int
		reason           string
	}{
		{"L-134 a body that is too large", "/v1/chat/completions", `{"x":"` + strings.Repeat("x", 1000) + `"}`, 413, "body-too-large"},
		{"a malformed body", "/v1/chat/completions", `{"model":`, 400, "malformed"},
		{"a model that is named twice", "/v1/chat/completions", `{"model":"a","model":"b"}`, 400, "malformed"},
		{"L-138 an unknown path", "/v1/files", `{}`, 404, "unknown-path"},
		{"in Anthropic's dialect", "/v1/messages", `{`, 400, "malformed"},
	} {
		a := r.post(t.Context(), c.path, c.body)
		if a.status != c.status || a.header.Get("X-Sluice-Reason") != c.reason || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %d %v %s", c.name, a.status, a.header, a.body)
		}
	}
	if left := r.left("openai", "rpm", attempt("openai")); left != 3 {
		t.Errorf("%d requests left, want all", left)
	}
	t.Run("L-138 L-144 requests without tokens count as requests", func(t *testing.T) {
		for range 3 {
			if a := r.post(t.Context(), "/v1/messages/count_tokens", `{"model":"m"}`); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		open := newRig(t, llm.Options{Unknown: true}, nil, rule("openai", "openai", requests(1)))
		if a := open.post(t.Context(), "/v1/files", `{}`); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a := open.post(t.Context(), "/v1/files", `{}`); a.status != 429 {
			t.Errorf("an unknown path is a free pass: %d", a.status)
		}
	})
	t.Run("a malformed body that is to be forwarded is charged by its size", func(t *testing.T) {
		r := newRig(t, llm.Options{Malformed: true}, nil, rule("openai", "openai", tokens(1000)))
		if a := r.post(t.Context(), "/v1/chat/completions", `{"x":`+strings.Repeat("1 ", 3000)); a.status != 429 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestReserve(t *testing.T) {
	r := newRig(t, llm.Options{}, nil, rule("openai", "openai", tokens(1000), requests(100)), rule("tenant", "", tokens(900)))
	ask := llm.Ask{Provider: "openai", Model: "m", Credential: "k1", Input: 100, Output: 300}
	a, err := r.gateway.Reserve(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if left := r.left("openai", "tpm", attempt("openai")); left < 600 || left > 610 {
		t.Errorf("%d left after a reservation of 400", left)
	}
	a.Settle(dialect.Usage{Input: 100, Output: 20})
	a.Release() // the first counts
	if left := r.left("openai", "tpm", attempt("openai")); left < 880 || left > 890 {
		t.Errorf("%d left after 120 were used", left)
	}
	ask.Output = 1000
	if _, err := r.gateway.Reserve(t.Context(), ask); err == nil {
		t.Error("more than there is was granted")
	}
	if left := r.left("tenant", "tpm", withKind(attempt("openai"), llm.KindRequest)); left < 780 {
		t.Errorf("the refusal cost the tenant: %d left", left)
	}
	if _, err := r.gateway.Reserve(t.Context(), llm.Ask{Provider: "nobody"}); err == nil {
		t.Error("there is no such provider")
	}
}
