package llm

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/estimate"
)

// An Ask is a call to a language model that somebody else makes.
type Ask struct {
	Caller Caller
	// Provider must be one of the gateway's. Model is its name there. Credential names the
	// credential, if there are several.
	Provider, Model, Credential string
	// Input is how many tokens are sent. Output is how many may come back; a negative number
	// is no bound.
	Input, Output int64
}

// A Reservation is what was taken for an Ask. Close it with Settle or Release; the first of
// them counts. It is safe for concurrent use.
type Reservation struct {
	whole, attempt *charge
	accounting     Accounting
	price          Price
}

// Reserve takes what a call needs, from its tenant's limits and the provider's, and waits
// for it as the rules allow. It returns a *[sluice.Refusal], or ctx's error; nothing stays
// taken then.
func (g *Gateway) Reserve(ctx context.Context, ask Ask) (*Reservation, error) {
	s := g.settings.Load()
	if s.QueueTimeout > 0 { // over both
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, s.QueueTimeout)
		defer stop()
	}
	p := s.providers[ask.Provider]
	if p == nil {
		return nil, fmt.Errorf("llm: there is no provider %q", ask.Provider)
	}
	r := &Reservation{accounting: p.accounting}
	e := &expectation{input: estimate.Input{Tokens: ask.Input, Reserve: ask.Input}, requested: ask.Output,
		learned: s.Estimator.Output(estimate.Key{Tenant: ask.Caller.account(), Model: ask.Model}, ask.Output)}
	if m := s.model(ask.Model); m != nil {
		r.price, e.most = m.Price, m.MaxOutput
	}
	call := sluice.Call{Kind: KindRequest, Subject: ask.Caller.Subject, Tenant: ask.Caller.Tenant, Tier: ask.Caller.Tier, IP: ask.Caller.IP,
		Model: ask.Model, Cost: fair.reserve(e, &r.price)}
	var err error
	if r.whole, err = take(ctx, s.control, call, s.Logger); err != nil {
		return nil, err
	}
	call.Kind, call.Provider, call.Credential, call.Cost = KindAttempt, p.Name, ask.Credential, p.accounting.reserve(e, &r.price)
	if r.attempt, err = take(ctx, s.control, call, s.Logger); err != nil {
		r.whole.close(undone())
		return nil, err
	}
	return r, nil
}

func take(ctx context.Context, c *sluice.Controller, call sluice.Call, log *slog.Logger) (*charge, error) {
	a, err := c.Admit(ctx, call)
	if err != nil {
		return nil, err
	}
	return &charge{admission: a, tokens: call.Cost.Of(sluice.Tokens), log: log}, nil
}

// Settle corrects the reservation to what was used, and ends it. More than was reserved is
// debited all the same.
func (r *Reservation) Settle(used dialect.Usage) {
	r.attempt.close(r.accounting.settle(&used, &r.price))
	r.whole.close(fair.settle(&used, &r.price))
}

// Release ends the reservation of a call that used nothing: its tokens come back, and it
// stays counted as a call. It does nothing after Settle.
func (r *Reservation) Release() {
	r.attempt.close(nothing())
	r.whole.close(nothing())
}
