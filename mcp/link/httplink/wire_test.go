package httplink

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

func TestRefusals(t *testing.T) {
	id := jsonrpc.StringID("a")
	for _, c := range []struct {
		name    string
		status  int
		session string
		body    string
		gone    bool
	}{
		{"M-046 a 404 to a session", 404, "s", "", true},
		{"M-046 a 404 with the body of official servers", 404, "s", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`, true},
		{"M-046 or with our id", 404, "s", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":"a"}`, true},
		{"a 404 that answers the request", 404, "s", `{"jsonrpc":"2.0","error":{"code":-32601,"message":"no such method"},"id":"a"}`, false},
		{"a 404 without a session", 404, "", "", false},
		{"M-044 server-everything's 400", 400, "s", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`, true},
		{"M-044 in plain text", 400, "s", "Invalid session ID\n", true},
		{"a 400 that answers the request", 400, "s", `{"jsonrpc":"2.0","error":{"code":-32602,"message":"session must be a number"},"id":"a"}`, false},
		{"another 400", 400, "s", "Bad Request", false},
		{"another status", 500, "s", "session", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			said, _ := jsonrpc.Parse([]byte(c.body), jsonrpc.Bounds{})
			if got := forgotten(c.status, sent{id: id, session: c.session}, said, []byte(c.body)); got != c.gone {
				t.Errorf("forgotten: %v", got)
			}
		})
	}
}

// TestIdleStream shows that comments keep a stream open, and that silence ends it.
func TestIdleStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(&Server{Idle: time.Minute}, &url.URL{Scheme: "http", Host: "h"}, nil)
		w.in = link.NewReceiver(w.open, 0, nil)
		body, server := io.Pipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		context.AfterFunc(ctx, func() { _ = body.CloseWithError(context.Canceled) }) // as net/http does
		began := time.Now()
		go func() {
			for range 5 {
				time.Sleep(50 * time.Second)
				_, _ = io.WriteString(server, ": ka\n\n")
			}
		}()
		err := w.follow(&answer{&http.Response{Body: body}, ctx, cancel}, &cursor{}).deliver(jsonrpc.ID{}, func() {})
		if want := 5*50*time.Second + time.Minute; !errors.Is(err, errIdle) || time.Since(began) != want {
			t.Errorf("M-064 after %v, not %v: %v", time.Since(began), want, err)
		}
	})
}

func TestTrace(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		connected, left, ended, stayed bool
	}{
		{false, false, false, true},
		{true, false, false, true},
		{true, true, false, false},
		{false, false, true, true},
		{true, false, true, false}, // net/http may be writing still
		{true, true, true, false},
	} {
		var r trace
		r.connected.Store(c.connected)
		r.left.Store(c.left)
		ctx := t.Context()
		if c.ended {
			ctx = over
		}
		if got := r.stayed(ctx); got != c.stayed {
			t.Errorf("%+v: stayed %v", c, got)
		}
	}
}

// A script answers requests, in the place of a network.
type script func(*http.Request) *http.Response

func (f script) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// A brief is a body that ends after a while, without a word.
type brief time.Duration

func (b brief) Read([]byte) (int, error) { time.Sleep(time.Duration(b)); return 0, io.EOF }
func (brief) Close() error               { return nil }

// TestHowOftenAServerIsAsked counts how often in ten minutes a server is asked for the
// stream that belongs to no request.
func TestHowOftenAServerIsAsked(t *testing.T) {
	for _, c := range []struct {
		name        string
		answer      http.Response
		least, most int
	}{
		{"streams that live a little are opened again soon", http.Response{StatusCode: 200, Body: brief(2 * time.Second)}, 150, 300},
		{"streams that end at once are not", http.Response{StatusCode: 200, Body: brief(0)}, 20, 80},
		{"a server that fails is not", http.Response{StatusCode: 503, Body: http.NoBody}, 20, 80},
		{"one that says when is asked then", http.Response{StatusCode: 503, Body: http.NoBody, Header: http.Header{"Retry-After": {"60"}}}, 6, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				s := (&Server{}).dialStreamable(&url.URL{Scheme: "http", Host: "h"}, nil)
				s.client.Transport = script(func(r *http.Request) *http.Response {
					asked++
					resp := c.answer
					if resp.Header == nil {
						resp.Header = http.Header{"Content-Type": {"text/event-stream"}}
					}
					return &resp
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				s.listen(ctx)
				if asked < c.least || asked > c.most {
					t.Errorf("asked %d times, want %d to %d", asked, c.least, c.most)
				}
			})
		})
	}
}
