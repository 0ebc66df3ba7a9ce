package protocol

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// Header fields. Names are compared without case, values with it.
const (
	HeaderVersion = "MCP-Protocol-Version"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
	HeaderSession = "Mcp-Session-Id"
	HeaderParam   = "Mcp-Param-" // and the name that a tool's schema gives with x-mcp-header
)

// A value in base64 stands between these.
const (
	encodedStart = "=?base64?"
	encodedEnd   = "?="
)

var errHeader = errors.New("protocol: the header value is not the base64 of UTF-8 text")

// EncodeHeader returns a text as a header field can hold it: as it is, or, if it has
// bytes that a field cannot hold, or blanks at its ends, or looks encoded, in base64.
func EncodeHeader(v string) string {
	if plainHeader(v) {
		return v
	}
	return encodedStart + base64.StdEncoding.EncodeToString([]byte(v)) + encodedEnd
}

func plainHeader(v string) bool {
	if strings.TrimSpace(v) != v || strings.HasPrefix(v, encodedStart) && strings.HasSuffix(v, encodedEnd) {
		return false
	}
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// DecodeHeader returns the text of a header field. A value between =?base64? and ?= that
// is no base64 of UTF-8 text is an error; any other value is returned as it is.
func DecodeHeader(v string) (string, error) {
	body, ok := strings.CutPrefix(v, encodedStart)
	if !ok {
		return v, nil
	}
	if body, ok = strings.CutSuffix(body, encodedEnd); !ok {
		return v, nil
	}
	text, err := base64.StdEncoding.DecodeString(body)
	if err != nil || !utf8.Valid(text) {
		return "", errHeader
	}
	return string(text), nil
}

// NameOf returns what the header Mcp-Name of a message has to be, before it is encoded,
// and whether the message's method has one.
func NameOf(m *jsonrpc.Message) (string, bool) {
	var member string
	switch m.Method {
	case "tools/call", "prompts/get":
		member = "name"
	case "resources/read":
		member = "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		member = "taskId"
	default:
		return "", false
	}
	raw, ok := m.Param(member)
	if !ok {
		return "", false
	}
	return jsonrpc.Text(raw)
}
