package jsonrpc

import (
	"encoding/json"
	"fmt"
)

// Codes of JSON-RPC 2.0, section 5.1.
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
)

// An Error is the error of a response.
type Error struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil leaves it out
	ID      ID              // of the request; the zero ID is written as null
}

// Error returns the code and the message.
func (e *Error) Error() string { return fmt.Sprintf("jsonrpc: error %d: %s", e.Code, e.Message) }

// Frame returns the response that carries the error.
func (e *Error) Frame() []byte { return NewError(e.ID, e).Raw }

func invalid(id ID, why string) *Error {
	return &Error{Code: InvalidRequest, Message: "Invalid request: " + why, ID: id}
}
