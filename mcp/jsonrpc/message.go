// Package jsonrpc reads, edits and makes frames of JSON-RPC 2.0 as the Model Context
// Protocol uses it. A frame stays the bytes that came: ids, numbers, unknown members and
// white space go through a broker as their sender wrote them, and only what is edited
// changes.
//
// Reading is strict, because a broker that decides by a frame has to read the same as
// whoever gets it: names of members are exact, no name stands twice where anything is
// decided, ids are strings or whole numbers, text is UTF-8, and nothing follows the value.
package jsonrpc

import (
	"encoding/json"
	"iter"
)

// A Kind is what a frame is.
type Kind uint8

// The kinds of frames.
const (
	Request      Kind = iota + 1 // has a method and an id
	Notification                 // has a method and no id
	Response                     // has a result or an error
	Batch                        // is an array of the others
)

// MaxIDBytes bounds an id, and the name of a method: both outlive their frame, in tables
// of what is under way.
const MaxIDBytes = 1024

// Bounds are what a frame may be at most. The zero Bounds are 4 MiB and 128 levels.
type Bounds struct {
	MaxBytes int // of the frame; zero is 4 MiB
	MaxDepth int // objects and arrays inside each other; zero is 128
}

func (b Bounds) orDefault() Bounds {
	if b.MaxBytes <= 0 {
		b.MaxBytes = 4 << 20
	}
	if b.MaxDepth <= 0 {
		b.MaxDepth = 128
	}
	return b
}

// A Message is one frame. Its slices are parts of Raw, and nobody may write to them.
// Members that the frame has not are nil.
type Message struct {
	Kind   Kind
	Raw    []byte // the whole frame
	ID     ID     // zero in a notification; null or zero in an error that answers an unread frame
	Method string
	Params json.RawMessage // an object
	Result json.RawMessage
	Err    json.RawMessage // the error member, an object; see Fault
}

// Parse reads a frame: one message, or an array of them. The Message keeps the frame,
// which must not change afterwards. An error has code [ParseError] if the frame is no
// JSON, [InvalidRequest] if it is no message or exceeds the bounds, and the frame's id
// if that could be read.
func Parse(data []byte, b Bounds) (*Message, *Error) {
	b = b.orDefault()
	if len(data) > b.MaxBytes {
		return nil, invalid(ID{}, "the frame is larger than this server takes")
	}
	var room [32]member
	s := scanner{data: data, depth: b.MaxDepth, members: room[:0]}
	s.space()
	start := s.at
	ok := s.value(&frame)
	end := s.at
	if ok && s.next() != 0 || ok && s.at < len(s.data) {
		s.fail(malformed)
	}
	switch s.fault {
	case malformed:
		return nil, &Error{Code: ParseError, Message: "Parse error: the frame is not one JSON value"}
	case notUTF8:
		return nil, &Error{Code: ParseError, Message: "Parse error: the frame is not UTF-8"}
	case tooDeep:
		return nil, invalid(ID{}, "objects and arrays are nested deeper than this server takes")
	}
	switch data[start] {
	case '{':
		return s.message()
	case '[':
		if (&scanner{data: data, at: start + 1}).next() == ']' {
			return nil, invalid(ID{}, "the batch is empty")
		}
		return &Message{Kind: Batch, Raw: data[start:end]}, nil
	}
	return nil, invalid(ID{}, "a frame is an object")
}

// message makes a Message of the envelope's members.
func (s *scanner) message() (*Message, *Error) {
	m := &Message{Raw: s.data}
	var version, id, method []byte
	for _, v := range s.members {
		switch string(v.name) {
		case "jsonrpc":
			version = v.value
		case "id":
			id = v.value
		case "method":
			method = v.value
		case "params":
			m.Params = v.value
		case "result":
			m.Result = v.value
		case "error":
			m.Err = v.value
		}
	}
	m.ID = RawID(id)
	if why := m.check(version, method, s.repeated); why != "" {
		known := m.ID
		if s.repeated || !known.Valid() {
			known = ID{}
		}
		return nil, invalid(known, why)
	}
	return m, nil
}

// check says why the frame is no message, and completes the Message otherwise.
func (m *Message) check(version, method []byte, repeated bool) string {
	switch {
	case repeated:
		return "a member stands twice"
	case string(version) != `"2.0"`:
		return `member jsonrpc has to be "2.0"`
	case method == nil:
		return m.checkResponse()
	case m.Result != nil || m.Err != nil:
		return "a frame has a method, or a result or an error"
	case method[0] != '"' || len(method) <= 2 || len(method) > MaxIDBytes:
		return "the method is no name"
	case m.Params != nil && m.Params[0] != '{':
		return "params have to be an object"
	}
	m.Method = string(unescape(method[1 : len(method)-1]))
	m.Kind = Notification
	if !m.ID.IsZero() {
		m.Kind = Request
		if !m.ID.Valid() {
			return "the id has to be a string or a whole number"
		}
	}
	return ""
}

func (m *Message) checkResponse() string {
	m.Kind = Response
	switch {
	case m.Result == nil && m.Err == nil:
		return "a frame has a method, a result or an error"
	case m.Result != nil && m.Err != nil:
		return "a response has a result or an error, not both"
	case m.Err != nil && m.Err[0] != '{':
		return "the error has to be an object"
	case m.Err != nil && (m.ID.IsZero() || m.ID.IsNull()), m.ID.Valid():
		return ""
	}
	return "the id has to be a string or a whole number"
}

// Items reads the messages of a batch one by one; each is a Message or an Error of its
// own. A batch in a batch is an error.
func (m *Message) Items(b Bounds) iter.Seq2[*Message, *Error] {
	return func(yield func(*Message, *Error) bool) {
		for item := range elements(m.Raw) {
			one, err := Parse(item, b)
			if err == nil && one.Kind == Batch {
				one, err = nil, invalid(ID{}, "a batch is no item of a batch")
			}
			if !yield(one, err) {
				return
			}
		}
	}
}

// Param returns the value at a path of names below params.
func (m *Message) Param(path ...string) (json.RawMessage, bool) { return Lookup(m.Params, path...) }

// Fault returns what the error member says, nil if there is none. What is missing in it,
// or of another type, is left zero.
func (m *Message) Fault() *Error {
	if m.Err == nil {
		return nil
	}
	e := &Error{ID: m.ID}
	if code, ok := Lookup(m.Err, "code"); ok {
		_ = json.Unmarshal(code, &e.Code)
	}
	if text, ok := Lookup(m.Err, "message"); ok {
		_ = json.Unmarshal(text, &e.Message)
	}
	e.Data, _ = Lookup(m.Err, "data")
	return e
}
