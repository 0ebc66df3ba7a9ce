package llm

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/translate"
)

// A provider is a Provider that is in use.
type provider struct {
	*Provider
	accounting Accounting
	breaker    *gobreaker.TwoStepCircuitBreaker[any]
	lately     observed
	discovered discovered
	plain      atomic.Bool // it has refused stream_options
}

// errNeutral is how the breaker is told of an answer that says nothing about the provider's
// health: a rate limit, a mistake of the client, a client that left.
var errNeutral = errors.New("llm: neither success nor failure")

const (
	breakAfter = 5                // failures in a row
	breakFor   = 15 * time.Second // until one attempt may find out
)

func newProvider(p *Provider) *provider {
	q := &provider{Provider: p, accounting: AccountingOf(p.Dialect)}
	if p.Accounting != nil {
		q.accounting = *p.Accounting
	}
	q.breaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name: p.Name, MaxRequests: 1, Timeout: breakFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakAfter },
		IsExcluded:  func(err error) bool { return errors.Is(err, errNeutral) || errors.Is(err, context.Canceled) },
	})
	return q
}

// broken reports whether the provider is left alone for its failures.
func (p *provider) broken() bool { return p.breaker.State() == gobreaker.StateOpen }

// A candidate is a place to which a request may be sent: a target and a credential of it.
// An empty Key is the client's own.
type candidate struct {
	provider *provider
	model    string // at the provider
	key      Key
	foreign  *foreign // nil where the client's dialect is spoken
}

// route returns the candidates of a request, in the order in which they are tried, and what
// is configured about its model.
func (s *settings) route(named string, r dialect.Route, model string) ([]candidate, *Model) {
	m := s.model(model)
	if m == nil {
		p := s.fallback(named, r.Dialect)
		if p == nil {
			return nil, &Model{}
		}
		return p.candidates(nil, model), &Model{}
	}
	var list []candidate
	for _, t := range m.Targets {
		p := s.providers[t.Provider]
		abroad := p.Dialect != r.Dialect
		if named != "" && p.Name != named || abroad && !(t.Translate && translate.Can(r, p.Dialect)) {
			continue
		}
		at := t.Model
		if at == "" {
			at = model
		}
		n := len(list)
		list = p.candidates(list, at)
		for i := n; abroad && i < len(list); i++ {
			list[i].foreign = &foreign{}
		}
	}
	return list, m
}

// candidates adds those of one provider: one for each of its keys.
func (p *provider) candidates(list []candidate, model string) []candidate {
	if len(p.Keys) == 0 {
		return append(list, candidate{provider: p, model: model})
	}
	for _, k := range p.Keys {
		list = append(list, candidate{provider: p, model: model, key: k})
	}
	return list
}

// model returns what is configured about a model: by its exact name, else by the first
// pattern.
func (s *settings) model(name string) *Model {
	if name == "" {
		return nil
	}
	for i := range s.Models {
		if s.Models[i].Name == name {
			return &s.Models[i]
		}
	}
	for i := range s.Models {
		if matches(s.Models[i].Name, name) {
			return &s.Models[i]
		}
	}
	return nil
}

// fallback is the provider of a model that is not listed: the one that the path names, or
// the first that speaks the client's dialect.
func (s *settings) fallback(named string, d dialect.Name) *provider {
	if named != "" {
		if p := s.providers[named]; p.Dialect == d {
			return p
		}
		return nil
	}
	for i := range s.Providers {
		if p := &s.Providers[i]; p.Dialect == d {
			return s.providers[p.Name]
		}
	}
	return nil
}

// cutProvider takes a provider's name from the beginning of a path, if one stands there.
func (s *settings) cutProvider(p string) (name, rest string) {
	first, after, more := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	if more && s.providers[first] != nil {
		return first, "/" + after
	}
	return "", p
}

// matches reports whether name is what pattern says, in which "*" stands for any text.
func matches(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, first)
	if !star || !ok {
		return ok && name == ""
	}
	pieces := strings.Split(rest, "*")
	for _, piece := range pieces[:len(pieces)-1] {
		i := strings.Index(name, piece)
		if i < 0 {
			return false
		}
		name = name[i+len(piece):]
	}
	return strings.HasSuffix(name, pieces[len(pieces)-1])
}
