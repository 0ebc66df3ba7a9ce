package front

import (
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// mirrored checks that the headers of a modern message say what its body says: others on the
// way decide by them. What the message means is read from the body alone. The version comes
// first, as another one might have other headers.
func mirrored(m *jsonrpc.Message, h http.Header, version string) *fault {
	body, says := stated(m)
	differs := func(name string) *fault {
		return inEra(protocol.HeaderMismatch, protocol.V20260728, m.ID, "Header mismatch: "+name+" is not what the body says", nil)
	}
	missing := func(name string) *fault {
		return inEra(protocol.HeaderMismatch, protocol.V20260728, m.ID, "Header mismatch: "+name+" is missing", nil)
	}
	if m.Kind == jsonrpc.Notification { // which headers it needs, the revision does not say
		method := h.Get(protocol.HeaderMethod)
		if says && version != "" && body != version {
			return differs(protocol.HeaderVersion)
		}
		if method != "" && method != m.Method {
			return differs(protocol.HeaderMethod)
		}
		return nil
	}
	switch {
	case version == "":
		return missing(protocol.HeaderVersion)
	case !says:
		return &fault{status: http.StatusBadRequest, err: &jsonrpc.Error{
			Code: jsonrpc.InvalidParams, Message: "params._meta lacks " + protocol.MetaVersion, ID: m.ID}}
	case body != version:
		return differs(protocol.HeaderVersion)
	case !protocol.Known(version):
		return inEra(protocol.UnsupportedVersion, version, m.ID, "Unsupported protocol version",
			protocol.Unsupported{Supported: protocol.Versions(), Requested: version})
	}
	method, ok := alike(h, protocol.HeaderMethod)
	switch {
	case method == "":
		return missing(protocol.HeaderMethod)
	case !ok || method != m.Method:
		return differs(protocol.HeaderMethod)
	}
	return named(m, h, missing, differs)
}

// named checks the header that repeats the name of what a request is about.
func named(m *jsonrpc.Message, h http.Header, missing, differs func(string) *fault) *fault {
	want, has := protocol.NameOf(m)
	if !has {
		return nil // the method has none, or the body lacks it, which is no matter of headers
	}
	sent, ok := alike(h, protocol.HeaderName)
	if sent == "" && want != "" {
		return missing(protocol.HeaderName)
	}
	got, err := protocol.DecodeHeader(sent)
	if !ok || err != nil || got != want {
		return differs(protocol.HeaderName)
	}
	return nil
}

// alike returns the value of a header, whatever is in it, and whether all its lines are the
// same.
func alike(h http.Header, name string) (string, bool) {
	lines := h.Values(name)
	if len(lines) == 0 {
		return "", true
	}
	for _, l := range lines[1:] {
		if l != lines[0] {
			return lines[0], false
		}
	}
	return lines[0], true
}

// parameters returns the headers that repeat arguments of a tool, never nil.
func parameters(h http.Header) http.Header {
	found := http.Header{}
	for name, lines := range h {
		if strings.HasPrefix(name, protocol.HeaderParam) {
			found[name] = lines
		}
	}
	return found
}
