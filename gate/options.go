package gate

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice/gate/cost"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/wire"
)

// Options are what a [Gate] needs to know beside the policy. The zero Options make a
// middleware that knows callers by their address, names its tier "anonymous", and
// bounds nothing but what net/http bounds.
type Options struct {
	// Disabled lets every request pass, without headers.
	Disabled bool
	// ClientIP says which address a request comes from.
	ClientIP ClientIP
	// Identity says whom to believe. Its DefaultTier and Tiers are the policy's.
	Identity identity.Options
	// DistinctFailures debits a failed credential once, however often the same address
	// shows the same one again soon after. Then a device that keeps on trying an old
	// password does not use up what its address may fail; guesses are counted as ever.
	DistinctFailures bool
	// AnonymousTier is the tier of callers that are known by their address alone; empty
	// is "anonymous".
	AnonymousTier string
	// Paths says how paths are read before they are compared with a pattern.
	Paths Paths
	// Endpoints are the endpoint policies. The most specific that matches is the call's
	// Route; two that tie are an error.
	Endpoints []Endpoint
	// Excluded are patterns of paths that are never limited. A path is excluded only if
	// it is spelt plainly, so that no spelling can borrow the exclusion.
	Excluded []string
	// MCP are paths that speak JSON-RPC; a refusal there is a JSON-RPC error.
	MCP []MCP
	// Bounds are the most that a request may be or take.
	Bounds Bounds
	// Headers says what answers tell about limits.
	Headers Headers
	// Problem names the problem of refusals in their bodies.
	Problem wire.Problem
	// CORS says which scripts of browsers may read a refusal. An application's own CORS
	// headers on other answers are not touched.
	CORS wire.CORS
	// Streams bound long answers.
	Streams Streams
	// MethodOverride says what X-HTTP-Method-Override and its like mean.
	MethodOverride MethodOverride
	// Upstreams are the servers behind the reverse proxy, [Gate.Proxy]. Middleware has
	// no need of them.
	Upstreams []upstream.Options
	// Observe is told what happens; the zero Observer is nobody.
	Observe Observer
	// Logger is told what an operator should know; nil is [slog.Default].
	Logger *slog.Logger
}

// ClientIP says which address a request comes from. The zero value believes nobody:
// the client is the peer of the connection.
type ClientIP struct {
	// Header is the one header that proxies report addresses in; empty is
	// X-Forwarded-For. "Forwarded" is read as RFC 7239.
	Header string
	// Trusted are the addresses of proxies whose header is believed.
	Trusted []netip.Prefix
	// Hops is how many proxies stand in front, if their addresses cannot be known. Zero
	// goes by Trusted.
	Hops int
	// TrustUnix says that a peer on a unix socket is a trusted proxy.
	TrustUnix bool
	// IPv4Prefix and IPv6Prefix are how many bits of an address make a client; zero is
	// 32 and 64.
	IPv4Prefix, IPv6Prefix int
	// NAT64 are prefixes whose embedded IPv4 address is the client (RFC 6052).
	NAT64 []netip.Prefix
}

// EncodedSlash says what an encoded slash, %2f, is in a path.
type EncodedSlash uint8

// What an encoded slash may be.
const (
	SlashSeparates EncodedSlash = iota // a slash like any other
	SlashLiteral                       // part of its segment
	SlashRefused                       // a reason to answer 400
)

// Paths says how request paths are read. The zero value keeps upper and lower case
// apart, takes any spelling, and forwards the client's.
type Paths struct {
	// EncodedSlash says what %2f is.
	EncodedSlash EncodedSlash
	// FoldCase makes ASCII letters compare without case.
	FoldCase bool
	// RefuseUnclean answers 400 to a path that is not spelt plainly.
	RefuseUnclean bool
	// ForwardCanonical gives the upstream the plain spelling instead of the client's.
	ForwardCanonical bool
}

