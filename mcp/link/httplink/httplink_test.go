package httplink_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/httplink"
	"github.com/sluicegate/sluice/mcp/link/linktest"
)

func TestAnswers(t *testing.T) {
	t.Run("as JSON", func(t *testing.T) {
		l, in := connect(t, func(w http.ResponseWriter, r *http.Request) {
			answer(w, jsonrpc.NewResult(received(r).ID, nil))
		})
		linktest.Send(t, l, modern, call("a", "x"))
		if m := linktest.Get(t, in.Messages); m.ID != jsonrpc.StringID("a") || m.Of != m.ID {
			t.Errorf("got %s of %s", m.Raw, m.Of)
		}
		if l.Shared() {
			t.Error("each request has a stream of its own")
		}
	})
	t.Run("M-037 M-066 as a stream, in order, after comments and empty events", func(t *testing.T) {
		l, in := connect(t, func(w http.ResponseWriter, r *http.Request) {
			m := received(r)
			write := events(w)
			write(": hello\n\ndata:\n\nevent: message\r\ndata: " + string(jsonrpc.NewNotification("progress", nil).Raw) + "\r\n\r\n" +
				data(jsonrpc.NewRequest(jsonrpc.StringID("theirs"), "sampling/createMessage", nil)) + data(jsonrpc.NewResult(m.ID, nil)))
		})
		linktest.Send(t, l, modern, call("a", "x"))
		for _, want := range []string{"progress", "sampling/createMessage", ""} {
			if m := linktest.Get(t, in.Messages); m.Method != want || m.Of != jsonrpc.StringID("a") {
				t.Errorf("got %s of %s, want %q", m.Raw, m.Of, want)
			}
		}
	})
	t.Run("a stream that its server leaves open after the answer is closed", func(t *testing.T) {
		closed := make(chan struct{})
		l, in := connect(t, func(w http.ResponseWriter, r *http.Request) {
			m := received(r)
			events(w)(data(jsonrpc.NewResult(m.ID, nil)))
			<-r.Context().Done()
			close(closed)
		})
		linktest.Send(t, l, modern, call("a", "x"))
		linktest.Get(t, in.Messages)
		linktest.Get(t, closed)
		if len(in.Losses) > 0 {
			t.Errorf("lost: %v", <-in.Losses)
		}
	})
	t.Run("a batch of the revision that had them", func(t *testing.T) {
		l, in := connect(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			fmt.Fprintf(w, `[%s,%s]`, jsonrpc.NewNotification("n", nil).Raw, jsonrpc.NewResult(received(r).ID, nil).Raw)
		})
		linktest.Send(t, l, "2025-03-26", call("a", "x"))
		linktest.Get(t, in.Messages)
		if m := linktest.Get(t, in.Messages); m.ID != jsonrpc.StringID("a") {
			t.Errorf("got %s", m.Raw)
		}
	})
	t.Run("M-074 beyond the bound, as JSON and as an event", func(t *testing.T) {
		srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
			m := received(r)
			big := jsonrpc.NewResult(m.ID, map[string]string{"t": strings.Repeat("x", 2000)})
			switch m.ID {
			case jsonrpc.StringID("json"):
				answer(w, big)
			case jsonrpc.StringID("event"):
				events(w)(data(big))
			default:
				answer(w, jsonrpc.NewResult(m.ID, nil))
			}
		})
		l, in := linktest.Dial(t, &httplink.Server{URL: srv.URL, MaxFrame: 1000})
		for _, id := range []string{"json", "event"} {
			linktest.Send(t, l, modern, call(id, "x"))
			if f := linktest.Get(t, in.Losses); f.ID != jsonrpc.StringID(id) || !f.Stopped || f.NotRun || !strings.Contains(f.Error(), "1000 bytes") {
				t.Errorf("%s: lost %s: %+v", id, f.ID, f.Failure)
			}
		}
		if err := l.Send(t.Context(), link.Outgoing{Message: call("a", strings.Repeat("x", 1000))}); !errors.Is(err, link.ErrNotSent) {
			t.Errorf("out: %v", err)
		}
		linktest.Send(t, l, modern, call("then", "x"))
		linktest.Get(t, in.Messages)
	})
	t.Run("200 calls at once, on few connections", func(t *testing.T) {
		var connections atomic.Int64
		all := make(chan struct{})
		var waiting atomic.Int64
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m := received(r)
			if waiting.Add(1) == 200 {
				close(all)
			}
			<-all
			answer(w, jsonrpc.NewResult(m.ID, nil))
		}))
		srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				connections.Add(1)
			}
		}
		srv.Start()
		t.Cleanup(srv.Close)
		l, in := linktest.Dial(t, &httplink.Server{URL: srv.URL})
		for round := range 3 {
			for i := range 200 {
				linktest.Send(t, l, modern, call(fmt.Sprint(round, i), "x"))
			}
			for range 200 {
				linktest.Get(t, in.Messages)
			}
		}
		if n := connections.Load(); n >= 600 { // one is idle again a moment after its answer is there
			t.Errorf("%d connections", n)
		}
	})
}

