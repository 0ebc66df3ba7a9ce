package llm_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/llmtest"
)

// TestRows are rows of the checklists that no case of the log stands for.
func TestRows(t *testing.T) {
	t.Run("B-25 what is reserved is the estimate and the output that was asked for", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Input: 3, Output: 10})}, rule("openai", "openai", tokens(10_000)))
		for _, output := range []int{100, 700} {
			r.chat("m", output, false)
		}
		attempts, _ := r.observed(2)
		if a, b := attempts[0].Reserved, attempts[1].Reserved; a < 101 || a > 130 || b < 701 || b > 730 {
			t.Errorf("%d and %d", a, b)
		}
	})
	t.Run("B-37 B-W12 the provider is the one that is named, or listed for the model, and none by a part of a name", func(t *testing.T) {
		o := llm.Options{Models: []llm.Model{
			{Name: "openai-*", Targets: []llm.Target{{Provider: "openai"}}},
			{Name: "openai-backup", Targets: []llm.Target{{Provider: "backup"}}}}}
		r := newRig(t, o, nil)
		for _, c := range []struct{ path, model, at string }{
			{"/v1/chat/completions", "backup", "openai"}, // the first that speaks the dialect
			{"/v1/chat/completions", "my-backup-model", "openai"},
			{"/v1/chat/completions", "openai-backup", "backup"}, // an exact name comes before a pattern
			{"/v1/chat/completions", "openai-backup-2", "openai"},
			{"/backup/v1/chat/completions", "gpt", "backup"},
		} {
			before := r.mocks[c.at].Requests()
			if a := r.post(t.Context(), c.path, chatBody(c.model, 10, false)); a.status != 200 || r.mocks[c.at].Requests() != before+1 {
				t.Errorf("%s at %s: %d, and not at %s", c.model, c.path, a.status, c.at)
			}
		}
		if a := r.post(t.Context(), "/claude/v1/chat/completions", chatBody("m", 10, false)); a.status != 404 || a.header.Get("X-Sluice-Reason") != "no-provider" {
			t.Errorf("another dialect: %d %v", a.status, a.header)
		}
	})
	t.Run("A-76 A-77 calls to models are none of resources and tools", func(t *testing.T) {
		shut := sluice.Rule{ID: "resources", Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {"source", "tool", "http", "operation"}}},
			Limits: []sluice.Limit{{Limit: limit.Bucket(0, limit.Minute, 0)}}}
		r := newRig(t, llm.Options{}, nil, shut)
		if a := r.chat("m", 10, false); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("B-23 B-27 requests, tokens and slots are taken together or not at all", func(t *testing.T) {
		r := newRig(t, llm.Options{}, plans{"openai": always(llmtest.Plan{Hang: true})}, rule("openai", "openai", requests(10), tokens(1000), slots(1)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.post(ctx, "/v1/chat/completions", chatBody("m", 100, false))
		r.eventually("it hangs", func() bool { return r.mocks["openai"].Requests() == 1 })
		if a := r.chat("m", 100, false); a.status != 429 || a.header.Get("X-Sluice-Reason") != "concurrency" || !strings.Contains(a.body, "Too many requests at once by openai") {
			t.Errorf("B-28 %d %v %s", a.status, a.header, a.body)
		}
		if rpm, tpm := r.left("openai", "rpm", attempt("openai")), r.left("openai", "tpm", attempt("openai")); rpm != 9 || tpm < 880 || tpm > 905 {
			t.Errorf("%d requests and %d tokens left after one", rpm, tpm)
		}
	})
	t.Run("B-34 B-W20 a retry holds no slot while it waits, and counts as a request of its own", func(t *testing.T) {
		onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", slots(1), requests(10))}, func(t *testing.T, d *desk) {
			d.answer = func(*http.Request) *http.Response {
				if d.sent.Load() > 1 {
					return respond(200, told)
				}
				return respond(429, `{"error":{"type":"requests"}}`, "Retry-After", "5")
			}
			done := make(chan int)
			go func() { done <- d.chat("m", 1).Code }()
			time.Sleep(time.Second)
			if len(d.control.Held()) != 0 || d.sent.Load() != 1 {
				t.Errorf("%v are held", d.control.Held())
			}
			if code := <-done; code != 200 || d.sent.Load() != 2 {
				t.Errorf("%d after %d requests", code, d.sent.Load())
			}
		})
	})
	t.Run("L-113 an error in a 200 is one, and is met elsewhere", func(t *testing.T) {
		s := newSpy(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(`{"error":{"code":429,"message":"slow down"}}`))
		})
		o := llm.Options{Providers: []llm.Provider{s.provider("spy", llm.Key{ID: "k1", Secret: "x"})},
			Models: []llm.Model{{Name: "m", Targets: []llm.Target{{Provider: "spy"}, {Provider: "backup"}}}}}
		r := newRig(t, o, nil, rule("spy", "spy", tokens(1000)))
		if a := r.chat("m", 100, false); a.status != 200 || strings.Contains(a.body, "slow down") || r.mocks["backup"].Requests() != 1 {
			t.Errorf("%d %s", a.status, a.body)
		}
		if left := r.left("spy", "tpm", attempt("spy")); left != 1000 {
			t.Errorf("%d left", left)
		}
	})
}
