package config

import (
	"reflect"
	"strings"
	"sync"
	"time"
)

// A description is what a struct of the file looks like, read from its tags.
type description struct {
	fields []fieldInfo
	byName map[string]int // every spelling of every name → its place in fields
}

// A fieldInfo is one key of a struct.
type fieldInfo struct {
	key      string
	aliases  []string
	index    []int // for reflect.Value.FieldByIndex, through embedded structs
	typ      reflect.Type
	owner    reflect.Type // the struct that declares it
	name     string       // its Go name
	initial  string       // its default as the file would spell it
	has      bool         // whether there is a default
	enum     []string
	min, max string
	format   string
	secret   string
	required bool
	keyed    string
}

var described sync.Map // reflect.Type → *description

// describe returns the description of struct type t.
func describe(t reflect.Type) *description {
	if d, ok := described.Load(t); ok {
		return d.(*description)
	}
	d := &description{byName: map[string]int{}}
	d.add(t, nil)
	for i, f := range d.fields {
		for _, name := range f.names() {
			d.byName[name] = i
		}
	}
	described.Store(t, d)
	return d
}

func (d *description) add(t reflect.Type, at []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(at[:len(at):len(at)], i)
		if f.Anonymous {
			d.add(f.Type, index)
			continue
		}
		key := f.Tag.Get("key")
		if key == "" {
			continue
		}
		info := fieldInfo{
			key: key, index: index, typ: f.Type, owner: t, name: f.Name,
			aliases: alternatives(f.Tag.Get("alias")), enum: alternatives(f.Tag.Get("enum")),
			min: f.Tag.Get("min"), max: f.Tag.Get("max"), format: f.Tag.Get("format"),
			secret: f.Tag.Get("secret"), required: f.Tag.Get("required") == "true", keyed: f.Tag.Get("keyed"),
		}
		info.initial, info.has = f.Tag.Lookup("default")
		d.fields = append(d.fields, info)
	}
}

func alternatives(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, "|")
}

// lookup returns the field that any spelling of its name means.
func (d *description) lookup(name string) (fieldInfo, bool) {
	i, ok := d.byName[name]
	if !ok {
		return fieldInfo{}, false
	}
	return d.fields[i], true
}

// names returns every way to write the field's key: its name and aliases, each in
// camelCase, kebab-case and snake_case.
func (f fieldInfo) names() []string { return spellings(append([]string{f.key}, f.aliases...)) }

// suggestions returns all keys and aliases.
func (d *description) suggestions() []string {
	var names []string
	for _, f := range d.fields {
		names = append(names, f.key)
		names = append(names, f.aliases...)
	}
	return names
}

// spellings returns every way to write the names: camelCase, kebab-case and snake_case.
func spellings(names []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, name := range names {
		for _, s := range []string{name, spell(name, "-"), spell(name, "_")} {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}

// spell puts a separator between the words of a camelCase name.
func spell(name, sep string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteString(sep)
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// A shorthander is a struct that a bare scalar may stand for.
type shorthander interface {
	shorthand() (key string)
}

func (Tier) shorthand() string         { return "limit" }
func (PreAuth) shorthand() string      { return "limit" }
func (AuthFailures) shorthand() string { return "limit" }
func (Cost) shorthand() string         { return "calls" }
func (MCPPath) shorthand() string      { return "path" }
func (Share) shorthand() string        { return "n" }
func (Mapping) shorthand() string      { return "to" }
func (SlotResource) shorthand() string { return "path" }
func (Expression) shorthand() string   { return "expression" }
func (NamedSecret) shorthand() string  { return "value" }
func (MCPTimeout) shorthand() string   { return "requestTimeoutMs" }
func (RoleTier) shorthand() string     { return "tier" }
func (Headers) shorthand() string      { return "families" }

// A ToolMap is a map of its own, from tools to capabilities.
func (ToolMap) shorthand() string { return "tools" }

// shorthandOf returns the key that a bare scalar of type t means, or "".
func shorthandOf(t reflect.Type) string {
	if s, ok := reflect.Zero(t).Interface().(shorthander); ok {
		return s.shorthand()
	}
	return ""
}

// A scalar is a type with a spelling of its own.
type scalar interface {
	// parse reads the text of a value. Its error says what to write.
	parse(text string) error
	// describes itself as a regular expression for the JSON Schema.
	pattern() string
}

var (
	scalarType   = reflect.TypeFor[scalar]()
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[Secret]()
	freeType     = reflect.TypeFor[Free]()
	toolMapType  = reflect.TypeFor[ToolMap]()
)

// deref returns what a pointer type points to.
func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// isStruct reports whether t is written as a map of its keys.
func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != freeType && t != secretType && !reflect.PointerTo(t).Implements(scalarType)
}
