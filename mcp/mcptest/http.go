package mcptest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// HTTP says how a provider serves Streamable HTTP. The zero value has sessions for the versions
// that know them and answers with event streams.
type HTTP struct {
	JSON      bool // an answer is application/json, and messages before it are lost
	Stateless bool // sessions are given to nobody and asked of nobody
	NoStream  bool // GET is not allowed
}

// A Handler serves a provider over Streamable HTTP, both eras at one address. It is stricter
// than the protocol asks a server to be: headers that a client must send and that are
// missing or wrong are refused.
type Handler struct {
	p *Provider
	o HTTP

	mu       sync.Mutex
	sessions map[string]*Line
	begun    int // sessions, ever
	faults   []Fault
}

// A Fault is an answer that comes before anything is read or executed.
type Fault struct {
	Status int
	Header http.Header
	Body   string
}

// Handler returns a handler for the provider.
func (p *Provider) Handler(o HTTP) *Handler {
	return &Handler{p: p, o: o, sessions: map[string]*Line{}}
}

// Fail makes the next requests fail, one for each fault.
func (h *Handler) Fail(faults ...Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, faults...)
}

// Forget ends every session: the next request of each is answered with 404.
func (h *Handler) Forget() {
	h.mu.Lock()
	lines := h.sessions
	h.sessions = map[string]*Line{}
	h.mu.Unlock()
	for _, l := range lines {
		_ = l.Close() // there may be no stream
		l.ended()
	}
}

// Sessions returns how many sessions have begun and how many are open.
func (h *Handler) Sessions() (begun, open int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun, len(h.sessions)
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	var fault *Fault
	if len(h.faults) > 0 {
		fault, h.faults = &h.faults[0], h.faults[1:]
	}
	h.mu.Unlock()
	switch {
	case fault != nil:
		fault.answer(w)
	case r.Method == http.MethodPost:
		h.post(w, r)
	case r.Method == http.MethodGet && !h.o.NoStream && !h.o.Stateless:
		h.listen(w, r)
	case r.Method == http.MethodDelete && !h.o.Stateless:
		h.end(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (f *Fault) answer(w http.ResponseWriter) {
	for name, values := range f.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body)
}

// refuse answers with an error that is no answer of a method.
func refuse(w http.ResponseWriter, status int, code int64, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(message{ID: json.RawMessage("null"), Error: &Error{Code: code, Message: text}}.frame())
}

func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxFrame))
	if err != nil {
		return // the client has gone
	}
	f, err := ReadFrame(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, -32700, "Parse error")
		return
	}
	var l *Line
	isModern := r.Header.Get("Mcp-Protocol-Version") >= modern
	switch {
	case isModern:
		if problem := headers(f, r.Header); problem != "" {
			refuse(w, http.StatusBadRequest, -32020, problem)
			return
		}
		l = h.p.newLine(noStream{})
		defer l.ended()
	case f.Method == "initialize" || h.o.Stateless:
		if l = h.begin(w, f.Method == "initialize"); h.o.Stateless {
			defer l.ended()
		}
	default:
		if l = h.session(w, r); l == nil {
			return
		}
	}
	if f.Method == "" || f.ID == nil {
		l.take(body, r.Header, noStream{})
		w.WriteHeader(http.StatusAccepted)
		return
	}
	out := &stream{w: w, json: h.o.JSON, sent: make(chan struct{}), cut: make(chan struct{})}
	defer out.finish()
	if f.Method == "subscriptions/listen" {
		h.subscribe(f, out, r)
		return
	}
	await(l, l.take(body, r.Header, out), out, r, isModern)
}

// await returns when a request needs its stream no longer.
func await(l *Line, c *Call, out *stream, r *http.Request, isModern bool) {
	var done <-chan struct{} = out.sent
	if c != nil {
		done = c.done
	}
	select {
	case <-done:
	case <-out.cut:
	case <-r.Context().Done():
		// From 2026-07-28 on, closing the stream is how a call is cancelled.
		if c != nil && isModern {
			l.cancel(string(c.ID))
		}
	}
}

