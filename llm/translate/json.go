package translate

import (
	"bytes"
	"encoding/json"
)

// each reads the members of an object that are not null: null is the same as nothing, in
// both dialects. A name that stands twice is refused, because one reader takes the first and
// another the last.
func each(raw []byte, read func(name string, v []byte) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errShape
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var v json.RawMessage
		if err != nil || !ok || d.Decode(&v) != nil {
			return errShape
		}
		if seen[name] {
			return within(name, lose("stands there twice"))
		}
		seen[name] = true
		if string(v) == "null" {
			continue
		}
		if err := read(name, v); err != nil {
			return within(name, err)
		}
	}
	return nil
}

// every reads the elements of an array.
func every(raw []byte, read func(v []byte) error) error {
	var list []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return errShape
	}
	for i, v := range list {
		if err := read(v); err != nil {
			return at(i, err)
		}
	}
	return nil
}

// member returns the value of one member, nil if it is absent or null.
func member(raw []byte, name string) (value []byte) {
	_ = each(raw, func(n string, v []byte) error { // what is no object has no members
		if n == name {
			value = v
		}
		return nil
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
