package jsonrpc

import (
	"encoding/json"
	"strconv"
)

// An ID is the id of a request, byte for byte as its sender wrote it: 1 and "1" are two
// ids, and 9007199254740993 stays what it is. IDs can be compared and be keys of maps.
// The zero ID is none, as a notification has.
type ID struct{ raw string }

// RawID returns the id that is written so. It does not check it; see [ID.Valid].
func RawID(raw json.RawMessage) ID { return ID{string(raw)} }

// StringID returns the id that is a JSON string with that content.
func StringID(s string) ID { return ID{string(appendString(nil, s))} }

// Raw returns the bytes of the id, nil for the zero ID.
func (id ID) Raw() json.RawMessage {
	if id.raw == "" {
		return nil
	}
	return json.RawMessage(id.raw)
}

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.raw == "" }

// IsNull reports whether the id is null, as an error has that answers a frame whose id
// could not be read.
func (id ID) IsNull() bool { return id.raw == "null" }

// Valid reports whether a request may have the id: a string or a whole number, of at
// most [MaxIDBytes].
func (id ID) Valid() bool {
	if id.raw == "" || len(id.raw) > MaxIDBytes {
		return false
	}
	return id.raw[0] == '"' || whole(id.raw)
}

// String returns the bytes of the id.
func (id ID) String() string { return id.raw }

// whole reports whether a JSON value is a number without a fraction. 1.0 and 1e3 have
// none, 1.5 and 15e-1 have one.
func whole(raw string) bool {
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return false
	}
	exponent, point, last := 0, -1, -1 // last: the last digit that is not zero
	digits := 0
	for i := range len(raw) {
		switch c := raw[i]; {
		case c == '.':
			point = digits
		case c == 'e' || c == 'E':
			n, err := strconv.Atoi(raw[i+1:])
			if err != nil { // beyond any number of digits that an id may have
				return last < 0 || raw[i+1] != '-'
			}
			exponent = n
			if point < 0 {
				point = digits
			}
			return last+1 <= point+exponent || last < 0
		case '0' <= c && c <= '9':
			if c != '0' {
				last = digits
			}
			digits++
		}
	}
	return point < 0 || last+1 <= point
}
