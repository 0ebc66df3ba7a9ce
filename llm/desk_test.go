package llm_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/store/memory"
)

// A desk is a gateway whose clock can be set: nothing goes over a network. Its one provider is
// "openai", with the key "k1".
type desk struct {
	t       *testing.T
	control *sluice.Controller
	store   *memory.Store
	gateway *llm.Gateway
	sent    atomic.Int32 // requests that went to the provider
	answer  func(*http.Request) *http.Response
}

// RoundTrip implements http.RoundTripper: what the provider answers.
func (d *desk) RoundTrip(r *http.Request) (*http.Response, error) {
	d.sent.Add(1)
	if d.answer != nil {
		return d.answer(r), nil
	}
	return respond(200, told), nil
}

// respond makes an answer, with header fields: names and values in turn.
func respond(status int, body string, fields ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// onDesk runs a test in a bubble of time.
func onDesk(t *testing.T, o llm.Options, rules []sluice.Rule, f func(*testing.T, *desk)) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, store: memory.New(memory.Options{})}
		var err error
		if d.control, err = sluice.Open(&sluice.Policy{Rules: append(rules, llm.Cooldowns()...)}, d.store, sluice.Options{}); err != nil {
			t.Fatal(err)
		}
		defer d.control.Close()
		o.Base = d
		o.Providers = []llm.Provider{{Name: "openai", Dialect: dialect.OpenAI, BaseURL: "http://provider.invalid/v1", Keys: []llm.Key{{ID: "k1", Secret: "s"}}}}
		if d.gateway, err = llm.New(d.control, o); err != nil {
			t.Fatal(err)
		}
		f(t, d)
	})
}

// chat asks for a chat.
func (d *desk) chat(model string, output int) *httptest.ResponseRecorder {
	return d.post("/v1/chat/completions", chatBody(model, output, false))
}

func (d *desk) post(path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(d.t.Context(), http.MethodPost, path, strings.NewReader(body))
	d.gateway.ServeHTTP(w, r)
	return w
}

// reserve takes tokens for a caller who waits for nothing.
func (d *desk) reserve(input, output int64) (*llm.Reservation, error) {
	return d.gateway.Reserve(d.t.Context(), llm.Ask{Provider: "openai", Model: "m", Credential: "k1", Input: input, Output: output})
}

func window(n int64, unit sluice.Unit) sluice.Limit {
	return sluice.Limit{Limit: limit.Window(n, limit.Minute), Unit: unit, Name: string(unit)}
}

