package llm

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/upstream"
)

// statusGone is what is noted of a request whose client has left. Nobody is sent it.
const statusGone = 499

// refusal says in the client's dialect why a request was not admitted.
func (x *exchange) refusal(err error) *dialect.Fault {
	r, ok := errors.AsType[*sluice.Refusal](err)
	switch {
	case ok:
		x.refused = r.Reason
		return faultOf(r)
	case x.r.Context().Err() != nil:
		return &dialect.Fault{Status: statusGone, Code: "client-gone"}
	case errors.Is(err, context.DeadlineExceeded):
		x.refused = sluice.ReasonQueueTimeout
		return &dialect.Fault{Status: http.StatusTooManyRequests, Code: sluice.ReasonQueueTimeout.String(), Wait: time.Second,
			Message: "The request waited for its turn until its time was up."}
	}
	return &dialect.Fault{Status: http.StatusServiceUnavailable, Code: "unavailable", Wait: time.Second, Message: "The gateway cannot decide now."}
}

// faultOf is a refusal of the engine.
func faultOf(r *sluice.Refusal) *dialect.Fault {
	f := &dialect.Fault{Status: http.StatusTooManyRequests, Code: r.Reason.String(), Rule: r.Rule, Wait: r.RetryAfter, Useless: r.Permanent,
		Dimension: dimensionOf(r)}
	switch r.Reason {
	case sluice.ReasonDenied:
		f.Status = http.StatusForbidden
	case sluice.ReasonMissing, sluice.ReasonInvalid:
		f.Status = http.StatusBadRequest
	case sluice.ReasonStore, sluice.ReasonFull:
		f.Status = http.StatusServiceUnavailable
	}
	if f.Wait == 0 && !f.Useless { // time alone does not help, but somebody may be done by then
		f.Wait = time.Second
	}
	f.Message = messageOf(r, f)
	return f
}

// messageOf says a refusal in words that help: which rule, why, and when to come back.
func messageOf(r *sluice.Refusal, f *dialect.Fault) string {
	var why string
	switch r.Reason {
	case sluice.ReasonRate, sluice.ReasonBudget:
		why = "Rate limit reached"
	case sluice.ReasonConcurrency:
		why = "Too many requests at once"
	case sluice.ReasonCooldown:
		why = "The provider has asked to be left alone for a while"
	case sluice.ReasonQueueFull:
		why = "Too many requests are waiting"
	case sluice.ReasonQueueTimeout:
		why = "The request would wait longer than it may"
	case sluice.ReasonTooLarge:
		why = "The request is larger than the limit can ever admit"
	case sluice.ReasonStore:
		why = "The store of the limits does not answer"
	default:
		why = "The request is not admitted (" + r.Reason.String() + ")"
	}
	if r.Rule != "" {
		why += " by " + r.Rule
	}
	if f.Dimension != "" {
		why += " on " + f.Dimension
	}
	if f.Wait > 0 && !f.Useless {
		why += ". Please try again in " + strconv.FormatFloat(f.Wait.Seconds(), 'f', 3, 64) + "s"
	}
	return why + "."
}

// dimensionOf is the unit of the limit that takes longest, as providers name it.
func dimensionOf(r *sluice.Refusal) string {
	var worst *sluice.Level
	for i := range r.Levels {
		if l := &r.Levels[i]; l.Refused && !l.Shadow && (worst == nil || l.Next > worst.Next) {
			worst = l
		}
	}
	switch {
	case worst == nil, r.Reason == sluice.ReasonConcurrency:
		return ""
	case worst.Unit == "" || worst.Unit == sluice.Calls:
		return string(upstream.Requests)
	}
	return string(worst.Unit)
}

