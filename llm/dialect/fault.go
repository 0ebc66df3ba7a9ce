package dialect

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// A Fault is a refusal or a failure that the client is told of in its own dialect, so that
// its SDK does with it what it does with the provider's own.
type Fault struct {
	// Status is the HTTP status, 400 to 599.
	Status int
	// Code is the word for programs, such as "rate_limit_exceeded" or "queue-full".
	Code string
	// Message is for people. It names no caller.
	Message string
	// Rule is the rule that refused, if one did.
	Rule string
	// Dimension is what has run out: "requests", "tokens". Empty is something else.
	Dimension string
	// Wait is when the same request may pass. Zero is not known.
	Wait time.Duration
	// Useless says that the same request will not pass if it is sent again.
	Useless bool
	// RequestID is the gateway's own name of the request. Optional.
	RequestID string
}

// longestRetry is the longest wait for which a client is told to come again by itself. SDKs
// sleep for as long as they are told, for hours if need be.
const longestRetry = time.Minute

// SetHeader sets the fields of an answer that is f.
func (f *Fault) SetHeader(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	f.SetRetry(h)
	if f.Code != "" {
		h.Set("X-Sluice-Reason", f.Code)
	}
	if f.RequestID != "" {
		h.Set("Request-Id", f.RequestID)
	}
}

// SetRetry sets the fields by which SDKs decide whether and when to come again: Retry-After
// in whole seconds, rounded up and at least 1, Retry-After-Ms with the exact time, and
// X-Should-Retry: false where coming again is of no use.
func (f *Fault) SetRetry(h http.Header) {
	if f.Wait > 0 && !f.Useless {
		h.Set("Retry-After", strconv.FormatInt(int64(max(1, ceil(f.Wait, time.Second))), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(int64(max(1, ceil(f.Wait, time.Millisecond))), 10))
	}
	if f.Useless || f.Wait > longestRetry {
		h.Set("X-Should-Retry", "false")
	}
}

func ceil(d, unit time.Duration) time.Duration {
	n := d / unit
	if d%unit > 0 {
		n++
	}
	return n
}

// Write answers a request with f.
func (d Name) Write(w http.ResponseWriter, f Fault) {
	f.SetHeader(w.Header())
	w.WriteHeader(f.Status)
	_, _ = w.Write(d.Body(f)) // a client that has gone is not told
}

// Body is f as the body of an answer.
func (d Name) Body(f Fault) []byte {
	var v any
	switch d {
	case Anthropic:
		v = anthropicBody{Type: "error", Error: anthropicError{f.anthropicType(), f.Message, f.Code, f.Rule}, RequestID: f.RequestID}
	case Gemini:
		v = map[string]any{"error": geminiError{f.Status, f.Message, f.geminiStatus(), f.geminiDetails()}}
	case Ollama:
		v = map[string]string{"error": f.Message}
	default:
		v = map[string]any{"error": f.openAI()}
	}
	b, _ := json.Marshal(v) // strings and numbers can always be written
	return append(b, '\n')
}

// StreamFault is f as the last event of a stream that has begun: no success can be taken
// back, and a stream that merely ends looks whole to most clients.
func (r Route) StreamFault(f Fault) []byte {
	body := r.Dialect.Body(f)
	body = body[:len(body)-1]
	switch {
	case r.Dialect == Ollama:
		return append(body, '\n')
	case r.Dialect == Anthropic:
		return event("error", body)
	case r.Array:
		return append(append([]byte(",\n"), body...), ']')
	case r.Operation == Responses:
		body, _ = json.Marshal(map[string]any{"type": "error", "code": f.openAI().Code, "message": f.Message, "param": nil})
		return event("error", body)
	}
	return event("", body)
}

// event writes one server-sent event.
func event(name string, data []byte) []byte {
	var b []byte
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	return append(append(append(b, "data: "...), data...), "\n\n"...)
}

type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	Reason  string  `json:"reason,omitempty"`
	Rule    string  `json:"rule,omitempty"`
}

// openAI is f as OpenAI says it; Reason and Rule are ours.
func (f *Fault) openAI() openAIError {
	e := openAIError{Message: f.Message, Type: "server_error", Code: f.Code, Reason: f.Code, Rule: f.Rule}
	switch {
	case f.Status == http.StatusTooManyRequests && f.Wait > longestRetry, f.Status == http.StatusPaymentRequired:
		e.Type, e.Code = "insufficient_quota", "insufficient_quota"
	case f.Status == http.StatusTooManyRequests:
		e.Type, e.Code = "requests", "rate_limit_exceeded"
		if f.Dimension != "" && f.Dimension != "requests" {
			e.Type = "tokens"
		}
	case f.Status == http.StatusUnauthorized:
		e.Type, e.Code = "invalid_request_error", "invalid_api_key"
	case f.Status < 500:
		e.Type = "invalid_request_error"
	}
	return e
}

type anthropicBody struct {
	Type      string         `json:"type"`
	Error     anthropicError `json:"error"`
	RequestID string         `json:"request_id,omitempty"`
}

type anthropicError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Reason  string `json:"reason,omitempty"`
	Rule    string `json:"rule,omitempty"`
}

// anthropicType is the type that Anthropic gives an error with f's status.
func (f *Fault) anthropicType() string {
	switch f.Status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		return "invalid_request_error"
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	}
	return "api_error"
}

type geminiError struct {
	Code    int              `json:"code"`
	Message string           `json:"message"`
	Status  string           `json:"status"`
	Details []map[string]any `json:"details,omitempty"`
}

// geminiStatus is the code of google.rpc that goes with f's status.
func (f *Fault) geminiStatus() string {
	switch f.Status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden, http.StatusPaymentRequired:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if f.Status < 500 {
		return "INVALID_ARGUMENT"
	}
	return "INTERNAL"
}

func (f *Fault) geminiDetails() []map[string]any {
	var list []map[string]any
	if f.Code != "" {
		list = append(list, map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": f.Code, "domain": "sluice",
			"metadata": map[string]string{"rule": f.Rule}})
	}
	if f.Wait > 0 && !f.Useless {
		delay := strconv.FormatFloat(float64(ceil(f.Wait, time.Millisecond))/1000, 'f', 3, 64) + "s"
		list = append(list, map[string]any{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
	}
	return list
}
