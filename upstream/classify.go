package upstream

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Classify says what a means. It knows the errors of OpenAI, Azure, Anthropic, Gemini and
// Vertex, Groq, Mistral, Cohere, Bedrock, Ollama, OpenRouter and DeepSeek by their shape, so
// that an upstream need not say who it is; of others it reads the status.
//
// x-should-retry is believed where it says that another attempt is useless.
func Classify(a Answer) Verdict {
	r := readReport(a.Body)
	status := a.Status
	if status < 400 {
		if !r.isError {
			return Verdict{}
		}
		status = r.statusOf()
	}
	v := r.verdict(status)
	v.Code = r.word()
	v.After, v.HasAfter = r.after(a, &v)
	if strings.EqualFold(a.Header.Get("X-Should-Retry"), "false") && v.Class.Retryable() {
		v.Class = Rejected
		if status == http.StatusTooManyRequests || status == http.StatusPaymentRequired {
			v.Class = Exhausted
			if !v.HasAfter { // this request alone may be what never passes
				v.Scope = OfRequest
			}
		}
	}
	return v
}

// statusOf is the status that an error would have had if it had not come inside of a 200.
func (r *report) statusOf() int {
	switch {
	case r.status != 0:
		return r.status
	case r.names("rate_limit_exceeded", "rate_limit_error", "rate_limited", "insufficient_quota", "RESOURCE_EXHAUSTED", "tokens", "requests",
		"ThrottlingException", "throttlingException"):
		return http.StatusTooManyRequests
	case r.names("overloaded_error"):
		return statusOverloaded
	case r.names("invalid_request_error", "INVALID_ARGUMENT", "ValidationException", "validationException"):
		return http.StatusBadRequest
	case r.names("authentication_error", "UNAUTHENTICATED", "invalid_api_key"):
		return http.StatusUnauthorized
	case r.names("permission_error", "PERMISSION_DENIED"):
		return http.StatusForbidden
	case r.names("not_found_error", "NOT_FOUND"):
		return http.StatusNotFound
	case r.names("request_too_large", "context_length_exceeded"):
		return http.StatusRequestEntityTooLarge
	case r.names("billing_error"):
		return http.StatusPaymentRequired
	}
	return http.StatusServiceUnavailable
}

const (
	statusOverloaded = 529 // Anthropic: all of its capacity is in use
	statusFlex       = 498 // Groq: no capacity for flex processing
)

// verdict is the class and the scope of an error with this status.
func (r *report) verdict(status int) Verdict {
	switch {
	case r.exhausted(status):
		if r.perDay() || r.says("per day") { // each model has a day's quota of its own
			return Verdict{Class: Exhausted, Scope: OfModel, Dimension: r.dimension()}
		}
		return Verdict{Class: Exhausted, Scope: OfCredential}
	case status == http.StatusTooManyRequests:
		v := Verdict{Class: Limited, Scope: OfModel, Dimension: r.dimension()}
		if r.never() {
			v.Class, v.Scope = TooLarge, OfRequest
		}
		return v
	case status == statusOverloaded:
		return Verdict{Class: Transient, Scope: OfProvider}
	case status == http.StatusRequestEntityTooLarge:
		return Verdict{Class: TooLarge}
	case status == http.StatusUnauthorized:
		return Verdict{Class: Denied, Scope: OfCredential}
	case status == http.StatusForbidden: // often it is what was asked for that is forbidden, and others ask for something else
		return Verdict{Class: Denied}
	case status == http.StatusRequestTimeout, status == statusFlex, status >= 500, r.names("ModelErrorException"):
		return Verdict{Class: Transient}
	}
	return Verdict{Class: Rejected}
}

// exhausted reports whether waiting for a while does not help: money or a long quota is
// used up.
func (r *report) exhausted(status int) bool {
	switch {
	case status == http.StatusPaymentRequired:
		return true
	case r.names("insufficient_quota", "billing_hard_limit_reached", "billing_error", "enforced_spend_limit_reached", "QUOTA_EXHAUSTED"):
		return true
	case status != http.StatusTooManyRequests:
		return false
	}
	return r.perDay() || r.says("per day", "/ month", "per month", "monthly", "check your plan and billing")
}

// perDay reports whether Gemini says that it is the day's quota which is used up; the
// delay that it names then is that of another limit.
func (r *report) perDay() bool {
	for i := range r.details {
		for _, v := range r.details[i].Violations {
			if strings.Contains(v.QuotaID, "PerDay") {
				return true
			}
		}
		if r.details[i].Reason == "QUOTA_EXHAUSTED" {
			return true
		}
	}
	return false
}

