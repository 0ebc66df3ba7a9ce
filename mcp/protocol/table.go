package protocol

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// A Situation is why a request is answered with an error.
type Situation uint8

// The situations.
const (
	Refused            Situation = iota // by admission
	Forbidden                           // by policy
	Unavailable                         // the provider is absent, gone, or late
	UnknownTool                         // or prompt, or resource
	BadArguments                        // of a tool, up to 2025-06-18; later they are a result with isError
	UnknownMethod                       // or one that is switched off
	HeaderMismatch                      // a header is missing, or says other than the body
	MissingCapability                   // the client has not declared what the answer takes
	UnsupportedVersion                  // the revision is not served here
	SessionNotFound                     // the session has ended, never was, or is another's
	NotDeclared                         // the provider has not declared itself, or not this

	situations
)

// An outcome is the code of a JSON-RPC error, and the HTTP status it comes with where the
// transport is HTTP and has not sent one yet.
type outcome struct {
	code   int64
	status int
}

// outcomes are those of the legacy and of the modern era. A refusal comes with 200 because
// clients lose code and data on other statuses. From 2026-07-28 on no implementation may
// have codes of its own in -32020 to -32099, and new ones lie outside -32768 to -32000;
// there the codes of HTTP say what is meant.
var outcomes = [situations][2]outcome{
	Refused:            {{-32029, http.StatusOK}, {http.StatusTooManyRequests, http.StatusOK}},
	Forbidden:          {{-32001, http.StatusOK}, {http.StatusForbidden, http.StatusOK}},
	Unavailable:        {{-32000, http.StatusOK}, {jsonrpc.InternalError, http.StatusOK}},
	UnknownTool:        {{jsonrpc.InvalidParams, http.StatusOK}, {jsonrpc.InvalidParams, http.StatusOK}},
	BadArguments:       {{jsonrpc.InvalidParams, http.StatusOK}, {jsonrpc.InvalidParams, http.StatusOK}},
	UnknownMethod:      {{jsonrpc.MethodNotFound, http.StatusOK}, {jsonrpc.MethodNotFound, http.StatusNotFound}},
	HeaderMismatch:     {{jsonrpc.InvalidRequest, http.StatusBadRequest}, {headerMismatch, http.StatusBadRequest}},
	MissingCapability:  {{jsonrpc.InvalidRequest, http.StatusOK}, {missingCapability, http.StatusBadRequest}},
	UnsupportedVersion: {{jsonrpc.InvalidParams, http.StatusBadRequest}, {CodeUnsupportedVersion, http.StatusBadRequest}},
	SessionNotFound:    {{-32001, http.StatusNotFound}, {http.StatusNotFound, http.StatusNotFound}},
	NotDeclared:        {{-32003, http.StatusOK}, {http.StatusForbidden, http.StatusOK}},
}

// The codes that revision 2026-07-28 defines of those it reserves (basic/index.mdx).
const (
	headerMismatch         = -32020
	missingCapability      = -32021
	CodeUnsupportedVersion = -32022
	resourceNotFound       = -32002 // up to 2025-11-25; then -32602
)

// Unsupported is the data of an error that says [UnsupportedVersion].
type Unsupported struct {
	Supported []string `json:"supported"`
	Requested string   `json:"requested"`
}

// reserved reports whether only the specification may give a code a meaning, from
// 2026-07-28 on.
func reserved(code int64) bool {
	return code <= -32020 && code >= -32099 || code == resourceNotFound
}

// A Table says which error each situation is, in each era. It does not change, and is safe
// for concurrent use. The zero Table is [Default].
type Table struct {
	refused [2]outcome // of the eras; what is zero is as in outcomes
}

// Default returns the table without any settings.
func Default() *Table { return &Table{} }

// With returns a table in which refusals in an era have that code and HTTP status. Zero
// leaves either as it is. A code that the era keeps for the specification is an error.
func (t *Table) With(era Era, code int64, status int) (*Table, error) {
	if era == Modern && reserved(code) {
		return nil, fmt.Errorf("protocol: code %d belongs to the specification from revision %s on, as do -32020 to -32099; choose one outside -32768 to -32000, such as 429", code, V20260728)
	}
	n := *t
	n.refused[era] = outcome{code, status}
	return &n, nil
}

// Error returns the error that a situation is at a version, and the HTTP status it comes
// with. Data are what encoding/json takes, or a [json.RawMessage]; nil leaves them out.
func (t *Table) Error(s Situation, version, message string, data any) (*jsonrpc.Error, int) {
	era := EraOf(version)
	o := outcomes[s][era]
	if s == Refused {
		set := t.refused[era]
		o = outcome{cmp.Or(set.code, o.code), cmp.Or(set.status, o.status)}
	}
	e := &jsonrpc.Error{Code: o.code, Message: message}
	if data != nil {
		e.Data = jsonrpc.Encode(data)
	}
	return e, o.status
}

// Passed returns the code with which a provider's error, at version from, goes on to a
// client at version to, and its HTTP status. A code that to gives no meaning to, and keeps
// from everybody else, becomes an internal error; that of an older provider's missing
// resource becomes invalid params.
func Passed(code int64, from, to string) (int64, int) {
	switch {
	case EraOf(to) == Legacy:
		return code, http.StatusOK
	case code == jsonrpc.MethodNotFound:
		return code, http.StatusNotFound
	case code == resourceNotFound:
		return jsonrpc.InvalidParams, http.StatusOK
	case !reserved(code):
		return code, http.StatusOK
	case EraOf(from) == Modern && code >= CodeUnsupportedVersion:
		return code, http.StatusBadRequest
	}
	return jsonrpc.InternalError, http.StatusOK
}
