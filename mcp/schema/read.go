package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// A reader makes a value of a JSON text in one pass. Of encoding/json only the Decoder keeps
// numbers as they are written, and it takes half of a broker's time for a call with arguments
// of 20 KB: it goes over them three times.
type reader struct {
	bounds
	raw []byte
	at  int // what is read next

	level, made int // containers that are open, and values so far
}

const (
	noJSON = "text that is no JSON"
	twice  = "the same member twice in one object"
)

// read returns the value of a JSON text, with numbers as they are written, or what it has
// that is not read. It refuses a member that is twice in one object: of two readers each could
// take another one (M-028).
func (b bounds) read(raw json.RawMessage) (value any, fault string) {
	if len(raw) > b.bytes {
		return nil, fmt.Sprintf("more than %d bytes", b.bytes)
	}
	r := reader{bounds: b, raw: raw}
	if value, fault = r.value(); fault != "" {
		return nil, fault
	}
	if r.next(); r.at < len(raw) {
		return nil, noJSON
	}
	return value, ""
}

// next passes over spaces, and returns the character behind them, 0 at the end.
func (r *reader) next() byte {
	for ; r.at < len(r.raw); r.at++ {
		switch c := r.raw[r.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take passes over a character, if it is the next.
func (r *reader) take(c byte) bool {
	if r.next() != c {
		return false
	}
	r.at++
	return true
}

func (r *reader) value() (any, string) {
	if r.made++; r.made > r.values {
		return nil, fmt.Sprintf("more than %d values", r.values)
	}
	switch c := r.next(); {
	case c == '{':
		return r.object()
	case c == '[':
		return r.array()
	case c == '"':
		return r.text()
	case c == '-' || '0' <= c && c <= '9':
		return r.number()
	}
	for word, value := range words {
		if bytes.HasPrefix(r.raw[r.at:], []byte(word)) {
			r.at += len(word)
			return value, ""
		}
	}
	return nil, noJSON
}

var words = map[string]any{"true": true, "false": false, "null": nil}

// list reads the elements of a container, whose first character is next.
func (r *reader) list(end byte, element func() string) string {
	if r.level++; r.level > r.depth {
		return fmt.Sprintf("more than %d levels", r.depth)
	}
	defer func() { r.level-- }()
	r.at++
	if r.take(end) {
		return ""
	}
	for {
		if fault := element(); fault != "" {
			return fault
		}
		if r.take(end) {
			return ""
		}
		if !r.take(',') {
			return noJSON
		}
	}
}

func (r *reader) object() (any, string) {
	m := map[string]any{}
	fault := r.list('}', func() string {
		if r.next() != '"' {
			return noJSON
		}
		name, fault := r.text()
		if fault != "" {
			return fault
		}
		if !r.take(':') {
			return noJSON
		}
		if _, there := m[name]; there {
			return twice
		}
		m[name], fault = r.value()
		return fault
	})
	return m, fault
}

func (r *reader) array() (any, string) {
	list := []any{}
	fault := r.list(']', func() string {
		v, fault := r.value()
		list = append(list, v)
		return fault
	})
	return list, fault
}

// text reads a string, whose quote is next. One with escapes, or with bytes that are no
// UTF-8, is encoding/json's.
func (r *reader) text() (string, string) {
	inside := r.raw[r.at+1:]
	plain, escaped := true, false
	for i, c := range inside {
		switch {
		case escaped:
			escaped = false
		case c == '"':
			whole := r.raw[r.at : r.at+i+2]
			r.at += len(whole)
			if plain && utf8.Valid(inside[:i]) {
				return string(inside[:i]), ""
			}
			return decoded(whole)
		case c == '\\':
			plain, escaped = false, true
		case c < ' ':
			return "", noJSON
		}
	}
	return "", noJSON
}

func decoded(text []byte) (s, fault string) {
	if json.Unmarshal(text, &s) != nil {
		return "", noJSON
	}
	return s, ""
}

func (r *reader) number() (any, string) {
	rest := r.raw[r.at:]
	written := rest[:len(rest)-len(bytes.TrimLeft(rest, "-+.0123456789eE"))]
	if tooLong(written) {
		return nil, fmt.Sprintf("a number of more than %d digits or with an exponent beyond %d", mostNumber, mostExponent)
	}
	if !json.Valid(written) {
		return nil, noJSON
	}
	r.at += len(written)
	return json.Number(written), ""
}