// giveUp answers a request for which no further attempt is made: with the last answer of a
// provider, if there was one, or by err.
func (x *exchange) giveUp(last *attempt, err error) (*http.Response, *dialect.Fault) {
	if last == nil { // nothing was sent
		f := x.noAttempt(err)
		x.whole.close(undone())
		x.close(f.Status, nil)
		return nil, f
	}
	if last.answer != nil && last.keyRefused() {
		f := &dialect.Fault{Status: http.StatusBadGateway, Code: "upstream-denied", Useless: true,
			Message: "The provider " + last.at.provider.Name + " does not accept the gateway's credential."}
		x.close(f.Status, last.used)
		return nil, f
	}
	if last.answer != nil {
		x.close(last.answer.StatusCode, last.used)
		x.passOn(last)
		return last.answer, nil
	}
	f := last.fault()
	x.close(f.Status, last.used)
	return nil, f
}

// noAttempt says why a request could not be sent to anybody.
func (x *exchange) noAttempt(err error) *dialect.Fault {
	if b, ok := errors.AsType[*brokenError](err); ok {
		return &dialect.Fault{Status: http.StatusServiceUnavailable, Code: "provider-failing", Wait: breakFor, Message: b.Error() + "."}
	}
	if l := x.lost(); l != nil {
		return &dialect.Fault{Status: http.StatusBadRequest, Code: "untranslatable", Useless: true,
			Message: "No provider that speaks this dialect is configured for the model, and the request cannot be put into another without loss: " + said(l) + "."}
	}
	return x.refusal(err)
}

// keyRefused reports whether it was the gateway's key that was not accepted. The client's is
// good, and what a provider says of a key, which is mostly a part of it, is not for the client.
func (a *attempt) keyRefused() bool {
	return a.answer.StatusCode == http.StatusUnauthorized && len(a.at.provider.Keys) > 0
}

// passOn makes a provider's error fit for the client: what is left of its wait, and not to
// come again if that is of no use.
func (x *exchange) passOn(a *attempt) {
	h, v := a.answer.Header, &a.verdict
	f := dialect.Fault{Useless: v.Class == upstream.Exhausted || v.Class == upstream.TooLarge}
	for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		h.Del(name)
	}
	if v.Class.Retryable() {
		f.Wait = max(v.After-time.Since(a.ended), time.Millisecond)
	}
	f.SetRetry(h)
	if a.said != nil {
		a.passOnForeign(&f)
	}
}

// fault says why an attempt had no answer.
func (a *attempt) fault() *dialect.Fault {
	if a.failed == nil { // the failure came inside of a success
		f := &dialect.Fault{Status: http.StatusServiceUnavailable, Code: "upstream-failed", Message: "The provider failed before its answer began."}
		switch a.verdict.Class {
		case upstream.Limited, upstream.Exhausted:
			f.Status, f.Code, f.Message = http.StatusTooManyRequests, "upstream-limited", "The provider's own limit is reached."
			f.Dimension = string(a.verdict.Dimension)
		case upstream.Rejected, upstream.TooLarge:
			f.Status, f.Code, f.Message, f.Useless = http.StatusBadRequest, "upstream-rejected", "The provider does not accept the request.", true
		}
		f.Wait = max(a.verdict.After, time.Second)
		f.Useless = f.Useless || a.verdict.Class == upstream.Exhausted
		return f
	}
	if lost, ok := errors.AsType[*lostError](a.failed); ok {
		f := lostFault(lost)
		return &f
	}
	timeout, ok := errors.AsType[net.Error](a.failed)
	switch {
	case a.x.r.Context().Err() != nil:
		return &dialect.Fault{Status: statusGone, Code: "client-gone"}
	case ok && timeout.Timeout(), errors.Is(a.failed, context.DeadlineExceeded), errors.Is(a.failed, errTooLong):
		return &dialect.Fault{Status: http.StatusGatewayTimeout, Code: "upstream-timeout", Message: "Model endpoint is unavailable: it did not answer in time."}
	}
	return &dialect.Fault{Status: http.StatusBadGateway, Code: "upstream-unreachable", Message: "Model endpoint is unavailable: no answer came from " + a.at.provider.Name + "."}
}
