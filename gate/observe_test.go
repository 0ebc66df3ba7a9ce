package gate_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/identity"
)

// notes keeps what an observer is told.
type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, fmt.Sprintf(format, args...))
}

// take returns what has been told since the last time.
func (n *notes) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := strings.Join(n.list, ", ")
	n.list = nil
	return list
}

func (n *notes) observer() gate.Observer {
	return gate.Observer{
		Answered:         func(status int, o gate.Outcome) { n.add("%d %s", status, o) },
		CredentialFailed: func(kind string) { n.add("credential %s", kind) },
		ClientUnclear:    func(reason string) { n.add("client %s", reason) },
	}
}

func TestObserver(t *testing.T) {
	var told notes
	o := gate.Options{
		Observe:   told.observer(),
		ClientIP:  gate.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		Identity:  identity.Options{Keys: keys(t), Unverified: identity.Reject},
		Excluded:  []string{"/free"},
		Bounds:    gate.Bounds{BodyBytes: new(int64(3))},
		MCP:       []gate.MCP{{Pattern: "/mcp"}},
		Endpoints: []gate.Endpoint{{ID: "none", Pattern: "/none"}, {ID: "none", Pattern: "/mcp"}},
	}
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
		case "/teapot":
			w.WriteHeader(http.StatusTeapot)
		case "/silent":
			return
		case "/panic":
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("ok"))
	})
	g := newGate(t, open(t, route("none", 0), slots("streams", 0, "stream")), o)
	proxied := o
	proxied.Upstreams = []upstream.Options{{Name: "app", Handler: app, Hosts: []string{"example.com"}}}
	p := newGate(t, open(t, route("none", 0), slots("streams", 0, "stream")), proxied).Proxy()
	for _, c := range []struct {
		name string
		h    http.Handler
		r    *http.Request
		want string
	}{
		{"allowed", g.Handler(app), request("GET", "/"), "200 allowed"},
		{"allowed, with the application's status", g.Handler(app), request("GET", "/teapot"), "418 allowed"},
		{"allowed, and nothing written", g.Handler(app), request("GET", "/silent"), "200 allowed"},
		{"aborted by the application", g.Handler(app), request("GET", "/panic"), ""},
		{"refused", g.Handler(app), request("GET", "/none"), "403 refused"},
		{"refused as JSON-RPC", g.Handler(app), request("POST", "/mcp"), "200 refused"},
		{"a stream refused after its handler began", g.Handler(app), request("GET", "/events"), "403 refused"},
		{"and one of an upstream", p, request("GET", "/events"), "403 refused"},
		{"a path with a NUL", g.Handler(app), request("GET", "/a%00"), "400 rejected"},
		{"a body that is too large", g.Handler(app), withBody("/", "long"), "413 rejected"},
		{"bypassed", g.Handler(app), request("GET", "/free"), "200 bypassed"},
		{"a bad credential", g.Handler(app), request("GET", "/", "X-API-Key", "x"), "credential unknown_key, 401 rejected"},
		{"an address that cannot be read", g.Handler(app), from("10.0.0.1:1", request("GET", "/", "X-Forwarded-For", "<b>")), "client unparsable, 200 allowed"},
		{"two mount points tell once", g.PreAuth(g.Identity(app)), from("10.0.0.1:1", request("GET", "/", "X-Forwarded-For", "<b>")), "client unparsable, 200 allowed"},
		{"and so do two that are bypassed", g.PreAuth(g.Identity(app)), request("GET", "/free"), "200 bypassed"},
		{"the outer tells what it answers itself", g.PreAuth(g.Identity(app)), request("GET", "/a%00"), "400 rejected"},
		{"no upstream", p, request("GET", "http://elsewhere/"), "404 allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			func() {
				defer func() { recover() }()
				do(c.h, c.r)
			}()
			expect(t, "told", told.take(), c.want)
		})
	}
	t.Run("a WebSocket that is refused by its close code", func(t *testing.T) {
		o := gate.Options{Observe: told.observer(), Streams: gate.Streams{AcceptThenClose: true}}
		s := serve(t, newGate(t, open(t, slots("streams", 0, "stream")), o).Handler(echo))
		if c, _, err := dial(t, s.URL); err == nil {
			_, _, _ = c.Read(t.Context()) // the close frame
		}
		eventually(t, "it is told", func() bool { return told.take() == "101 refused" })
	})
}

// TestDecided: one decision in 64 is timed, by chance: of 6400 some and not all.
func TestDecided(t *testing.T) {
	var times []time.Duration
	o := gate.Options{Observe: gate.Observer{Decided: func(d time.Duration) { times = append(times, d) }}}
	h := newGate(t, open(t, perHour("ip", 10, "http")), o).Handler(ok)
	for range 6400 {
		do(h, request("GET", "/"))
	}
	if n := len(times); n < 20 || n > 400 {
		t.Errorf("%d of 6400 decisions were timed", n)
	}
	if slices.Min(times) <= 0 || slices.Max(times) > time.Minute {
		t.Errorf("they took %v", times)
	}
}
