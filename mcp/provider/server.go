package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A Server offers tools, in every revision of the protocol. It is a [Handler]. Its fields
// must not change while it serves.
type Server struct {
	Name, Version string // what it calls itself
	// Instructions are for whoever uses the tools. Empty is none.
	Instructions string
	// Tools are offered in this order.
	Tools []Tool
}

// A Tool is something that callers may have done.
type Tool struct {
	Name, Description string
	// Schema is the JSON Schema of the arguments, an object. Nil takes any object.
	Schema json.RawMessage
	// Annotations are hints such as {"readOnlyHint":true}. Nil is none.
	Annotations json.RawMessage
	// Run does it. The context ends when nobody wants the result any more. An error becomes a
	// result that says so, with its text, which the caller sees; a [*jsonrpc.Error] becomes an
	// error of the protocol.
	Run func(context.Context, *Request) (*Result, error)
}

// A Request is a call of a tool. It is for the goroutine that runs the tool, but for
// Progress.
type Request struct {
	Tool      string
	Arguments json.RawMessage // an object
	Meta      json.RawMessage // _meta of the request, nil if there is none

	token json.RawMessage
	send  func(*jsonrpc.Message) error
	mu    sync.Mutex
	over  bool
}

// Bind reads the arguments as encoding/json does.
func (q *Request) Bind(into any) error {
	if err := json.Unmarshal(q.Arguments, into); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "Invalid arguments: " + err.Error()}
	}
	return nil
}

// Caller returns the reference of whoever calls. It is false if the provider has declared
// nothing.
func (q *Request) Caller() (CallerReference, bool) { return CallerReferenceOf(q.Meta) }

// Progress tells the caller how far the work is, if it wants to know. A total of zero is
// not known. After the tool has returned it does nothing. It may be called by several
// goroutines.
func (q *Request) Progress(done, total float64, message string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.token == nil || q.over {
		return nil
	}
	return q.send(jsonrpc.NewNotification("notifications/progress", struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total,omitempty"`
		Message  string          `json:"message,omitempty"`
	}{q.token, done, total, message}))
}

// end lets no progress follow the answer.
func (q *Request) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
}

// A Result is what a tool returns.
type Result struct {
	// Content are blocks as the protocol has them: text, images, links.
	Content []any `json:"content"`
	// Structured is an object that fits the tool's output. Nil is none.
	Structured any `json:"structuredContent,omitempty"`
	// IsError says that the tool has failed, and Content why.
	IsError bool `json:"isError,omitempty"`

	// Type is "complete" in the revisions that have it.
	Type string `json:"resultType,omitempty"`
}

// Text returns a result with one block of text.
func Text(text string) *Result {
	return &Result{Content: []any{map[string]string{"type": "text", "text": text}}}
}

// Handle implements [Handler].
func (s *Server) Handle(ctx context.Context, m *jsonrpc.Message, send func(*jsonrpc.Message) error) *jsonrpc.Message {
	if m.Kind != jsonrpc.Request {
		return nil
	}
	version := ""
	if raw, ok := m.Param("_meta", protocol.MetaVersion); ok {
		version, _ = jsonrpc.Text(raw)
	}
	modern := protocol.EraOf(version) == protocol.Modern
	var result any
	var err error
	switch {
	case modern && !protocol.Known(version):
		err = unsupported(version)
	case m.Method == "tools/call":
		result, err = s.call(ctx, m, modern, send)
	default:
		result, err = s.describe(m, modern)
	}
	if err == nil {
		var text json.RawMessage
		if text, err = json.Marshal(result); err == nil {
			return jsonrpc.NewResult(m.ID, text)
		}
	}
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		e = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
	}
	return jsonrpc.NewError(m.ID, e)
}

func unsupported(version string) error {
	data := jsonrpc.Encode(protocol.Unsupported{Supported: protocol.Versions(), Requested: version})
	return &jsonrpc.Error{Code: protocol.CodeUnsupportedVersion, Message: "Unsupported protocol version", Data: data}
}

// An about is what the server says of itself.
type about map[string]any

// describe answers everything that runs no tool.
func (s *Server) describe(m *jsonrpc.Message, modern bool) (any, error) {
	info := about{"name": s.Name, "version": s.Version}
	answer := about{}
	switch m.Method {
	case "ping":
		return answer, nil
	case "initialize":
		raw, _ := m.Param("protocolVersion")
		asked, _ := jsonrpc.Text(raw)
		answer = about{"protocolVersion": protocol.Negotiate(asked), "capabilities": about{"tools": about{}}, "serverInfo": info}
	case "server/discover":
		answer = about{"supportedVersions": protocol.Versions(), "capabilities": about{"tools": about{}}, "_meta": about{protocol.MetaServerInfo: info}}
	case "tools/list":
		answer = about{"tools": s.list()}
	default:
		return nil, &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "Method not found"}
	}
	if s.Instructions != "" && m.Method != "tools/list" {
		answer["instructions"] = s.Instructions
	}
	if modern {
		answer["resultType"], answer["ttlMs"], answer["cacheScope"] = complete, 0, "private"
	}
	return answer, nil
}

const complete = "complete"

func (s *Server) list() []about {
	list := make([]about, 0, len(s.Tools))
	for i := range s.Tools {
		t := &s.Tools[i]
		one := about{"name": t.Name, "inputSchema": json.RawMessage(`{"type":"object"}`)}
		if t.Schema != nil {
			one["inputSchema"] = t.Schema
		}
		if t.Description != "" {
			one["description"] = t.Description
		}
		if t.Annotations != nil {
			one["annotations"] = t.Annotations
		}
		list = append(list, one)
	}
	return list
}

// call runs a tool.
func (s *Server) call(ctx context.Context, m *jsonrpc.Message, modern bool, send func(*jsonrpc.Message) error) (*Result, error) {
	raw, _ := m.Param("name")
	name, _ := jsonrpc.Text(raw)
	q := &Request{Tool: name, Arguments: json.RawMessage("{}"), send: send}
	if arguments, ok := m.Param("arguments"); ok {
		q.Arguments = arguments
	}
	q.Meta, _ = m.Param("_meta")
	q.token, _ = m.Param("_meta", protocol.MetaProgress)
	for i := range s.Tools {
		if s.Tools[i].Name == name {
			defer q.end()
			return outcome(modern)(s.Tools[i].Run(ctx, q))
		}
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("Unknown tool: %.128q", name)}
}

// outcome makes a result of what a tool has returned.
func outcome(modern bool) func(*Result, error) (*Result, error) {
	return func(r *Result, err error) (*Result, error) {
		if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
			return nil, err
		}
		switch {
		case err != nil:
			r = Text(err.Error())
			r.IsError = true
		case r == nil:
			r = &Result{}
		}
		done := *r // it may be one that the tool keeps
		if done.Content == nil {
			done.Content = []any{}
		}
		if done.Type == "" && modern {
			done.Type = complete
		}
		return &done, nil
	}
}
