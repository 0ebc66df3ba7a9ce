package translate

import (
	"encoding/json"

	"github.com/sluicegate/sluice/llm/dialect"
)

// All that is read here is known to be JSON, and values are parts of it.

// each reads the members of an object that are not null: null is the same as nothing, in
// both dialects. A name that stands twice is refused, because one reader takes the first and
// another the last.
func each(raw []byte, read func(name string, v []byte) error) error {
	var failed error
	seen := map[string]bool{}
	ok := dialect.Members(raw, func(n, v []byte) bool {
		name := string(n)
		switch {
		case seen[name]:
			failed = within(name, lose("stands there twice"))
		case string(v) != "null":
			if err := read(name, v); err != nil {
				failed = within(name, err)
			}
		}
		seen[name] = true
		return failed == nil
	})
	if !ok {
		return errShape
	}
	return failed
}

// every reads the elements of an array.
func every(raw []byte, read func(v []byte) error) error {
	var failed error
	n := 0
	ok := dialect.Elements(raw, func(v []byte) bool {
		if err := read(v); err != nil {
			failed = at(n, err)
		}
		n++
		return failed == nil
	})
	if !ok {
		return errShape
	}
	return failed
}

// member returns the value of one member, nil if it is absent or null.
func member(raw []byte, name string) (value []byte) {
	dialect.Members(raw, func(n, v []byte) bool { // what is no object has none
		if string(n) == name && string(v) != "null" {
			value = v
		}
		return value == nil
	})
	return value
}

func isString(v []byte) bool { return len(v) >= 2 && v[0] == '"' }

// text returns the text of a string, empty if v is none.
func text(v []byte) (s string) {
	if isString(v) {
		_ = json.Unmarshal(v, &s) // v is a string of a body that was found valid
	}
	return s
}

// literal keeps a string as it stands.
func literal(into *[]byte, v []byte) error {
	if !isString(v) {
		return errShape
	}
	*into = v
	return nil
}

// kindOf is the type that an object says it has.
func kindOf(raw []byte) string { return text(member(raw, "type")) }

// quote returns s as a JSON string in which every byte comes back that was in s.
func quote(s []byte) []byte {
	const hex = "0123456789abcdef"
	b := make([]byte, 0, len(s)+len(s)/8+2)
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// inside is what stands between the quotes of a string.
func inside(v []byte) []byte { return v[1 : len(v)-1] }

// A writer writes JSON. Commas come by themselves.
type writer struct{ b []byte }

// next writes what separates a name or a value from the one before it.
func (w *writer) next() {
	if n := len(w.b); n > 0 && w.b[n-1] != '{' && w.b[n-1] != '[' && w.b[n-1] != ':' {
		w.b = append(w.b, ',')
	}
}

func (w *writer) open(bracket string) { w.next(); w.b = append(w.b, bracket...) }
func (w *writer) shut(bracket string) { w.b = append(w.b, bracket...) }

// name begins a member.
func (w *writer) name(s string) {
	w.next()
	w.b = append(append(append(w.b, '"'), s...), '"', ':')
}

// value writes a value as it stands.
func (w *writer) value(v []byte) { w.next(); w.b = append(w.b, v...) }

// member writes a member, unless its value is absent.
func (w *writer) member(name string, v []byte) {
	if v != nil {
		w.name(name)
		w.value(v)
	}
}

// word writes a member whose value is a word of the dialect.
func (w *writer) word(name, s string) { w.member(name, quote([]byte(s))) }
