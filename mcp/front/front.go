// Package front is where MCP clients come in: Streamable HTTP of both eras on one endpoint,
// the older HTTP with SSE, and WebSocket.
//
//	POST GET DELETE  /<slot>/mcp                 Streamable HTTP; which era, each request says
//	GET              /<slot>/sse                 HTTP with SSE, revision 2024-11-05
//	POST             /<slot>/messages?sessionId= its other half
//	GET (upgrade)    /<slot>                     WebSocket: one message a text frame
//	GET              /.well-known/oauth-protected-resource[/<slot>/mcp]
//	                 /provider/<slot>, /providers: handed to Options.Providers
//
// A slot is a provider's name, "_all" or "_broker". The front looks at frames as far as a
// transport has to: sessions, streams, headers, batches. What a method means is the
// broker's business.
//
// # Streams
//
// Whatever goes to a client stands in a [stream] first, which one connection at a time
// empties, so that nothing overtakes anything. A request is answered with a JSON body if its
// answer is all there is to say within a second. Otherwise, or as soon as something comes
// before the answer, the response becomes a stream of events. In sessions these have ids, and
// what was sent lately is kept: a client whose connection broke asks again with
// Last-Event-ID. A broken connection cancels a call of the modern era, and only there.
package front

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/policy"
)

// Options say what a [Front] serves, and to whom.
type Options struct {
	// Broker answers the clients. Required.
	Broker *mcp.Broker
	// Identify says who sends a request; it is asked for every request, and a session
	// vouches for nobody. An error is answered 401, a [*Failure] as it says. Its text goes
	// to the client. Nil takes everybody for anonymous.
	Identify func(*http.Request) (*policy.Caller, error)
	// NeedToken refuses callers that Identify does not vouch for with 401, which is how
	// clients learn where to get a token. Otherwise they may do what the policy lets
	// everybody do.
	NeedToken bool
	// Providers serves /provider/<slot> and /providers, where providers dial in; nil is 404.
	Providers http.Handler
	// Origins are the web pages that may use the broker, such as "https://app.example"; "*"
	// is all. Nil allows pages of this machine to who connects over its loopback address,
	// and none to others; an empty list allows none. A request without Origin comes from no page and passes.
	Origins []string
	// Hosts are the names, without port, under which the broker is called over a loopback
	// address, besides "localhost" and the addresses themselves: as by a proxy on the same
	// machine that passes Host on. All others are refused there, as a page may have given
	// its own name the address 127.0.0.1.
	Hosts []string
	// Resource is what the broker is to OAuth.
	Resource Resource
	// Bounds are the bounds of sizes, numbers and times.
	Bounds Bounds
	// Logger is told of mistakes of the program, never of clients'; nil is [slog.Default].
	Logger *slog.Logger
}

// Bounds keep clients from harming others. Every zero field has a default.
type Bounds struct {
	// Frame bounds a message; zero is as in [jsonrpc.Bounds].
	Frame jsonrpc.Bounds
	// BatchItems is how many messages a batch may have; zero is 100.
	BatchItems int
	// Exchanges is how many requests may be under way in all; zero is 10 000.
	Exchanges int
	// LongInAll is how many bytes the messages under way may have together, besides the first
	// 64 KiB of each; zero is 256 MiB.
	LongInAll int
	// Sessions is how many sessions there may be, of all transports; zero is 10 000.
	Sessions int
	// SessionsPerCaller is how many one caller may have, an anonymous one being its
	// address; zero is 256.
	SessionsPerCaller int
	// StartsPerMinute is how many sessions one caller may start in a minute, as many of
	// them at once; zero is 600. All callers together may start 16 times as many.
	StartsPerMinute int
	// SessionIdle is how long a session of HTTP lives without a request or a stream; zero
	// is 30 minutes.
	SessionIdle time.Duration
	// SessionAge is how long any session lives; zero is 24 hours.
	SessionAge time.Duration
	// Kept is how many bytes of events one session keeps for a client that comes back, and
	// KeptInAll how many all do; zero is 1 MiB, and 64 MiB.
	Kept, KeptInAll int
	// KeptFor is how long an event is kept; zero is five minutes.
	KeptFor time.Duration
	// Backlog is how many bytes may wait for a client that reads slowly before its
	// connection is given up; zero is 8 MiB. Of progress and logs half as many may. While more
	// than BacklogInAll wait for all clients together, 256 MiB if zero, it is one in 32 of that,
	// and one message.
	Backlog, BacklogInAll int
	// BodyTimeout is how long a request's body may take, also of one that is refused; zero is
	// 30 seconds.
	BodyTimeout time.Duration
	// WriteTimeout is how long one event or frame may take; zero is 30 seconds.
	WriteTimeout time.Duration
	// KeepAlive is how often a stream without events gets a sign of life, and a WebSocket a
	// ping; zero is 20 seconds.
	KeepAlive time.Duration
	// Patience is how long the answer to a request is waited for before the response becomes
	// a stream; zero is one second.
	Patience time.Duration
}

