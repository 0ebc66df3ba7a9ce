package cost

import (
	"encoding/json"
	"math"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// maxGraphQLTokens bounds the work of parsing one document.
const maxGraphQLTokens = 20_000

// fields counts the top-level fields of a GraphQL request, or of a list of them.
func fields(body []byte) (int64, error) {
	batch := []json.RawMessage{body}
	if isArray(body) {
		var err error
		if batch, err = elements(body); err != nil {
			return 0, err
		}
	}
	var sum int64
	for _, raw := range batch {
		request, err := object(raw)
		if err != nil {
			return 0, err
		}
		n, err := document(text(request["query"]))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// document counts the largest operation of a document: one of them runs. A request
// without a document names a stored one and counts as one.
func document(query string) (int64, error) {
	if query == "" {
		return 1, nil
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, maxGraphQLTokens)
	if err != nil {
		return 0, ErrMalformed
	}
	c := counter{doc: doc, known: map[string]int64{}}
	var most int64
	for _, op := range doc.Operations {
		most = max(most, c.selections(op.SelectionSet))
	}
	return most, nil
}

// A counter counts selections with the fragments they spread. Each fragment is counted
// once: a few that spread each other twice would otherwise take exponential time.
type counter struct {
	doc   *ast.QueryDocument
	known map[string]int64
}

func (c *counter) selections(set ast.SelectionSet) int64 {
	var n int64
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			n++
		case *ast.InlineFragment:
			n += c.selections(s.SelectionSet)
		case *ast.FragmentSpread:
			n += c.fragment(s.Name)
		}
		n = min(n, math.MaxInt32)
	}
	return n
}

func (c *counter) fragment(name string) int64 {
	if n, ok := c.known[name]; ok {
		return n
	}
	c.known[name] = 0 // a fragment that spreads itself is invalid, and must end here
	var n int64
	for _, f := range c.doc.Fragments {
		if f.Name == name {
			n = c.selections(f.SelectionSet)
			break
		}
	}
	c.known[name] = n
	return n
}
