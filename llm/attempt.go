package llm

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/translate"
	"github.com/sluicegate/sluice/upstream"
)

// An attempt is a request as it is sent to one place. Its charge is closed once, by it.
type attempt struct {
	x       *exchange
	at      candidate
	charge  *charge
	report  func(error) // to the breaker, once
	began   time.Time
	ended   time.Time
	waited  time.Duration
	levels  []sluice.Level
	others  sluice.Cost            // what others have used of the account
	said    *translate.Translation // what is sent, if the place speaks another dialect
	asks    bool                   // for usage in the client's stead
	asked   bool                   // for too much: the provider does not know how to say its usage
	verdict upstream.Verdict
	answer  *http.Response
	failed  error          // there is no answer
	used    *dialect.Usage // nil is nothing
	cancel  context.CancelFunc
}

// run makes attempts until one is answered well, or no other helps. It returns the answer,
// whose body closes the exchange, or says why there is none.
func (x *exchange) run() (answer *http.Response, f *dialect.Fault) {
	charge, err := x.admit(x.call(KindRequest, fair.reserve(&x.expect, &x.model.Price)))
	if err != nil {
		f = x.refusal(err)
		x.close(f.Status, nil)
		return nil, f
	}
	x.whole = charge
	defer func() {
		if answer == nil && f == nil { // a panic
			x.abandon()
		}
	}()
	x.s.flights.add(x)
	var last *attempt
	for {
		a, err := x.next()
		if err != nil {
			return x.giveUp(last, err)
		}
		if last != nil && last.answer != nil {
			_ = last.answer.Body.Close() // the client will not see it
		}
		last, x.trying = a, a
		x.tries++
		if a.send(); a.answer != nil && a.verdict.Class == upstream.OK {
			return a.answer, nil
		}
		if a.asked { // the mistake was not the client's
			x.tries--
			continue
		}
		if !x.again(a) {
			return x.giveUp(a, a.failed)
		}
	}
}

// abandon gives back what is held when something has panicked.
func (x *exchange) abandon() {
	if a := x.trying; a != nil && !a.charge.closed.Load() {
		a.charge.close(nothing())
		a.report(errNeutral)
		if a.cancel != nil {
			a.cancel()
		}
	}
	x.whole.close(nothing())
	x.s.flights.remove(x)
	x.drop()
}

// again reports whether another attempt may help, and lets the place of a rest before it.
func (x *exchange) again(a *attempt) bool {
	class := a.class()
	if x.r.Context().Err() != nil || x.tries >= x.s.MaxAttempts || !class.Elsewhere() {
		return false
	}
	until := time.Now().Add(x.s.backoff.Delay(x.tries-1, a.verdict.After))
	if !class.Retryable() {
		until = never
	}
	for i := range x.places {
		if p := &x.places[i]; a.concerns(&p.candidate) && p.until.Before(until) {
			p.until = until
		}
	}
	return true
}

// never is when a place that has refused this request for good is asked again.
var never = time.Unix(1<<40, 0)

// concerns reports whether what a has met is to be expected at p too.
func (a *attempt) concerns(p *candidate) bool {
	if p.provider != a.at.provider {
		return false
	}
	switch a.verdict.Scope {
	case upstream.OfProvider:
		return true
	case upstream.OfCredential:
		return p.key.ID == a.at.key.ID
	}
	return p.key.ID == a.at.key.ID && p.model == a.at.model
}

// next admits the next attempt: at the first place that is awake and has room now, and else
// at the one that has room first, in whose line it waits. If all rest, it waits for one.
func (x *exchange) next() (*attempt, error) {
	for {
		if err := x.r.Context().Err(); err != nil { // nobody is there any more
			return nil, err
		}
		awake, wakes := x.awake()
		if len(awake) > 0 {
			a, err := x.among(awake)
			if _, lost := errors.AsType[*translate.Loss](err); lost {
				continue // it will not be asked again
			}
			return a, err
		}
		pause := time.Until(wakes)
		if wakes.IsZero() || pause > longestPause || !x.admitBy.IsZero() && wakes.After(x.admitBy) {
			return nil, errNoPlace
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-x.r.Context().Done():
			timer.Stop()
			return nil, context.Cause(x.r.Context())
		}
	}
}

// longestPause is the longest pause before another attempt. What asks for more is told to
// the client.
const longestPause = time.Minute

// errNoPlace says that every place has failed and is not to be asked again in time.
var errNoPlace = errors.New("llm: no provider is left to ask in time")

// awake returns the places that do not rest, and when the first of the others wakes.
func (x *exchange) awake() (list []*place, wakes time.Time) {
	now := time.Now()
	for i := range x.places {
		p := &x.places[i]
		if !p.until.After(now) {
			list = append(list, p)
		} else if wakes.IsZero() || p.until.Before(wakes) {
			wakes = p.until
		}
	}
	return list, wakes
}

// among admits an attempt at one of places.
func (x *exchange) among(places []*place) (*attempt, error) {
	var soonest *place
	var first error
	var wait time.Duration
	for _, at := range places {
		admit := x.try
		if len(places) == 1 {
			admit = x.admit
		}
		a, err := x.admitAt(at, admit)
		if err == nil {
			return a, nil
		}
		if _, lost := errors.AsType[*translate.Loss](first); first == nil || lost {
			first = err
		}
		r, ok := errors.AsType[*sluice.Refusal](err)
		if ok && !r.Permanent && (soonest == nil || r.RetryAfter < wait) {
			soonest, wait = at, r.RetryAfter
		}
	}
	if soonest == nil || len(places) == 1 {
		return nil, first
	}
	return x.admitAt(soonest, x.admit)
}

// admitAt takes what an attempt at one place needs.
func (x *exchange) admitAt(at *place, admit func(sluice.Call) (*charge, error)) (*attempt, error) {
	if err := x.translate(at); err != nil {
		return nil, err
	}
	report, err := at.provider.breaker.Allow()
	if err != nil {
		return nil, &brokenError{at.provider.Name}
	}
	began := time.Now()
	c, err := admit(x.attemptCall(at))
	if err != nil {
		report(errNeutral)
		return nil, err
	}
	if x.last != nil && x.last != at {
		x.failovers++
	}
	x.last = at
	x.show(at)
	a := &attempt{x: x, at: at.candidate, charge: c, report: report, began: time.Now(), waited: time.Since(began), levels: c.admission.Levels()}
	if at.foreign != nil {
		a.said = at.foreign.said
	}
	return a, nil
}

// attemptCall is an attempt at one place, for rules to match.
func (x *exchange) attemptCall(at *place) sluice.Call {
	call := x.call(KindAttempt, at.provider.accounting.reserve(&x.expect, &x.model.Price))
	call.Provider, call.Model, call.Credential = at.provider.Name, at.model, at.key.ID
	return call
}

// try admits a call if that needs no waiting.
func (x *exchange) try(call sluice.Call) (*charge, error) {
	d := &sluice.Decision{WantLevels: true}
	ok, err := x.s.control.Try(x.r.Context(), &call, d)
	if err == nil && !ok {
		err = d.Refusal().Clone()
	}
	if err != nil {
		return nil, err
	}
	return &charge{admission: d.Admission(), tokens: call.Cost.Of(sluice.Tokens), log: x.s.Logger}, nil
}

// A brokenError says that a provider has failed so often that it is left alone.
type brokenError struct{ provider string }

func (e *brokenError) Error() string {
	return "llm: the provider " + e.provider + " fails and is left alone for a while"
}
