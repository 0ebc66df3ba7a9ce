package front

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A fault is why a request is answered with an HTTP status above 399. Its body is a
// JSON-RPC error, whatever the status: clients look for one.
type fault struct {
	status       int
	err          *jsonrpc.Error
	retryAfter   time.Duration // zero tells no time
	allow        string        // of 405
	authenticate string        // of 401 and 403
}

// table is the default one: configuration changes nothing but refusals, and those are the
// broker's.
var table = protocol.Default()

// invalid is a request that cannot be understood or may not be made.
func invalid(status int, id jsonrpc.ID, message string) *fault {
	return &fault{status: status, err: &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: message, ID: id}}
}

// unreadable is a frame that is no message.
func unreadable(e *jsonrpc.Error) *fault { return &fault{status: http.StatusBadRequest, err: e} }

// inEra is the error that a situation is in the era of a version.
func inEra(s protocol.Situation, version string, id jsonrpc.ID, message string, data any) *fault {
	e, status := table.Error(s, version, message, data)
	e.ID = id
	return &fault{status: status, err: e}
}

func notFound(message string) *fault {
	return invalid(http.StatusNotFound, jsonrpc.ID{}, message)
}

// noSession is the answer to a session that is unknown, has ended, or is another's, which
// must all look the same. Real clients look for this code and text.
func noSession(id jsonrpc.ID) *fault {
	return inEra(protocol.SessionNotFound, "", id, "Session not found", nil)
}

// busy is a broker that can take no more now.
func busy(message string) *fault { return busyFor(time.Second, jsonrpc.ID{}, message) }

// crowded is a broker that has no room for a long message now.
func crowded() *fault { return busy("too many long messages are under way") }

func busyFor(wait time.Duration, id jsonrpc.ID, message string) *fault {
	wait = max(wait, time.Millisecond)
	f := inEra(protocol.Unavailable, "", id, message, overload{"busy", wait.Milliseconds()})
	f.status, f.retryAfter = http.StatusServiceUnavailable, wait
	return f
}

type overload struct {
	Reason       string `json:"reason"`
	RetryAfterMs int64  `json:"retryAfterMs"`
}

func notAllowed(allow string) *fault {
	f := invalid(http.StatusMethodNotAllowed, jsonrpc.ID{}, "Method not allowed; use "+allow)
	f.allow = allow
	return f
}

// fail answers with f. Nothing may have been written before.
func (v *visit) fail(f *fault) {
	h := v.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(f.retryAfter.Seconds())), 10))
	}
	if f.allow != "" {
		h.Set("Allow", f.allow)
	}
	if f.authenticate != "" {
		h.Set("WWW-Authenticate", f.authenticate)
	}
	v.hurry()
	v.w.WriteHeader(f.status)
	if v.r.Method != http.MethodHead {
		_, _ = v.w.Write(f.err.Frame()) // the client may have gone
	}
}

// hurry gives the next write its time. A writer without deadlines is a test's or an
// embedder's own affair.
func (v *visit) hurry() {
	_ = v.deadl.SetWriteDeadline(time.Now().Add(v.f.o.Bounds.WriteTimeout))
}
