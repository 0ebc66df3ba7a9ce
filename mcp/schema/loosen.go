package schema

import (
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// loosen takes out of the schema formats, and what an undecided pattern could turn into a
// wrong no. It returns notes on what was taken out beside patterns.
//
// An undecided pattern matches everything, and what is under it in patternProperties is
// true. That is a yes too many at worst, and most keywords pass it on as that. Those that
// turn it round are not, if, oneOf and maxContains.
func loosen(parts []*part) (notes []string) {
	unsure := unsureParts(parts)
	drop := func(s *jsonschema.Schema, keyword string) {
		notes = append(notes, cut(fmt.Sprintf("%s at %s is not checked: it depends on a pattern that is not", keyword, at(s))))
	}
	for _, p := range parts {
		s := p.of
		s.Format = nil
		if s.PropertyNames != nil {
			s.Extensions = append(s.Extensions, nameCheck{s.PropertyNames})
			s.PropertyNames = nil
		}
		for re := range s.PatternProperties {
			if re.(*pattern).re == nil {
				s.PatternProperties[re] = &jsonschema.Schema{Bool: new(true)}
			}
		}
		if s.Not != nil && unsure[s.Not] {
			s.Not = nil
			drop(s, "not")
		}
		if s.If != nil && unsure[s.If] {
			s.If = nil
			drop(s, "if")
		}
		if slices.ContainsFunc(s.OneOf, func(one *jsonschema.Schema) bool { return unsure[one] }) {
			s.OneOf = nil
			drop(s, "oneOf")
		}
		if s.MaxContains != nil && unsure[s.Contains] {
			s.MaxContains = nil
			drop(s, "maxContains")
		}
	}
	return notes
}

// unsureParts returns the schemas whose answer depends on an undecided pattern.
func unsureParts(parts []*part) map[*jsonschema.Schema]bool {
	appliedBy := map[*part][]*part{}
	var found []*part
	for _, p := range parts {
		for _, q := range p.children {
			appliedBy[q] = append(appliedBy[q], p)
		}
		re, ok := p.of.Pattern.(*pattern)
		undecided := func(p patternPart) bool { return p.re == nil }
		if ok && re.re == nil || slices.ContainsFunc(p.patterns, undecided) {
			found = append(found, p)
		}
	}
	unsure := map[*jsonschema.Schema]bool{}
	for len(found) > 0 {
		p := found[len(found)-1]
		found = found[:len(found)-1]
		if !unsure[p.of] {
			unsure[p.of] = true
			found = append(found, appliedBy[p]...)
		}
	}
	return unsure
}

// A nameCheck is propertyNames. The library's own puts a path into its error that it goes
// on to write to, so that the sentence would name another place.
type nameCheck struct{ names *jsonschema.Schema }

// Validate implements [jsonschema.SchemaExt].
func (c nameCheck) Validate(ctx *jsonschema.ValidatorContext, v any) {
	object, _ := v.(map[string]any)
	for name := range object {
		if c.names.Validate(name) != nil {
			ctx.AddError(&kind.PropertyNames{}) // which name is the caller's business
			return
		}
	}
}
