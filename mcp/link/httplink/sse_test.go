package httplink_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/httplink"
	"github.com/sluicegate/sluice/mcp/link/linktest"
)

// oldServer speaks HTTP with SSE. It answers each request on the stream that is open.
func oldServer(first string, post func(w http.ResponseWriter, m *jsonrpc.Message) bool) http.HandlerFunc {
	stream := make(chan string, 100)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			m := received(r)
			if post(w, m) && m.Kind == jsonrpc.Request {
				stream <- data(jsonrpc.NewResult(m.ID, r.URL.RequestURI()))
			}
			return
		}
		write := events(w)
		write(first)
		for {
			select {
			case text := <-stream:
				if text == "" {
					return
				}
				write(text)
			case <-r.Context().Done():
				return
			}
		}
	}
}

func accept(w http.ResponseWriter, _ *jsonrpc.Message) bool {
	w.WriteHeader(http.StatusAccepted)
	return true
}

func TestSSE(t *testing.T) {
	dialSSE := func(t *testing.T, f http.HandlerFunc) (link.Link, *linktest.Inbox) {
		t.Helper()
		return linktest.Dial(t, &httplink.Server{URL: serve(t, f).URL + "/sse", SSE: true})
	}
	t.Run("messages go where the first event says, and come on the stream", func(t *testing.T) {
		l, in := dialSSE(t, oldServer(": hello\n\nevent: endpoint\ndata: /messages?sessionId=7\n\n", accept))
		if !l.Shared() {
			t.Error("there is one stream")
		}
		for i := range 200 {
			linktest.Send(t, l, "2024-11-05", call(fmt.Sprint(i), "x"))
		}
		for range 200 {
			if m := linktest.Get(t, in.Messages); string(m.Result) != `"/messages?sessionId=7"` || !m.Of.IsZero() {
				t.Errorf("got %s of %q", m.Raw, m.Of)
			}
		}
	})
	t.Run("a request that is not taken is lost, and a cancellation is posted", func(t *testing.T) {
		told := make(chan string, 1)
		l, in := dialSSE(t, oldServer("event: endpoint\ndata: /m\n\n", func(w http.ResponseWriter, m *jsonrpc.Message) bool {
			if m.Kind == jsonrpc.Request {
				w.WriteHeader(http.StatusNotFound)
				return false
			}
			told <- string(m.Raw)
			return accept(w, m)
		}))
		linktest.Send(t, l, "", call("a", "x"))
		if f := linktest.Get(t, in.Losses); f.ID != jsonrpc.StringID("a") || !f.SessionGone || !f.NotRun {
			t.Errorf("lost: %+v", f.Failure)
		}
		l.Cancel(jsonrpc.StringID("b"), "gone")
		if got := linktest.Get(t, told); !strings.Contains(got, `"requestId":"b"`) {
			t.Errorf("told %s", got)
		}
	})
	t.Run("the link ends with the stream", func(t *testing.T) {
		_, in := dialSSE(t, func(w http.ResponseWriter, r *http.Request) { events(w)("event: endpoint\ndata: /m\n\n") })
		if err := linktest.Get(t, in.Ends); !strings.Contains(err.Error(), "has ended") {
			t.Errorf("down: %v", err)
		}
	})
	for name, c := range map[string]struct {
		first, says string
	}{
		"another server's endpoint": {"event: endpoint\ndata: http://127.0.0.2:1/m\n\n", "another server"},
		"another scheme":            {"event: endpoint\ndata: ftp:/m\n\n", "another server"},
		"no URL":                    {"event: endpoint\ndata: http://[/m\n\n", "another server"},
		"no endpoint":               {"", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) { events(w)(c.first) })
			in := linktest.NewInbox()
			_, err := (&httplink.Server{URL: srv.URL, SSE: true}).Dial(t.Context(), in)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
			if len(in.Ends) > 0 {
				t.Error("a link that never was is down")
			}
		})
	}
	t.Run("a server that says nothing is waited for as long as one may", func(t *testing.T) {
		srv := serve(t, func(w http.ResponseWriter, r *http.Request) { events(w); <-r.Context().Done() })
		within, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if _, err := (&httplink.Server{URL: srv.URL, SSE: true}).Dial(within, linktest.NewInbox()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a server that does not speak it", func(t *testing.T) {
		for _, f := range []http.HandlerFunc{
			func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("hello")) },
			func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		} {
			if _, err := (&httplink.Server{URL: serve(t, f).URL, SSE: true}).Dial(t.Context(), linktest.NewInbox()); err == nil || !strings.Contains(err.Error(), "does not speak") {
				t.Errorf("got %v", err)
			}
		}
	})
}

// TestNoStreamIsLeft opens and drops a thousand streams, from either end.
func TestNoStreamIsLeft(t *testing.T) {
	srv := serve(t, oldServer("event: endpoint\ndata: /m\n\n", func(w http.ResponseWriter, m *jsonrpc.Message) bool {
		accept(w, m)
		return false // no answer
	}))
	cycle := func(i int) {
		l, in := linktest.Dial(t, &httplink.Server{URL: srv.URL, SSE: true})
		if i%2 == 0 {
			linktest.Send(t, l, "", call("a", "x"))
		}
		if i%10 == 1 {
			srv.CloseClientConnections()
		} else {
			_ = l.Close()
		}
		linktest.Get(t, in.Ends)
	}
	cycle(0)
	before := runtime.NumGoroutine()
	for i := range 1000 {
		cycle(i)
	}
	srv.CloseClientConnections()
	linktest.Settles(t, before)
}
