// Package upstream forwards requests to the servers behind a gate: it chooses one by
// host and path, keeps its connections, and sees to it that no header reaches it that
// the gate has not vouched for.
package upstream

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/internal/route"
)

// Options describe one upstream.
type Options struct {
	// Name is the Provider of calls that go there. Required and unique.
	Name string
	// URL is its address: http://, https://, h2c:// (HTTP/2 in clear) or unix:/path. A
	// path is put before that of requests. Required, unless there is a Handler.
	URL string
	// Handler serves in this process, in place of a server at URL.
	Handler http.Handler
	// Paths are patterns of the paths that go there; nil is all. Of several upstreams
	// the most specific pattern wins.
	Paths []string
	// Hosts are the hosts whose requests go there; nil is all.
	Hosts []string
	// PreserveHost passes the client's Host header on; otherwise the upstream sees its own.
	PreserveHost bool
	// ConnectTimeout bounds connecting; zero is 5 s.
	ConnectTimeout time.Duration
	// ResponseTimeout bounds the wait for the head of an answer; zero is no bound.
	ResponseTimeout time.Duration
	// IdleTimeout is how long an idle connection is kept; zero is 90 s.
	IdleTimeout time.Duration
	// MaxConnections bounds the connections; zero is no bound. Beyond it requests wait
	// for one, as long as their client does.
	MaxConnections int
	// CAFile holds the authorities for https, PEM; empty is the system's.
	CAFile string
}

// Surroundings are what upstreams need of the gate in front of them. All are required
// but Logger.
type Surroundings struct {
	// Paths says how paths are read.
	Paths route.Options
	// ForwardCanonical gives upstreams the canonical path instead of the client's.
	ForwardCanonical bool
	// Scrub removes from the headers of a request from peer what no upstream may see,
	// and reports whether the peer is a trusted proxy.
	Scrub func(h http.Header, peer string) (trusted bool)
	// Admit is asked about the head of an answer before the client gets any of it, with
	// the request's context. If it reports false it has answered in the upstream's place.
	Admit func(ctx context.Context, h http.Header) bool
	// Fail answers a request that could not be forwarded. The status may be [StatusGone].
	Fail func(w http.ResponseWriter, r *http.Request, status int, detail string)
	// Logger is told why; nil is [slog.Default].
	Logger *slog.Logger
}
