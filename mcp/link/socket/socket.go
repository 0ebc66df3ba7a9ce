// Package socket connects to providers over WebSocket: to those that the broker dials, and
// to those that dial in, one slot a connection or many. WebSocket is not part of the Model
// Context Protocol; like its TypeScript SDK this speaks subprotocol "mcp", with one
// JSON-RPC message a text frame.
package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/link"
)

const subprotocol = "mcp"

// Server is a provider that is dialled. It is a [link.Dialer]. It must not change while it
// is in use.
type Server struct {
	// URL is ws:// or wss://; http:// and https:// mean the same.
	URL string
	// Header is sent with the handshake: the broker's credentials. Fields that belong to the
	// connection or to the protocol are left out.
	Header http.Header
	// TLS is for wss. Nil is the default of crypto/tls.
	TLS *tls.Config
	// MaxFrame bounds a message in bytes, in both directions. Zero is [link.MaxFrame].
	MaxFrame int
	// Pulse is how the connection is kept alive.
	Pulse Pulse
}

var _ link.Dialer = (*Server)(nil)

// A Pulse says how often the other end is asked whether it is there, and how long it may
// take to say so. The zero Pulse is 20 s and 10 s. The other end may ask as well, and is
// always answered.
type Pulse struct {
	Every, Within time.Duration
}

func (p Pulse) orDefault() Pulse {
	if p.Every <= 0 {
		p.Every = 20 * time.Second
	}
	if p.Within <= 0 {
		p.Within = 10 * time.Second
	}
	return p
}

// String returns scheme and host. Some providers are given their key in the path.
func (s *Server) String() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "an unreadable URL"
	}
	return u.Scheme + "://" + u.Host
}

// Dial connects. The connection is bounded by the link's life, the handshake by ctx.
func (s *Server) Dial(ctx context.Context, in link.Inbox) (link.Link, error) {
	pool := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: s.TLS.Clone(), DisableKeepAlives: true}
	ws, resp, err := websocket.Dial(ctx, s.URL, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: pool, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		HTTPHeader: link.Credentials(s.Header), Subprotocols: []string{subprotocol},
	})
	if err != nil {
		return nil, fmt.Errorf("mcp/link/socket: %s: %w", s, plain(ctx, resp, err))
	}
	c := newConn(ws, s.MaxFrame, s.Pulse)
	l := newLane(c, s.MaxFrame)
	l.open(in)
	c.port = l
	go func() { l.in.Down(c.live()) }()
	return l, nil
}

// plain is an error of a handshake without the URL, in which a key may stand.
func plain(ctx context.Context, resp *http.Response, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case resp != nil && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden):
		return fmt.Errorf("the provider does not accept the broker's credentials, or wants some (%d)", resp.StatusCode)
	case resp != nil:
		return fmt.Errorf("the provider does not speak WebSocket at this url (%d)", resp.StatusCode)
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return errors.New("the url has to be ws:// or wss:// and a host")
}
