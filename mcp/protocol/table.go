package protocol

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// A Situation is why a request gets an error.
type Situation uint8

// The situations.
const (
	Parse              Situation = iota // the frame is no JSON
	Invalid                             // the frame is no request
	Refused                             // admission refused
	Forbidden                           // policy denies it
	Unavailable                         // the provider is absent, gone, or late
	UnknownTool                         // or prompt, or resource
	BadArguments                        // arguments do not match the tool's schema, or are none at all
	UnknownMethod                       // also one that is switched off
	HeaderMismatch                      // a header is missing, or says other than the body
	MissingCapability                   // the client declared too little for what the tool needs
	UnsupportedVersion                  // the revision is not served here
	SessionNotFound                     // the session has ended, never was, or is another's
	NotDeclared                         // the provider did not declare itself, or may not do this
	Internal                            // the broker's own fault

	situations
)

// An answer is the code and HTTP status of a situation.
type answer struct {
	code   int64
	status int
}

// A Table says which error each situation is, in each era. The zero Table is [Default].
// It is safe for concurrent use.
type Table struct {
	refused [2]answer // of the eras, where they differ from the default
}

// defaults are the codes of both eras, legacy first.
var defaults = [situations][2]answer{
	Parse:              {{jsonrpc.ParseError, 400}, {jsonrpc.ParseError, 400}},
	Invalid:            {{jsonrpc.InvalidRequest, 400}, {jsonrpc.InvalidRequest, 400}},
	Refused:            {{-32029, 200}, {http.StatusTooManyRequests, 200}},
	Forbidden:          {{-32001, 200}, {http.StatusForbidden, 200}},
	Unavailable:        {{-32000, 200}, {jsonrpc.InternalError, 200}},
	UnknownTool:        {{jsonrpc.InvalidParams, 200}, {jsonrpc.InvalidParams, 200}},
	BadArguments:       {{jsonrpc.InvalidParams, 200}, {jsonrpc.InvalidParams, 200}},
	UnknownMethod:      {{jsonrpc.MethodNotFound, 200}, {jsonrpc.MethodNotFound, 404}},
	HeaderMismatch:     {{jsonrpc.InvalidRequest, 400}, {-32020, 400}},
	MissingCapability:  {{jsonrpc.InvalidRequest, 200}, {-32021, 400}},
	UnsupportedVersion: {{jsonrpc.InvalidParams, 400}, {-32022, 400}},
	SessionNotFound:    {{-32001, 404}, {-32001, 404}},
	NotDeclared:        {{-32003, 200}, {http.StatusForbidden, 200}},
	Internal:           {{jsonrpc.InternalError, 200}, {jsonrpc.InternalError, 200}},
}

// Default returns the table of facts/mcp.md 2.7.
func Default() *Table { return &Table{} }

// With returns a table in which refusals of an era have another code and HTTP status;
// zero leaves one as it is.
func (t *Table) With(era Era, code int64, status int) (*Table, error) {
	n := *t
	n.refused[era] = answer{code, status}
	if era == Modern && code <= -32020 && code >= -32099 {
		return nil, fmt.Errorf("protocol: code %d is reserved from revision %s on (-32020 to -32099); choose one outside -32768 to -32000, such as 429", code, V20260728)
	}
	return &n, nil
}

// Error returns the error that a situation is at a version, and the HTTP status that it
// goes out with. Data of nil are left out.
func (t *Table) Error(s Situation, version, message string, data any) (*jsonrpc.Error, int) {
	era := EraOf(version)
	a := defaults[s][era]
	if s == Refused {
		if c := t.refused[era].code; c != 0 {
			a.code = c
		}
		if st := t.refused[era].status; st != 0 {
			a.status = st
		}
	}
	e := &jsonrpc.Error{Code: a.code, Message: message}
	if data != nil {
		e.Data, _ = json.Marshal(data)
	}
	return e, a.status
}