func TestTLS(t *testing.T) {
	all := make(chan struct{})
	var waiting atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("over %s", r.Proto)
		}
		if waiting.Add(1) == 300 { // more than one connection has streams for
			close(all)
		}
		m := received(r)
		<-all
		events(w)(data(jsonrpc.NewResult(m.ID, nil)))
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	l, in := linktest.Dial(t, &httplink.Server{URL: srv.URL, TLS: &tls.Config{RootCAs: roots}})
	for i := range 300 {
		linktest.Send(t, l, modern, call(fmt.Sprint(i), "x"))
	}
	for range 300 {
		linktest.Get(t, in.Messages)
	}
	stranger, in := linktest.Dial(t, &httplink.Server{URL: srv.URL})
	linktest.Send(t, stranger, modern, call("a", "x"))
	if f := linktest.Get(t, in.Losses); !f.NotRun || !strings.Contains(f.Error(), "certificate") {
		t.Errorf("lost: %+v", f.Failure)
	}
}

func TestHeaders(t *testing.T) {
	seen := make(chan http.Header, 10)
	srv := serve(t, withSession(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		answer(w, jsonrpc.NewResult(received(r).ID, nil))
	}))
	given := http.Header{"Authorization": {"Bearer key"}, "X-Tenant": {"a"}, "mcp-session-id": {"forged"}, "Connection": {"X-Tenant"},
		"Content-Length": {"1"}, "Accept-Encoding": {"gzip"}, "Idempotency-Key": {"k"}, "Transfer-Encoding": {"chunked"}}
	l, in := linktest.Dial(t, &httplink.Server{URL: srv.URL, Header: given})
	want := func(h http.Header, name, value string) {
		t.Helper()
		if got := strings.Join(h.Values(name), "|"); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	t.Run("M-056 M-060 the modern ones", func(t *testing.T) {
		m := link.Outgoing{Message: call("a", "größe"), Version: modern, Header: http.Header{"mcp-param-region": {"eu"}, "X-Other": {"x"}}}
		if err := l.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		h := linktest.Get(t, seen)
		want(h, "MCP-Protocol-Version", modern)
		want(h, "Mcp-Method", "tools/call")
		want(h, "Mcp-Name", "=?base64?Z3LDtsOfZQ==?=")
		want(h, "Mcp-Param-Region", "eu")
		want(h, "X-Other", "")
		want(h, "Mcp-Session-Id", "")
		linktest.Get(t, in.Messages)
	})
	t.Run("M-053 the legacy ones", func(t *testing.T) {
		session(t, l, in)
		linktest.Send(t, l, legacy, call("b", "x"))
		h := linktest.Get(t, seen)
		want(h, "MCP-Protocol-Version", legacy)
		want(h, "Mcp-Session-Id", "s-1")
		want(h, "Mcp-Method", "")
		want(h, "Accept", "application/json, text/event-stream")
		want(h, "Content-Type", "application/json")
		linktest.Get(t, in.Messages)
	})
	t.Run("M-068 the configured ones, without those of the connection", func(t *testing.T) {
		linktest.Send(t, l, legacy, call("c", "x"))
		h := linktest.Get(t, seen)
		want(h, "Authorization", "Bearer key")
		want(h, "X-Tenant", "a")
		for _, name := range []string{"Connection", "Accept-Encoding", "Idempotency-Key"} {
			want(h, name, "")
		}
	})
}

