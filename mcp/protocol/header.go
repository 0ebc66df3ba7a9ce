package protocol

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// Header fields of Streamable HTTP. Their names are compared without case, their values
// with it.
const (
	HeaderVersion = "MCP-Protocol-Version"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
	HeaderSession = "Mcp-Session-Id"
	HeaderParam   = "Mcp-Param-" // with the name behind it that a tool's schema gives as x-mcp-header
)

// encodedStart and encodedEnd stand around a text in base64. They are case-sensitive.
const (
	encodedStart = "=?base64?"
	encodedEnd   = "?="
)

var errHeader = errors.New("protocol: the header value is neither printable ASCII nor UTF-8 text in base64 between =?base64? and ?=")

// EncodeHeader returns a text in the form in which Mcp-Name and Mcp-Param-* hold it: as it
// is, or in base64 if it is empty, not printable ASCII, has blanks at its ends, or looks
// like base64 itself.
func EncodeHeader(text string) string {
	_, encoded := payload(text)
	if !encoded && text != "" && printable(text) && strings.Trim(text, " \t") == text {
		return text
	}
	return encodedStart + base64.StdEncoding.EncodeToString([]byte(text)) + encodedEnd
}

// DecodeHeader returns the text that a value of Mcp-Name or Mcp-Param-* stands for. A
// value that no text is encoded as is an error.
func DecodeHeader(value string) (string, error) {
	if !printable(value) {
		return "", errHeader
	}
	inside, encoded := payload(value)
	if !encoded {
		return value, nil
	}
	text, err := base64.StdEncoding.Strict().DecodeString(inside)
	if err != nil || !utf8.Valid(text) {
		return "", errHeader
	}
	return string(text), nil
}

// payload returns what stands between the marks of base64, and whether they are there.
func payload(value string) (string, bool) {
	inside, start := strings.CutPrefix(value, encodedStart)
	inside, end := strings.CutSuffix(inside, encodedEnd)
	return inside, start && end
}

// printable reports whether a text is of visible ASCII, spaces and tabs (RFC 9110, 5.5,
// without what that keeps for old times).
func printable(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' || c > '~') && c != '\t' {
			return false
		}
	}
	return true
}

// NameOf returns the text that Mcp-Name stands for with this message, and whether the
// message has one: its method wants one, and its params have it.
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
	raw, _ := m.Param(member)
	return jsonrpc.Text(raw)
}
