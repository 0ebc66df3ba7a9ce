package schema

import (
	"encoding/json"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Work is counted in units. A unit took 1 to 18 ns in the most expensive checks that were
// found, see decision 0130; the bound is for the worst of them.
const (
	mostWork = 10_000_000

	visit       = 40  // a part looks at a value: an error is made, at worst
	perLevel    = 4   // and the error's place is copied
	perProperty = 16  // a member of an object, or an element, looked at by one part
	perName     = 4   // a name is looked up, and told if it is missing
	perText     = 2   // two texts are compared
	perNumber   = 160 // a number is read, or compared
	perDivision = 400
	perPattern  = 10 // a pattern is started
)

// weigh sets the work of p's own keywords.
func (p *part) weigh() {
	s := p.of
	p.own = visit + perName*(len(s.Required)+len(s.DependentRequired)+len(s.DependentSchemas)+len(s.Dependencies))
	for _, names := range s.DependentRequired {
		p.own += perName * len(names)
	}
	for _, names := range s.Dependencies {
		if names, ok := names.([]string); ok {
			p.own += perName * len(names)
		}
	}
	if s.Const != nil {
		p.own += comparison(*s.Const)
	}
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			p.own += comparison(v)
		}
	}
	if s.MinLength != nil || s.MaxLength != nil {
		p.perByte += 12
	}
	if re, ok := s.Pattern.(*pattern); ok {
		p.perByte += re.perByte()
		p.own += perPattern
	}
	p.weighNumber(s)
}

func (p *part) weighNumber(s *jsonschema.Schema) {
	whole := s.Types != nil && slices.Contains(s.Types.ToStrings(), "integer")
	if whole || s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil {
		p.onNumber = perNumber
	}
	if s.MultipleOf != nil {
		p.onNumber += perDivision
	}
}

// perByte is the work for each byte of a text that p is matched with, in 64ths: at worst
// every instruction is at work for every byte.
func (p *pattern) perByte() int { return 64 + 32*p.size }

// comparison is the work of comparing v with another value.
func comparison(v any) int {
	switch v := v.(type) {
	case json.Number:
		return 2 * perNumber
	case map[string]any:
		n := perText
		for _, x := range v {
			n += perProperty + comparison(x)
		}
		return n
	case []any:
		n := perText
		for _, x := range v {
			n += comparison(x)
		}
		return n
	}
	return perText
}

// A meter adds up the work of checking a value, without doing it. It goes wherever the
// library can go, and stops when the work is more than is allowed. So it never takes
// more steps than that, either.
type meter struct {
	left  int
	depth int // of the value
}

func (m *meter) spend(n int) bool {
	m.left -= n
	return m.left >= 0
}

// visit adds the work of p for v. False is too much.
func (m *meter) visit(p *part, v any) bool {
	if !m.spend(p.own + perLevel*m.depth) {
		return false
	}
	if p.types != 0 && p.types&typeOf(v) == 0 {
		return true // the library asks for the type first, and then for nothing else
	}
	for _, q := range p.here {
		if !m.visit(q, v) {
			return false
		}
	}
	switch v := v.(type) {
	case string:
		return m.spend(len(v) * p.perByte / 64)
	case json.Number:
		return m.spend(p.onNumber)
	case map[string]any:
		return m.object(p, v)
	case []any:
		return m.array(p, v)
	}
	return true
}

func (m *meter) object(p *part, object map[string]any) bool {
	m.depth++
	defer func() { m.depth-- }()
	for name, v := range object {
		if !m.spend(perProperty) || !m.property(p, name, v) {
			return false
		}
	}
	return true
}

// property adds the work for one property. Which others have looked at it is not known
// here, so that unevaluatedProperties counts for all.
func (m *meter) property(p *part, name string, v any) bool {
	q, named := p.properties[name]
	if named && !m.visit(q, v) {
		return false
	}
	for _, q := range p.patterns {
		if !m.spend(perPattern + len(name)*q.perByte()/64) {
			return false
		}
		if q.MatchString(name) {
			named = true
			if !m.visit(q.part, v) {
				return false
			}
		}
	}
	return (named || m.maybe(p.additional, v)) && m.maybe(p.unnamed, v) && m.maybe(p.names, name)
}

func (m *meter) maybe(p *part, v any) bool { return p == nil || m.visit(p, v) }

func (m *meter) array(p *part, array []any) bool {
	m.depth++
	defer func() { m.depth-- }()
	if p.of.UniqueItems && !m.distinct(array) {
		return false
	}
	for i, v := range array {
		q := p.rest
		if i < len(p.prefix) {
			q = p.prefix[i]
		}
		if !m.spend(perProperty) || !m.maybe(q, v) {
			return false
		}
		for _, q := range p.elements {
			if !m.visit(q, v) {
				return false
			}
		}
	}
	return true
}

// few is how many elements the library compares each with each; of more it compares
// hashes.
const few = 20

// distinct adds the work of finding out whether elements are distinct.
func (m *meter) distinct(array []any) bool {
	times := 2
	if len(array) <= few {
		times = len(array)/2 + 1
	}
	for _, v := range array {
		if !m.spend(times * (perProperty + comparison(v))) {
			return false
		}
	}
	return true
}
