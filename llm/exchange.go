package llm

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/estimate"
)

// An exchange is one request on its way: what was asked, by whom, and what was taken for it.
type exchange struct {
	s         *settings
	r         *http.Request
	named     string // the provider that the path names
	path      string // without it
	route     dialect.Route
	ask       *dialect.Request
	who       Caller
	site      string // all networks that the client may hold
	model     *Model
	places    []place
	last      *place
	expect    expectation
	began     time.Time
	admitBy   time.Time // zero is no deadline
	whole     *charge   // the request's own
	tries     int
	failovers int
	refused   sluice.Reason
	weight    int64    // bytes of the body
	guessed   bool     // the credential that was shown is not good
	trying    *attempt // the last one that was made

	shown sync.Mutex // of what follows
	at    *place     // where it was sent last
	sent  int
}

// A place is a candidate, and until when it is not to be asked.
type place struct {
	candidate
	until time.Time
}

// arrive looks at a request's first line and its address.
func (s *settings) arrive(r *http.Request) *exchange {
	x := &exchange{s: s, r: r, began: time.Now()}
	x.named, x.path = s.cutProvider(r.URL.Path)
	x.route = dialect.Find(r.Method, x.path, r.URL.RawQuery)
	x.who.IP, x.site = s.address(r)
	return x
}

// newExchange reads a request up to the point where something is to be taken for it. If who
// is nil, the request has to say who sends it.
func (s *settings) newExchange(r *http.Request, who *Caller) (*exchange, *dialect.Fault) {
	x := s.arrive(r)
	return x, x.enter(who)
}

func (x *exchange) enter(who *Caller) *dialect.Fault {
	s := x.s
	if who != nil {
		x.who = *who
	} else if f := x.identify(); f != nil {
		return f
	}
	if !dialect.Sane(x.path) || !x.route.Known && !s.Unknown {
		return &dialect.Fault{Status: http.StatusNotFound, Code: "unknown-path", Useless: true,
			Message: "This path is none that the gateway knows; llm.unknownPaths says what becomes of those."}
	}
	if f := x.read(); f != nil {
		return f
	}
	candidates, model := s.route(x.named, x.route, x.ask.Model)
	x.model = model
	for _, c := range candidates {
		x.places = append(x.places, place{candidate: c})
	}
	if len(x.places) == 0 {
		return &dialect.Fault{Status: http.StatusNotFound, Code: "no-provider", Useless: true,
			Message: "No provider that speaks this dialect is configured for the model."}
	}
	x.admitBy = x.deadline()
	x.estimate()
	return nil
}

// deadline is when the request has to be admitted: after the queue's time-out, or before
// the client gives up by its own word.
func (x *exchange) deadline() (at time.Time) {
	if x.s.QueueTimeout > 0 {
		at = x.began.Add(x.s.QueueTimeout)
	}
	for _, name := range []string{"X-Stainless-Timeout", "X-Stainless-Read-Timeout"} {
		if n, err := strconv.ParseFloat(x.r.Header.Get(name), 64); err == nil && n > 0 && n < 1e6 {
			if by := x.began.Add(time.Duration(n * float64(time.Second))); at.IsZero() || by.Before(at) {
				at = by
			}
		}
	}
	return at
}

// estimate works out what the request is likely to use.
func (x *exchange) estimate() {
	if !x.route.Operation.UsesTokens() {
		return
	}
	key := x.key()
	n := max(1, x.ask.Choices)
	x.expect = expectation{input: x.s.Estimator.Input(key, x.ask), requested: x.ask.Output, most: weigh(x.model.MaxOutput, 1000*min(n, 1<<20))}
	x.expect.learned = weigh(x.s.Estimator.Output(key, -1), 1000*min(n, 1<<20))
	if x.ask.Output >= 0 {
		x.expect.learned = min(x.expect.learned, x.ask.Output)
	}
}

func (x *exchange) key() estimate.Key {
	return estimate.Key{Tenant: x.who.account(), Model: x.ask.Model}
}

// account is whom the estimates are learned for.
func (c *Caller) account() string {
	if c.Tenant != "" {
		return c.Tenant
	}
	return c.Subject
}

// call is a call of this exchange, for rules to match.
func (x *exchange) call(kind string, cost sluice.Cost) sluice.Call {
	return sluice.Call{Kind: kind, Subject: x.who.Subject, Tenant: x.who.Tenant, Tier: x.who.Tier, IP: x.who.IP,
		Model: x.ask.Model, Capability: x.route.Operation.String(), Method: x.r.Method, Cost: cost}
}

// admit waits for a call's turn until the request's deadline.
func (x *exchange) admit(call sluice.Call) (*charge, error) {
	ctx := x.r.Context()
	if !x.admitBy.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, x.admitBy)
		defer cancel()
	}
	return take(ctx, x.s.control, call, x.s.Logger)
}

// close ends the exchange: what the request has used is charged to its tenant. A nil usage
// is none.
func (x *exchange) close(status int, used *dialect.Usage) {
	cost := nothing()
	if used != nil {
		cost = fair.settle(used, &x.model.Price)
	}
	x.whole.close(cost)
	x.s.flights.remove(x)
	x.drop()
	if f := x.s.Observer.Answered; f != nil {
		f(Answered{Dialect: x.route.Dialect, Operation: x.route.Operation, Status: status, Refused: x.refused,
			Attempts: x.tries, Failovers: x.failovers, Client: clientRetries(x.r), Took: time.Since(x.began)})
	}
}

// clientRetries is how often the client says that it has tried before. Nothing is decided
// by it: anybody can say anything.
func clientRetries(r *http.Request) int {
	n, err := strconv.Atoi(r.Header.Get("X-Stainless-Retry-Count"))
	if err != nil {
		return 0
	}
	return min(max(n, 0), 100)
}
