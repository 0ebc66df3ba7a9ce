// Package upstream says what an upstream's answer means: when it may be asked again
// ([RetryAfter], [Standings]), whether asking again helps ([Classify]), and how long to
// wait before ([Backoff]). It makes no request and keeps no state.
//
// The formats are those that providers document and those that are seen in their answers;
// the tests name the cases. What cannot be read is left out and never taken for "at once".
package upstream

import (
	"net/http"
	"time"
)

// An Answer is what an upstream has said, as far as it matters here.
type Answer struct {
	// Status is the HTTP status. An error that comes inside of a 200, as an event of a
	// stream or as a body, is classified by its text.
	Status int
	Header http.Header
	// Body is the answer's body or the event's data, or the first part of it. Classify reads
	// at most 64 KiB.
	Body []byte
	// Received is when the answer came, by the clock of whoever reads it.
	Received time.Time
}

// A Class is what an answer means for whoever asked.
type Class uint8

const (
	// OK is an answer without an error.
	OK Class = iota
	// Limited is a rate limit: the same request passes later.
	Limited
	// Exhausted is a quota, a budget or a credit that waiting a while does not bring back.
	// Another credential or another upstream may do.
	Exhausted
	// TooLarge is a request that can never pass here.
	TooLarge
	// Transient is a failure of the upstream that another attempt may not meet.
	Transient
	// Denied is a credential that is not accepted. Another one may be.
	Denied
	// Rejected is a mistake in the request: no other attempt helps.
	Rejected
)

var classNames = [...]string{"ok", "limited", "exhausted", "too large", "transient", "denied", "rejected"}

// String returns the class in words.
func (c Class) String() string {
	if int(c) >= len(classNames) {
		return "unknown"
	}
	return classNames[c]
}

// Retryable reports whether the same request may be sent to the same upstream again.
func (c Class) Retryable() bool { return c == Limited || c == Transient }

// Elsewhere reports whether another credential or upstream may answer better.
func (c Class) Elsewhere() bool {
	return c == Limited || c == Exhausted || c == Transient || c == Denied
}

// A Scope is what a failure is about, and so what is to be left alone for a while.
type Scope uint8

const (
	// OfRequest is this request alone.
	OfRequest Scope = iota
	// OfModel is one model under one credential, in the verdict's dimension.
	OfModel
	// OfCredential is everything under one credential.
	OfCredential
	// OfProvider is the provider, whoever asks.
	OfProvider
)

// A Verdict is what an answer means.
type Verdict struct {
	Class Class
	Scope Scope
	// Dimension is the limit that was hit, empty if the answer does not say.
	Dimension Dimension
	// After is how long the upstream wants to be left alone. It is never shortened by what
	// other fields say. Zero with HasAfter is "soon"; without it nothing was said.
	After    time.Duration
	HasAfter bool
	// Code is the upstream's own word for the error: at most 64 letters, digits and any of
	// "_.-", so that it can stand in a log. Empty if there is none.
	Code string
}
