package mcptest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A Frame is a JSON-RPC message as read by encoding/json.
type Frame struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`

	Raw []byte `json:"-"` // as it came
}

// ReadFrame reads a message. A batch is none.
func ReadFrame(raw []byte) (*Frame, error) {
	f := &Frame{Raw: raw}
	if err := json.Unmarshal(raw, f); err != nil {
		return nil, fmt.Errorf("mcptest: %w in %.200q", err, raw)
	}
	return f, nil
}

// An Error is a JSON-RPC error.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d) %s", e.Message, e.Code, e.Data) }

// message is a frame that is sent; members keep this order.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// frame encodes m without changing what is text, as a provider in another language would:
// "<" stays "<", and raw values keep their bytes.
func (m message) frame() []byte {
	m.Version = "2.0"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		panic("mcptest: a value that is no JSON: " + err.Error()) // of the test that wrote it
	}
	return bytes.TrimSpace(b.Bytes())
}

// Request returns a request as it is sent. Nil params are left out.
func Request(id, method string, params any) []byte {
	return message{ID: json.RawMessage(id), Method: method, Params: params}.frame()
}

// CallTool returns a tools/call with an ID and arguments that are both given as JSON, and further
// members of params as pairs of name and JSON.
func CallTool(id, tool, arguments string, more ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s`, id, tool, arguments)
	for i := 0; i+1 < len(more); i += 2 {
		fmt.Fprintf(&b, `,%q:%s`, more[i], more[i+1])
	}
	b.WriteString("}}")
	return b.Bytes()
}
