package httplink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/protocol"
	"github.com/sluicegate/sluice/upstream"
)

const (
	// maxRefusal and refusalTime bound the reading of an answer that refuses.
	maxRefusal  = 64 << 10
	refusalTime = 5 * time.Second

	// sessionNotFound is the code of a 404 that official servers answer to an unknown session.
	sessionNotFound = -32001
)

// A sent is what was sent, as far as the answer's meaning depends on it.
type sent struct {
	id      jsonrpc.ID // zero for what is no request
	session string
	version string
}

// refusal says what an answer means that is no 2xx. An answer that holds a JSON-RPC error
// is the provider's word, and comes back as the message that it is.
func (w *wire) refusal(resp *answer, s sent) (*jsonrpc.Message, link.Failure) {
	defer resp.close()
	timer := time.AfterFunc(refusalTime, func() { resp.cancel(errHead) })
	defer timer.Stop()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	said, _ := jsonrpc.Parse(body, jsonrpc.Bounds{})
	if said != nil && said.Err == nil {
		said = nil
	}
	f := link.Failure{Status: resp.StatusCode, NotRun: refused(resp.StatusCode)}
	f.RetryAfter, _ = upstream.RetryAfter(resp.Header, time.Now())
	if forgotten(resp.StatusCode, s, said, body) {
		f.SessionGone, f.NotRun = true, true
		f.Err = w.errorf("the server does not know the session any more (%d)", resp.StatusCode)
		return nil, f
	}
	f.Err = w.errorf("%s", statusText(resp.StatusCode))
	if said == nil || s.id.IsZero() || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return nil, f
	}
	if said.ID != s.id { // null, since a server may not have read so far
		said = jsonrpc.NewError(s.id, said.Fault())
	}
	return said, f
}

// refused reports whether a status proves that the request was not executed. Of a proxy's
// 408, 409 and 499 nobody knows, nor of any 5xx.
func refused(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, 499:
		return false
	}
	return 300 <= status && status < 500
}

// forgotten reports whether the server does not know our session. That is a 404 by the
// protocol; server-everything of August 2026 and others built on the same SDK answer 400
// with a text about the session, and no id, since they look no further.
func forgotten(status int, s sent, said *jsonrpc.Message, body []byte) bool {
	if s.session == "" {
		return false
	}
	switch status {
	case http.StatusNotFound:
		return said == nil || said.ID != s.id || said.Fault().Code == sessionNotFound
	case http.StatusBadRequest:
		text := string(body)
		if said != nil {
			text = said.Fault().Message
		}
		return (said == nil || said.ID.IsZero() || said.ID.IsNull()) && strings.Contains(strings.ToLower(text), "session")
	}
	return false
}

// statusText says in words what a status means for whoever runs the broker.
func statusText(status int) string {
	meaning := map[int]string{
		http.StatusUnauthorized:          "the provider does not accept the broker's credentials, or wants some",
		http.StatusForbidden:             "the provider forbids it to the broker's credentials",
		http.StatusNotFound:              "the provider has nothing at this url",
		http.StatusMethodNotAllowed:      "the provider does not speak Streamable HTTP at this url",
		http.StatusNotAcceptable:         "the provider does not speak Streamable HTTP at this url",
		http.StatusRequestEntityTooLarge: "the message is longer than the provider takes",
		http.StatusTooManyRequests:       "the provider limits the broker",
	}[status]
	switch {
	case meaning != "":
	case status/100 == 3:
		meaning = "the provider redirects to another server or method; its url has to be changed"
	default:
		meaning = "the provider answered " + http.StatusText(status)
	}
	return fmt.Sprintf("%s (%d)", meaning, status)
}

// errorf makes an error that names the provider.
func (w *wire) errorf(format string, args ...any) error {
	return fmt.Errorf("mcp/link/httplink: %s: %w", w.server, fmt.Errorf(format, args...))
}

// plain is an error of net/http without the URL, in which a key may stand. If we have ended
// the request ourselves, it says why.
func plain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}

// modern reports whether the message was sent in the era without sessions.
func (s sent) modern() bool { return protocol.EraOf(s.version) == protocol.Modern }