// An Endpoint is a set of paths that the policy has rules for.
type Endpoint struct {
	// ID is the Route of the calls; rules match it. Required.
	ID string
	// Pattern selects paths: ? is one character, * one segment, ** any number of
	// segments, {name} one segment. Required.
	Pattern string
	// Methods the endpoint is for, in upper case; GET stands for HEAD too. Nil is all.
	Methods []string
	// Hosts the endpoint is for; "*.example.com" is every name below it. Nil is all.
	Hosts []string
	// Cost is what a request takes.
	Cost cost.Options
	// Headers says what answers of this endpoint tell about limits; nil is
	// [Options.Headers].
	Headers *Headers
}

// MCP is a set of paths that speak JSON-RPC.
type MCP struct {
	// Pattern selects paths. Required.
	Pattern string
	// Code is the JSON-RPC code of a refusal; zero is -32029 up to protocol 2025-11-25
	// and 429 later.
	Code int
	// Status is the HTTP status of a refusal: 200 or 429. Zero is 200, because most
	// clients lose the error's data on any other.
	Status int
}

// Bounds are the most that a request may be or take. Zero is no bound, or where a
// field says so a default of its own; defaults for the server are net/http's unless
// they would leave it open to slow clients.
type Bounds struct {
	// HeaderBytes bounds the head of a request; zero is 32 KiB.
	HeaderBytes int
	// BodyBytes bounds the body; nil is no bound, and zero allows none.
	BodyBytes *int64
	// HeaderTimeout bounds the reading of the head; zero is 5 s.
	HeaderTimeout time.Duration
	// BodyTimeout bounds the reading of the body, however slowly it comes.
	BodyTimeout time.Duration
	// IdleTimeout is how long a connection may be idle; zero is 120 s.
	IdleTimeout time.Duration
	// ConnectionsPerIP bounds the open connections of one address.
	ConnectionsPerIP int
	// ConcurrentStreams bounds the requests on one HTTP/2 connection; zero is 250.
	ConcurrentStreams int
}

// Merge says whose fields an allowed answer has if the application or the upstream
// has set some too. An answer with status 429 or 503 always keeps its own.
type Merge uint8

// Whose fields.
const (
	Replace Merge = iota // the gate's
	Keep                 // the other's
	Least                // those with less remaining
)

// Headers says what answers tell about limits. The zero value tells on every answer, in
// the families that package wire has by default.
type Headers struct {
	// Families of fields; nil is wire's default and empty is none.
	Families []wire.Family
	// When is which answers have them.
	When wire.When
	// Merge says whose fields win.
	Merge Merge
}

// Streams bound long answers, by kind. How many a caller may hold open and how fast it
// may open them are the policy's rules for calls of kind "stream".
type Streams struct {
	// SSE is for server-sent events.
	SSE Stream
	// MCP is for server-sent events on MCP paths.
	MCP Stream
	// WebSocket is for WebSocket connections.
	WebSocket Stream
	// CloseOverLimit ends a connection whose client sends more messages than the policy
	// allows, with code 1008. Otherwise the messages over the limit are dropped.
	CloseOverLimit bool
	// AcceptThenClose refuses a WebSocket with a handshake and close code 1013, because
	// browsers hide the status of a handshake that is refused. Otherwise it is refused
	// with an HTTP answer.
	AcceptThenClose bool
	// RetryEvents refuses server-sent events with an empty stream that says when to come
	// back, because a browser's EventSource gives up for good on any status but 200. It is
	// done where a request accepts events and nothing else, MCP excepted. Otherwise they are
	// refused with an HTTP answer.
	RetryEvents bool
}

// A Stream bounds one kind of long answer.
type Stream struct {
	// MaxDuration is the longest that one may stay open. Zero is no bound.
	MaxDuration time.Duration
}

// MethodOverride says what headers mean that name another method than the request's.
type MethodOverride uint8

const (
	// StripOverride removes them before they reach the application.
	StripOverride MethodOverride = iota
	// HonourOverride lets them pass. A POST that names PUT, PATCH or DELETE is limited as
	// that method; no other override is believed.
	HonourOverride
)

// anonymous returns the tier of callers known by address.
func (o *Options) anonymous() string {
	if o.AnonymousTier == "" {
		return "anonymous"
	}
	return o.AnonymousTier
}
