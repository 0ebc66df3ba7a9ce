package config

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// schemaDialect is the JSON Schema version that [Schema] writes.
const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// Schema returns a JSON Schema of the file, for editors and for checks without sluice. It
// is made from the structs that the decoder fills. It knows keys, kinds, choices, bounds
// and the spelling of units; what spans several keys, only [Load] checks.
func Schema() []byte {
	s := schemas{defs: map[string]any{}, docs: comments()}
	root := s.object(reflect.TypeFor[Root]())
	for _, m := range moves {
		s.moved(root, strings.Split(m.from, "."), m.to)
	}
	root["$schema"] = schemaDialect
	root["title"] = "sluice configuration"
	root["$defs"] = s.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: the schema cannot be written: " + err.Error()) // maps, texts and numbers only
	}
	return append(out, '\n')
}

// schemas makes the schema of each struct once, under $defs.
type schemas struct {
	defs map[string]any
	docs map[string]string
}

type object = map[string]any

// ref returns a reference to the schema of struct t, which it makes on first use.
func (s *schemas) ref(t reflect.Type) object {
	if _, ok := s.defs[t.Name()]; !ok {
		s.defs[t.Name()] = object{} // for structs that contain themselves
		s.defs[t.Name()] = s.object(t)
	}
	return object{"$ref": "#/$defs/" + t.Name()}
}

func (s *schemas) object(t reflect.Type) object {
	properties, required, choices := object{}, []string{}, []any(nil)
	for _, f := range describe(t).fields {
		property := s.field(f)
		names := f.names()
		for _, name := range names {
			properties[name] = property
		}
		switch {
		case f.required && len(names) == 1:
			required = append(required, f.key)
		case f.required:
			choices = append(choices, anyRequired(names))
		}
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	if choices != nil {
		out["allOf"] = choices
	}
	if key := shorthandOf(t); key != "" {
		return s.orBare(t, key, out)
	}
	return out
}

// orBare is the schema of a struct that a bare value may stand for.
func (s *schemas) orBare(t reflect.Type, key string, full object) object {
	f, _ := describe(t).lookup(key)
	if t == toolMapType {
		return s.field(f)
	}
	return object{"anyOf": []any{s.field(f), full}}
}

func anyRequired(names []string) object {
	var any []any
	for _, name := range names {
		any = append(any, object{"required": []string{name}})
	}
	return object{"anyOf": any}
}

// field returns the schema of one key, with its description and default.
func (s *schemas) field(f fieldInfo) object {
	out := object{"anyOf": []any{s.typ(f), object{"type": "null"}}}
	if f.required {
		out = s.typ(f)
	}
	if doc := s.docs[f.owner.Name()+"."+f.name]; doc != "" {
		out["description"] = doc
	}
	if f.has {
		out["default"] = f.defaultValue()
	}
	return out
}

// defaultValue returns the default as JSON would write it.
func (f fieldInfo) defaultValue() any {
	switch {
	case f.typ.Kind() == reflect.Slice:
		return strings.Split(f.initial, "|")
	case f.typ.Kind() == reflect.Bool:
		return f.initial == "true"
	case f.typ.Kind() == reflect.Int64 && f.typ != durationType:
		n, _ := strconv.ParseInt(f.initial, 10, 64)
		return n
	}
	return f.initial
}

func (s *schemas) typ(f fieldInfo) object {
	t := deref(f.typ)
	switch {
	case t == freeType:
		return object{}
	case f.keyed != "":
		return object{"type": "object", "additionalProperties": s.ref(t.Elem())}
	case t.Kind() == reflect.Slice && isStruct(t.Elem()):
		list := f.array(s.ref(t.Elem()))
		if key := shorthandOf(t.Elem()); key != "" {
			bare, _ := describe(t.Elem()).lookup(key)
			return object{"anyOf": []any{list, s.typ(bare)}}
		}
		return list
	case t.Kind() == reflect.Slice:
		item := scalarSchema(t.Elem(), f)
		return object{"anyOf": []any{item, f.array(item)}}
	case isStruct(t):
		return s.ref(t)
	}
	return scalarSchema(t, f)
}

// array is the schema of a list.
func (f fieldInfo) array(item object) object {
	out := object{"type": "array", "items": item}
	if f.min != "" {
		out["minItems"] = number64(f.min)
	}
	if f.max != "" {
		out["maxItems"] = number64(f.max)
	}
	return out
}

func scalarSchema(t reflect.Type, f fieldInfo) object {
	switch {
	case t == secretType && f.secret == "only":
		return object{"type": "string", "pattern": `^(\$\{[^}]+\}|file:.+)$`}
	case t == secretType:
		return object{"type": "string"}
	case t == durationType:
		return object{"type": "string", "pattern": durationPattern}
	case reflect.PointerTo(t).Implements(scalarType):
		return object{"type": "string", "pattern": reflect.New(t).Interface().(scalar).pattern()}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number", "exclusiveMinimum": 0}
	case reflect.Int64:
		out := object{"type": "integer"}
		if len(f.enum) > 0 {
			out["enum"] = numbers(f.enum)
		}
		if f.min != "" {
			out["minimum"] = number64(f.min)
		}
		if f.max != "" {
			out["maximum"] = number64(f.max)
		}
		return out
	}
	out := object{"type": "string"}
	if len(f.enum) > 0 {
		out["enum"] = f.enum
	}
	return out
}

func number64(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // a tag; a test reads them all
	return n
}

func numbers(texts []string) []int64 {
	var out []int64
	for _, s := range texts {
		out = append(out, number64(s))
	}
	return out
}

// moved adds a key that is accepted in an older place, with the schema of its new one.
func (s *schemas) moved(at object, path []string, to string) {
	properties := at["properties"].(object)
	for _, name := range spellings(path[:1]) {
		if len(path) == 1 {
			properties[name] = s.target(to)
			continue
		}
		inner := object{"type": "object", "properties": object{}, "additionalProperties": false}
		s.moved(inner, path[1:], to)
		properties[name] = inner
	}
}

// target returns the schema of the key with a dotted path, or of the whole file.
func (s *schemas) target(path string) object {
	if path == "" {
		return object{"$ref": "#"}
	}
	_, f, _ := resolve(strings.Split(path, ".")) // a move; a test resolves them all
	return s.field(f)
}
