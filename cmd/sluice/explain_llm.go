package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm"
)

// A modelAnswer is what would happen to a request at the gateway to language models, as it is
// printed and sent.
type modelAnswer struct {
	Target    string        `json:"target"`
	Dialect   string        `json:"dialect"`
	Operation string        `json:"operation"`
	Model     string        `json:"model,omitempty"`
	Caller    callerAnswer  `json:"caller"`
	Input     int64         `json:"inputTokens"`
	Reserved  int64         `json:"reservedInputTokens"`
	Output    int64         `json:"reservedOutputTokens"`
	Problem   string        `json:"problem,omitempty"`
	Status    int           `json:"status,omitempty"`
	Request   *stepAnswer   `json:"request,omitempty"`
	Attempts  []*stepAnswer `json:"attempts,omitempty"`
}

// A stepAnswer is what the rules say about the request, or about one attempt.
type stepAnswer struct {
	Name    string        `json:"name"`
	Tokens  int64         `json:"tokens,omitempty"`
	Broken  bool          `json:"broken,omitempty"`
	Lost    string        `json:"lost,omitempty"` // by a translation, so that it is not sent there
	Admits  bool          `json:"admitted"`
	Rules   []ruleAnswer  `json:"rules"`
	Refusal *refusalWords `json:"refusal,omitempty"`
}

func newModelAnswer(q *question, e *llm.Explanation) *modelAnswer {
	a := &modelAnswer{Target: q.Target, Dialect: string(e.Dialect), Operation: e.Operation.String(), Model: e.Model,
		Caller: callerAnswer{Subject: e.Caller.Subject, Tenant: e.Caller.Tenant, Tier: e.Caller.Tier}, Input: e.Input, Reserved: e.Reserved, Output: e.Output}
	if e.Fault != nil {
		a.Problem, a.Status = e.Fault.Message, e.Fault.Status
		return a
	}
	a.Request = newStepAnswer("the request, for its tenant", e.Rules)
	for i := range e.Places {
		p := &e.Places[i]
		name := p.Provider + " " + p.Model
		if p.Credential != "" {
			name += " by " + p.Credential
		}
		step := newStepAnswer(name, p.Rules)
		step.Tokens, step.Broken = p.Tokens, p.Broken
		if p.Lost != nil {
			step.Lost = strings.TrimPrefix(p.Lost.Error(), "translate: ")
		}
		a.Attempts = append(a.Attempts, step)
	}
	return a
}

func newStepAnswer(name string, e *sluice.Explanation) *stepAnswer {
	s := &stepAnswer{Name: name, Admits: e.Admitted}
	if r := e.Refusal; r != nil {
		s.Refusal = &refusalWords{r.Reason.String(), r.Rule, r.Violated, r.RetryAfter.Milliseconds(), r.Permanent}
	}
	for i := range e.Rules {
		if e.Rules[i].Matched {
			s.Rules = append(s.Rules, newRuleAnswer(&e.Rules[i], "", e.Admitted))
		}
	}
	return s
}

// write prints the answer for people.
func (a *modelAnswer) write(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s %s, model %q\n\n", a.Target, a.Dialect, a.Operation, a.Model)
	if a.Problem != "" {
		_, err := fmt.Fprintf(w, "%d %s: %s\nNothing is taken.\n", a.Status, http.StatusText(a.Status), a.Problem)
		return err
	}
	var t table
	t.row("caller", a.Caller.Subject, "")
	t.row("tenant", a.Caller.Tenant, "")
	t.row("tokens", fmt.Sprintf("%d in", a.Input), fmt.Sprintf("reserved: %d in, %d out", a.Reserved, a.Output))
	if err := t.write(w, ""); err != nil {
		return err
	}
	for _, s := range append([]*stepAnswer{a.Request}, a.Attempts...) {
		if err := s.write(w); err != nil {
			return err
		}
	}
	return nil
}

func (s *stepAnswer) write(w io.Writer) error {
	fmt.Fprintf(w, "\n%s%s\n", s.Name, s.outcome())
	var t table
	for _, r := range s.Rules {
		for _, l := range r.Limits {
			t.row(l.mark()+r.Rule+r.mode(), withLease(l.Limit, l.Lease), l.change(), r.Key)
		}
	}
	return t.write(w, "  ")
}

