package schema

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// mostText bounds every sentence of this package, in bytes.
const mostText = 300

// cut returns s as one line of at most mostText bytes.
func cut(s string) string { return cutTo(s, mostText) }

// cutTo returns s without what is not printed, and not longer than most bytes.
func cutTo(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if len(s) <= most {
		return s
	}
	const dots = "..."
	end := most - len(dots)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + dots
}

// mismatch returns what an error of the library says about v, nil if it is nil.
func (s *Schema) mismatch(v any, err error) *Mismatch {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return &Mismatch{Cause: "they cannot be checked: " + err.Error()}
	}
	e = firstCause(e)
	cause := causeOf(e.ErrorKind)
	if _, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
		cause += s.has(e.SchemaURL)
	}
	return &Mismatch{Pointer: pointer(v, e.InstanceLocation, s.names), Cause: cut(cause)}
}

// has names the properties that a part of the schema has, for who has sent others.
func (s *Schema) has(location string) string {
	for _, p := range s.parts {
		if p.of.Location == location && len(p.properties) > 0 {
			return "; it has " + list(slices.Sorted(maps.Keys(p.properties)), strconv.Quote)
		}
	}
	return ""
}

// schemaFault says what an error of the library means for a schema.
func schemaFault(err error) string {
	if _, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return errNotFetched.Error()
	}
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if e, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			e = firstCause(e)
			return "at /" + strings.Join(e.InstanceLocation, "/") + ": " + causeOf(e.ErrorKind)
		}
	}
	return strings.ReplaceAll(err.Error(), place, "")
}

// firstCause goes down from an error to the one place that says most. Of several it takes
// the first by place, so that the same arguments get the same sentence each time. The
// rest is not looked at: all of it can be megabytes.
func firstCause(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	for len(e.Causes) > 0 {
		causes := e.Causes
		switch e.ErrorKind.(type) {
		case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		case *kind.AnyOf, *kind.OneOf:
			if causes = likely(e); len(causes) != 1 {
				return e
			}
		default:
			return e
		}
		e = slices.MinFunc(causes, func(a, b *jsonschema.ValidationError) int {
			if c := slices.Compare(a.InstanceLocation, b.InstanceLocation); c != 0 {
				return c
			}
			return strings.Compare(a.SchemaURL, b.SchemaURL)
		})
	}
	return e
}

// likely returns which alternatives the caller may have meant: those of the value's type.
func likely(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	return slices.DeleteFunc(slices.Clone(e.Causes), func(c *jsonschema.ValidationError) bool {
		for len(c.Causes) == 1 && isReference(c) {
			c = c.Causes[0]
		}
		_, other := c.ErrorKind.(*kind.Type)
		return other && len(c.InstanceLocation) == len(e.InstanceLocation)
	})
}

func isReference(e *jsonschema.ValidationError) bool {
	_, ok := e.ErrorKind.(*kind.Reference)
	return ok
}

// pointer returns a place in v, with a * for a name that is not known.
func pointer(v any, tokens []string, known map[string]bool) string {
	var b strings.Builder
	for _, token := range tokens {
		switch at := v.(type) {
		case []any:
			if i, err := strconv.Atoi(token); err == nil && i < len(at) {
				v = at[i]
			}
		case map[string]any:
			v = at[token]
			if !known[token] {
				token = "*"
			}
		}
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
		b.WriteString("/" + cutTo(token, 60))
	}
	return b.String()
}

// causeOf says what is wrong without saying what is there.
func causeOf(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "is " + k.Got + ", not " + strings.Join(k.Want, " or ")
	case *kind.Const:
		return "is not " + shown(k.Want)
	case *kind.Enum:
		return "is none of " + list(k.Want, shown)
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Not:
		return "fits what it must not fit"
	case *kind.AnyOf:
		return "fits none of the alternatives"
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return "fits more than one of the alternatives"
		}
		return "fits none of the alternatives"
	case *kind.MinLength:
		return "is shorter than " + plural(k.Want, "character")
	case *kind.MaxLength:
		return "is longer than " + plural(k.Want, "character")
	case *kind.Pattern:
		return "does not match the pattern " + cutTo(strconv.Quote(k.Want), 200)
	case *kind.Minimum:
		return "is less than " + decimal(k.Want)
	case *kind.Maximum:
		return "is greater than " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "is not greater than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "is not less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "is no multiple of " + decimal(k.Want)
	}
	return causeInside(k)
}

// causeInside is causeOf for objects and arrays.
func causeInside(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return "lacks " + list(k.Missing, strconv.Quote)
	case *kind.DependentRequired:
		return "lacks " + list(k.Missing, strconv.Quote) + ", which " + strconv.Quote(k.Prop) + " needs"
	case *kind.Dependency:
		return "lacks " + list(k.Missing, strconv.Quote) + ", which " + strconv.Quote(k.Prop) + " needs"
	case *kind.AdditionalProperties:
		return "has " + plural(len(k.Properties), "property", "properties") + " that the schema does not have"
	case *kind.PropertyNames:
		return "has a property with a name that is not allowed"
	case *kind.MinProperties:
		return "has fewer than " + plural(k.Want, "property", "properties")
	case *kind.MaxProperties:
		return "has more than " + plural(k.Want, "property", "properties")
	case *kind.MinItems:
		return "has fewer than " + plural(k.Want, "element")
	case *kind.MaxItems:
		return "has more than " + plural(k.Want, "element")
	case *kind.AdditionalItems:
		return "has " + plural(k.Count, "element") + " too many"
	case *kind.UniqueItems:
		return fmt.Sprintf("has the same element at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "has no element that fits"
	case *kind.MinContains:
		return "has fewer than " + plural(k.Want, "element") + " that fit"
	case *kind.MaxContains:
		return "has more than " + plural(k.Want, "element") + " that fit"
	}
	return "does not fit"
}

// list names the first of many.
func list[T any](all []T, one func(T) string) string {
	const most = 8
	texts := make([]string, 0, most+1)
	for _, x := range all[:min(len(all), most)] {
		texts = append(texts, cutTo(one(x), 60))
	}
	if len(all) > most {
		texts = append(texts, fmt.Sprintf("%d more", len(all)-most))
	}
	return strings.Join(texts, ", ")
}

// shown returns a value of the schema in a few words.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(cutTo(v, 60))
	case map[string]any:
		return "a certain object"
	case []any:
		return "a certain array"
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}

func plural(n int, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		return fmt.Sprint(n, " ", many[0])
	}
	return fmt.Sprint(n, " ", one, "s")
}

func decimal(r *big.Rat) string {
	if r.IsInt() {
		return cutTo(r.Num().String(), 60)
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
