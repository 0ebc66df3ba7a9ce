package jsonrpc

import (
	"encoding/json"
	"strconv"
	"strings"
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

// whole reports whether a JSON value is a number without a fraction: 1.0 and 1e3 are,
// 1.5 and 15e-1 are not.
func whole(raw string) bool {
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return false
	}
	digits, n := raw, 0
	if i := strings.IndexAny(raw, "eE"); i >= 0 {
		digits = raw[:i]
		n, _ = strconv.Atoi(raw[i+1:])           // beyond the range of int the nearest
		n = max(-MaxIDBytes, min(n, MaxIDBytes)) // more than an id has digits
	}
	before, after, _ := strings.Cut(digits, ".")
	after = strings.TrimRight(after, "0")
	if n >= 0 || after != "" {
		return len(after) <= n
	}
	zeros := len(before) - len(strings.TrimRight(before, "0"))
	return zeros >= -n || strings.Trim(before, "-0") == ""
}
