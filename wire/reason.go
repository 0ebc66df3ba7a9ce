package wire

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
)

// Status returns the HTTP status of a refusal: 429 for what the caller has used up, 503
// for what the service lacks, 403 for what is denied to it, 413 for a body too large for
// any limit, 400 for a call that makes no sense.
func (w *Writer) Status(ref *sluice.Refusal) int {
	if s, ok := w.status[ref.Reason]; ok {
		return s
	}
	switch ref.Reason {
	case sluice.ReasonCooldown, sluice.ReasonQueueFull, sluice.ReasonQueueTimeout, sluice.ReasonStore, sluice.ReasonFull:
		return http.StatusServiceUnavailable
	case sluice.ReasonDenied, sluice.ReasonMissing:
		return http.StatusForbidden
	case sluice.ReasonInvalid:
		return http.StatusBadRequest
	case sluice.ReasonTooLarge:
		for i := range ref.Levels {
			if l := &ref.Levels[i]; l.Refused && l.Unit == sluice.Bytes {
				return http.StatusRequestEntityTooLarge
			}
		}
	}
	return http.StatusTooManyRequests
}

// waitOf returns how long the caller is told to wait, or zero if it need not come back.
// See the package's documentation.
func waitOf(ref *sluice.Refusal) time.Duration {
	if ref.Permanent {
		return 0
	}
	if ref.RetryAfter > 0 {
		return ref.RetryAfter
	}
	switch ref.Reason {
	case sluice.ReasonTooLarge, sluice.ReasonDenied, sluice.ReasonMissing, sluice.ReasonInvalid:
		return 0
	case sluice.ReasonStore, sluice.ReasonFull:
		return time.Duration(1+rand.IntN(5)) * time.Second
	}
	return time.Second
}

// ceil returns how many units d is, rounded up, without overflow.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// sentences say why, with the rule's name between their two halves.
var sentences = [...]struct{ before, after string }{
	sluice.ReasonNone:         {"Limit ", " refused the call"},
	sluice.ReasonRate:         {"Limit ", " is used up"},
	sluice.ReasonConcurrency:  {"Limit ", " on calls at one time is reached"},
	sluice.ReasonBudget:       {"Budget ", " is used up"},
	sluice.ReasonCooldown:     {"What ", " guards has asked to be left alone"},
	sluice.ReasonQueueFull:    {"The queue of ", " is full"},
	sluice.ReasonQueueTimeout: {"The wait for ", " is longer than allowed"},
	sluice.ReasonTooLarge:     {"The call takes more than ", " can ever admit"},
	sluice.ReasonDenied:       {"Limit ", " admits nothing"},
	sluice.ReasonMissing:      {"The call lacks what ", " counts by"},
	sluice.ReasonInvalid:      {"The call is invalid", ""},
	sluice.ReasonStore:        {"The state of ", " cannot be reached"},
	sluice.ReasonFull:         {"The state of ", " has no room for another caller"},
}

// appendReason appends one sentence: what refused, why, and when to come back. It names
// the rule and nothing about the caller.
func appendReason(b []byte, ref *sluice.Refusal, wait time.Duration) []byte {
	s := sentences[sluice.ReasonNone]
	if int(ref.Reason) < len(sentences) {
		s = sentences[ref.Reason]
	}
	b = append(b, s.before...)
	if s.after != "" {
		b = append(b, '"')
		b = append(b, ref.Rule...)
		b = append(b, '"')
		b = append(b, s.after...)
	}
	switch seconds := ceil(wait, time.Second); seconds {
	case 0:
		return append(b, "; trying again will not help."...)
	case 1:
		return append(b, "; try again in 1 second."...)
	default:
		b = append(b, "; try again in "...)
		b = strconv.AppendInt(b, seconds, 10)
		return append(b, " seconds."...)
	}
}
