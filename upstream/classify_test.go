package upstream_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/upstream"
)

type header = map[string]string

func answer(status int, h header, body string) upstream.Answer {
	a := upstream.Answer{Status: status, Header: http.Header{}, Body: []byte(body), Received: now}
	for k, v := range h {
		a.Header.Set(k, v)
	}
	return a
}

func TestClassify(t *testing.T) {
	const unsaid = -1
	const quota = `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`
	const gemini = `{"error":{"code":429,"message":"Please retry in 26.66s.","status":"RESOURCE_EXHAUSTED","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"m","quotaId":"QUOTA","quotaValue":"15"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"DELAY"}]}}`
	google := func(id, delay string) string {
		return strings.NewReplacer("QUOTA", id, "DELAY", delay).Replace(gemini)
	}
	openAI := func(kind, text string) string {
		return `{"error":{"message":"` + text + `","type":"` + kind + `","param":null,"code":"rate_limit_exceeded"}}`
	}
	for _, c := range []struct {
		name  string
		in    upstream.Answer
		class upstream.Class
		scope upstream.Scope
		dim   upstream.Dimension
		after time.Duration
		code  string
	}{
		{"success", answer(200, nil, `{"id":"x","choices":[]}`), upstream.OK, 0, "", unsaid, ""},
		{"success of Responses, error null", answer(200, nil, `{"object":"response","status":"completed","error":null}`), upstream.OK, 0, "", unsaid, ""},
		{"success of Ollama, message an object", answer(200, nil, `{"model":"m","message":{"role":"assistant","content":"x"},"done":true}`), upstream.OK, 0, "", unsaid, ""},
		{"OpenAI tokens, delay in the text", answer(429, nil, openAI("tokens", "Rate limit reached for gpt-X on tokens per min (TPM): Limit 100000, Used 96749, Requested 19126. Please try again in 9.525s.")),
			upstream.Limited, upstream.OfModel, upstream.Tokens, 9525 * time.Millisecond, "rate_limit_exceeded"},
		{"OpenAI requests, minutes in the text", answer(429, nil, openAI("requests", "Rate limit reached on requests per day (RPD-like): Please try again in 1m26.4s.")),
			upstream.Exhausted, upstream.OfModel, upstream.Requests, 86400 * time.Millisecond, "rate_limit_exceeded"},
		{"L-053 can never fit", answer(429, nil, openAI("tokens", "Request too large: Limit 10000, Requested 12000.")),
			upstream.TooLarge, upstream.OfRequest, upstream.Tokens, unsaid, "rate_limit_exceeded"},
		{"L-052 no money", answer(429, nil, quota), upstream.Exhausted, upstream.OfCredential, "", unsaid, "insufficient_quota"},
		{"L-109 no money, inside of a stream", answer(200, nil, `{"type":"response.failed","response":{"status":"failed","error":{"code":"insufficient_quota","message":"x"}}}`),
			upstream.Exhausted, upstream.OfCredential, "", unsaid, "insufficient_quota"},
		{"L-108 rate limit inside of a stream", answer(200, nil, `{"type":"error","code":"rate_limit_exceeded","message":"slow down"}`),
			upstream.Limited, upstream.OfModel, "", unsaid, "rate_limit_exceeded"},
		{"L-113 200 with an error", answer(200, nil, `{"error":{"code":429,"message":"busy"}}`), upstream.Limited, upstream.OfModel, "", unsaid, ""},
		{"L-050 Azure asks for a day", answer(429, nil, `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current tier. Please retry after 86400 seconds."}}`),
			upstream.Limited, upstream.OfModel, upstream.Tokens, 24 * time.Hour, ""},
		{"Anthropic", answer(429, header{"Retry-After": "12"}, `{"type":"error","error":{"type":"rate_limit_error","message":"would exceed your rate limit of 8,000 output tokens per minute"},"request_id":"req_1"}`),
			upstream.Limited, upstream.OfModel, upstream.OutputTokens, 12 * time.Second, "rate_limit_error"},
		{"Anthropic spend limit", answer(429, nil, `{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}`),
			upstream.Exhausted, upstream.OfCredential, "", unsaid, "enforced_spend_limit_reached"},
		{"L-082 Anthropic overloaded is about the provider", answer(529, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			upstream.Transient, upstream.OfProvider, "", unsaid, "overloaded_error"},
		{"L-110 Anthropic overloaded, in a stream", answer(200, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			upstream.Transient, upstream.OfProvider, "", unsaid, "overloaded_error"},
		{"Anthropic too large", answer(413, nil, `{"type":"error","error":{"type":"request_too_large","message":"x"}}`), upstream.TooLarge, 0, "", unsaid, "request_too_large"},
		{"L-054 Gemini a minute", answer(429, nil, google("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "45.837906927s")),
			upstream.Limited, upstream.OfModel, upstream.Requests, 45837906927, "RESOURCE_EXHAUSTED"},
		{"L-061 the longer of text and details", answer(429, header{"Retry-After": "30"}, google("GenerateRequestsPerMinute", "5s")),
			upstream.Limited, upstream.OfModel, upstream.Requests, 30 * time.Second, "RESOURCE_EXHAUSTED"},
		{"L-056 Gemini a day, until midnight in California", answer(429, nil, google("GenerateRequestsPerDayPerProjectPerModel", "34s")),
			upstream.Exhausted, upstream.OfModel, upstream.Requests, 21 * time.Hour, "RESOURCE_EXHAUSTED"},
		{"Gemini in an array", answer(429, nil, "["+google("GenerateInputTokensPerMinute", "34s")+"]"),
			upstream.Limited, upstream.OfModel, upstream.InputTokens, 34 * time.Second, "RESOURCE_EXHAUSTED"},
		{"Gemini code assist", answer(429, nil, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"t","reason":"RATE_LIMIT_EXCEEDED","metadata":{"quotaResetDelay":"373.801628ms"}}]}}`),
			upstream.Limited, upstream.OfModel, "", 373801628, "RESOURCE_EXHAUSTED"},
		{"Gemini overloaded", answer(503, nil, `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`), upstream.Transient, 0, "", unsaid, "UNAVAILABLE"},
		{"Groq flex", answer(498, nil, `{}`), upstream.Transient, 0, "", unsaid, ""},
		{"Mistral", answer(429, nil, `{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","param":null,"code":"1300"}`),
			upstream.Limited, upstream.OfModel, upstream.Requests, unsaid, "1300"},
		{"Cohere minute", answer(429, nil, `{"id":"1","message":"You are using a Trial key, which is limited to 20 API calls / minute"}`), upstream.Limited, upstream.OfModel, upstream.Requests, unsaid, ""},
		{"Cohere month", answer(429, nil, `{"id":"1","message":"You are using a Trial key, which is limited to 1000 API calls / month"}`), upstream.Exhausted, upstream.OfCredential, "", unsaid, ""},
		{"Bedrock", answer(429, nil, `{"__type":"com.amazon#ThrottlingException","message":"Too many tokens, please wait before trying again."}`),
			upstream.Limited, upstream.OfModel, upstream.Tokens, unsaid, "ThrottlingException"},
		{"Bedrock a day", answer(429, nil, `{"message":"Too many tokens per day, please wait before trying again."}`), upstream.Exhausted, upstream.OfModel, upstream.Tokens, unsaid, ""},
		{"Ollama busy", answer(503, nil, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`), upstream.Transient, 0, "", unsaid, ""},
		{"Ollama without the model", answer(404, nil, `{"error":"model 'x' not found"}`), upstream.Rejected, 0, "", unsaid, ""},
		{"OpenRouter without credit", answer(402, nil, `{"error":{"code":402,"message":"negative balance"}}`), upstream.Exhausted, upstream.OfCredential, "", unsaid, ""},
		{"L-072 B-W19 a dead key", answer(401, nil, `{"error":{"message":"bad key","type":"invalid_request_error","code":"invalid_api_key"}}`), upstream.Denied, upstream.OfCredential, "", unsaid, "invalid_api_key"},
		{"L-073 a malformed request", answer(400, nil, `{"error":{"message":"x","type":"invalid_request_error"}}`), upstream.Rejected, 0, "", unsaid, "invalid_request_error"},
		{"A-70 any 5xx", answer(599, nil, "<html>"), upstream.Transient, 0, "", unsaid, ""},
		{"no body", answer(429, header{"Retry-After": "2"}, ""), upstream.Limited, upstream.OfModel, "", 2 * time.Second, ""},
		{"x-should-retry false is about this request", answer(429, header{"X-Should-Retry": "false"}, ""), upstream.Exhausted, upstream.OfRequest, "", unsaid, ""},
		{"unless it says for how long", answer(429, header{"X-Should-Retry": "false", "Retry-After": "90"}, ""), upstream.Exhausted, upstream.OfModel, "", 90 * time.Second, ""},
		{"what one may not do, others may", answer(403, nil, `{"type":"error","error":{"type":"permission_error","message":"x"}}`), upstream.Denied, upstream.OfRequest, "", unsaid, "permission_error"},
		{"x-should-retry false of a 503", answer(503, header{"X-Should-Retry": "false"}, ""), upstream.Rejected, 0, "", unsaid, ""},
		{"a code that is no word", answer(400, nil, `{"error":{"code":"a caller's text","message":"x"}}`), upstream.Rejected, 0, "", unsaid, ""},
		{"L-048 the reset of what is used up", answer(429, header{"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1h",
			"X-Ratelimit-Remaining-Tokens": "90000", "X-Ratelimit-Reset-Tokens": "1s"}, ""), upstream.Limited, upstream.OfModel, upstream.Requests, time.Hour, ""},
		{"L-048 the reset of what the text names", answer(429, header{"X-Ratelimit-Remaining-Requests": "5", "X-Ratelimit-Reset-Requests": "1h",
			"X-Ratelimit-Remaining-Tokens": "90", "X-Ratelimit-Reset-Tokens": "3s"}, openAI("tokens", "tokens per min")), upstream.Limited, upstream.OfModel, upstream.Tokens, 3 * time.Second, "rate_limit_exceeded"},
		{"L-048 nobody can say which: the later", answer(429, header{"X-Ratelimit-Reset-Requests": "10s", "X-Ratelimit-Reset-Tokens": "3s"}, ""),
			upstream.Limited, upstream.OfModel, "", 10 * time.Second, ""},
		{"L-049 -1 is unknown", answer(429, header{"X-Ratelimit-Remaining-Tokens": "-1", "X-Rate-Limit-Reset-Tokens": "17"}, ""), upstream.Limited, upstream.OfModel, "", 17 * time.Second, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := upstream.Classify(c.in)
			after := v.After
			if !v.HasAfter {
				after = unsaid
			}
			if v.Class != c.class || v.Scope != c.scope || v.Dimension != c.dim || after != c.after || v.Code != c.code {
				t.Errorf("got %v, scope %d, dimension %q, after %v, code %q", v.Class, v.Scope, v.Dimension, after, v.Code)
				t.Errorf("want %v, scope %d, dimension %q, after %v, code %q", c.class, c.scope, c.dim, c.after, c.code)
			}
		})
	}
}

func TestClassHelps(t *testing.T) {
	for _, c := range []struct {
		class            upstream.Class
		again, elsewhere bool
	}{
		{upstream.OK, false, false}, {upstream.Limited, true, true}, {upstream.Exhausted, false, true},
		{upstream.TooLarge, false, false}, {upstream.Transient, true, true}, {upstream.Denied, false, true}, {upstream.Rejected, false, false},
	} {
		if c.class.Retryable() != c.again || c.class.Elsewhere() != c.elsewhere {
			t.Errorf("%v: again %v, elsewhere %v", c.class, c.class.Retryable(), c.class.Elsewhere())
		}
	}
	if s := upstream.Class(99).String(); s != "unknown" {
		t.Errorf("a class beyond the last is %q", s)
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(429, "3", `{"error":{"code":"429","message":"retry after 7 seconds","details":[{"retryDelay":"1s"}]}}`)
	f.Add(200, "", `[{"error":"x"}]`)
	f.Fuzz(func(t *testing.T, status int, after, body string) {
		v := upstream.Classify(answer(status, header{"Retry-After": after}, body))
		if v.After < 0 || v.After > upstream.Longest || len(v.Code) > 64 || strings.ContainsAny(v.Code, " \n\x00") {
			t.Errorf("%+v", v)
		}
	})
}
