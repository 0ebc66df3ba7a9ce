package translate

import (
	"encoding/json"
	"net/http"

	"github.com/sluicegate/sluice/llm/dialect"
)

// errorStatus is the status that goes with an error that comes inside of a stream.
var errorStatus = map[string]int{
	"invalid_request_error": http.StatusBadRequest, "authentication_error": http.StatusUnauthorized, "billing_error": http.StatusPaymentRequired,
	"permission_error": http.StatusForbidden, "not_found_error": http.StatusNotFound, "request_too_large": http.StatusRequestEntityTooLarge,
	"rate_limit_error": http.StatusTooManyRequests, "rate_limit_exceeded": http.StatusTooManyRequests, "insufficient_quota": http.StatusTooManyRequests,
	"overloaded_error": http.StatusServiceUnavailable, "server_is_overloaded": http.StatusServiceUnavailable,
	"service_unavailable_error": http.StatusServiceUnavailable, "timeout_error": http.StatusGatewayTimeout,
}

// Anthropic's own status for an overload, which OpenAI's clients do not know.
const statusOverloaded = 529

// Fault says a provider's error in words that can be put into the client's dialect: its
// status, its code and its message. A status below 400 is that of the answer in which the
// error came.
func (t *Translation) Fault(status int, body []byte) dialect.Fault {
	f := dialect.Fault{Status: status, Code: "upstream-failed", Message: "The provider has failed and does not say why."}
	if json.Valid(body) {
		e := member(body, "error")
		for _, name := range []string{"type", "code"} { // the code is the closer one
			if s := text(member(e, name)); s != "" {
				f.Code = s
			}
		}
		if s := text(member(e, "message")); s != "" {
			f.Message = s
		}
		f.RequestID = text(member(body, "request_id"))
	}
	switch {
	case f.Status == statusOverloaded:
		f.Status = http.StatusServiceUnavailable
	case f.Status < http.StatusBadRequest:
		if f.Status = errorStatus[f.Code]; f.Status == 0 {
			f.Status = http.StatusInternalServerError
		}
	}
	return f
}