// figures are "Limit 10000, Used 1, Requested 12000" of OpenAI's text.
var figures = regexp.MustCompile(`Limit:? (\d{1,18})\b.*Requested:? (\d{1,18})\b`)

// never reports whether the request alone is more than the limit.
func (r *report) never() bool {
	m := figures.FindStringSubmatch(r.text)
	if m == nil {
		return false
	}
	most, _ := strconv.ParseInt(m[1], 10, 64) // at most 18 digits
	asked, _ := strconv.ParseInt(m[2], 10, 64)
	return asked > most
}

// dimension is the limit that the error names.
func (r *report) dimension() Dimension {
	switch {
	case r.names("tokens") || r.says("tokens per", "token rate limit", "too many tokens"):
		if r.says("output tokens") {
			return OutputTokens
		}
		if r.says("input tokens") {
			return InputTokens
		}
		return Tokens
	case r.names("requests") || r.says("requests per", "requests rate limit", "call rate limit", "api calls"):
		return Requests
	}
	for i := range r.details {
		for _, v := range r.details[i].Violations {
			switch {
			case strings.Contains(v.QuotaID, "InputToken"):
				return InputTokens
			case strings.Contains(v.QuotaID, "Request"):
				return Requests
			}
		}
	}
	return ""
}

// after is how long an upstream wants to be left alone: the longest of what the header, the
// details and the text ask for, and else when the limit that was hit is full again.
func (r *report) after(a Answer, v *Verdict) (time.Duration, bool) {
	if v.Class == OK || v.Class == Rejected || v.Class == TooLarge {
		return 0, false
	}
	if r.perDay() {
		return untilPacificMidnight(sent(a.Header, a.Received)), true
	}
	d, ok := RetryAfter(a.Header, a.Received)
	if in, has := r.delay(); has {
		d, ok = max(d, in), true
	}
	if ok || v.Class != Limited {
		return d, ok
	}
	return fullAgain(Standings(a.Header, a.Received), v)
}

// fullAgain is when the limit that was hit is full again: one of which nothing is left, or
// the one that the text names, or, if nobody can say which, the last.
func fullAgain(list []Standing, v *Verdict) (longest time.Duration, found bool) {
	for _, among := range []func(*Standing) bool{
		(*Standing).Exhausted,
		func(s *Standing) bool { return v.Dimension != "" && s.Dimension == v.Dimension },
		func(*Standing) bool { return true },
	} {
		for i := range list {
			if s := &list[i]; s.HasReset && among(s) {
				if s.Reset >= longest {
					longest, found = s.Reset, true
					if v.Dimension == "" && s.Exhausted() {
						v.Dimension = s.Dimension
					}
				}
			}
		}
		if found {
			break
		}
	}
	return longest, found
}

// asked finds the delay in "Please try again in 9.525s", "Please retry after 7 seconds",
// "Please retry in 26.66s".
var asked = regexp.MustCompile(`(?i)(?:try again|retry) (?:in|after) (\d[\d.]*)\s*([a-z0-9.]*)`)

// delay is what the body asks for.
func (r *report) delay() (longest time.Duration, found bool) {
	note := func(text string) {
		if d, ok := ParseDelay(text, time.Time{}); ok {
			longest, found = max(longest, d), true
		}
	}
	for i := range r.details {
		note(r.details[i].RetryDelay)
		note(r.details[i].Metadata.QuotaResetDelay)
	}
	m := asked.FindStringSubmatch(r.text)
	if m == nil {
		return longest, found
	}
	figure, unit := strings.TrimSuffix(m[1], "."), strings.TrimSuffix(m[2], ".")
	switch word := strings.ToLower(unit); {
	case strings.HasPrefix(word, "sec"):
		unit = "s"
	case strings.HasPrefix(word, "min"):
		unit = "m"
	case strings.HasPrefix(word, "hour"):
		unit = "h"
	case strings.HasPrefix(word, "milli"):
		unit = "ms"
	}
	note(figure + unit)
	return longest, found
}

// untilPacificMidnight is when Gemini's daily quotas are full again.
func untilPacificMidnight(now time.Time) time.Duration {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		return 24 * time.Hour // a machine without time zones: no sooner than it can be
	}
	t := now.In(zone)
	return clamp(time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, zone).Sub(t))
}
