package llm

import (
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm/dialect"
)

// An Explanation is what would happen to a request, and why. Nothing was taken for it.
type Explanation struct {
	Dialect   dialect.Name
	Operation dialect.Operation
	Model     string
	Stream    bool
	Caller    Caller
	// Input is the estimate of the input, and Reserved what would be taken for it, with a
	// margin. Output is what would be taken on the tenant's account.
	Input, Reserved, Output int64
	// Fault is why the request would not even be admitted, nil if there is nothing wrong
	// with it.
	Fault *dialect.Fault
	// Rules are what the rules say about the request itself, on its tenant's account.
	Rules *sluice.Explanation
	// Places are where it may be sent, in the order in which they are tried.
	Places []PlaceExplanation
}

// A PlaceExplanation is what would happen to an attempt at one place.
type PlaceExplanation struct {
	Provider, Model, Credential string
	// Lost is why the request cannot be put into the dialect of the place, if that is another
	// one: it is not asked then. Nil is otherwise.
	Lost error
	// Broken says that the provider has failed so often that it is left alone.
	Broken bool
	// Tokens are what the attempt would take by the provider's own way of counting.
	Tokens int64
	// Rules are what the rules say about it, those that wait for a cooldown among them.
	Rules *sluice.Explanation
}

// Explain says what would happen to r, and takes nothing. Its body is read. The error is the
// store's, or ctx's.
func (g *Gateway) Explain(r *http.Request) (*Explanation, error) {
	s := g.settings.Load()
	x, fault := s.newExchange(r, nil)
	defer x.drop()
	e := &Explanation{Dialect: x.route.Dialect, Operation: x.route.Operation, Caller: x.who, Fault: fault}
	if x.ask != nil {
		e.Model, e.Stream = x.ask.Model, x.ask.Stream
	}
	if fault != nil {
		return e, nil
	}
	cost := fair.reserve(&x.expect, &x.model.Price)
	e.Input, e.Reserved, e.Output = x.expect.input.Tokens, cost.Of(InputTokens), cost.Of(OutputTokens)
	var err error
	if e.Rules, err = s.control.Check(r.Context(), x.call(KindRequest, cost)); err != nil {
		return nil, err
	}
	for i := range x.places {
		call := x.attemptCall(&x.places[i])
		p := PlaceExplanation{Provider: call.Provider, Model: call.Model, Credential: call.Credential, Tokens: call.Cost.Of(sluice.Tokens),
			Broken: x.places[i].provider.broken(), Lost: x.translate(&x.places[i])}
		if p.Rules, err = s.control.Check(r.Context(), call); err != nil {
			return nil, err
		}
		e.Places = append(e.Places, p)
	}
	return e, nil
}

// A Flight is a request that is under way: it waits, or its answer is coming.
type Flight struct {
	Caller    Caller
	Model     string
	Operation dialect.Operation
	Stream    bool
	Since     time.Time
	// Provider is where it was sent last, empty while it waits for the first time. Credential
	// names the credential there.
	Provider, Credential string
	// Attempts counts how often it was sent.
	Attempts int
}

// Flights returns the requests that are under way, in no order: who holds the slots.
func (g *Gateway) Flights() []Flight {
	var list []Flight
	g.settings.Load().flights.each(func(x *exchange) { list = append(list, x.flight()) })
	return list
}
