// Package httplink connects to a provider that is an HTTP server: over Streamable HTTP in
// both of its eras, and over HTTP with SSE, which was before it. Sources are the pages
// basic/transports of the revisions 2024-11-05 to 2026-07-28 of the Model Context Protocol.
package httplink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// Server is a provider that is an HTTP server. It is a [link.Dialer]. It must not change
// while it is in use.
type Server struct {
	// URL is where messages are posted, or, with SSE, where the stream of events is.
	URL string
	// SSE speaks the transport of revision 2024-11-05: HTTP with SSE.
	SSE bool
	// Header is sent with every request: the broker's credentials. Fields that belong to the
	// connection, to the body or to the protocol are left out.
	Header http.Header
	// TLS is for https. Nil is the default of crypto/tls.
	TLS *tls.Config

	// MaxFrame bounds a message in bytes, in both directions. Zero is [link.MaxFrame].
	MaxFrame int
	// MaxRequests bounds the requests that are under way. Zero is 1024.
	MaxRequests int
	// HeaderTimeout is how long the head of an answer may take to everything but a request:
	// a provider may answer that when its tool has finished, which is the broker's business.
	// Zero is 30 s.
	HeaderTimeout time.Duration
	// Idle is how long a stream of events may say nothing, comments included, before it is
	// taken for broken. Zero is for ever: not all servers send comments. A connection whose
	// other end has gone is found by TCP keep-alive within three minutes.
	Idle time.Duration
	// Linger is how long an answer is waited for that the provider has been told is no longer
	// wanted. Zero is a minute.
	Linger time.Duration
}

var _ link.Dialer = (*Server)(nil)

const (
	connectTime     = 10 * time.Second
	keepAlive       = 15 * time.Second
	defaultHead     = 30 * time.Second
	defaultLinger   = time.Minute
	defaultRequests = 1024
	maxHead         = 64 << 10
	maxRedirects    = 3

	// Idle connections are closed before the servers do it whose time-out is shortest: Node
	// and uvicorn after five seconds. A request on a connection that is being closed fails
	// with unknown outcome, and must not be sent again.
	idleConnection = 4 * time.Second
)

// String returns scheme and host. Some providers are given their key in the path.
func (s *Server) String() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "an unreadable URL"
	}
	return u.Scheme + "://" + u.Host
}

// Dial makes a link. Over Streamable HTTP nothing is sent before the first message; over
// HTTP with SSE the stream is opened, and the server has said where to post.
func (s *Server) Dial(ctx context.Context, in link.Inbox) (link.Link, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("mcp/link/httplink: the provider's url has to be http:// or https:// and a host")
	}
	if s.SSE {
		return s.dialSSE(ctx, u, in)
	}
	return s.dialStreamable(u, in), nil
}

func (s *Server) headTime() time.Duration { return orDefault(s.HeaderTimeout, defaultHead) }

func (s *Server) linger() time.Duration { return orDefault(s.Linger, defaultLinger) }

func (s *Server) maxFrame() int { return orDefault(s.MaxFrame, link.MaxFrame) }

func orDefault[N ~int | ~int64](n, otherwise N) N {
	if n <= 0 {
		return otherwise
	}
	return n
}

// transport makes the pool of one link's connections. A slow provider shares it with nobody.
func (s *Server) transport() *http.Transport {
	dialer := net.Dialer{Timeout: connectTime, KeepAlive: keepAlive}
	most := orDefault(s.MaxRequests, defaultRequests)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        s.TLS.Clone(),
		TLSHandshakeTimeout:    connectTime,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // a compressor holds events back
		MaxIdleConns:           most,
		MaxIdleConnsPerHost:    most,
		IdleConnTimeout:        idleConnection,
		MaxResponseHeaderBytes: maxHead,
	}
}

// redirect follows a redirection that stays on the server and repeats the request, such as
// one to the same path with a slash. Others come back as answers: a credential goes to no
// other host, and a POST does not become a GET.
func redirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host || next.Method != first.Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// describe sets the fields that tell of a message what its body says (revision 2026-07-28,
// "Standard headers").
func describe(h http.Header, m link.Outgoing) {
	if m.Version != "" {
		h.Set(protocol.HeaderVersion, m.Version)
	}
	if protocol.EraOf(m.Version) != protocol.Modern || m.Method == "" {
		return
	}
	h.Set(protocol.HeaderMethod, protocol.EncodeHeader(m.Method))
	if name, ok := protocol.NameOf(m.Message); ok {
		h.Set(protocol.HeaderName, protocol.EncodeHeader(name))
	}
	for name, values := range m.Header {
		if name = http.CanonicalHeaderKey(name); strings.HasPrefix(name, protocol.HeaderParam) {
			h[name] = values
		}
	}
}

// sessionOf returns the session that a server has given us. Several values that are equal
// are one; what cannot be sent back is none.
func sessionOf(h http.Header) (string, error) {
	values := h.Values(protocol.HeaderSession)
	if len(values) == 0 {
		return "", nil
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return "", errors.New("the server has sent two different session ids")
		}
	}
	for i := range len(values[0]) {
		if c := values[0][i]; c < '!' || c > '~' {
			return "", errors.New("the server's session id has characters that none may have")
		}
	}
	return values[0], nil
}
