package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// place is where the library believes a schema to stand. Nothing is there.
const place = "tool:///input"

// mostLookups bounds references times objects: for a reference to a place that is no
// keyword's, the library goes over all of them again.
const mostLookups = 5_000_000

// A refuser loads nothing: a provider must not make the broker fetch (M-090).
type refuser struct{}

var errNotFetched = errors.New("it refers to another document, and none is fetched")

// Load implements [jsonschema.URLLoader].
func (refuser) Load(string) (any, error) { return nil, errNotFetched }

// Compile reads a tool's inputSchema: an object, of the draft that its $schema names, or
// of 2020-12. It returns a Problem for a schema that cannot be used, which is one that
//   - is not valid by its draft's rules;
//   - has more than 256 KiB, 64 levels or 20 000 values, or 10 000 parts when its
//     references are followed (M-088);
//   - refers to another document, or back to itself without a step into the value
//     (M-087), or by $dynamicRef or $recursiveRef.
//
// A pattern that RE2 cannot compile takes only itself out of the schema (M-089), and with
// it the keywords around it by which a yes too many becomes a no; [Schema.Notes] tells.
// "format" and the keywords about content are never asserted, as 2020-12 has it: which
// texts a provider takes for a date is its own business.
func Compile(raw json.RawMessage) (*Schema, *Problem) {
	doc, fault := schemaBounds.read(raw)
	if fault != "" {
		return nil, problem("it has " + fault)
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, problem("it is no object")
	}
	if references, objects := count(doc); references*objects > mostLookups {
		return nil, problem(fmt.Sprintf("it has %d references in %d objects, which are too many together", references, objects))
	}
	ps := &patterns{known: map[string]*pattern{}, left: mostPatternSizes}
	root, err := compile(doc, ps)
	if err != nil {
		return nil, problem(schemaFault(err))
	}
	parts, fault := plan(root)
	if fault != "" {
		return nil, problem(fault)
	}
	s := &Schema{root: root, parts: parts, notes: ps.notes, names: namesOf(parts)}
	s.notes = append(s.notes, loosen(parts)...)
	s.headers, s.headerFault = headersOf(doc.(map[string]any))
	return s, nil
}

// compile gives doc to the library. A panic there is a schema that cannot be used: the
// library's code says "cannot happen" in some places, and it reads a stranger's text.
func compile(doc any, ps *patterns) (root *jsonschema.Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errPanic
		}
	}()
	c := jsonschema.NewCompiler()
	c.UseLoader(refuser{})
	c.UseRegexpEngine(ps.compile)
	if err := c.AddResource(place, doc); err != nil {
		return nil, err
	}
	return c.Compile(place)
}

var errPanic = errors.New("the library that reads it failed")

// count returns how many references or ids, and how many objects, a value can have at
// most, if it is a schema.
func count(v any) (references, objects int) {
	add := func(x any) {
		r, o := count(x)
		references, objects = references+r, objects+o
	}
	switch v := v.(type) {
	case map[string]any:
		objects = 1
		for name, x := range v {
			if _, ok := x.(string); ok && (name == "$ref" || name == "$id" || name == "id") {
				references++
			}
			add(x)
		}
	case []any:
		for _, x := range v {
			add(x)
		}
	}
	return references, objects
}

// namesOf returns the names of properties that the schema itself has: they are no secret
// of a caller.
func namesOf(parts []*part) map[string]bool {
	known := map[string]bool{}
	for _, p := range parts {
		for name := range p.properties {
			known[name] = true
		}
		for _, name := range p.of.Required {
			known[name] = true
		}
	}
	return known
}

// at returns where in the document a compiled schema stands.
func at(s *jsonschema.Schema) string { return strings.TrimPrefix(s.Location, place) }
