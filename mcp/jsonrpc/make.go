package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

const opening = `{"jsonrpc":"2.0"`

// NewRequest makes a request. Params are an object: anything that encoding/json takes,
// or a [json.RawMessage], which is written as it is; nil leaves them out. It panics if
// they cannot be encoded, which is a mistake in the program.
func NewRequest(id ID, method string, params any) *Message {
	return newCall(Request, id, method, params)
}

// NewNotification makes a notification. Params are as in [NewRequest].
func NewNotification(method string, params any) *Message {
	return newCall(Notification, ID{}, method, params)
}

func newCall(kind Kind, id ID, method string, params any) *Message {
	b := appendID([]byte(opening), id)
	b = append(b, `,"method":`...)
	b = appendString(b, method)
	if params == nil {
		return &Message{Kind: kind, ID: id, Method: method, Raw: append(b, '}')}
	}
	b = append(b, `,"params":`...)
	start := len(b)
	b = append(appendValue(b, params), '}')
	return &Message{Kind: kind, ID: id, Method: method, Raw: b, Params: b[start : len(b)-1 : len(b)-1]}
}

// NewResult makes a response that carries a result: a value as in [NewRequest]. A nil
// result is an empty object.
func NewResult(id ID, result any) *Message {
	if result == nil {
		result = json.RawMessage("{}")
	}
	b := appendID([]byte(opening), id)
	b = append(b, `,"result":`...)
	start := len(b)
	b = append(appendValue(b, result), '}')
	return &Message{Kind: Response, ID: id, Raw: b, Result: b[start : len(b)-1 : len(b)-1]}
}

// NewError makes a response that carries an error. The zero ID is written as null; e.ID
// is not looked at.
func NewError(id ID, e *Error) *Message {
	if id.IsZero() {
		id = ID{"null"}
	}
	b := appendID([]byte(opening), id)
	b = append(b, `,"error":`...)
	start := len(b)
	b = append(b, `{"code":`...)
	b = strconv.AppendInt(b, e.Code, 10)
	b = append(b, `,"message":`...)
	b = appendString(b, e.Message)
	if e.Data != nil {
		b = append(b, `,"data":`...)
		b = append(b, e.Data...)
	}
	b = append(b, "}}"...)
	return &Message{Kind: Response, ID: id, Raw: b, Err: b[start : len(b)-1 : len(b)-1]}
}

func appendID(b []byte, id ID) []byte {
	if id.IsZero() {
		return b
	}
	b = append(b, `,"id":`...)
	return append(b, id.raw...)
}

// Encode returns a value as JSON, as in [NewRequest].
func Encode(v any) json.RawMessage { return appendValue(nil, v) }

// appendValue appends a value. Raw JSON stays byte for byte; encoding/json would compact
// it, and write <, > and & as escapes.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case json.RawMessage:
		return append(b, v...)
	case string:
		return appendString(b, v)
	}
	return appendEncoded(b, v)
}

// appendString appends a text as a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendEncoded(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendEncoded(b []byte, v any) []byte {
	w := bytes.NewBuffer(b)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("jsonrpc: a %T cannot be written as JSON: %v", v, err))
	}
	return bytes.TrimSuffix(w.Bytes(), []byte{'\n'})
}
