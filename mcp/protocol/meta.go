package protocol

import (
	"encoding/json"
	"strings"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// Keys of _meta.
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo   = "io.modelcontextprotocol/clientInfo"
	MetaServerInfo   = "io.modelcontextprotocol/serverInfo"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
	MetaProgress     = "progressToken"
	MetaCaller       = "io.cyanmycelium/caller" // who calls, in the broker's words; to providers alone
)

// ours is the prefix of the keys that the broker alone writes.
const ours = "io.cyanmycelium/"

// Reserved reports whether a key of _meta belongs to one hop, so that a broker takes it
// out of what it passes on and writes its own: keys that the protocol reserves, the
// progress token, and the broker's own, with which a client could pose as another caller.
// Trace keys (traceparent, tracestate, baggage) are reserved by the protocol for passing
// on, and are not counted here.
func Reserved(key string) bool {
	if key == MetaProgress || strings.HasPrefix(key, ours) {
		return true
	}
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	_, rest, _ := strings.Cut(prefix, ".")
	second, _, _ := strings.Cut(rest, ".")
	return second == "modelcontextprotocol" || second == "mcp"
}

// Strip returns the message without the keys of params._meta and result._meta that are
// [Reserved]. It returns m itself if there are none.
func Strip(m *jsonrpc.Message) *jsonrpc.Message {
	wanted := func(key string) bool { return !Reserved(key) }
	var edits []jsonrpc.Edit
	for _, part := range []struct {
		name string
		raw  json.RawMessage
	}{{"params", m.Params}, {"result", m.Result}} {
		if meta, ok := jsonrpc.Lookup(part.raw, "_meta"); ok {
			if less := jsonrpc.Filter(meta, wanted); len(less) != len(meta) {
				edits = append(edits, jsonrpc.Set(less, part.name, "_meta"))
			}
		}
	}
	if edits == nil {
		return m
	}
	return m.Edit(edits...)
}
