package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
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
	path      string // without the provider's name
	route     dialect.Route
	ask       *dialect.Request
	who       Caller
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

	shown sync.Mutex // of what follows
	at    *place     // where it was sent last
	sent  int
}

// A place is a candidate, and until when it is not to be asked.
type place struct {
	candidate
	until time.Time
}

// newExchange reads a request up to the point where something is to be taken for it. If who
// is nil, the request has to say who sends it.
func (s *settings) newExchange(r *http.Request, who *Caller) (*exchange, *dialect.Fault) {
	x := &exchange{s: s, r: r, began: time.Now()}
	named, rest := s.cutProvider(r.URL.Path)
	x.path = rest
	x.route = dialect.Find(r.Method, rest, r.URL.RawQuery)
	if who != nil {
		x.who = *who
	} else if f := x.identify(); f != nil {
		return x, f
	}
	if !x.route.Known && !s.Unknown {
		return x, &dialect.Fault{Status: http.StatusNotFound, Code: "unknown-path", Useless: true,
			Message: "This path is none that the gateway knows; llm.unknownPaths says what becomes of those."}
	}
	if f := x.read(); f != nil {
		return x, f
	}
	candidates, model := s.route(named, x.route, x.ask.Model)
	x.model = model
	for _, c := range candidates {
		x.places = append(x.places, place{candidate: c})
	}
	if len(x.places) == 0 {
		return x, &dialect.Fault{Status: http.StatusNotFound, Code: "no-provider", Useless: true,
			Message: "No provider that speaks this dialect is configured for the model."}
	}
	x.admitBy = x.deadline()
	x.estimate()
	return x, nil
}

// identify finds out who asks.
func (x *exchange) identify() *dialect.Fault {
	x.who = Caller{IP: addressOf(x.r)}
	if x.s.Identify == nil {
		x.who.Subject = x.who.IP
		return nil
	}
	who, err := x.s.Identify(x.r, credentialOf(x.r))
	if err != nil {
		return &dialect.Fault{Status: http.StatusUnauthorized, Code: "unauthorized", Message: err.Error(), Useless: true}
	}
	x.who = who
	return nil
}

// read reads the body, as far as it may be long.
func (x *exchange) read() *dialect.Fault {
	large := &dialect.Fault{Status: http.StatusRequestEntityTooLarge, Code: "body-too-large", Useless: true,
		Message: fmt.Sprintf("The body has more than %d bytes; llm.maxBody says how many it may have.", x.s.MaxBody)}
	if x.r.ContentLength > x.s.MaxBody {
		return large
	}
	var body []byte
	if x.r.Body != nil && x.r.Body != http.NoBody {
		var err error
		if body, err = readAll(x.r, x.s.MaxBody); err != nil {
			if errors.Is(err, errLarge) {
				return large
			}
			return &dialect.Fault{Status: http.StatusBadRequest, Code: "body-unreadable", Message: "The body could not be read to its end.", Useless: true}
		}
	}
	ask, err := dialect.Read(x.route, body)
	if err != nil && !x.s.Malformed {
		return &dialect.Fault{Status: http.StatusBadRequest, Code: "malformed", Useless: true,
			Message: "The body is no JSON object, or has a field that counts twice."}
	}
	if err != nil {
		ask = dialect.Opaque(x.route, body)
	}
	x.ask = ask
	return nil
}

var errLarge = errors.New("llm: the body is too large")

// readAll reads a body of at most most bytes, into memory that has its size from the start
// if that is told.
func readAll(r *http.Request, most int64) ([]byte, error) {
	in := io.LimitReader(r.Body, most+1)
	if n := r.ContentLength; n > 0 {
		body := make([]byte, n)
		_, err := io.ReadFull(in, body)
		return body, err
	}
	body, err := io.ReadAll(in)
	if int64(len(body)) > most {
		return nil, errLarge
	}
	return body, err
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
	x.expect = expectation{input: x.s.Estimator.Input(key, x.ask), requested: x.ask.Output, most: x.model.MaxOutput}
	x.expect.learned = x.s.Estimator.Output(key, x.ask.Output)
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

// credentialOf returns the credential that a request shows, in any dialect's place.
func credentialOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(token)
	}
	for _, name := range credentialHeaders[1:] {
		if v := r.Header.Get(name); v != "" {
			return v
		}
	}
	return r.URL.Query().Get("key")
}

// credentialHeaders carry credentials in some dialect.
var credentialHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}
