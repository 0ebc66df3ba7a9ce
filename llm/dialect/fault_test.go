package dialect

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/upstream"
)

func TestFaultBodies(t *testing.T) {
	rate := Fault{Status: 429, Code: "rate-limited", Message: "slow down", Rule: "llm-openai", Dimension: "tokens", Wait: 1500 * time.Millisecond, RequestID: "req_1"}
	for _, c := range []struct {
		name    string
		dialect Name
		fault   Fault
		want    string
	}{
		{"OpenAI tokens", OpenAI, rate, `{"error":{"message":"slow down","type":"tokens","param":null,"code":"rate_limit_exceeded","reason":"rate-limited","rule":"llm-openai"}}`},
		{"OpenAI requests", OpenAI, Fault{Status: 429, Code: "rate-limited", Message: "m", Dimension: "requests"}, `{"error":{"message":"m","type":"requests","param":null,"code":"rate_limit_exceeded","reason":"rate-limited"}}`},
		{"OpenAI for long", OpenAI, Fault{Status: 429, Code: "budget", Message: "m", Wait: time.Hour}, `{"error":{"message":"m","type":"insufficient_quota","param":null,"code":"insufficient_quota","reason":"budget"}}`},
		{"OpenAI no key", OpenAI, Fault{Status: 401, Code: "no-key", Message: "m"}, `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"invalid_api_key","reason":"no-key"}}`},
		{"Anthropic", Anthropic, rate, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down","reason":"rate-limited","rule":"llm-openai"},"request_id":"req_1"}`},
		{"Gemini", Gemini, rate, `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"sluice","metadata":{"rule":"llm-openai"},"reason":"rate-limited"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.500s"}]}}`},
		{"Ollama", Ollama, rate, `{"error":"slow down"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.TrimSpace(string(c.dialect.Body(c.fault))); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestFaultHeader(t *testing.T) {
	for _, c := range []struct {
		name                    string
		fault                   Fault
		after, exact, try, code string
	}{
		{"rounded up, and exact", Fault{Status: 429, Wait: 1500*time.Millisecond + 1, Code: "rate-limited"}, "2", "1501", "", "rate-limited"},
		{"never zero", Fault{Status: 429, Wait: 1}, "1", "1", "", ""},
		{"no time is known", Fault{Status: 503}, "", "", "", ""},
		{"useless", Fault{Status: 429, Wait: time.Second, Useless: true}, "", "", "false", ""},
		{"too long to sleep", Fault{Status: 429, Wait: time.Hour}, "3600", "3600000", "false", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			OpenAI.Write(w, c.fault)
			h := w.Result().Header
			if h.Get("Retry-After") != c.after || h.Get("Retry-After-Ms") != c.exact || h.Get("X-Should-Retry") != c.try || h.Get("X-Sluice-Reason") != c.code {
				t.Errorf("%v", h)
			}
			if w.Code != c.fault.Status || h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%d %v", w.Code, h)
			}
		})
	}
}

func TestStreamFault(t *testing.T) {
	f := Fault{Status: 503, Code: "upstream-failed", Message: "gone"}
	for _, c := range []struct {
		name  string
		route Route
		want  string
	}{
		{"OpenAI", Route{Dialect: OpenAI, Operation: Chat}, `data: {"error":{"message":"gone","type":"server_error","param":null,"code":"upstream-failed","reason":"upstream-failed"}}` + "\n\n"},
		{"responses", Route{Dialect: OpenAI, Operation: Responses}, `event: error` + "\n" + `data: {"code":"upstream-failed","message":"gone","param":null,"type":"error"}` + "\n\n"},
		{"Anthropic", Route{Dialect: Anthropic, Operation: Messages}, `event: error` + "\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"gone","reason":"upstream-failed"}}` + "\n\n"},
		{"Ollama", Route{Dialect: Ollama, Operation: OllamaChat}, `{"error":"gone"}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.route.StreamFault(f)
			if string(got) != c.want {
				t.Errorf("got %s", got)
			}
			m, s := c.route.NewMeter(nil), NewSplitter(c.route.Framing(true))
			s.Feed(got, func(e Event) {
				if m.Read(e) != Failure {
					t.Error("our own meter takes it for no failure")
				}
				if v := upstream.Classify(upstream.Answer{Status: 200, Body: e.Data}); v.Class == upstream.OK {
					t.Error("our own reading of upstreams takes it for no failure")
				}
			})
		})
	}
}

func TestFaultsAreReadAsTheyAreMeant(t *testing.T) {
	for _, d := range Names() {
		for status, class := range map[int]upstream.Class{400: upstream.Rejected, 401: upstream.Denied, 402: upstream.Exhausted, 403: upstream.Denied,
			404: upstream.Rejected, 413: upstream.TooLarge, 429: upstream.Limited, 500: upstream.Transient, 503: upstream.Transient, 504: upstream.Transient} {
			w := httptest.NewRecorder()
			d.Write(w, Fault{Status: status, Message: "m", Code: "c", Dimension: "requests", Wait: 2 * time.Second})
			v := upstream.Classify(upstream.Answer{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()})
			if v.Class != class {
				t.Errorf("%s %d is read as %v", d, status, v.Class)
			}
			if status == http.StatusTooManyRequests && v.After != 2*time.Second {
				t.Errorf("%s: after %v", d, v.After)
			}
		}
	}
}