func TestRefusedRequests(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		said   string // the answer's error, if it is delivered
		want   link.Failure
		text   string
	}{
		{"M-046 an unknown session", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) },
			"", link.Failure{Status: 404, SessionGone: true, NotRun: true}, "does not know the session"},
		{"M-073 a JSON-RPC error in a 400 is the answer", func(w http.ResponseWriter, r *http.Request) {
			m := jsonrpc.NewError(received(r).ID, &jsonrpc.Error{Code: -32020, Message: "header", Data: []byte(`{"a":1}`)})
			w.WriteHeader(400)
			_, _ = w.Write(m.Raw)
		}, `{"code":-32020,"message":"header","data":{"a":1}}`, link.Failure{}, ""},
		{"M-073 also without an id", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(429)
			_, _ = w.Write(jsonrpc.NewError(jsonrpc.ID{}, &jsonrpc.Error{Code: 429, Message: "limited"}).Raw)
		}, `{"code":429,"message":"limited"}`, link.Failure{}, ""},
		{"401 says what to do, and repeats nothing", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			_, _ = w.Write(jsonrpc.NewError(received(r).ID, &jsonrpc.Error{Code: -1, Message: "bad key hunter2"}).Raw)
		}, "", link.Failure{Status: 401, NotRun: true}, "does not accept the broker's credentials"},
		{"403", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "hunter2", http.StatusForbidden) },
			"", link.Failure{Status: 403, NotRun: true}, "forbids"},
		{"M-101 429 with a time", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		}, "", link.Failure{Status: 429, NotRun: true, RetryAfter: 7 * time.Second}, "limits the broker"},
		{"503 with a time proves nothing", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(503)
		}, "", link.Failure{Status: 503, RetryAfter: 2 * time.Second}, "Service Unavailable"},
		{"a redirection to another server", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/mcp", http.StatusTemporaryRedirect)
		}, "", link.Failure{Status: 307, NotRun: true}, "redirects to another server"},
		{"neither JSON nor events", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("<html>hunter2")) },
			"", link.Failure{Status: 200}, "neither JSON nor"},
		{"accepted", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(202) },
			"", link.Failure{Status: 202}, "for a notification"},
		{"M-068 compressed unasked", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			answer(w, jsonrpc.NewResult(received(r).ID, nil))
		}, "", link.Failure{Stopped: true}, "compressed"},
		{"another answer", func(w http.ResponseWriter, r *http.Request) { answer(w, jsonrpc.NewNotification("n", nil)) },
			"", link.Failure{Stopped: true}, "no answer to the request"},
		{"no JSON", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"hunter2`))
		}, "", link.Failure{Stopped: true}, "no answer to the request"},
		{"a stream that breaks off", func(w http.ResponseWriter, r *http.Request) { events(w)(": hello\n\n") },
			"", link.Failure{}, "broke off"},
		{"a connection that breaks off", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
			"", link.Failure{}, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, withSession(c.answer))
			l, in := linktest.Dial(t, &httplink.Server{URL: srv.URL + "/s3cr3t?key=s3cr3t", Header: http.Header{"Authorization": {"Bearer s3cr3t"}}})
			session(t, l, in)
			linktest.Send(t, l, legacy, call("a", "x"))
			if c.said != "" {
				if m := linktest.Get(t, in.Messages); m.ID != jsonrpc.StringID("a") || string(m.Err) != c.said {
					t.Errorf("got %s", m.Raw)
				}
				return
			}
			var f linktest.Loss
			select {
			case f = <-in.Losses:
			case m := <-in.Messages:
				if m.Method != "n" {
					t.Fatalf("got %s", m.Raw)
				}
				f = linktest.Get(t, in.Losses)
			}
			text := f.Error()
			if f.Err = nil; f.Failure != c.want || f.ID != jsonrpc.StringID("a") {
				t.Errorf("lost %s: %+v, want %+v", f.ID, f.Failure, c.want)
			}
			if !strings.Contains(text, c.text) || strings.Contains(text, "hunter2") || strings.Contains(text, "s3cr3t") {
				t.Errorf("it says %q", text)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		srv := httptest.NewServer(nil)
		srv.Close()
		l, in := linktest.Dial(t, &httplink.Server{URL: srv.URL + "/s3cr3t"})
		linktest.Send(t, l, modern, call("a", "x"))
		if f := linktest.Get(t, in.Losses); !f.NotRun || !strings.Contains(f.Error(), "refused") || strings.Contains(f.Error(), "s3cr3t") {
			t.Errorf("lost: %+v", f.Failure)
		}
	})
	t.Run("M-052 two different sessions", func(t *testing.T) {
		l, in := connect(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Mcp-Session-Id"] = []string{"a", "b"}
			answer(w, jsonrpc.NewResult(received(r).ID, nil))
		})
		linktest.Send(t, l, "", jsonrpc.NewRequest(jsonrpc.StringID("init"), "initialize", nil))
		if f := linktest.Get(t, in.Losses); !strings.Contains(f.Error(), "two different session ids") {
			t.Errorf("lost: %v", f)
		}
	})
	t.Run("M-053 M-113 a session that is not taken fails the handshake", func(t *testing.T) {
		l, _ := connect(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) })
		err := l.Send(t.Context(), link.Outgoing{Message: jsonrpc.NewNotification("notifications/initialized", nil), Version: legacy})
		if err == nil || !strings.Contains(err.Error(), "500") {
			t.Errorf("got %v", err)
		}
	})
}