func TestWindowsAndDebts(t *testing.T) {
	t.Run("L-008 of two who see the same rest, one is admitted, and what is given back is exact", func(t *testing.T) {
		onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", tokens(100))}, func(t *testing.T, d *desk) {
			var both sync.WaitGroup
			var mu sync.Mutex
			var held []*llm.Reservation
			for range 2 {
				both.Go(func() {
					if r, err := d.reserve(10, 50); err == nil {
						mu.Lock()
						held = append(held, r)
						mu.Unlock()
					}
				})
			}
			both.Wait()
			if len(held) != 1 {
				t.Fatalf("%d were admitted", len(held))
			}
			time.Sleep(6 * time.Second) // 10 tokens have come back by themselves
			held[0].Release()
			e, err := d.control.Check(t.Context(), attempt("openai"))
			if err != nil || e.Rules[0].Limits[0].Level.Remaining != 100 {
				t.Errorf("%+v %v", e, err)
			}
		})
	})
	t.Run("L-013 requests and tokens begin anew together", func(t *testing.T) {
		onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", window(100, sluice.Tokens), window(10, sluice.Calls))}, func(t *testing.T, d *desk) {
			spend := func() error {
				r, err := d.reserve(50, 50)
				if err == nil {
					r.Settle(dialect.Usage{Input: 50, Output: 50})
				}
				return err
			}
			if a, b := spend(), spend(); a != nil || b == nil {
				t.Fatalf("%v, then %v", a, b)
			}
			time.Sleep(121 * time.Second)
			if err := spend(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("L-014 steady traffic at the limit is never refused", func(t *testing.T) {
		onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", requests(10))}, func(t *testing.T, d *desk) {
			for i := range 100 { // ten minutes
				if w := d.chat("m", 1); w.Code != 200 {
					t.Fatalf("%d. request: %d", i, w.Code)
				}
				time.Sleep(6 * time.Second)
			}
		})
	})
	t.Run("L-016 B-W18 one a second is not sixty at once", func(t *testing.T) {
		perSecond := sluice.Limit{Limit: limit.Bucket(1, limit.Second, 1)}
		onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", perSecond)}, func(t *testing.T, d *desk) {
			passed := 0
			for range 60 {
				if d.chat("m", 1).Code == 200 {
					passed++
				}
			}
			if passed != 1 {
				t.Errorf("%d passed", passed)
			}
		})
	})
	t.Run("L-062 a client that comes back too early learns what is left", func(t *testing.T) {
		onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", requests(2))}, func(t *testing.T, d *desk) {
			d.chat("m", 1)
			d.chat("m", 1)
			first := d.chat("m", 1)
			time.Sleep(8 * time.Second)
			second := d.chat("m", 1)
			if a, b := first.Header().Get("Retry-After"), second.Header().Get("Retry-After"); a != "30" || b != "22" || second.Code != 429 || d.sent.Load() != 2 {
				t.Errorf("%s, then %s; %d were sent", a, b, d.sent.Load())
			}
			time.Sleep(22 * time.Second)
			if w := d.chat("m", 1); w.Code != 200 {
				t.Errorf("in time: %d", w.Code)
			}
		})
	})
	t.Run("L-141 a debt is shown as nothing left, and as the time it takes", func(t *testing.T) {
		onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", tokens(100))}, func(t *testing.T, d *desk) {
			r, err := d.reserve(5, 5)
			if err != nil {
				t.Fatal(err)
			}
			r.Settle(dialect.Usage{Input: 500, Output: 500})
			_, err = d.reserve(5, 5)
			refusal, ok := errors.AsType[*sluice.Refusal](err)
			if !ok || refusal.RetryAfter.Round(time.Millisecond) != 546*time.Second || refusal.Levels[0].Remaining != 0 {
				t.Fatalf("%v: %+v", err, refusal)
			}
			if full := refusal.Levels[0].Full; full.Round(time.Millisecond) != 10*time.Minute {
				t.Errorf("full in %v", full)
			}
			time.Sleep(546 * time.Second)
			if _, err := d.reserve(5, 5); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("L-140 ten times 0.40 are 4.00", func(t *testing.T) {
		money := rule("tenant", "", sluice.Limit{Limit: limit.Window(4_000_000, limit.Day), Unit: llm.MicroDollars})
		o := llm.Options{Models: []llm.Model{{Name: "m", Targets: []llm.Target{{Provider: "openai"}}, Price: llm.Price{Input: 40_000, Output: 0}}}}
		onDesk(t, o, []sluice.Rule{money}, func(t *testing.T, d *desk) {
			for i := range 11 {
				r, err := d.gateway.Reserve(t.Context(), llm.Ask{Provider: "openai", Model: "m", Input: 10_000_000})
				if (err == nil) != (i < 10) {
					t.Fatalf("%d. call: %v", i, err)
				}
				if err == nil {
					r.Settle(dialect.Usage{Input: 10_000_000})
				}
			}
		})
	})
	t.Run("L-030 what is settled does not end with who asked", func(t *testing.T) {
		onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", tokens(100), slots(1))}, func(t *testing.T, d *desk) {
			r, err := d.reserve(10, 50)
			if err != nil {
				t.Fatal(err)
			}
			r.Settle(dialect.Usage{Input: 10, Output: 1})
			if len(d.control.Held()) != 0 {
				t.Errorf("%v are held", d.control.Held())
			}
		})
	})
}

func TestReplicas(t *testing.T) {
	for _, c := range []struct {
		name string
		rule sluice.Rule
		ask  llm.Ask
	}{
		{"L-017 B-W11 two processes on one store have one limit", rule("openai", "openai", tokens(100)), llm.Ask{Provider: "openai", Model: "m", Input: 10, Output: 90}},
		{"L-018 and one budget", rule("tenant", "", sluice.Limit{Limit: limit.Window(10_000_000, limit.Day), Unit: llm.MicroDollars}),
			llm.Ask{Provider: "openai", Model: "m", Input: 6_000_000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := llm.Options{Models: []llm.Model{{Name: "m", Targets: []llm.Target{{Provider: "openai"}}, Price: llm.Price{Input: 1_000_000}}},
				Providers: []llm.Provider{{Name: "openai", Dialect: dialect.OpenAI, BaseURL: "http://provider.invalid/v1"}}}
			store, admitted := memory.New(memory.Options{}), 0
			for range 2 {
				control, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{c.rule}}, store, sluice.Options{KeySecret: []byte("sixteen bytes at least")})
				if err != nil {
					t.Fatal(err)
				}
				g, err := llm.New(control, o)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := g.Reserve(t.Context(), c.ask); err == nil {
					admitted++
				}
			}
			if admitted != 1 {
				t.Errorf("%d were admitted", admitted)
			}
		})
	}
}