func (b Bounds) withDefaults() Bounds {
	orInt := func(p *int, d int) {
		if *p <= 0 {
			*p = d
		}
	}
	orTime := func(p *time.Duration, d time.Duration) {
		if *p <= 0 {
			*p = d
		}
	}
	orInt(&b.Frame.MaxBytes, 4<<20)
	orInt(&b.BatchItems, 100)
	orInt(&b.Exchanges, 10_000)
	orInt(&b.LongInAll, 256<<20)
	orInt(&b.Sessions, 10_000)
	orInt(&b.SessionsPerCaller, 256)
	orInt(&b.StartsPerMinute, 600)
	orInt(&b.Kept, 1<<20)
	orInt(&b.KeptInAll, 64<<20)
	orInt(&b.Backlog, 8<<20)
	orInt(&b.BacklogInAll, 256<<20)
	orTime(&b.SessionIdle, 30*time.Minute)
	orTime(&b.SessionAge, 24*time.Hour)
	orTime(&b.KeptFor, 5*time.Minute)
	orTime(&b.BodyTimeout, 30*time.Second)
	orTime(&b.WriteTimeout, 30*time.Second)
	orTime(&b.KeepAlive, 20*time.Second)
	orTime(&b.Patience, time.Second)
	return b
}

// A Front is an http.Handler, safe for concurrent use. Use [New]. Its server must have no
// WriteTimeout, which would end every stream; the front has deadlines of its own.
type Front struct {
	o        Options
	origins  origins
	sessions *sessions
	flights  flights
	room     *semaphore.Weighted // for long messages
	draining atomic.Bool
	stop     chan struct{} // closed when streams must end
	stopping sync.Once
	sockets  sync.WaitGroup // WebSockets, of which the server knows nothing
}

// New returns a Front. It reports what is wrong with o.
func New(o Options) (*Front, error) {
	if o.Broker == nil {
		return nil, errors.New("front: a front needs a broker")
	}
	if err := o.Resource.check(); err != nil {
		return nil, err
	}
	allowed, err := newOrigins(o.Origins, o.Hosts, o.Resource.URL)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Bounds = o.Bounds.withDefaults()
	f := &Front{o: o, origins: allowed, sessions: newSessions(&o.Bounds), stop: make(chan struct{})}
	f.flights.most, f.room = o.Bounds.Exchanges, semaphore.NewWeighted(int64(o.Bounds.LongInAll))
	return f, nil
}

// Close refuses new requests with 503, waits until those under way have been answered, or
// until ctx ends, and then ends all sessions and streams. Handlers return soon after it. The
// error is ctx's, if something had not ended by then.
func (f *Front) Close(ctx context.Context) error {
	f.draining.Store(true)
	select {
	case <-f.flights.drained():
	case <-ctx.Done():
	}
	f.stopping.Do(func() { close(f.stop) })
	f.sessions.closeAll()
	parted := make(chan struct{})
	go func() {
		f.sockets.Wait() // each has seconds to say goodbye, and then ends without
		close(parted)
	}()
	select {
	case <-parted:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopped reports whether streams must end.
func (f *Front) stopped() bool {
	select {
	case <-f.stop:
		return true
	default:
		return false
	}
}

// A visit is one HTTP request on its way through the front.
type visit struct {
	f     *Front
	w     http.ResponseWriter
	r     *http.Request
	deadl *http.ResponseController
	slot  string
	door  string // of doors
	who   *policy.Caller
	load  load // of its body, until it is over
}

// doors are the endpoints of a slot, by what follows its name.
var doors = map[string]func(*visit) *fault{
	"mcp":      (*visit).streamable,
	"sse":      (*visit).events,
	"messages": (*visit).message,
	"":         (*visit).socket,
}

// ServeHTTP serves one request.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{f: f, w: w, r: r, deadl: http.NewResponseController(w)}
	v.limit()
	defer func() { v.load.release() }() // some hand it on
	if fault := v.serve(); fault != nil {
		v.fail(fault)
	}
}

func (v *visit) serve() *fault {
	if f := v.guard(); f != nil {
		return f
	}
	if v.preflight() {
		return nil
	}
	path := strings.TrimPrefix(v.r.URL.Path, "/")
	if rest, ok := strings.CutPrefix(path, wellKnown); ok {
		return v.metadata(rest)
	}
	if path == "providers" || strings.HasPrefix(path, "provider/") {
		return v.provider()
	}
	slot, door, _ := strings.Cut(path, "/")
	serve, ok := doors[door]
	switch {
	case !ok || slot == "":
		return notFound("there is nothing here; a slot is at /<slot>/mcp")
	case v.f.draining.Load():
		return busy("the broker is stopping")
	}
	v.slot, v.door = slot, door
	if f := v.identify(); f != nil {
		return f
	}
	return serve(v)
}

// provider hands a provider that dials in to whom it is meant for.
func (v *visit) provider() *fault {
	switch {
	case v.f.o.Providers == nil:
		return notFound("providers do not dial in here")
	case v.f.draining.Load():
		return busy("the broker is stopping")
	}
	v.f.o.Providers.ServeHTTP(v.w, v.r)
	return nil
}
