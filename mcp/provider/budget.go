package provider

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Query asks for a budget on behalf of a caller.
type Query struct {
	Caller CallerReference
	// Autonomous asks on the provider's own behalf, for work that no request has caused, where
	// the broker's policy lets it. Caller is not looked at then. A query without either is
	// refused: work of a caller shall not become the provider's because its reference is missing.
	Autonomous bool
	Capability string
	// Resource is the provider's own name of what is worked on, Path its place in the tree.
	Resource, Path string
	// Unit is one that the provider has declared, Quantity how many are needed, 1 or more.
	Unit     string
	Quantity int64
	// Key tells one piece of work of a request from another, 1 to 128 of letters, digits and
	// ._:-. The same key in the same request is the same reservation; of autonomous work, the
	// same key of the provider. Empty draws one.
	Key string
}

// MarshalJSON writes the query as the broker reads it.
func (q Query) MarshalJSON() ([]byte, error) {
	principal := map[string]string{"type": "caller-ref", "ref": q.Caller.Ref}
	if q.Autonomous {
		principal = onBehalfOf("")
	}
	return json.Marshal(struct {
		Principal    map[string]string `json:"principal"`
		Capability   string            `json:"capability"`
		Resource     string            `json:"resource"`
		ResourcePath string            `json:"resourcePath"`
		Unit         string            `json:"unit"`
		Quantity     int64             `json:"quantity"`
		Key          string            `json:"idempotencyKey"`
	}{principal, q.Capability, q.Resource, q.Path, q.Unit, q.Quantity, q.Key})
}

// A Grant is a reserved budget. Its units count from the moment of the reservation, and
// none comes back for work that was not done, unless the operator's rule says so.
type Grant struct {
	ReservationID string `json:"reservationId"`
	DecisionID    string `json:"decisionId"`
	Quantity      int64  `json:"quantity"`
	// ExpiresAt is until when work may begin, in Unix milliseconds by the broker's clock. It
	// stops no work that has begun.
	ExpiresAt int64 `json:"expiresAt"`
	// Replayed says that the reservation was there before: its work may have been done.
	Replayed bool `json:"replayed"`
	// Effect is "allow-with-constraints" if there are Obligations, which the provider has to
	// meet before it acts; else empty.
	Effect      string      `json:"effect"`
	Obligations Obligations `json:"obligations"`

	until time.Time // by our own clock, which does not jump
}

// Valid reports whether work may begin at an instant.
func (g *Grant) Valid(at time.Time) bool { return at.Before(g.until) }

// mostLife is how long a grant is good at most (C-67).
const mostLife = time.Minute

// ReserveBudget reserves a budget for work that is about to begin. All budgets that apply
// are taken, or none. An [*Error] says why not; after [ErrLost] it is unknown, and the units
// are lost unless the same key is asked for again while the request is under way.
func (p *Provider) ReserveBudget(ctx context.Context, q Query) (*Grant, error) {
	if q.Key == "" {
		q.Key = rand.Text()
	}
	asked := time.Now()
	m, err := p.ask(ctx, "broker/budget/reserve", q)
	if err != nil {
		return nil, err
	}
	var g struct {
		Grant
		ExpiresInMs *int64 `json:"expiresInMs"`
	}
	if err := json.Unmarshal(m.Result, &g); err != nil || g.ReservationID == "" {
		return nil, errors.New("provider: the broker has answered a reservation with something else")
	}
	// The broker counted from some moment after we asked, so this ends no later than there,
	// whatever the two clocks say.
	g.until = asked.Add(mostLife)
	if g.ExpiresInMs != nil {
		g.until = asked.Add(min(time.Duration(*g.ExpiresInMs)*time.Millisecond, mostLife))
	} else if left := time.UnixMilli(g.ExpiresAt).Add(-p.o.ClockDifference).Sub(asked); left < mostLife {
		g.until = asked.Add(left) // Sub goes by the wall clock here, Add by the other
	}
	return &g.Grant, nil
}

// How native work has ended; see [Settlement] and [Provider.Report].
const (
	Success = "success"
	Failure = "failure"
	Refused = "refused" // it was not begun
)

// A Settlement says what came of reserved work.
type Settlement struct {
	ReservationID string `json:"reservationId"`
	Used          int64  `json:"used"` // units, 0 or more
	Result        string `json:"result"`
}

// SettleBudget reports what was used, also after the request has been answered, the grant
// has expired, or the connection was lost and made again. It tries until the broker has
// answered or ctx ends: the same settlement twice is one. Another one for the same
// reservation is an [*Error] with reason "settlement-conflict".
func (p *Provider) SettleBudget(ctx context.Context, s Settlement) error {
	_, err := p.askAgain(ctx, "broker/budget/settle", s)
	return err
}

// WithBudget reserves, runs work once, and settles. Work does not run, and the error wraps
// [ErrReplayed] or [ErrExpired], if the grant is no permission to begin; the key of a query
// is what makes a second attempt at the same work find the first.
//
// If work succeeds all units are settled as used, and a settlement that fails is the error:
// the books do not say then what was done. If work fails that is the error, whatever the
// settlement does; units are settled as used, since nobody knows how far the work came.
//
// The settlement does not end with ctx: it has [Options.SettleWithin].
func (p *Provider) WithBudget(ctx context.Context, q Query, work func(context.Context, *Grant) error) error {
	g, err := p.ReserveBudget(ctx, q)
	switch {
	case err != nil:
		return err
	case g.Replayed:
		return ErrReplayed
	case !g.Valid(time.Now()):
		return ErrExpired
	}
	err = work(ctx, g)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.SettleWithin)
	defer cancel()
	s := Settlement{g.ReservationID, g.Quantity, pick(err == nil, Success, Failure)}
	if e := p.SettleBudget(within, s); e != nil && err == nil {
		return fmt.Errorf("provider: the work was done and is not settled: %w", e)
	}
	return err
}
