package wire

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
)

// RPC is what a refusal needs to know of a JSON-RPC request. The zero RPC is a request
// whose body was not read.
type RPC struct {
	// Version is the MCP-Protocol-Version of the request; empty is an old client's.
	Version string
	// Read is true if the body was read. Without it the answer's id is null.
	Read bool
	// IDs are the ids of the requests in the body, byte for byte. A body that was read
	// and has none is a notification, which is refused by HTTP status alone.
	IDs []json.RawMessage
	// Batch is true if the body is an array; the answer is then one too.
	Batch bool
	// Code of the error; zero is -32029 up to protocol 2025-11-25, and 429 from
	// 2026-07-28, which keeps -32020 to -32099 for itself.
	Code int
	// Status of the answer; zero is 200, because most clients lose the error on others.
	Status int
}

const (
	newEra  = "2026-07-28" // the first protocol revision that reserves the old code
	oldCode = -32029
	newCode = http.StatusTooManyRequests
)

// revision is the form of a protocol version. Others are taken for old ones.
var revision = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)

var errNoRPC = errors.New("wire: the body is no JSON-RPC message and no batch of them")

// ParseRPC reads a JSON-RPC body, one message or a batch, as far as a refusal needs it:
// the ids of its requests. Names of members are compared exactly, unlike encoding/json's
// structs would. It returns an error if the body is neither an object nor an array of
// them; then the RPC counts as not read.
func ParseRPC(body []byte) (RPC, error) {
	type message = map[string]json.RawMessage
	var one message
	err := json.Unmarshal(body, &one)
	if err == nil && one != nil {
		return RPC{Read: true, IDs: appendRequestID(nil, one)}, nil
	}
	var batch []message
	if json.Unmarshal(body, &batch) != nil || batch == nil {
		return RPC{}, errNoRPC
	}
	rpc := RPC{Read: true, Batch: true}
	for _, m := range batch {
		rpc.IDs = appendRequestID(rpc.IDs, m)
	}
	return rpc, nil
}

// appendRequestID appends the id of a message if it is a request: a response has an id
// and no method, a notification a method and no id.
func appendRequestID(ids []json.RawMessage, m map[string]json.RawMessage) []json.RawMessage {
	id, hasID := m["id"]
	if _, hasMethod := m["method"]; hasID && hasMethod {
		return append(ids, id)
	}
	return ids
}

// RefuseRPC answers a JSON-RPC request with a refusal: the headers of [Writer.Refuse]
// and a JSON-RPC error with the request's own id.
func (w *Writer) RefuseRPC(rw http.ResponseWriter, r *http.Request, ref *sluice.Refusal, rpc RPC) {
	wait := waitOf(ref)
	h := rw.Header()
	w.head(h, r, ref, wait)
	h["Content-Type"] = jsonType
	status := rpc.Status
	switch {
	case rpc.Read && len(rpc.IDs) == 0:
		status = w.Status(ref)
	case status == 0:
		status = http.StatusOK
	}
	writeBody(rw, status, func(b []byte) []byte { return rpc.appendErrors(b, ref, wait) })
}

func (rpc *RPC) code() int {
	switch {
	case rpc.Code != 0:
		return rpc.Code
	case rpc.Version >= newEra && revision.MatchString(rpc.Version):
		return newCode
	}
	return oldCode
}

// appendErrors appends one error, or an array of one for each request of a batch.
func (rpc *RPC) appendErrors(b []byte, ref *sluice.Refusal, wait time.Duration) []byte {
	switch {
	case !rpc.Read:
		b = rpc.appendError(b, json.RawMessage("null"), ref, wait)
	case len(rpc.IDs) == 0:
		b = rpc.appendError(b, nil, ref, wait)
	case !rpc.Batch:
		b = rpc.appendError(b, rpc.IDs[0], ref, wait)
	default:
		for i, id := range rpc.IDs {
			b = append(b, "[,"[min(i, 1)])
			b = rpc.appendError(b, id, ref, wait)
		}
		b = append(b, ']')
	}
	return append(b, '\n')
}

// appendError appends one error. A nil id is left out, as MCP has it for a notification.
func (rpc *RPC) appendError(b []byte, id json.RawMessage, ref *sluice.Refusal, wait time.Duration) []byte {
	b = append(b, `{"jsonrpc":"2.0"`...)
	if id != nil {
		b = append(b, `,"id":`...)
		b = append(b, id...)
	}
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(rpc.code()), 10)
	b = append(b, `,"message":`...)
	message := append(make([]byte, 0, 160), "Tool admission refused: "...)
	b = appendJSON(b, appendReason(message, ref, wait))
	b = append(b, `,"data":{"reason":`...)
	b = appendJSON(b, ref.Reason.String())
	if ref.Rule != "" {
		b = append(b, `,"ruleId":`...)
		b = appendJSON(b, ref.Rule)
	}
	if wait > 0 {
		b = append(b, `,"retryAfterMs":`...)
		b = strconv.AppendInt(b, ceil(wait, time.Millisecond), 10)
	}
	if ref.Degraded {
		b = append(b, `,"degraded":true`...)
	}
	return append(b, "}}}"...)
}
