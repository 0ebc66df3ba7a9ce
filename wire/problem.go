package wire

import (
	"html"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

// A Problem names the problem of refusals whose status is 429; for others, and where a
// field is empty, the type registered for the status is used, or none. Bodies never name
// the caller.
type Problem struct {
	// Type is the URI of the problem's type.
	Type string
	// Title is the same for every refusal of that type.
	Title string
	// Instance returns the URI of this very refusal, such as a request's ID. Nil, or an
	// empty URI, leaves it out.
	Instance func(*http.Request) string
}

// Spector is the problem of ADR-0039: its type, its title, and the request's path, without
// a query, as the instance.
func Spector() Problem {
	return Problem{
		Type:     "urn:spector:error:rate-limit-exceeded",
		Title:    http.StatusText(http.StatusTooManyRequests),
		Instance: func(r *http.Request) string { return r.URL.EscapedPath() },
	}
}

// The problem types of draft-ietf-httpapi-ratelimit-headers-10.
const (
	ianaTypes    = "https://iana.org/assignments/http-problem-types#"
	quotaType    = ianaTypes + "quota-exceeded"
	quotaTitle   = "Request cannot be satisfied as assigned quota has been exceeded"
	reducedType  = ianaTypes + "temporary-reduced-capacity"
	reducedTitle = "Request cannot be satisfied due to temporary server capacity constraints"
)

// nameOf returns the type and title for a status. Without a type of its own a problem
// means what its status means (RFC 9457, 4.2.1).
func (p *Problem) nameOf(status int) (typ, title string) {
	switch status {
	case http.StatusTooManyRequests:
		typ, title = quotaType, quotaTitle
		if p.Type != "" {
			typ, title = p.Type, http.StatusText(status)
		}
		if p.Title != "" {
			title = p.Title
		}
		return typ, title
	case http.StatusServiceUnavailable:
		return reducedType, reducedTitle
	}
	return "about:blank", http.StatusText(status)
}

var (
	problemType = []string{"application/problem+json"}
	htmlType    = []string{"text/html; charset=utf-8"}
	jsonType    = []string{"application/json"}
)

// bodies keeps buffers: under attack most answers are refusals.
var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// writeBody writes the answer with a body that fill appends.
func writeBody(rw http.ResponseWriter, status int, fill func([]byte) []byte) {
	p := bodies.Get().(*[]byte)
	*p = fill((*p)[:0])
	rw.WriteHeader(status)
	_, _ = rw.Write(*p) // a client that has gone is not our error
	bodies.Put(p)
}

func (w *Writer) writeProblem(rw http.ResponseWriter, r *http.Request, ref *sluice.Refusal, status int, wait time.Duration) {
	page := prefersHTML(r.Header["Accept"])
	rw.Header()["Content-Type"] = problemType
	if page {
		rw.Header()["Content-Type"] = htmlType
	}
	if r.Method == http.MethodHead {
		rw.WriteHeader(status)
		return
	}
	writeBody(rw, status, func(b []byte) []byte {
		if page {
			return appendPage(b, ref, status, wait)
		}
		return w.appendProblem(b, r, ref, status, wait)
	})
}

// appendProblem appends the body of RFC 9457, with the members of the IETF draft and of
// ADR-0039 beside the standard ones.
func (w *Writer) appendProblem(b []byte, r *http.Request, ref *sluice.Refusal, status int, wait time.Duration) []byte {
	if status == http.StatusTooManyRequests {
		b = append(b, w.tooMany...)
	} else {
		b = w.problem.appendName(b, status)
	}
	b = append(b, `,"detail":`...)
	var room [160]byte
	b = appendJSON(b, appendReason(room[:0], ref, wait))
	if w.problem.Instance != nil {
		if instance := w.problem.Instance(r); instance != "" {
			b = append(b, `,"instance":`...)
			b = appendJSON(b, instance)
		}
	}
	b = append(b, `,"violated-policies":`...)
	b = appendViolated(b, ref)
	if wait > 0 {
		b = append(b, `,"retryAfterSeconds":`...)
		b = strconv.AppendInt(b, ceil(wait, time.Second), 10)
		b = append(b, `,"retry-after-ms":`...)
		b = strconv.AppendInt(b, ceil(wait, time.Millisecond), 10)
	}
	if ref.Degraded {
		b = append(b, `,"degraded":true`...)
	}
	return append(b, '}', '\n')
}

// appendName appends the first members of a body, which the status alone decides.
func (p *Problem) appendName(b []byte, status int) []byte {
	typ, title := p.nameOf(status)
	b = append(b, `{"type":`...)
	b = appendJSON(b, typ)
	b = append(b, `,"title":`...)
	b = appendJSON(b, title)
	b = append(b, `,"status":`...)
	return strconv.AppendInt(b, int64(status), 10)
}

// appendViolated appends the names of the refusing policies as RateLimit-Policy spells
// them, or of the rules if no level tells more.
func appendViolated(b []byte, ref *sluice.Refusal) []byte {
	b = append(b, '[')
	start := len(b)
	for i := range ref.Levels {
		if l := &ref.Levels[i]; !l.Refused || l.Shadow {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		rule, name := policyName(ref.Levels, i)
		b = appendJSON(b, rule)
		if name != "" {
			b[len(b)-1] = ':' // in place of the closing quote
			b = appendEscaped(b, name)
			b = append(b, '"')
		}
	}
	if len(b) > start {
		return append(b, ']')
	}
	for i, rule := range ref.Violated {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, rule)
	}
	return append(b, ']')
}

// appendPage appends a small page for people.
func appendPage(b []byte, ref *sluice.Refusal, status int, wait time.Duration) []byte {
	title := strconv.Itoa(status) + " " + http.StatusText(status)
	b = append(b, `<!doctype html><html lang="en"><meta charset="utf-8">`+
		`<meta name="viewport" content="width=device-width"><title>`...)
	b = append(b, title...)
	b = append(b, `</title><style>body{font:1.1em/1.6 system-ui,sans-serif;max-width:34em;margin:15vh auto;padding:0 1em}</style><h1>`...)
	b = append(b, title...)
	b = append(b, `</h1><p>`...)
	b = append(b, html.EscapeString(string(appendReason(nil, ref, wait)))...)
	return append(b, "</p></html>\n"...)
}
