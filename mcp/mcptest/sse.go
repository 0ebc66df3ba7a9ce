package mcptest

import (
	"crypto/rand"
	"io"
	"net/http"
	"sync"
)

// SSE serves the provider over HTTP with server-sent events, as in 2024-11-05: GET on any
// path opens the stream, whose first event names the address for POST.
func (p *Provider) SSE() http.Handler {
	return &events{p: p, lines: map[string]*Line{}}
}

type events struct {
	p *Provider

	mu    sync.Mutex
	lines map[string]*Line
}

// ServeHTTP implements http.Handler.
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		e.listen(w, r)
		return
	}
	e.mu.Lock()
	l := e.lines[r.URL.Query().Get("sessionId")]
	e.mu.Unlock()
	if l == nil {
		http.Error(w, "there is no such session", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxFrame))
	if err != nil {
		return // the client has gone
	}
	w.WriteHeader(http.StatusAccepted)
	l.take(body, r.Header, l.out)
}

func (e *events) listen(w http.ResponseWriter, r *http.Request) {
	out, id := newStream(w), rand.Text()
	l := e.p.newLine(out)
	defer l.ended()
	e.mu.Lock()
	e.lines[id] = l
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.lines, id)
	}()
	out.mu.Lock()
	out.head()
	err := out.write([]byte("event: endpoint\ndata: " + r.URL.Path + "?sessionId=" + id + "\n\n"))
	out.mu.Unlock()
	if err == nil {
		out.hold(r)
	}
}
