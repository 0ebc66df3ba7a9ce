package provider

import (
	"encoding/json"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A CallerReference stands for whoever sent a request, while it is under way. Nothing else
// that a request says of its caller is true: arguments are the caller's own words.
type CallerReference struct {
	Ref           string
	CorrelationID string
	TraceID       string // empty if the request belongs to no trace
}

// CallerReferenceOf reads the reference from the _meta of a request. It is false if there
// is none.
func CallerReferenceOf(meta json.RawMessage) (CallerReference, bool) {
	raw, ok := jsonrpc.Lookup(meta, protocol.MetaCaller)
	if !ok {
		return CallerReference{}, false
	}
	text := func(name string) string {
		value, _ := jsonrpc.Lookup(raw, name)
		s, _ := jsonrpc.Text(value)
		return s
	}
	r := CallerReference{text("ref"), text("correlationId"), text("traceId")}
	if r.Ref == "" || r.CorrelationID == "" {
		return CallerReference{}, false
	}
	return r, true
}
