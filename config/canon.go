package config

import (
	"fmt"
	"reflect"
	"strings"
)

// canon gives every key of n its canonical name and drops what is unknown or stands
// twice, with a report. After it, merging and decoding compare names as they are.
func (n *node) canon(t reflect.Type, f fieldInfo, at string, report func(Problem)) {
	t = deref(t)
	if f.keyed == "" {
		n.expand(t)
	}
	switch {
	case n.kind == mapping && isStruct(t) && f.keyed == "":
		n.canonStruct(t, at, report)
	case n.kind == mapping && f.keyed != "":
		elem := t.Elem()
		for i := range n.fields {
			n.fields[i].value.canon(elem, fieldInfo{}, join(at, n.fields[i].name), report)
		}
	case n.bare() && t.Kind() == reflect.Slice && isStruct(t.Elem()) && shorthandOf(t.Elem()) != "":
		one := *n
		one.expand(t.Elem())
		*n = node{pos: n.pos, kind: list, items: []*node{&one}}
	case n.kind == list && t.Kind() == reflect.Slice:
		for i, item := range n.items {
			item.canon(t.Elem(), fieldInfo{}, fmt.Sprintf("%s[%d]", at, i), report)
		}
	}
}

// expand writes out a bare value that stands for a struct of type t.
func (n *node) expand(t reflect.Type) {
	key := shorthandOf(t)
	if key == "" || n.kind == null || n.kind == mapping && t != toolMapType {
		return
	}
	bare := *n
	*n = node{pos: n.pos, kind: mapping, fields: []field{{name: key, pos: n.pos, value: &bare}}}
}

func (n *node) canonStruct(t reflect.Type, at string, report func(Problem)) {
	d := describe(t)
	var kept []field
	seen := map[string]Pos{}
	for _, have := range n.fields {
		info, ok := d.lookup(have.name)
		if !ok {
			report(unknown(have, at, d))
			continue
		}
		if first, twice := seen[info.key]; twice {
			report(Problem{Pos: have.pos, Code: CodeDuplicate, Key: join(at, info.key),
				Message: fmt.Sprintf("%q is the same key as at %s; remove one", have.name, first)})
			continue
		}
		seen[info.key] = have.pos
		have.name = info.key
		have.value.canon(info.typ, info, join(at, info.key), report)
		kept = append(kept, have)
	}
	n.fields = kept
}

func unknown(f field, at string, d *description) Problem {
	p := Problem{Pos: f.pos, Code: CodeUnknown, Key: join(at, f.name)}
	names := d.suggestions()
	if at == "" {
		names = append(names, movedNames()...)
	}
	if best := nearest(f.name, names); best != "" {
		p.Message = fmt.Sprintf("unknown key; did you mean %q?", best)
		return p
	}
	if foldKey(f.name) == "limits" { // the broker's block, in a wrong place
		p.Message = "unknown key here; the limits of the broker stand at the top level of the file, beside auth and providers, or in mcp"
		return p
	}
	var keys []string
	for _, f := range d.fields {
		keys = append(keys, f.key)
	}
	p.Message = "unknown key; known here: " + strings.Join(keys, ", ")
	return p
}

// resolve turns the path of an override into names
// that the structs know, and says what belongs there.
func resolve(path []string) (out []string, f fieldInfo, p *Problem) {
	path = rehomed(path)
	t := reflect.TypeFor[Root]()
	f.typ = t
	for _, part := range path {
		switch {
		case f.keyed != "" || t.Kind() == reflect.Slice:
			t = deref(t.Elem())
			f = fieldInfo{typ: t}
		case isStruct(t):
			info, ok := describe(t).lookup(part)
			if !ok {
				p := unknown(field{name: part}, strings.Join(out, "."), describe(t))
				return nil, f, &p
			}
			part, t, f = info.key, deref(info.typ), info
		}
		out = append(out, part)
	}
	return out, f, nil
}

// join appends a key to a dotted path.
func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}
