package wire

import (
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
)

var eventType = []string{"text/event-stream"}

// RefuseEvents refuses a stream of server-sent events in a way that a browser's
// EventSource understands: an empty stream that says when to come back, and an event
// "refused" whose data is the problem. On any other status than 200 an EventSource gives
// up for good and shows its script neither status nor Retry-After (HTML, 9.2.2). It
// reports false and writes nothing if coming back is of no use, because the refusal is
// for good.
func (w *Writer) RefuseEvents(rw http.ResponseWriter, r *http.Request, ref *sluice.Refusal) bool {
	status, wait := w.Status(ref), waitOf(ref)
	if wait <= 0 {
		return false
	}
	h := rw.Header()
	w.head(h, r, ref, wait)
	h["Content-Type"] = eventType
	writeBody(rw, http.StatusOK, func(b []byte) []byte {
		b = append(b, "retry: "...)
		b = strconv.AppendInt(b, ceil(wait, time.Millisecond), 10)
		b = append(b, "\nevent: refused\ndata: "...)
		b = w.appendProblem(b, r, ref, status, wait) // one line, with its end
		return append(b, '\n')
	})
	return true
}
