package httplink_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/httplink"
	"github.com/sluicegate/sluice/mcp/link/linktest"
)

// serve runs a provider until the test ends.
func serve(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv
}

func connect(t *testing.T, f http.HandlerFunc) (link.Link, *linktest.Inbox) {
	t.Helper()
	return linktest.Dial(t, &httplink.Server{URL: serve(t, f).URL + "/mcp"})
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
func session(t *testing.T, l link.Link, in *linktest.Inbox) {
	t.Helper()
	linktest.Send(t, l, "", jsonrpc.NewRequest(jsonrpc.StringID("init"), "initialize", map[string]any{}))
	if m := linktest.Get(t, in.Messages); m.ID != jsonrpc.StringID("init") {
		t.Fatalf("instead of the answer to initialize: %s", m.Raw)
	}
	linktest.Send(t, l, legacy, jsonrpc.NewNotification("notifications/initialized", nil))
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
