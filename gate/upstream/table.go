package upstream

import (
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/internal/route"
)

// A Table chooses an upstream for a request. It is safe for concurrent use.
type Table struct {
	routes    *route.Table
	byRoute   []*Upstream
	upstreams []*Upstream
}

// New builds the table, or says what is wrong with an upstream. Two upstreams of which
// neither is more specific are an error.
func New(all []Options, s Surroundings) (*Table, error) {
	t := &Table{}
	names := map[string]bool{}
	var routes []route.Route
	for i := range all {
		o := &all[i]
		if o.Name == "" || names[o.Name] {
			return nil, fmt.Errorf("upstream: %q is no name, or is the name of two", o.Name)
		}
		names[o.Name] = true
		u, err := newUpstream(o, s)
		if err != nil {
			return nil, fmt.Errorf("upstream: %s: %w", o.Name, err)
		}
		t.upstreams = append(t.upstreams, u)
		paths := o.Paths
		if paths == nil {
			paths = []string{"/**"}
		}
		for _, text := range paths {
			p, err := route.Parse(text, s.Paths)
			if err != nil {
				return nil, fmt.Errorf("upstream: %s: %w", o.Name, err)
			}
			routes = append(routes, route.Route{Pattern: p, Hosts: o.Hosts})
			t.byRoute = append(t.byRoute, u)
		}
	}
	var err error
	t.routes, err = route.NewTable(routes)
	return t, err
}

// Lookup returns the upstream for a host and a canonical path, or nil if there is none.
func (t *Table) Lookup(host, path string) *Upstream {
	if i, ok := t.routes.Lookup(host, "", path); ok {
		return t.byRoute[i]
	}
	return nil
}

// Close closes idle connections. Requests that are under way go on.
func (t *Table) Close() {
	for _, u := range t.upstreams {
		if transport, ok := u.transport.(*http.Transport); ok {
			transport.CloseIdleConnections()
		}
	}
}
