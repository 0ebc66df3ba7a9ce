package httplink_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link/linktest"
)

func TestResume(t *testing.T) {
	// provider breaks the stream of each call off after an event with the given fields, and
	// gives the answer to whoever resumes it.
	provider := func(fields string, resumed func(w http.ResponseWriter, last string, m *jsonrpc.Message)) http.HandlerFunc {
		var m atomic.Pointer[jsonrpc.Message]
		post := withSession(func(w http.ResponseWriter, r *http.Request) {
			m.Store(received(r))
			events(w)(fields + "\n\n")
		})
		return func(w http.ResponseWriter, r *http.Request) {
			last := r.Header.Get("Last-Event-Id")
			if r.Method == http.MethodGet && last != "" {
				if r.Header.Get("Mcp-Session-Id") != "s-1" || r.Header.Get("Mcp-Protocol-Version") != legacy {
					t.Errorf("resumed with %v", r.Header)
				}
				resumed(w, last, m.Load())
				return
			}
			post(w, r)
		}
	}
	t.Run("a broken answer is resumed after its last event", func(t *testing.T) {
		l, in := connect(t, provider("id: a_0\ndata:", func(w http.ResponseWriter, last string, m *jsonrpc.Message) {
			write := events(w)
			if last == "a_0" {
				write("id: a_1\n" + data(jsonrpc.NewNotification("progress", nil)))
				return
			}
			write("id: a_2\n" + data(jsonrpc.NewResult(m.ID, last)))
		}))
		session(t, l, in)
		linktest.Send(t, l, legacy, call("a", "x"))
		linktest.Get(t, in.Messages)
		if m := linktest.Get(t, in.Messages); string(m.Result) != `"a_1"` || m.Of != jsonrpc.StringID("a") {
			t.Errorf("got %s of %s", m.Raw, m.Of)
		}
	})
	t.Run("a server that polls is asked again when it wants", func(t *testing.T) {
		var asked atomic.Int64
		began := time.Now()
		l, in := connect(t, provider("id: a_0\nretry: 200\ndata:", func(w http.ResponseWriter, _ string, m *jsonrpc.Message) {
			write := events(w)
			if asked.Add(1) == 3 {
				write(data(jsonrpc.NewResult(m.ID, nil)))
			}
		}))
		session(t, l, in)
		linktest.Send(t, l, legacy, call("a", "x"))
		linktest.Get(t, in.Messages)
		if took := time.Since(began); took < 600*time.Millisecond {
			t.Errorf("after %v: it wants to be left alone for 200 ms, three times", took)
		}
	})
	t.Run("who gets on is asked again soon", func(t *testing.T) {
		began := time.Now()
		l, in := connect(t, provider("id: x\ndata:", func(w http.ResponseWriter, last string, m *jsonrpc.Message) {
			write := events(w)
			if write("id: " + last + "x\n" + data(jsonrpc.NewNotification("progress", nil))); len(last) == 9 {
				write(data(jsonrpc.NewResult(m.ID, nil)))
			}
		}))
		session(t, l, in)
		linktest.Send(t, l, legacy, call("a", "x"))
		for range 10 {
			linktest.Get(t, in.Messages)
		}
		if took := time.Since(began); took > 5*time.Second { // nine times 100 ms, not doubled each time
			t.Errorf("after %v", took)
		}
	})
	t.Run("an error of the server's is tried again, but not for ever", func(t *testing.T) {
		var asked atomic.Int64
		l, in := connect(t, provider("id: a_0\ndata:", func(w http.ResponseWriter, _ string, m *jsonrpc.Message) {
			asked.Add(1)
			w.WriteHeader(http.StatusBadGateway)
		}))
		session(t, l, in)
		linktest.Send(t, l, legacy, call("a", "x"))
		if f := linktest.Get(t, in.Losses); f.NotRun || asked.Load() != 5 {
			t.Errorf("asked %d times, lost: %+v", asked.Load(), f.Failure)
		}
	})
	t.Run("a stream that is not found does not prove that nothing ran", func(t *testing.T) {
		l, in := connect(t, provider("id: a_0\ndata:", func(w http.ResponseWriter, _ string, m *jsonrpc.Message) {
			w.WriteHeader(http.StatusNotFound)
		}))
		session(t, l, in)
		linktest.Send(t, l, legacy, call("a", "x"))
		if f := linktest.Get(t, in.Losses); f.NotRun || !f.SessionGone {
			t.Errorf("lost: %+v", f.Failure)
		}
	})
	t.Run("the modern era resumes nothing", func(t *testing.T) {
		l, in := connect(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				t.Errorf("a %s", r.Method)
			}
			events(w)("id: a_0\ndata:\n\n")
		})
		linktest.Send(t, l, modern, call("a", "x"))
		if f := linktest.Get(t, in.Losses); !strings.Contains(f.Error(), "broke off") {
			t.Errorf("lost: %+v", f.Failure)
		}
	})
}

func TestListen(t *testing.T) {
	// provider hands each GET to listen.
	provider := func(listen http.HandlerFunc) http.HandlerFunc {
		post := withSession(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) })
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				listen(w, r)
				return
			}
			post(w, r)
		}
	}
	t.Run("what belongs to no request comes on a stream of its own, which is opened again", func(t *testing.T) {
		var asked atomic.Int64
		l, in := connect(t, provider(func(w http.ResponseWriter, r *http.Request) {
			write := events(w)
			last := r.Header.Get("Last-Event-Id")
			if n := asked.Add(1); n == 1 && last != "" || n == 2 && last != "g_1" {
				t.Errorf("attempt %d with Last-Event-ID %q", n, last)
			}
			write("id: g_1\nretry: 1\n" + data(jsonrpc.NewNotification("notifications/tools/list_changed", nil)))
		}))
		session(t, l, in)
		for range 2 {
			if m := linktest.Get(t, in.Messages); m.Method != "notifications/tools/list_changed" || !m.Of.IsZero() {
				t.Errorf("got %s of %q", m.Raw, m.Of)
			}
		}
	})
	for status, gone := range map[int]bool{405: false, 400: false, 404: true} {
		t.Run("a server without one is not asked again: "+http.StatusText(status), func(t *testing.T) {
			asked := make(chan struct{}, 100)
			l, in := connect(t, provider(func(w http.ResponseWriter, r *http.Request) {
				asked <- struct{}{}
				w.WriteHeader(status)
			}))
			session(t, l, in)
			linktest.Get(t, asked)
			if gone {
				if f := linktest.Get(t, in.Losses); !f.ID.IsZero() || !f.SessionGone {
					t.Errorf("lost %s: %+v", f.ID, f.Failure)
				}
			}
			_ = l.Close() // which waits for whatever runs
			linktest.Get(t, in.Ends)
			if len(asked) > 0 || len(in.Losses) > 0 {
				t.Errorf("asked %d times more, lost %d", len(asked), len(in.Losses))
			}
		})
	}
	t.Run("the modern era has none", func(t *testing.T) {
		l, in := connect(t, provider(func(w http.ResponseWriter, r *http.Request) { t.Error("a GET") }))
		linktest.Send(t, l, modern, jsonrpc.NewNotification("notifications/initialized", nil))
		_ = l.Close()
		linktest.Get(t, in.Ends)
	})
}
