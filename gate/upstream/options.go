// Package upstream forwards requests to the servers behind a gate: it chooses one by
// host and path, keeps its connections, and sees to it that no header reaches it that
// the gate has not vouched for.
package upstream

import "time"

// Options describe one upstream.
type Options struct {
	// Name is the Provider of calls that go there. Required and unique.
	Name string
	// URL is its address: http://, https://, h2c:// (HTTP/2 in clear) or unix:/path. A
	// path is put before that of requests. Required.
	URL string
	// Paths are patterns of the paths that go there; nil is all.
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
	// MaxConnections bounds the connections; zero is no bound.
	MaxConnections int
	// CAFile holds the authorities for https, PEM; empty is the system's.
	CAFile string
}
