// Package gate puts limits on the HTTP requests that come into a server: as net/http
// middleware in front of a handler, or as a reverse proxy in front of other servers.
//
//	g, err := gate.New(ctl, gate.Options{})
//	…
//	http.ListenAndServe(":8080", g.Handler(mux))
//
// A request is decided in two phases. Before anything is verified, the client's address
// has a limit of its own, so that a flood of bad credentials is cheap to refuse: a call
// of kind "preauth", and for the /48 of an IPv6 client one of kind "preauth-site". Then
// the caller is identified, by an API key, a token, a tenant or else its address, and the
// policy's rules for calls of kind "http" are asked, all or nothing. A failed credential debits a call of kind "auth-failure" to the address. A
// stream of server-sent events or a WebSocket also holds a call of kind "stream" while
// it lasts, and each message of a WebSocket is a call of kind "frame". Calls of kinds
// other than "http" and "auth-failure" are made only if the policy has rules that name
// the kind.
//
// What the calls carry: Subject and IP name the caller ("apikey:…", "user:…",
// "tenant:…", "ip:…"), Tenant and Tier come from what was verified, Method is the
// request's (GET for HEAD), Resource is the canonical path, Route the ID of the
// [Endpoint], Provider the name of the upstream, Capability the tool of a JSON-RPC call
// or the kind of the stream.
//
// A [Gate] keeps no counters: they are the controller's. It can be given new [Options]
// at any time, which take effect at once and for each request as a whole.
package gate

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/lately"
)

// A Gate decides about requests. It is safe for concurrent use. Use [New].
type Gate struct {
	ctl     *sluice.Controller
	current atomic.Pointer[setup]
	ahead   atomic.Pointer[outlook]
	streams streams

	suspects *lately.Set[string]            // addresses that may have used up their failed credentials
	failures *lately.Set[[sha256.Size]byte] // what failed lately, and who showed it: see Options.DistinctFailures

	reload sync.Mutex // one Reload at a time
	twice  sync.Once  // the warning about a gate that is mounted twice
}

// New returns a gate in front of ctl, or says what is wrong with the options.
func New(ctl *sluice.Controller, o Options) (*Gate, error) {
	g := &Gate{
		ctl:      ctl,
		suspects: lately.New[string](maxSuspects, suspectFor),
		failures: lately.New[[sha256.Size]byte](maxSuspects, suspectFor),
	}
	s, err := newSetup(o, nil)
	if err != nil {
		return nil, err
	}
	g.current.Store(s)
	return g, nil
}

// Reload replaces the options: key files, issuers and certificates are read anew. All
// is built first and swapped at once; on an error the old stays in force. Requests that
// have begun end as they began. Counters are the controller's and are not touched.
func (g *Gate) Reload(o Options) error {
	g.reload.Lock()
	defer g.reload.Unlock()
	s, err := newSetup(o, g.current.Load())
	if err != nil {
		return err
	}
	g.current.Swap(s).close()
	return nil
}

// Close ends all streams and stops what runs in the background. Requests that have
// begun go on. It is for the end of a program: first [http.Server.Shutdown] the servers,
// with [Gate.Drain] beside it, then Close the gate, then the controller.
func (g *Gate) Close() {
	g.streams.partAll()
	g.current.Load().close()
}

// Drain asks all open streams to end, WebSockets with close code 1001, and returns when
// they have or ctx ends. New ones end at once. [http.Server.Shutdown] neither knows
// WebSockets nor ends streams.
func (g *Gate) Drain(ctx context.Context) error { return g.streams.drain(ctx) }

// Handler puts the gate in front of next: both phases.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.serve(w, r, phases{preAuth: true, identity: true, next: next})
	})
}

// PreAuth puts the first phase in front of next: the limit of the client's address. It
// belongs outside of an application's own authentication, and [Gate.Identity] inside.
func (g *Gate) PreAuth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.serve(w, r, phases{preAuth: true, next: next})
	})
}

// Identity puts the second phase in front of next: who calls, and the limits on it. An
// application that has authenticated the caller says so with [WithPrincipal]. Without
// [Gate.PreAuth] outside, the first phase comes with it.
func (g *Gate) Identity(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.serve(w, r, phases{identity: true, next: next})
	})
}

// Proxy is the gate as a reverse proxy in front of [Options.Upstreams].
func (g *Gate) Proxy() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.serve(w, r, phases{preAuth: true, identity: true})
	})
}

// phases are what one mount point does.
type phases struct {
	preAuth, identity bool
	next              http.Handler // nil is the upstream
}

// serve takes a request through the phases. Mounting a gate twice debits once.
func (g *Gate) serve(w http.ResponseWriter, r *http.Request, ph phases) {
	s := g.current.Load()
	past, _ := r.Context().Value(pastKey{g}).(*past)
	if past != nil {
		ph.preAuth = ph.preAuth && !past.preAuth
		ph.identity = ph.identity && !past.identity
		if !ph.preAuth && !ph.identity {
			g.twice.Do(func() {
				s.log.Warn("gate: a request passes the same gate twice; it is debited once", "code", "SLUICE_W105")
			})
		}
	}
	ph.preAuth = ph.preAuth || ph.identity && past == nil
	if s.o.Disabled && ph.next != nil || !ph.preAuth && !ph.identity {
		ph.next.ServeHTTP(w, r)
		return
	}
	v := visits.Get().(*visit)
	v.begin(g, s, w, r, ph, past)
	defer v.end()
	v.run()
	v.whole = true
}

// logger returns l or the default.
func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.Default()
	}
	return l
}
