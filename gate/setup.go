package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/sluicegate/sluice/gate/cost"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/route"
)

// A setup is what one set of options comes to. It never changes; a request uses one
// from beginning to end.
type setup struct {
	o         Options
	log       *slog.Logger
	paths     route.Options
	clients   *clientip.Resolver
	callers   *identity.Resolver
	excluded  []route.Pattern
	routes    *route.Table
	endpoints []endpoint
	mcp       []mcpPath
	answers   answers // for requests that no endpoint has its own for
	guard     guard
	ordinary  map[string]bool // headers that claim nothing
	upstreams *upstream.Table
	stop      context.CancelFunc // ends the fetching of key sets
}

// An endpoint is an [Endpoint] that is ready.
type endpoint struct {
	id      string
	pattern string
	cost    cost.Options
	answers answers
}

// An mcpPath is an [MCP] that is ready.
type mcpPath struct {
	pattern route.Pattern
	MCP
}

// newSetup builds a setup. before is the one that it replaces, or nil.
func newSetup(o Options, before *setup) (_ *setup, err error) {
	s := &setup{o: o, log: logger(o.Logger), paths: route.Options{
		EncodedSlash: route.EncodedSlash(o.Paths.EncodedSlash),
		FoldCase:     o.Paths.FoldCase,
	}}
	if s.clients, err = s.resolver(before); err != nil {
		return nil, err
	}
	if err := s.addPaths(); err != nil {
		return nil, err
	}
	if s.upstreams, err = upstream.New(o.Upstreams, upstream.Surroundings{
		Paths: s.paths, ForwardCanonical: o.Paths.ForwardCanonical,
		Scrub: s.scrub, Admit: admitAnswer, Fail: s.failForward, Logger: s.log,
	}); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	if s.callers, err = identity.New(ctx, o.Identity); err != nil {
		stop()
		return nil, err
	}
	s.stop = stop
	s.guard = newGuard(s.callers.TenantHeader())
	s.ordinary = s.claimless()
	return s, nil
}

// resolver finds clients. Where nothing about them has changed it is the one before, which
// knows what it has warned of.
func (s *setup) resolver(before *setup) (*clientip.Resolver, error) {
	o := &s.o.ClientIP
	if before != nil && before.log == s.log && reflect.DeepEqual(before.o.ClientIP, *o) {
		return before.clients, nil
	}
	return clientip.New(clientip.Options{
		Header: o.Header, Trusted: o.Trusted, Hops: o.Hops, TrustUnix: o.TrustUnix,
		NAT64: o.NAT64, IPv4Bits: o.IPv4Prefix, IPv6Bits: o.IPv6Prefix,
		Warn: func(w clientip.Warning) { s.log.Warn("gate: "+w.Text, "code", w.Code) },
	})
}

// addPaths reads everything that has a pattern.
func (s *setup) addPaths() (err error) {
	for _, text := range s.o.Excluded {
		p, err := route.Parse(text, s.paths)
		if err != nil {
			return fmt.Errorf("gate: excluded path: %w", err)
		}
		s.excluded = append(s.excluded, p)
	}
	for _, m := range s.o.MCP {
		p, err := route.Parse(m.Pattern, s.paths)
		if err != nil {
			return fmt.Errorf("gate: MCP path: %w", err)
		}
		s.mcp = append(s.mcp, mcpPath{pattern: p, MCP: m})
	}
	if s.answers, err = newAnswers(&s.o, s.o.Headers); err != nil {
		return err
	}
	var routes []route.Route
	for i := range s.o.Endpoints {
		e := &s.o.Endpoints[i]
		r, err := s.addEndpoint(e)
		if err != nil {
			return fmt.Errorf("gate: endpoint %q: %w", e.ID, err)
		}
		routes = append(routes, r)
	}
	s.routes, err = route.NewTable(routes)
	return err
}

func (s *setup) addEndpoint(e *Endpoint) (r route.Route, err error) {
	if e.ID == "" {
		return r, errors.New("it has no ID")
	}
	if r.Pattern, err = route.Parse(e.Pattern, s.paths); err != nil {
		return r, err
	}
	if err := e.Cost.Check(); err != nil {
		return r, err
	}
	ready := endpoint{id: e.ID, pattern: e.Pattern, cost: e.Cost, answers: s.answers}
	if e.Headers != nil {
		if ready.answers, err = newAnswers(&s.o, *e.Headers); err != nil {
			return r, err
		}
	}
	s.endpoints = append(s.endpoints, ready)
	r.Methods, r.Hosts = e.Methods, e.Hosts
	return r, nil
}

// close stops what runs in the background for s. Requests that use s go on.
func (s *setup) close() {
	s.stop()
	s.upstreams.Close()
}
