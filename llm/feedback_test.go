package llm_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/llm"
)

func TestCooldowns(t *testing.T) {
	refused := func(after string) func(*http.Request) *http.Response {
		return func(*http.Request) *http.Response {
			return respond(429, `{"error":{"message":"x","type":"requests","code":"rate_limit_exceeded"}}`, "Retry-After", after)
		}
	}
	t.Run("L-081 L-068 a cooldown is what was asked for and a tenth at most, and then it is over", func(t *testing.T) {
		onDesk(t, llm.Options{MaxAttempts: 1, QueueTimeout: time.Millisecond}, nil, func(t *testing.T, d *desk) {
			d.answer = refused("10")
			d.chat("m", 1)
			d.answer = nil
			time.Sleep(9900 * time.Millisecond)
			if w := d.chat("m", 1); w.Code != 429 || d.sent.Load() != 1 {
				t.Errorf("too early: %d, %d were sent", w.Code, d.sent.Load())
			}
			time.Sleep(1200 * time.Millisecond)
			if w := d.chat("m", 1); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	})
	t.Run("L-078 L-077 the breaker closes when a streamed answer has ended well", func(t *testing.T) {
		onDesk(t, llm.Options{MaxAttempts: 1}, nil, func(t *testing.T, d *desk) {
			d.answer = func(*http.Request) *http.Response { return respond(500, "{}") }
			for range 7 {
				d.chat("m", 1)
			}
			if d.sent.Load() != 5 {
				t.Fatalf("%d were sent", d.sent.Load())
			}
			time.Sleep(16 * time.Second)
			d.answer = func(*http.Request) *http.Response {
				return respond(200, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n", "Content-Type", "text/event-stream")
			}
			for i := range 3 {
				if w := d.post("/v1/chat/completions", chatBody("m", 1, true)); w.Code != 200 {
					t.Errorf("%d. request: %d %s", i, w.Code, w.Body)
				}
			}
		})
	})
	t.Run("L-077 who finds out is one, and who is refused admission finds out nothing", func(t *testing.T) {
		one := rule("openai", "openai", sluice.Limit{Limit: limit.Bucket(6, limit.Hour, 6)})
		onDesk(t, llm.Options{MaxAttempts: 1}, []sluice.Rule{one}, func(t *testing.T, d *desk) {
			d.answer = func(*http.Request) *http.Response { return respond(500, "{}") }
			for range 5 {
				d.chat("m", 1)
			}
			time.Sleep(16 * time.Second)
			r, err := d.reserve(1, 1) // the last place
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if w := d.chat("m", 1); w.Code != 429 {
					t.Fatalf("%d", w.Code)
				}
			}
			r.Release()
			time.Sleep(time.Hour)
			d.answer = nil
			if w := d.chat("m", 1); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	})
	t.Run("L-066 many refusals at once are one cooldown", func(t *testing.T) {
		onDesk(t, llm.Options{MaxAttempts: 1, QueueTimeout: time.Millisecond}, nil, func(t *testing.T, d *desk) {
			var all sync.WaitGroup
			var mu sync.Mutex
			d.answer = func(r *http.Request) *http.Response {
				time.Sleep(time.Second) // all are under way
				mu.Lock()
				defer mu.Unlock()
				return refused("5")(r)
			}
			for range 5 {
				all.Go(func() { d.chat("m", 1) })
				synctest.Wait()
			}
			all.Wait()
			d.answer = nil
			time.Sleep(5600 * time.Millisecond)
			if w := d.chat("m", 1); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	})
}

func TestRefusalsSayWhy(t *testing.T) {
	t.Run("L-024 L-136 a store that does not answer", func(t *testing.T) {
		onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", requests(5))}, func(t *testing.T, d *desk) {
			d.store.Close()
			w := d.chat("m", 1)
			if w.Code != 503 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"type":"server_error"`) {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			if d.sent.Load() != 0 {
				t.Errorf("%d were sent", d.sent.Load())
			}
		})
	})
	t.Run("L-136 L-137 B-28 a limit: 429, which rule, which dimension, in header and body", func(t *testing.T) {
		onDesk(t, llm.Options{}, []sluice.Rule{rule("the-rule", "openai", requests(1))}, func(t *testing.T, d *desk) {
			d.chat("m", 1)
			w := d.chat("m", 1)
			if w.Code != 429 || w.Header().Get("X-Sluice-Reason") != "rate" || w.Header().Get("Retry-After") != "60" {
				t.Errorf("%d %v", w.Code, w.Header())
			}
			for _, want := range []string{`"rule":"the-rule"`, `"type":"requests"`, `"code":"rate_limit_exceeded"`, `"reason":"rate"`} {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("no %s in %s", want, w.Body)
				}
			}
		})
	})
	t.Run("L-141 L-009 a wait of more than a minute is none to sleep through", func(t *testing.T) {
		onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", sluice.Limit{Limit: limit.Bucket(1, limit.Hour, 1)})}, func(t *testing.T, d *desk) {
			d.chat("m", 1)
			w := d.chat("m", 1)
			if n, _ := strconv.Atoi(w.Header().Get("Retry-After")); n != 3600 || w.Header().Get("X-Should-Retry") != "false" || !strings.Contains(w.Body.String(), "insufficient_quota") {
				t.Errorf("%v %s", w.Header(), w.Body)
			}
		})
	})
}

func TestObservedFigures(t *testing.T) {
	onDesk(t, llm.Options{}, []sluice.Rule{rule("openai", "openai", requests(100), tokens(10_000), slots(1))}, func(t *testing.T, d *desk) {
		left := func() (rpm, tpm int64) {
			e, err := d.control.Check(t.Context(), attempt("openai"))
			if err != nil {
				t.Fatal(err)
			}
			return e.Rules[0].Limits[0].Level.Remaining, e.Rules[0].Limits[1].Level.Remaining
		}
		says := func(requests, tokens int) {
			d.answer = func(*http.Request) *http.Response {
				return respond(200, told, "X-Ratelimit-Limit-Requests", "100", "X-Ratelimit-Remaining-Requests", fmt.Sprint(requests),
					"X-Ratelimit-Limit-Tokens", "10000", "X-Ratelimit-Remaining-Tokens", fmt.Sprint(tokens))
			}
			d.chat("m", 10)
		}
		says(40, 3000)
		if rpm, tpm := left(); rpm != 40 || tpm > 3030 || tpm < 2980 {
			t.Errorf("others have used it: %d and %d left", rpm, tpm)
		}
		time.Sleep(2 * time.Second)
		says(99, 9999)
		if rpm, _ := left(); rpm > 43 {
			t.Errorf("more than was left is believed: %d", rpm)
		}
		time.Sleep(2 * time.Minute)
		says(-1, -1)
		if rpm, tpm := left(); rpm != 99 || tpm < 9900 {
			t.Errorf("L-049 what is not known is believed: %d and %d", rpm, tpm)
		}
		if len(d.control.Held()) != 0 {
			t.Errorf("%v are held", d.control.Held())
		}
	})
}

func TestNobodyCoolsTheOthers(t *testing.T) {
	t.Run("L-072 L-082 what one may not do, others may", func(t *testing.T) {
		onDesk(t, llm.Options{}, nil, func(t *testing.T, d *desk) {
			d.answer = func(*http.Request) *http.Response { return respond(403, `{"error":{"message":"not for you"}}`) }
			if w := d.chat("m", 1); w.Code != 403 || d.sent.Load() != 1 {
				t.Errorf("%d after %d attempts", w.Code, d.sent.Load())
			}
			d.answer = nil
			if w := d.chat("m", 1); w.Code != 200 {
				t.Errorf("another request: %d %s", w.Code, w.Body)
			}
		})
	})
	t.Run("a request that never passes there leaves the model to the others", func(t *testing.T) {
		onDesk(t, llm.Options{}, nil, func(t *testing.T, d *desk) {
			d.answer = func(*http.Request) *http.Response { return respond(429, "{}", "X-Should-Retry", "false") }
			d.chat("m", 1)
			d.answer = nil
			if w := d.chat("m", 1); w.Code != 200 {
				t.Errorf("another request: %d %s", w.Code, w.Body)
			}
		})
	})
}
