package llm_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/store/memory"
)

func TestOptions(t *testing.T) {
	control, err := sluice.Open(&sluice.Policy{}, memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	good := func() llm.Provider {
		return llm.Provider{Name: "p", Dialect: dialect.OpenAI, BaseURL: "https://api.example.com/v1", Keys: []llm.Key{{ID: "a", Secret: "very secret"}}}
	}
	for _, c := range []struct {
		name   string
		change func(*llm.Options)
		want   string
	}{
		{"nothing is wrong", func(*llm.Options) {}, ""},
		{"a model in the path", func(o *llm.Options) { o.Providers[0].BaseURL = "https://x/deployments/{model}?api-version=1" }, ""},
		{"a model in the host", func(o *llm.Options) { o.Providers[0].BaseURL = "https://{model}.example.com/v1" }, "choose the host"},
		{"no scheme", func(o *llm.Options) { o.Providers[0].BaseURL = "api.example.com/v1" }, "base URL"},
		{"a password in the address", func(o *llm.Options) { o.Providers[0].BaseURL = "https://u:hidden@x/v1" }, "without a password"},
		{"a name that paths have", func(o *llm.Options) { o.Providers[0].Name = "v1" }, "none of"},
		{"a name with a slash", func(o *llm.Options) { o.Providers[0].Name = "a/b" }, "letters, digits"},
		{"two of one name", func(o *llm.Options) { o.Providers = append(o.Providers, good()) }, `two providers are named "p"`},
		{"a dialect that nobody speaks", func(o *llm.Options) { o.Providers[0].Dialect = "latin" }, "the dialects are"},
		{"two keys of one name", func(o *llm.Options) { o.Providers[0].Keys = append(o.Providers[0].Keys, o.Providers[0].Keys[0]) }, "an ID of their own"},
		{"a key without a secret", func(o *llm.Options) { o.Providers[0].Keys[0].Secret = "" }, "a secret"},
		{"a model without a name", func(o *llm.Options) { o.Models = []llm.Model{{Targets: []llm.Target{{Provider: "p"}}}} }, "needs a name"},
		{"a model without a target", func(o *llm.Options) { o.Models = []llm.Model{{Name: "m"}} }, "no target"},
		{"a target that is not there", func(o *llm.Options) { o.Models = []llm.Model{{Name: "m", Targets: []llm.Target{{Provider: "q"}}}} }, `"q" that is not there`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := llm.Options{Providers: []llm.Provider{good()}}
			c.change(&o)
			_, err := llm.New(control, o)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v", err)
			}
			if err != nil && (strings.Contains(err.Error(), "secret") && strings.Contains(err.Error(), "very") || strings.Contains(err.Error(), "hidden")) {
				t.Errorf("it tells a secret: %v", err)
			}
		})
	}
	if _, err := llm.New(nil, llm.Options{}); err == nil {
		t.Error("there is no controller")
	}
}

func TestOneDeadline(t *testing.T) {
	taken := []sluice.Rule{rule("tenant", "", tokens(100)), rule("openai", "openai", tokens(100))}
	for i := range taken {
		taken[i].Queue = queueOf()
	}
	onDesk(t, llm.Options{QueueTimeout: 5 * time.Second}, taken, func(t *testing.T, d *desk) {
		if _, err := d.reserve(50, 50); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := d.reserve(5, 5); err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("B-W17 %v after %v", err, time.Since(began))
		}
		if w := d.chat("m", 50); w.Code != 429 || time.Since(began) > 5*time.Second {
			t.Errorf("B-W17 %d after %v", w.Code, time.Since(began))
		}
	})
}

func TestReload(t *testing.T) {
	more := make(chan struct{})
	s := newSpy(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"))
		http.NewResponseController(w).Flush()
		<-more
		w.Write([]byte("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":70,\"completion_tokens\":30}}\n\ndata: [DONE]\n\n"))
	})
	o := llm.Options{Providers: []llm.Provider{s.provider("spy", llm.Key{ID: "k1", Secret: "x"})}}
	r := newRig(t, o, nil, rule("spy", "spy", tokens(10_000), slots(1)))
	done := make(chan answer)
	go func() { done <- r.post(t.Context(), "/spy/v1/chat/completions", chatBody("m", 1000, true)) }()
	r.eventually("it has begun", func() bool { return len(r.control.Held()) > 0 && len(r.gateway.Flights()) == 1 })
	if err := r.gateway.Reload(llm.Options{Providers: []llm.Provider{{Name: "new", Dialect: dialect.OpenAI, BaseURL: "http://127.0.0.1:1"}}}); err != nil {
		t.Fatal(err)
	}
	if err := r.gateway.Reload(llm.Options{Providers: []llm.Provider{{}}}); err == nil {
		t.Error("options that are wrong are in force")
	}
	close(more)
	if a := <-done; a.status != 200 || a.err != nil || !strings.HasSuffix(a.body, "[DONE]\n\n") {
		t.Errorf("%d %v %s", a.status, a.err, a.body)
	}
	if err := r.gateway.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := r.left("spy", "tpm", attempt("spy")); left < 9900 || left > 9950 {
		t.Errorf("%d left", left)
	}
	if a := r.post(t.Context(), "/spy/v1/chat/completions", chatBody("m", 10, false)); a.status != 502 {
		t.Errorf("the old provider is still asked: %d %s", a.status, a.body)
	}
}
