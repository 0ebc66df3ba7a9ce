package httplink_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/httplink"
)

// A told is a message, and on whose stream it came.
type told struct {
	*jsonrpc.Message
	of jsonrpc.ID
}

// A loss is a request that is lost.
type loss struct {
	id jsonrpc.ID
	link.Failure
}

// An inbox hands on what it is told.
type inbox struct {
	messages chan told
	lost     chan loss
	bad      chan error
	down     chan error
}

func newInbox() *inbox {
	return &inbox{make(chan told, 1000), make(chan loss, 1000), make(chan error, 1000), make(chan error, 2)}
}

func (in *inbox) Message(m *jsonrpc.Message, of jsonrpc.ID) { in.messages <- told{m, of} }
func (in *inbox) Lost(id jsonrpc.ID, f link.Failure)        { in.lost <- loss{id, f} }
func (in *inbox) Bad(err error)                             { in.bad <- err }
func (in *inbox) Down(err error)                            { in.down <- err }

// get takes the next of something that has to come.
func get[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("no %T within 20 s", *new(T))
		panic("unreachable")
	}
}

// serve runs a provider until the test ends.
func serve(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv
}

func dial(t *testing.T, s *httplink.Server) (link.Link, *inbox) {
	t.Helper()
	in := newInbox()
	l, err := s.Dial(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, in
}

func connect(t *testing.T, f http.HandlerFunc) (link.Link, *inbox) {
	t.Helper()
	return dial(t, &httplink.Server{URL: serve(t, f).URL + "/mcp"})
}

func send(t *testing.T, l link.Link, version string, m *jsonrpc.Message) {
	t.Helper()
	if err := l.Send(t.Context(), link.Outgoing{Message: m, Version: version}); err != nil {
		t.Fatal(err)
	}
}

func call(id, tool string) *jsonrpc.Message {
	return jsonrpc.NewRequest(jsonrpc.StringID(id), "tools/call", map[string]any{"name": tool})
}

// received reads the message that was posted.
func received(r *http.Request) *jsonrpc.Message {
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Parse(body, jsonrpc.Bounds{MaxBytes: 64 << 20})
	if err != nil {
		return &jsonrpc.Message{}
	}
	return m
}

// answer answers with a message.
func answer(w http.ResponseWriter, m *jsonrpc.Message) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(m.Raw)
}

// events begins a stream of events, and returns what writes to it.
func events(w http.ResponseWriter) func(text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	c := http.NewResponseController(w)
	_ = c.Flush()
	return func(text string) {
		_, _ = io.WriteString(w, text)
		_ = c.Flush()
	}
}

func data(m *jsonrpc.Message) string { return "data: " + string(m.Raw) + "\n\n" }

// session opens a legacy session: initialize and notifications/initialized.
func session(t *testing.T, l link.Link, in *inbox) {
	t.Helper()
	send(t, l, "", jsonrpc.NewRequest(jsonrpc.StringID("init"), "initialize", map[string]any{}))
	if m := get(t, in.messages); m.ID != jsonrpc.StringID("init") {
		t.Fatalf("instead of the answer to initialize: %s", m.Raw)
	}
	send(t, l, legacy, jsonrpc.NewNotification("notifications/initialized", nil))
}

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// withSession answers the handshake, has no stream, and leaves the rest to f.
func withSession(f http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		peek, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(peek))
		switch m, _ := jsonrpc.Parse(peek, jsonrpc.Bounds{}); {
		case m == nil:
			w.WriteHeader(http.StatusBadRequest)
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "s-1")
			answer(w, jsonrpc.NewResult(m.ID, nil))
		case m.Method == "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			f(w, r)
		}
	}
}

// settles waits until there are no more goroutines than before.
func settles(t *testing.T, before int) {
	t.Helper()
	for began := time.Now(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Since(began) > 10*time.Second {
			stacks := make([]byte, 1<<20)
			t.Fatalf("M-054 %d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