func TestRedirectOnTheServer(t *testing.T) {
	l, in := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/") {
			http.Redirect(w, r, r.URL.Path+"/", http.StatusTemporaryRedirect)
			return
		}
		answer(w, jsonrpc.NewResult(received(r).ID, nil))
	})
	linktest.Send(t, l, modern, call("a", "x"))
	if m := linktest.Get(t, in.Messages); m.ID != jsonrpc.StringID("a") {
		t.Errorf("got %s", m.Raw)
	}
}

func TestCancel(t *testing.T) {
	t.Run("legacy: a notification, and the answer may still come", func(t *testing.T) {
		told, release := make(chan string, 1), make(chan struct{})
		l, in := connect(t, withSession(func(w http.ResponseWriter, r *http.Request) {
			m := received(r)
			if m.Method == "notifications/cancelled" {
				told <- string(m.Params)
				w.WriteHeader(202)
				return
			}
			write := events(w)
			write(data(jsonrpc.NewNotification("progress", nil)))
			<-release
			write(data(jsonrpc.NewResult(m.ID, nil)))
		}))
		session(t, l, in)
		linktest.Send(t, l, legacy, call("a", "x"))
		linktest.Get(t, in.Messages)
		l.Cancel(jsonrpc.StringID("a"), "gone")
		l.Cancel(jsonrpc.StringID("unknown"), "gone")
		if got := linktest.Get(t, told); got != `{"requestId":"a","reason":"gone"}` {
			t.Errorf("told %s", got)
		}
		close(release)
		if m := linktest.Get(t, in.Messages); m.ID != jsonrpc.StringID("a") {
			t.Errorf("M-013: got %s", m.Raw)
		}
	})
	t.Run("legacy: a provider that never answers is given up", func(t *testing.T) {
		srv := serve(t, withSession(func(w http.ResponseWriter, r *http.Request) {
			if received(r).Method == "tools/call" {
				events(w)(data(jsonrpc.NewNotification("progress", nil)))
				<-r.Context().Done()
			}
		}))
		l, in := linktest.Dial(t, &httplink.Server{URL: srv.URL, Linger: 50 * time.Millisecond})
		session(t, l, in)
		linktest.Send(t, l, legacy, call("a", "x"))
		linktest.Get(t, in.Messages)
		l.Cancel(jsonrpc.StringID("a"), "gone")
		if f := linktest.Get(t, in.Losses); f.NotRun || f.Stopped || !strings.Contains(f.Error(), "cancelled") {
			t.Errorf("lost: %+v", f.Failure)
		}
	})
	t.Run("a request that has no connection yet is not run", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and shows no certificate
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		l, in := linktest.Dial(t, &httplink.Server{URL: "https://" + silent.Addr().String()})
		linktest.Send(t, l, legacy, call("a", "x"))
		l.Cancel(jsonrpc.StringID("a"), "gone")
		if f := linktest.Get(t, in.Losses); !f.NotRun || !strings.Contains(f.Error(), "cancelled") {
			t.Errorf("lost: %+v", f.Failure)
		}
	})
	t.Run("M-015 modern: the stream is closed, and no notification", func(t *testing.T) {
		gone := make(chan struct{})
		var posts atomic.Int64
		l, in := connect(t, func(w http.ResponseWriter, r *http.Request) {
			posts.Add(1)
			received(r)
			events(w)(data(jsonrpc.NewNotification("progress", nil)))
			<-r.Context().Done()
			close(gone)
		})
		linktest.Send(t, l, modern, call("a", "x"))
		linktest.Get(t, in.Messages)
		l.Cancel(jsonrpc.StringID("a"), "gone")
		linktest.Get(t, gone)
		if f := linktest.Get(t, in.Losses); f.NotRun {
			t.Errorf("lost: %+v", f.Failure)
		}
		if posts.Load() != 1 {
			t.Errorf("%d requests", posts.Load())
		}
	})
}

