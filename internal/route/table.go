package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Route says which requests one entry of a policy is for.
type Route struct {
	Pattern Pattern

	// Methods the entry is for, in upper case. None is every method. GET stands for HEAD
	// too, as in net/http, unless another entry for the same paths names HEAD.
	Methods []string

	// Hosts the entry is for, without a port: "api.example.com", or "*.example.com" for
	// every name below it. None is every host. Case does not matter.
	Hosts []string
}

// A Table chooses the most specific of its routes for a request. Of two that match, the
// more specific is the one that comes first by these, in this order:
//
//  1. the vaguest wildcard of its pattern: none, {name}, then * and ?, then **
//  2. the longer text before the first wildcard
//  3. it names the request's method: outright, HEAD by way of GET, not at all
//  4. it names the request's host: in full, by the longest *., not at all
//  5. the pattern with more text outside wildcards, then with more segments
//
// A Table is safe for concurrent use. The zero Table has no routes.
type Table struct {
	methods map[string]*index
	others  *index // for methods that no route names
	hosts   bool   // whether any route names one
}

// index holds what may match requests of one method.
type index struct {
	paths map[string][]entry // patterns without wildcards, each list most specific first
	root  node
}

// A node stands for a literal prefix of whole segments.
type node struct {
	next    map[string]*node
	entries []entry // patterns whose first wildcard is in the segment after the prefix
}

// An entry is one route for one method and one host. Entries of an index have a total
// order, rank, most specific first.
type entry struct {
	pattern *Pattern
	host    string // "" is any, ".example.com" any below
	method  methodFit
	route   int
	rank    int
}

// methodFit is how well a route's methods fit a request's, best first.
type methodFit uint8

const (
	named methodFit = iota
	implied
	anyMethod
	unfit
)

// NewTable builds the table of the routes. Its indexes are those of routes. Two routes
// that tie are a [*TieError].
func NewTable(routes []Route) (*Table, error) {
	if ties := Ties(routes); len(ties) > 0 {
		t := ties[0]
		return nil, &TieError{Tie: t, Patterns: [2]string{
			routes[t.First].Pattern.text, routes[t.Second].Pattern.text,
		}}
	}
	t := &Table{methods: map[string]*index{}, others: newIndex(routes, "")}
	for _, m := range methodsOf(routes) {
		t.methods[m] = newIndex(routes, m)
	}
	for i := range routes {
		t.hosts = t.hosts || len(routes[i].Hosts) > 0
	}
	return t, nil
}

// methodsOf returns every method whose routes differ from those of an unnamed one.
func methodsOf(routes []Route) []string {
	var all []string
	for i := range routes {
		all = append(all, routes[i].Methods...)
	}
	if slices.Contains(all, "GET") {
		all = append(all, "HEAD")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func newIndex(routes []Route, method string) *index {
	x := &index{paths: map[string][]entry{}}
	for i, e := range entriesFor(routes, method) {
		e.rank = i
		if e.pattern.class == exact {
			path := e.pattern.suffix
			x.paths[path] = append(x.paths[path], e)
			continue
		}
		n := &x.root
		for _, s := range e.pattern.segments {
			if s.class != exact {
				break
			}
			n = n.child(s.text)
		}
		n.entries = append(n.entries, e)
	}
	return x
}

func (n *node) child(segment string) *node {
	c := n.next[segment]
	if c == nil {
		c = &node{}
		if n.next == nil {
			n.next = map[string]*node{}
		}
		n.next[segment] = c
	}
	return c
}

// entriesFor returns the entries for one method, most specific first.
func entriesFor(routes []Route, method string) []entry {
	var all []entry
	for i := range routes {
		r := &routes[i]
		e := entry{pattern: &r.Pattern, method: r.fit(method), route: i}
		if e.method == unfit {
			continue
		}
		if len(r.Hosts) == 0 {
			all = append(all, e)
		}
		for _, h := range r.Hosts {
			e.host = strings.TrimPrefix(lower(h), "*")
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, compareEntries)
	return all
}

func (r *Route) fit(method string) methodFit {
	switch {
	case len(r.Methods) == 0:
		return anyMethod
	case slices.Contains(r.Methods, method):
		return named
	case method == "HEAD" && slices.Contains(r.Methods, "GET"):
		return implied
	}
	return unfit
}

// compareEntries is the order that [Table] describes. Zero is a tie, if both can match.
func compareEntries(a, b entry) int {
	return cmp.Or(
		a.pattern.compare(b.pattern),
		cmp.Compare(a.method, b.method),
		compareHosts(a.host, b.host),
		a.pattern.refine(b.pattern),
	)
}

func compareHosts(a, b string) int {
	vague := func(h string) int { // 0 in full, 1 by suffix, 2 any
		switch {
		case h == "":
			return 2
		case h[0] == '.':
			return 1
		}
		return 0
	}
	va, vb := vague(a), vague(b)
	if va != vb || va == 0 {
		return cmp.Compare(va, vb)
	}
	return cmp.Compare(len(b), len(a))
}

// Lookup returns the index of the most specific route for a request, and whether there
// is one. The host may have a port; the path is in canonical form. It allocates nothing.
func (t *Table) Lookup(host, method, path string) (route int, ok bool) {
	x := t.methods[method]
	if x == nil {
		x = t.others
	}
	if x == nil {
		return 0, false
	}
	if t.hosts {
		host = trimHost(host)
	}
	same := x.paths[path]
	for i := range same {
		if same[i].onHost(host) {
			return same[i].route, true
		}
	}
	best := x.search(host, path)
	if best == nil {
		return 0, false
	}
	return best.route, true
}

// search walks down the literal segments of path and keeps the best of what it passes.
func (x *index) search(host, path string) (best *entry) {
	rest := strings.TrimPrefix(path, "/")
	for n := &x.root; n != nil; {
		for i := range n.entries {
			e := &n.entries[i]
			if best != nil && e.rank > best.rank {
				break
			}
			if e.onHost(host) && e.pattern.Match(path) {
				best = e
				break
			}
		}
		if rest == "" || n.next == nil {
			break
		}
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		n = n.next[segment]
	}
	return best
}

func (e *entry) onHost(host string) bool {
	switch {
	case e.host == "":
		return true
	case e.host[0] == '.':
		return len(host) > len(e.host) && equalFold(host[len(host)-len(e.host):], e.host)
	}
	return equalFold(host, e.host)
}

// trimHost drops the port and the dot that may end a full name.
func trimHost(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}

// equalFold compares host names: the letters A to Z are their lower case, nothing else is.
func equalFold(host, lower string) bool {
	if len(host) != len(lower) {
		return false
	}
	for i := range len(host) {
		if fold(host[i], true) != lower[i] {
			return false
		}
	}
	return true
}

// A TieError says that no rule of [Table] prefers one of two routes, and that some
// request matches both.
type TieError struct {
	Tie
	Patterns [2]string
}

// Error names both patterns.
func (e *TieError) Error() string {
	return fmt.Sprintf("route: patterns %q and %q can match the same request and neither is more specific; "+
		"change one, or give it a method or a host", e.Patterns[0], e.Patterns[1])
}
