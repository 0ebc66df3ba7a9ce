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
	"fmt"
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

var kinds = [...]string{"nothing", "request", "notification", "response", "batch"}

// String returns the kind in a word.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MaxIDBytes bounds an id, and the name of a method: both outlive their frame, in tables
// of what is under way.
const MaxIDBytes = 1024

// maxMembers is how many members an object may have whose names have to differ: the frame,
// params, params._meta, params.arguments, result, result._meta and error. What is noted of each
// takes some thirty times the bytes of the shortest.
const maxMembers = 10_000

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

// A Message is one frame. Members that the frame has not are nil. The others are parts of
// Raw, or of the frame that it was edited from, and nobody may write to either. A Message
// may be read by many goroutines.
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
		return nil, invalid(ID{}, fmt.Sprintf("the frame has more than %d bytes", b.MaxBytes))
	}
	var room [12]place
	s := scanner{data: data, depth: b.MaxDepth, members: room[:0]}
	start, end := s.whole()
	value := data[start:end:end]
	switch {
	case s.fault == tooDeep:
		return nil, invalid(ID{}, fmt.Sprintf("objects and arrays are nested deeper than %d", b.MaxDepth))
	case s.fault == tooMany:
		return nil, invalid(ID{}, fmt.Sprintf("an object whose names are compared has more than %d members", maxMembers))
	case s.fault == notUTF8:
		return nil, &Error{Code: ParseError, Message: "Parse error: the frame is not UTF-8"}
	case s.fault != sound:
		return nil, &Error{Code: ParseError, Message: "Parse error: the frame is not one JSON value"}
	case value[0] == '{':
		return newMessage(data, value, s.members, s.repeated)
	case value[0] != '[':
		return nil, invalid(ID{}, "a frame is an object")
	}
	for range elements(value) {
		return &Message{Kind: Batch, Raw: value}, nil
	}
	return nil, invalid(ID{}, "the batch is empty")
}

// newMessage makes a message of an envelope, whose members stand at places in data.
func newMessage(data, raw []byte, envelope []place, repeated bool) (*Message, *Error) {
	m := &Message{Raw: raw}
	var version, method json.RawMessage
	ids := 0
	for _, p := range envelope {
		value := p.value(data)
		switch string(p.text(data)) {
		case "jsonrpc":
			version = value
		case "id":
			m.ID = RawID(value)
			ids++
		case "method":
			method = value
		case "params":
			m.Params = value
		case "result":
			m.Result = value
		case "error":
			m.Err = value
		}
	}
	why := m.check(version, method)
	if repeated {
		why = "the name of a member stands twice"
	}
	if why == "" {
		return m, nil
	}
	if ids != 1 || !m.ID.Valid() {
		m.ID = ID{}
	}
	return nil, invalid(m.ID, why)
}

// check says why the frame is no message, and completes the Message otherwise.
func (m *Message) check(version, method json.RawMessage) string {
	switch {
	case string(version) != `"2.0"`:
		return `member jsonrpc has to be "2.0"`
	case method == nil:
		return m.checkResponse()
	case m.Result != nil || m.Err != nil:
		return "a frame has a method, or a result or an error"
	case method[0] != '"' || len(method) <= len(`""`) || len(method) > MaxIDBytes:
		return "the method has to be a name"
	case m.Params != nil && m.Params[0] != '{':
		return "params have to be an object"
	}
	m.Method, _ = Text(method)
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