func TestBounds(t *testing.T) {
	t.Run("requests wait for room, no longer than they may", func(t *testing.T) {
		release := make(chan struct{})
		srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
			m := received(r)
			<-release
			answer(w, jsonrpc.NewResult(m.ID, nil))
		})
		l, in := linktest.Dial(t, &httplink.Server{URL: srv.URL, MaxRequests: 1})
		linktest.Send(t, l, modern, call("a", "x"))
		within, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := l.Send(within, link.Outgoing{Message: call("b", "x")}); !errors.Is(err, link.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(release)
		linktest.Get(t, in.Messages)
		linktest.Send(t, l, modern, call("c", "x"))
		linktest.Get(t, in.Messages)
	})
	t.Run("a notification that nobody answers", func(t *testing.T) {
		srv := serve(t, func(w http.ResponseWriter, r *http.Request) { received(r); <-r.Context().Done() })
		l, in := linktest.Dial(t, &httplink.Server{URL: srv.URL, HeaderTimeout: 30 * time.Millisecond})
		linktest.Send(t, l, legacy, jsonrpc.NewNotification("n", nil))
		if err := linktest.Get(t, in.Faults); !strings.Contains(err.Error(), "did not begin to answer") {
			t.Errorf("bad: %v", err)
		}
	})
	for _, url := range []string{"ftp://host", "host", "http://", "http://h\x00st"} {
		if _, err := (&httplink.Server{URL: url}).Dial(t.Context(), linktest.NewInbox()); err == nil {
			t.Errorf("%q is taken for a URL", url)
		}
	}
}

func TestClose(t *testing.T) {
	deleted := make(chan string, 2)
	mux := withSession(func(w http.ResponseWriter, r *http.Request) {
		received(r)
		events(w)(data(jsonrpc.NewNotification("progress", nil)))
		<-r.Context().Done()
	})
	l, in := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			deleted <- r.Header.Get("Mcp-Session-Id")
			return
		}
		mux(w, r)
	})
	session(t, l, in)
	linktest.Send(t, l, legacy, call("a", "x"))
	linktest.Get(t, in.Messages)
	_ = l.Close()
	_ = l.Close()
	if f := linktest.Get(t, in.Losses); !errors.Is(f, link.ErrClosed) {
		t.Errorf("lost: %v", f)
	}
	if got := linktest.Get(t, deleted); got != "s-1" {
		t.Errorf("deleted %q", got)
	}
	if err := linktest.Get(t, in.Ends); err != link.ErrClosed || len(in.Ends) > 0 {
		t.Errorf("down: %v, and %d more", err, len(in.Ends))
	}
	for _, m := range []*jsonrpc.Message{call("b", "x"), jsonrpc.NewNotification("n", nil)} {
		if err := l.Send(t.Context(), link.Outgoing{Message: m}); !errors.Is(err, link.ErrNotSent) {
			t.Errorf("after the end: %v", err)
		}
	}
}

// TestNothingIsLeft opens and ends two thousand links, in every state.
func TestNothingIsLeft(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch m := received(r); {
		case r.Method == http.MethodGet:
			events(w)
			<-r.Context().Done()
		case m.Method == "initialize":
			answer(w, jsonrpc.NewResult(m.ID, nil))
		case m.Method == "tools/call":
			write := events(w)
			write(data(jsonrpc.NewNotification("progress", nil)))
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	cycle := func(i int) {
		in := linktest.NewInbox()
		l, err := (&httplink.Server{URL: srv.URL}).Dial(t.Context(), in)
		if err != nil {
			t.Error(err)
			return
		}
		if i%2 == 0 {
			session(t, l, in)
		}
		linktest.Send(t, l, legacy, call("a", "x"))
		if i%3 == 0 {
			linktest.Get(t, in.Messages)
		}
		if i%5 == 0 {
			l.Cancel(jsonrpc.StringID("a"), "")
		}
		_ = l.Close()
		linktest.Get(t, in.Ends)
	}
	cycle(0)
	before := runtime.NumGoroutine()
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Go(func() {
			for i := range 500 {
				cycle(i + worker)
			}
		})
	}
	workers.Wait()
	srv.CloseClientConnections()
	linktest.Settles(t, before)
}
