package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Reference returns a Markdown table of every key, made from the structs that the decoder
// fills. docs/guide/configuration.md contains it.
func Reference() string {
	w := reference{docs: comments(), seen: map[reflect.Type]bool{}}
	w.link(reflect.TypeFor[Root]())
	for len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = w.queue[1:]
		w.section(next)
	}
	return w.b.String()
}

type reference struct {
	b     strings.Builder
	docs  map[string]string
	seen  map[reflect.Type]bool
	queue []reflect.Type // sections to write
}

func (w *reference) section(t reflect.Type) {
	fmt.Fprintf(&w.b, "### %s\n\n%s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", t.Name(), w.docs[t.Name()])
	for _, f := range describe(t).fields {
		keys := make([]string, 0, 1+len(f.aliases))
		for _, key := range append([]string{f.key}, f.aliases...) {
			keys = append(keys, "`"+key+"`")
		}
		fmt.Fprintf(&w.b, "| %s | %s | %s | %s |\n", strings.Join(keys, ", "), cell(w.value(f)), cell(defaultCell(f)), cell(w.docs[f.owner.Name()+"."+f.name]))
	}
	w.b.WriteString("\n")
}

// value says what a key may hold, and queues the section of a struct.
func (w *reference) value(f fieldInfo) string {
	t := deref(f.typ)
	inner := t
	if t.Kind() == reflect.Slice {
		inner = t.Elem()
	}
	what := scalarWords(inner, f)
	if isStruct(inner) {
		what = w.link(inner)
	}
	switch {
	case f.keyed != "":
		return "map of " + what
	case t.Kind() == reflect.Slice:
		return "list of " + what
	}
	return what
}

// link names the section of a struct, which is written once.
func (w *reference) link(t reflect.Type) string {
	if !w.seen[t] {
		w.seen[t] = true
		w.queue = append(w.queue, t)
	}
	return fmt.Sprintf("[%s](#%s)", t.Name(), strings.ToLower(t.Name()))
}

func scalarWords(t reflect.Type, f fieldInfo) string {
	switch {
	case len(f.enum) > 0:
		return "`" + strings.Join(f.enum, "`, `") + "`"
	case t == secretType:
		return "secret"
	case t == freeType:
		return "anything"
	case t == durationType:
		return "time, such as `5s`"
	case t == reflect.TypeFor[Rate]():
		return "rate, such as `100/min`"
	case t == reflect.TypeFor[Prefix]():
		return "network or address"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "`true`, `false`"
	case reflect.Int64:
		return "number" + bounds(f)
	case reflect.Float64:
		return "number above 0"
	}
	return "text"
}

func bounds(f fieldInfo) string {
	switch {
	case f.min != "" && f.max != "":
		return fmt.Sprintf(" from %s to %s", f.min, f.max)
	case f.min != "":
		return ", at least " + f.min
	}
	return ""
}

func defaultCell(f fieldInfo) string {
	switch {
	case f.required:
		return "required"
	case f.has:
		return "`" + strings.ReplaceAll(f.initial, "|", "`, `") + "`"
	}
	return ""
}

// cell escapes what would end a cell of the table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