// outcome says in a few words what becomes of a step.
func (s *stepAnswer) outcome() string {
	switch {
	case s.Lost != "":
		return ": passed by, for a translation would lose something: " + s.Lost
	case s.Broken:
		return ": left alone, it has failed too often"
	case s.Admits:
		return ": admitted"
	case s.Refusal == nil:
		return ": refused"
	case s.Refusal.Permanent:
		return ": refused, it can never pass"
	case s.Refusal.RetryAfterMs > 0:
		return fmt.Sprintf(": has to wait %v (%s)", milliseconds(s.Refusal.RetryAfterMs), s.Refusal.Reason)
	}
	return ": has to wait (" + s.Refusal.Reason + ")"
}

// explainModels asks a gateway about a request.
func explainModels(ctx context.Context, g *llm.Gateway, q *question) (*modelAnswer, error) {
	r, err := q.request(ctx)
	if err != nil {
		return nil, err
	}
	e, err := g.Explain(r)
	if err != nil {
		return nil, err
	}
	return newModelAnswer(q, e), nil
}

// offlineModels asks a gateway of its own, whose limits are full.
func (x *explainer) offlineModels(ctx context.Context, warn io.Writer) (*modelAnswer, error) {
	c, controller, err := x.full(warn)
	if err != nil {
		return nil, err
	}
	s := &llmServer{log: slog.New(slog.NewTextHandler(warn, nil))}
	o, d, err := s.options(c)
	if err != nil {
		return nil, err
	}
	defer d.close()
	s.door.Store(d)
	g, err := llm.New(controller, o)
	if err != nil {
		return nil, err
	}
	return explainModels(ctx, g, &x.question)
}

// The paths at the administration that are about language models.
const (
	explainModelsPath = "/api/v1/llm/explain"
	flightsPath       = "/actuator/llm"
)

// explainModelsLive answers explain --llm at the administration.
func explainModelsLive(g *llm.Gateway) http.Handler {
	return answering(func(ctx context.Context, q *question) (any, error) { return explainModels(ctx, g, q) })
}

// A flightAnswer is a request that is under way.
type flightAnswer struct {
	Subject    string `json:"subject"`
	Tenant     string `json:"tenant,omitempty"`
	Model      string `json:"model,omitempty"`
	Operation  string `json:"operation"`
	Stream     bool   `json:"stream"`
	ForMs      int64  `json:"forMs"`
	Provider   string `json:"provider,omitempty"` // empty while it waits
	Credential string `json:"credential,omitempty"`
	Attempts   int    `json:"attempts"`
}

// A discoveredLimit is what a provider has said of one of its limits.
type discoveredLimit struct {
	Provider   string `json:"provider"`
	Model      string `json:"model,omitempty"`
	Credential string `json:"credential,omitempty"`
	Dimension  string `json:"dimension"`
	PerMs      int64  `json:"perMs,omitempty"` // zero is not said
	Limit      int64  `json:"limit"`           // -1 is not said
	Remaining  int64  `json:"remaining"`       // the same
	ResetMs    int64  `json:"resetMs,omitempty"`
	AgoMs      int64  `json:"agoMs"`
}

func discoveredLimits(g *llm.Gateway) []discoveredLimit {
	list := []discoveredLimit{}
	for _, d := range g.Discovered() {
		for _, s := range d.Standings {
			list = append(list, discoveredLimit{d.Provider, d.Model, d.Credential, string(s.Dimension), s.Per.Milliseconds(), s.Limit, s.Remaining,
				s.Reset.Milliseconds(), time.Since(d.At).Milliseconds()})
		}
	}
	return list
}

// mostFlights is how many requests are listed, those first that are under way longest.
const mostFlights = 1000

// flightsLive lists what is under way: who holds the slots.
func flightsLive(g *llm.Gateway) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		list := g.Flights()
		slices.SortFunc(list, func(a, b llm.Flight) int { return a.Since.Compare(b.Since) })
		out := struct {
			UnderWay   int               `json:"underWay"`
			Requests   []flightAnswer    `json:"requests"`
			Discovered []discoveredLimit `json:"discovered"`
		}{len(list), []flightAnswer{}, discoveredLimits(g)}
		for _, f := range list[:min(len(list), mostFlights)] {
			out.Requests = append(out.Requests, flightAnswer{f.Caller.Subject, f.Caller.Tenant, f.Model, f.Operation.String(), f.Stream,
				time.Since(f.Since).Milliseconds(), f.Provider, f.Credential, f.Attempts})
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = writeJSON(w, out) // whoever asked has gone if it fails
	})
}
