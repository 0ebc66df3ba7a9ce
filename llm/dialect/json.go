package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrMalformed is returned for a body that is no JSON object, or in which a name that
// matters stands twice: one reader takes the first value, another the last, and what is
// counted must be what the provider sees.
var ErrMalformed = errors.New("dialect: the body is no JSON object, or says something twice")

// A member is one name and value of an object, and where the value stands. Name and value
// are parts of the object's bytes, so that reading a stream allocates nothing.
type member struct {
	name  []byte
	value []byte
	at    int // of value, in the object's bytes
}

// object calls visit for each member of raw, until it returns false. It does not look into
// the values further than needed to find their ends. It reports whether raw is an object as
// far as it has read it.
func object(raw []byte, visit func(member) bool) bool {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return false
	}
	i = skipSpace(raw, i+1)
	if i < len(raw) && raw[i] == '}' {
		return true
	}
	for i < len(raw) && raw[i] == '"' {
		end := stringEnd(raw, i)
		if end < 0 {
			return false
		}
		name := unquote(raw[i:end])
		i = skipSpace(raw, end)
		if i >= len(raw) || raw[i] != ':' {
			return false
		}
		at := skipSpace(raw, i+1)
		if end = valueEnd(raw, at); end < 0 {
			return false
		}
		if !visit(member{name, raw[at:end], at}) {
			return true
		}
		i = skipSpace(raw, end)
		if i >= len(raw) {
			return false
		}
		if raw[i] == '}' {
			return true
		}
		if raw[i] != ',' {
			return false
		}
		i = skipSpace(raw, i+1)
	}
	return false
}

// array calls visit for each element of raw, until it returns false. It reports whether raw
// is an array as far as it has read it.
func array(raw []byte, visit func([]byte) bool) bool {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '[' {
		return false
	}
	i = skipSpace(raw, i+1)
	if i < len(raw) && raw[i] == ']' {
		return true
	}
	for i < len(raw) {
		end := valueEnd(raw, i)
		if end < 0 {
			return false
		}
		if !visit(raw[i:end]) {
			return true
		}
		i = skipSpace(raw, end)
		if i >= len(raw) {
			return false
		}
		if raw[i] == ']' {
			return true
		}
		if raw[i] != ',' {
			return false
		}
		i = skipSpace(raw, i+1)
	}
	return false
}

// Members calls visit for each member of an object, until it returns false. Names and values
// are parts of raw, and stay valid as long as it does not change. It reports whether raw is an
// object as far as it was read; what is no JSON may pass for one, so that it should be known to
// be before.
func Members(raw []byte, visit func(name, value []byte) bool) bool {
	return object(raw, func(m member) bool { return visit(m.name, m.value) })
}

// Elements calls visit for each element of an array, as [Members] does.
func Elements(raw []byte, visit func(value []byte) bool) bool { return array(raw, visit) }

// find returns the value of the first member with this name, nil if there is none.
func find(raw []byte, name string) (value []byte) {
	object(raw, func(m member) bool {
		if string(m.name) == name {
			value = m.value
		}
		return value == nil
	})
	return value
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns where the string that begins at i ends, -1 if it does not.
func stringEnd(raw []byte, i int) int {
	for j := i + 1; ; {
		n := bytes.IndexByte(raw[j:], '"')
		if n < 0 {
			return -1
		}
		quote, back := j+n, 0
		for quote-1-back > i && raw[quote-1-back] == '\\' {
			back++
		}
		if back%2 == 0 {
			return quote + 1
		}
		j = quote + 1
	}
}

// valueEnd returns where the value that begins at i ends, -1 if it does not. Of an object
// or an array it only matches brackets.
func valueEnd(raw []byte, i int) int {
	if i >= len(raw) {
		return -1
	}
	switch raw[i] {
	case '"':
		return stringEnd(raw, i)
	case '{', '[':
		return nestEnd(raw, i)
	}
	start := i
	for i < len(raw) && strings.IndexByte(",]} \n\t\r", raw[i]) < 0 {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// nestEnd returns where the object or array that begins at i ends, -1 if it does not.
func nestEnd(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			if i = stringEnd(raw, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// unquote returns the text of a string with its quotes.
func unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw[1 : len(raw)-1]
	}
	return []byte(s)
}

// isString reports whether a value is a string.
func isString(value []byte) bool { return len(value) >= 2 && value[0] == '"' }

// text returns a string's text, empty if the value is none.
func text(value []byte) string {
	if !isString(value) {
		return ""
	}
	return string(unquote(value))
}

// isNull reports whether a value is absent or null.
func isNull(value []byte) bool { return len(value) == 0 || string(value) == "null" }

// folded returns a name as readers compare it that do not mind upper case, those of
// encoding/json with them: for them the long s and the sign of the kelvin are letters too.
func folded(raw []byte) string {
	name := string(raw)
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			name = strings.NewReplacer("\u017f", "s", "\u212a", "k").Replace(name)
			break
		}
	}
	return strings.ToLower(name)
}

// number returns a value that is a number of units, -1 if it is none. A fraction is cut, and
// what is too large for an int64 is the largest. A number in quotes is one: many servers take
// it for one.
func number(value []byte) int64 {
	if isString(value) {
		value = bytes.TrimSpace(unquote(value))
	}
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return -1
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return max(n, -1)
	}
	f, err := strconv.ParseFloat(string(value), 64)
	switch {
	case err != nil && f == 0, f < 0:
		return -1
	case f >= 1<<62:
		return 1 << 62
	}
	return int64(f)
}