// headers says which header of a modern request is not what its body asks for.
func headers(f *Frame, h http.Header) string {
	var q struct {
		Name, URI, TaskID string
		Meta              struct {
			Version      string          `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(f.Params, &q) // params that are none have none of this
	if f.ID == nil {
		return ""
	}
	want := map[string]string{"Mcp-Protocol-Version": q.Meta.Version, "Mcp-Method": f.Method, "Mcp-Name": ""}
	switch f.Method {
	case "tools/call", "prompts/get":
		want["Mcp-Name"] = q.Name
	case "resources/read":
		want["Mcp-Name"] = q.URI
	case "tasks/get", "tasks/update", "tasks/cancel":
		want["Mcp-Name"] = q.TaskID
	}
	for name, value := range want {
		if got := plain(h.Get(name)); got != value {
			return fmt.Sprintf("%s is %q and has to be %q", name, got, value)
		}
	}
	if q.Meta.Capabilities == nil {
		return "io.modelcontextprotocol/clientCapabilities is missing"
	}
	return ""
}

// plain decodes =?base64?…?=.
func plain(value string) string {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if !ok {
		return value
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?="))
	if err != nil {
		return value
	}
	return string(text)
}

// begin makes a line, and a session of it, if there are any.
func (h *Handler) begin(w http.ResponseWriter, session bool) *Line {
	if h.o.Stateless || !session {
		return h.p.newLine(noStream{})
	}
	l := h.p.newLine(&pushes{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun++
	id := fmt.Sprintf("session-%d", h.begun)
	h.sessions[id] = l
	w.Header().Set("Mcp-Session-Id", id)
	return l
}

// session is the line of a request; nil, if it has none and has been told so.
func (h *Handler) session(w http.ResponseWriter, r *http.Request) *Line {
	id := r.Header.Get("Mcp-Session-Id")
	h.mu.Lock()
	l := h.sessions[id]
	h.mu.Unlock()
	switch {
	case id == "":
		refuse(w, http.StatusBadRequest, -32000, "Mcp-Session-Id is missing")
	case l == nil:
		refuse(w, http.StatusNotFound, -32001, "Session not found")
	}
	return l
}

func (h *Handler) end(w http.ResponseWriter, r *http.Request) {
	l := h.session(w, r)
	if l == nil {
		return
	}
	h.mu.Lock()
	delete(h.sessions, r.Header.Get("Mcp-Session-Id"))
	h.mu.Unlock()
	_ = l.Close() // there may be no stream
	l.ended()
}

// listen opens the stream of a session for what belongs to no call.
func (h *Handler) listen(w http.ResponseWriter, r *http.Request) {
	l := h.session(w, r)
	if l == nil {
		return
	}
	out := newStream(w)
	push := l.out.(*pushes)
	push.add(out) // before the client knows that it is heard
	defer push.remove(out)
	out.open()
	out.hold(r)
}

// subscribe is the stream of a modern client that listens: an acknowledgement, and then
// what it has asked for.
func (h *Handler) subscribe(f *Frame, out *stream, r *http.Request) {
	var q struct{ Notifications json.RawMessage }
	_ = json.Unmarshal(f.Params, &q) // none are asked for then
	sub := &subscription{out, f.ID}
	l := h.p.newLine(sub)
	defer l.ended()
	if l.Notify("notifications/subscriptions/acknowledged", state{"notifications": q.Notifications}) == nil {
		out.hold(r)
	}
}

// A subscription says in every message which request it belongs to.
type subscription struct {
	sender
	id json.RawMessage
}

func (s *subscription) Send(frames ...[]byte) error {
	for i, raw := range frames {
		f, err := ReadFrame(raw)
		if err != nil {
			continue
		}
		params := map[string]json.RawMessage{}
		_ = json.Unmarshal(f.Params, &params) // there may be none
		params["_meta"] = fmt.Appendf(nil, `{"io.modelcontextprotocol/subscriptionId":%s}`, bytes.TrimSpace(s.id))
		frames[i] = message{Method: f.Method, Params: params}.frame()
	}
	return s.sender.Send(frames...)
}
