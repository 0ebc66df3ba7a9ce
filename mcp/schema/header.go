package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// annotation is the keyword by which a property asks to travel in a header, too.
//
// Source: MCP 2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool
// Parameters".
const annotation = "x-mcp-header"

// A Header is a property of the arguments that travels in a header field, too, on
// Streamable HTTP since 2026-07-28. Whoever reads the body must refuse a request whose
// header says something else (-32020).
type Header struct {
	Name string   // of the field: "Mcp-Param-Region"
	Path []string // names from the top of the arguments to the property
	kind string   // string, integer or boolean
}

// Headers returns the headers that the schema asks for, by their paths. A Problem says
// that one of its annotations breaks the rules: then clients on Streamable HTTP must not
// offer the tool, and others need not care. The rules: a name is a token of HTTP, and
// unique whatever its case; the property is a string, an integer or a boolean, or null
// beside; and it is reached from the top through properties alone.
func (s *Schema) Headers() ([]Header, *Problem) {
	if s.headerFault != "" {
		return nil, problem(s.headerFault)
	}
	return s.headers, nil
}

// Value returns the text of the field for some arguments, not yet encoded (see
// [protocol.EncodeHeader]), and whether there is a field: not if the property is absent
// or null, or of another type than the schema says.
func (h Header) Value(arguments json.RawMessage) (text string, ok bool) {
	raw, ok := jsonrpc.Lookup(arguments, h.Path...)
	if !ok {
		return "", false
	}
	switch h.kind {
	case "string":
		return jsonrpc.Text(raw)
	case "boolean":
		if text = string(raw); text == "true" || text == "false" {
			return text, true
		}
	case "integer":
		if n, ok := integer(string(raw)); ok {
			return n.String(), true
		}
	}
	return "", false
}

// Matches reports whether a request's field says what its arguments say. Text is the
// field's, decoded; sent is whether the request has the field. Integers are compared as
// numbers: 42.0 is 42.
func (h Header) Matches(text string, sent bool, arguments json.RawMessage) bool {
	want, ok := h.Value(arguments)
	if !ok || !sent {
		return ok == sent
	}
	if h.kind != "integer" {
		return text == want
	}
	n, ok := integer(text)
	return ok && n.String() == want
}

// integer reads a JSON number that is whole and within bounds.
func integer(text string) (*big.Int, bool) {
	if text == "" || tooLong([]byte(text)) || strings.Trim(text, "-+.0123456789eE") != "" {
		return nil, false
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || !r.IsInt() {
		return nil, false
	}
	return r.Num(), true
}

// Keywords that hold schemas: by name, in a list, or one. A list of names, as
// dependencies can have it, is no schema and is passed over.
var (
	schemasByName = []string{"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
	schemaLists   = []string{"allOf", "anyOf", "items", "oneOf", "prefixItems"}
	schemas       = []string{"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items",
		"not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)

// A headerFinder goes over a schema.
type headerFinder struct {
	found []Header
	fault string
	taken map[string]bool // names, in lower case
}

func headersOf(schema map[string]any) ([]Header, string) {
	f := &headerFinder{taken: map[string]bool{}}
	f.schema(schema, nil, true)
	return f.found, f.fault
}

// schema goes over one subschema. It is static if nothing but properties leads to it.
func (f *headerFinder) schema(v any, path []string, static bool) {
	schema, ok := v.(map[string]any)
	if !ok || f.fault != "" {
		return
	}
	if name, ok := schema[annotation]; ok {
		f.annotated(name, schema["type"], path, static && len(path) > 0)
	}
	for _, keyword := range schemasByName {
		members, _ := schema[keyword].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			f.schema(members[name], append(slices.Clip(path), name), static && keyword == "properties")
		}
	}
	for _, keyword := range schemaLists {
		elements, _ := schema[keyword].([]any)
		for _, one := range elements {
			f.schema(one, path, false)
		}
	}
	for _, keyword := range schemas {
		f.schema(schema[keyword], path, false)
	}
}

// annotated adds a header, or says what is wrong with it.
func (f *headerFinder) annotated(name, kind any, path []string, static bool) {
	where := fmt.Sprintf("%s at /%s", annotation, strings.Join(path, "/"))
	text, ok := name.(string)
	switch {
	case !ok || !token(text):
		f.fault = where + " is no name of a header field"
		return
	case !static:
		f.fault = where + " is not reached through properties alone"
		return
	case f.taken[strings.ToLower(text)]:
		f.fault = where + " has a name that another property has"
		return
	}
	f.taken[strings.ToLower(text)] = true
	h := Header{Name: protocol.HeaderParam + text, Path: path, kind: headerType(kind)}
	if h.kind == "" {
		f.fault = where + " is on a property that is no string, integer or boolean"
		return
	}
	f.found = append(f.found, h)
}

// headerType returns the one type of a property that a header can hold, or nothing. Null
// may stand beside it, since a field is left out for null.
func headerType(v any) string {
	if list, ok := v.([]any); ok {
		list = slices.DeleteFunc(slices.Clone(list), func(x any) bool { return x == "null" })
		if len(list) != 1 {
			return ""
		}
		v = list[0]
	}
	if v == "string" || v == "integer" || v == "boolean" {
		return v.(string)
	}
	return ""
}

// token reports whether s can be part of a field's name (RFC 9110, section 5.6.2).
func token(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
