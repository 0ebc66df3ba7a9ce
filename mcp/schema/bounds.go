package schema

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on what is read. They are checked on the text, before anything is made of it.
var (
	schemaBounds   = bounds{bytes: 256 << 10, depth: 64, values: 20_000}
	argumentBounds = bounds{bytes: 4 << 20, depth: 128, values: 100_000}
)

// Bounds on a number as it is written. A reader without them makes a number with a
// million digits of the eight bytes 1e999999. What a float64 can be is well within.
const (
	mostNumber   = 128
	mostExponent = 400
)

// bounds are the largest JSON text that is read.
type bounds struct{ bytes, depth, values int }

// read returns the value of a JSON text, with numbers as they are written, or what it has
// that is not read. It refuses a member that is twice in one object: of two readers each could
// take another one (M-028).
func (b bounds) read(raw json.RawMessage) (value any, fault string) {
	members, fault := b.scan(raw)
	if fault != "" {
		return nil, fault
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, "text that is no JSON"
	}
	if countMembers(value) != members {
		return nil, "the same member twice in one object"
	}
	return value, ""
}

// scan counts the members in a text, and says which bound the text exceeds, if any. It
// does not check that the text is JSON.
func (b bounds) scan(raw []byte) (members int, fault string) {
	if len(raw) > b.bytes {
		return 0, fmt.Sprintf("more than %d bytes", b.bytes)
	}
	depth, values := 0, 1
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '"':
			i = endOfText(raw, i)
		case ':':
			members++
		case ',':
			values++
		case '{', '[':
			values++
			if depth++; depth > b.depth {
				return 0, fmt.Sprintf("more than %d levels", b.depth)
			}
		case '}', ']':
			depth--
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			n := len(raw[i:]) - len(bytes.TrimLeft(raw[i:], "-+.0123456789eE"))
			if tooLong(raw[i : i+n]) {
				return 0, fmt.Sprintf("a number of more than %d digits or with an exponent beyond %d", mostNumber, mostExponent)
			}
			i += n - 1
		}
		if values > b.values {
			return 0, fmt.Sprintf("more than %d values", b.values)
		}
	}
	return members, ""
}

// endOfText returns the index of the quote that ends the string at i.
func endOfText(raw []byte, i int) int {
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i
}

// tooLong reports whether a number takes more digits than are computed with.
func tooLong(number []byte) bool {
	if len(number) > mostNumber {
		return true
	}
	e := bytes.IndexAny(number, "eE")
	if e < 0 {
		return false
	}
	exponent := 0
	for _, c := range bytes.TrimLeft(number[e+1:], "+-") {
		if exponent = exponent*10 + int(c-'0'); exponent > mostExponent {
			return true
		}
	}
	return false
}

func countMembers(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, x := range v {
			n += countMembers(x)
		}
	case []any:
		for _, x := range v {
			n += countMembers(x)
		}
	}
	return n
}
