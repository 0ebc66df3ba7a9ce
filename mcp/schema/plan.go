package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on a schema with its references followed.
const (
	mostParts = 10_000 // a part counts as often as it is referred to; a reference to what it is in counts once
	mostChain = 64     // parts in a row that are applied to one and the same value
)

// A part is what a schema or subschema costs: which others it applies to which values,
// and how much work its own keywords are. It mirrors a compiled schema of the library.
type part struct {
	of    *jsonschema.Schema
	types types // of values that get past "type"; zero is all
	own   int   // work for any value

	children []*part // all that follow, in a fixed order
	here     []*part // applied to the value itself

	properties map[string]*part
	patterns   []patternPart
	additional *part // to properties that neither of the two above names
	unnamed    *part // to properties that nothing else has looked at
	names      *part // to every property's name

	prefix   []*part // to the first elements
	rest     *part   // to those behind
	elements []*part // to every element

	perByte  int // work for each byte of a text, in 64ths
	onNumber int // work for a number

	size    int // itself and its children, as often as they are referred to; a reference to what p is in is 1
	chain   int // parts in a row that are applied to one value, beginning with p
	entered bool
}

type patternPart struct {
	*pattern
	part *part
}

// types are kinds of JSON values.
type types uint8

const (
	null types = 1 << iota
	boolean
	number
	text
	array
	object
)

var typeNames = map[string]types{"null": null, "boolean": boolean, "number": number, "integer": number,
	"string": text, "array": array, "object": object}

func typeOf(v any) types {
	switch v.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case json.Number:
		return number
	case string:
		return text
	case []any:
		return array
	default:
		return object
	}
}

// A planner makes the parts of one schema.
type planner struct {
	parts map[*jsonschema.Schema]*part
	order []*part
	fault string // the first
}

// plan returns the parts of a compiled schema, its own first, or why it cannot be used.
func plan(root *jsonschema.Schema) ([]*part, string) {
	pl := &planner{parts: map[*jsonschema.Schema]*part{}}
	p := pl.part(root)
	if pl.fault != "" {
		return nil, pl.fault
	}
	for _, q := range pl.order {
		if fault := q.follow(); fault != "" {
			return nil, fault
		}
	}
	return pl.order, p.measure()
}

// part returns the part of s.
func (pl *planner) part(s *jsonschema.Schema) *part {
	if p, ok := pl.parts[s]; ok {
		return p
	}
	p := &part{of: s}
	pl.parts[s] = p
	pl.order = append(pl.order, p)
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		pl.fault = "it has a $dynamicRef or $recursiveRef, which are not followed"
		return p
	}
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			p.types |= typeNames[name]
		}
	}
	pl.applied(p, s)
	pl.object(p, s)
	pl.array(p, s)
	p.weigh()
	return p
}

// child returns the part of s, which p applies to some value; nil of nil.
func (pl *planner) child(p *part, s *jsonschema.Schema) *part {
	if s == nil {
		return nil
	}
	q := pl.part(s)
	p.children = append(p.children, q)
	return q
}

func (pl *planner) list(p *part, list ...*jsonschema.Schema) (parts []*part) {
	for _, s := range list {
		if q := pl.child(p, s); q != nil {
			parts = append(parts, q)
		}
	}
	return parts
}

// applied adds what is applied to the same value.
func (pl *planner) applied(p *part, s *jsonschema.Schema) {
	p.here = slices.Concat(pl.list(p, s.AllOf...), pl.list(p, s.AnyOf...), pl.list(p, s.OneOf...),
		pl.list(p, s.Ref, s.Not, s.If, s.Then, s.Else))
	for _, name := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		p.here = append(p.here, pl.child(p, s.DependentSchemas[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		if one, ok := s.Dependencies[name].(*jsonschema.Schema); ok {
			p.here = append(p.here, pl.child(p, one))
		}
	}
}

func (pl *planner) object(p *part, s *jsonschema.Schema) {
	p.properties = make(map[string]*part, len(s.Properties))
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p.properties[name] = pl.child(p, s.Properties[name])
	}
	bySource := func(a, b jsonschema.Regexp) int { return strings.Compare(a.String(), b.String()) }
	for _, re := range slices.SortedFunc(maps.Keys(s.PatternProperties), bySource) {
		p.patterns = append(p.patterns, patternPart{re.(*pattern), pl.child(p, s.PatternProperties[re])})
	}
	if one, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		p.additional = pl.child(p, one)
	}
	p.unnamed = pl.child(p, s.UnevaluatedProperties)
	p.names = pl.child(p, s.PropertyNames)
}

func (pl *planner) array(p *part, s *jsonschema.Schema) {
	p.prefix, p.rest = pl.list(p, s.PrefixItems...), pl.child(p, s.Items2020)
	switch items := s.Items.(type) { // until 2019-09
	case *jsonschema.Schema:
		p.rest = pl.child(p, items)
	case []*jsonschema.Schema:
		p.prefix = pl.list(p, items...)
		if one, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
			p.rest = pl.child(p, one)
		}
	}
	p.elements = pl.list(p, s.Contains, s.UnevaluatedItems)
}

// measure sets the size of p and of all that it applies, or says that it is too large.
func (p *part) measure() (fault string) {
	p.entered = true
	defer func() { p.entered = false }()
	size := 1
	for _, q := range p.children {
		if q.size == 0 && !q.entered {
			if fault := q.measure(); fault != "" {
				return fault
			}
		}
		if size += max(q.size, 1); size > mostParts {
			return fmt.Sprintf("it has more than %d parts when its references are followed", mostParts)
		}
	}
	p.size = size
	return ""
}

// follow sets the chain of p, or says why there can be none.
func (p *part) follow() (fault string) {
	if p.chain > 0 {
		return ""
	}
	if p.entered {
		return "one of its references leads back to itself for the same value"
	}
	p.entered = true
	defer func() { p.entered = false }()
	longest := 0
	for _, q := range p.here {
		if fault := q.follow(); fault != "" {
			return fault
		}
		longest = max(longest, q.chain)
	}
	if p.chain = longest + 1; p.chain > mostChain {
		return fmt.Sprintf("more than %d of its parts apply to one value, each by the one before", mostChain)
	}
	return ""
}
