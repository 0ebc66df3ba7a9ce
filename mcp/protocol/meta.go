package protocol

import "strings"

// Keys of _meta.
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo   = "io.modelcontextprotocol/clientInfo"
	MetaServerInfo   = "io.modelcontextprotocol/serverInfo"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
	MetaRelatedTask  = "io.modelcontextprotocol/related-task"
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
	_, rest, ok := strings.Cut(prefix, ".")
	label, _, _ := strings.Cut(rest, ".")
	return ok && (label == "modelcontextprotocol" || label == "mcp")
}
