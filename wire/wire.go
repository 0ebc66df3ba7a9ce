// Package wire puts a refusal, and the levels of an admission, on the wire: HTTP status
// and headers, a problem body (RFC 9457), a JSON-RPC error, a gRPC status.
//
// # Waits
//
// Every form of a refusal tells the same wait, rounded up to what the form can hold and
// never to zero: Retry-After in seconds, milliseconds in bodies. It is the refusal's own
// RetryAfter, the largest over the refusing limits. A refusal that is for good has no
// wait in any form. Where only somebody else's release helps (slots, a full queue) the
// wait is one second: it promises nothing, but without one many clients come back at
// once. A store that failed gets one to five seconds at random, so that callers do not
// return together.
//
// # Fields
//
// The text of X-RateLimit-Reset is when the limit is whole again, if the call was
// admitted, and when the call would pass, if it was refused; always rounded up.
// The t of RateLimit is when at least one more unit comes back. Shadow rules and
// cooldowns are not told.
//
// A call that was decided without the store, admitted or refused, has X-RateLimit-Degraded: true,
// and the body of its refusal a member degraded.
package wire

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
)

// Options says what a [Writer] writes. The zero Options is ready: the fields of
// [LegacyEpoch] and [Draft10] on every answer, problem types by reason, no CORS.
type Options struct {
	// Families are the header fields to send. Nil is LegacyEpoch and Draft10; empty is
	// none, but Retry-After. Two families that own one field are an error.
	Families []Family

	// When is which answers have the fields.
	When When

	// Problem names the problem of a refusal.
	Problem Problem

	// Status replaces the HTTP status of reasons, 400 to 599.
	Status map[sluice.Reason]int

	// CORS says which scripts of browsers may read a refusal.
	CORS CORS
}

// When says which answers have fields.
type When uint8

// The answers that may. A refusal always has them.
const (
	Always  When = iota
	Near         // a shown limit has a tenth or less left
	Refused      // refusals alone
)

// A Writer writes refusals and levels. It is safe for concurrent use. Use [New].
type Writer struct {
	families []Family
	when     When
	problem  Problem
	status   map[sluice.Reason]int
	cors     CORS
	tooMany  []byte   // how bodies with status 429 begin: most refusals, and most of their text
	expose   []string // the value of Access-Control-Expose-Headers
}

// New checks the options. Its errors name what is wrong and what to do.
func New(o Options) (*Writer, error) {
	w := &Writer{families: o.Families, when: o.When, problem: o.Problem, status: o.Status, cors: o.CORS}
	if o.Families == nil {
		w.families = []Family{LegacyEpoch, Draft10}
	}
	if err := checkFamilies(w.families); err != nil {
		return nil, err
	}
	if err := o.CORS.check(); err != nil {
		return nil, err
	}
	for reason, status := range o.Status {
		if status < 400 || status > 599 {
			return nil, fmt.Errorf("wire: the status for reason %s is %d; a refusal is 400 to 599", reason, status)
		}
	}
	w.tooMany = w.problem.appendName(nil, http.StatusTooManyRequests)
	w.expose = o.CORS.exposed(w.Fields())
	return w, nil
}

// Fields returns the names of the header fields that the Writer's families own, in
// canonical form.
func (w *Writer) Fields() []string {
	var all []string
	for _, f := range w.families {
		for _, own := range f.fields() {
			all = append(all, names[own])
		}
	}
	return all
}

// Refuse answers a request with a refusal, before its body is read: a gRPC status if the
// request is gRPC, otherwise an HTTP status with a body that the request accepts, and no
// body for HEAD. It writes the whole answer; nothing may have been written before.
func (w *Writer) Refuse(rw http.ResponseWriter, r *http.Request, ref *sluice.Refusal) {
	if isGRPC(r) {
		w.refuseGRPC(rw, r, ref)
		return
	}
	status, wait := w.Status(ref), waitOf(ref)
	w.head(rw.Header(), r, ref, wait)
	w.writeProblem(rw, r, ref, status, wait)
}

// head sets what all HTTP refusals have besides their body's type. A refusal must never
// be stored (RFC 6585, 4), whatever an outer handler has said about the answer.
func (w *Writer) head(h http.Header, r *http.Request, ref *sluice.Refusal, wait time.Duration) {
	delete(h, "Age")
	delete(h, "Expires")
	h["Cache-Control"] = noStore
	w.cors.allow(h, r, w.expose)
	if ref.Degraded {
		w.MarkDegraded(h)
	}
	w.setFields(h, report{levels: ref.Levels, now: time.Now(), refused: true, wait: wait})
}

var noStore = []string{"no-store"}

// shown reports whether fields tell about a level at all. A cooldown is no quota.
func shown(l *sluice.Level) bool { return !l.Shadow && l.Kind != cooldown }

// near reports whether a tenth or less of a shown limit is left.
func near(levels []sluice.Level) bool {
	return slices.ContainsFunc(levels, func(l sluice.Level) bool { return shown(&l) && l.Remaining <= l.Limit/10 })
}
