package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/route"
)

// An Upstream is a server behind the gate, or a handler in its place.
type Upstream struct {
	http.Handler
	name      string
	target    *url.URL
	transport http.RoundTripper
	host      bool // pass the client's Host on
	around    Surroundings
}

// Name returns the upstream's name.
func (u *Upstream) Name() string { return u.name }

func newUpstream(o *Options, s Surroundings) (*Upstream, error) {
	u := &Upstream{name: o.Name, host: o.PreserveHost, around: s}
	if o.Handler != nil {
		u.Handler = u.cleaned(o.Handler)
		return u, nil
	}
	transport := &http.Transport{
		// Bodies pass as they are; decoding them is between client and upstream.
		DisableCompression:    true,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          0,
		MaxIdleConnsPerHost:   256,
		MaxConnsPerHost:       o.MaxConnections,
		IdleConnTimeout:       cmp.Or(o.IdleTimeout, 90*time.Second),
		ResponseHeaderTimeout: o.ResponseTimeout,
		TLSHandshakeTimeout:   cmp.Or(o.ConnectTimeout, 5*time.Second),
		ExpectContinueTimeout: time.Second,
	}
	if err := u.aim(transport, o); err != nil {
		return nil, err
	}
	if o.CAFile != "" {
		pool, err := authorities(o.CAFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	u.transport = transport
	log := cmp.Or(s.Logger, slog.Default())
	u.Handler = &httputil.ReverseProxy{
		Rewrite:        u.rewrite,
		Transport:      transport,
		ModifyResponse: u.admit,
		BufferPool:     buffers{},
		ErrorHandler:   u.fail,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return u, nil
}

// aim reads the upstream's address and makes the transport connect to it.
func (u *Upstream) aim(t *http.Transport, o *Options) error {
	dialer := &net.Dialer{Timeout: cmp.Or(o.ConnectTimeout, 5*time.Second), KeepAlive: 30 * time.Second}
	t.DialContext = dialer.DialContext
	if path, ok := strings.CutPrefix(o.URL, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
		u.target = &url.URL{Scheme: "http", Host: "localhost"}
		return nil
	}
	target, err := url.Parse(o.URL)
	if err != nil {
		return err
	}
	switch target.Scheme {
	case "http", "https":
	case "h2c":
		target.Scheme = "http"
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	default:
		return fmt.Errorf("address %q begins with none of http://, https://, h2c:// and unix:/path", o.URL)
	}
	if target.Host == "" {
		return fmt.Errorf("address %q has no host", o.URL)
	}
	u.target = target
	return nil
}

func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}

// rewrite makes the request that goes to the upstream. It runs after the hop-by-hop
// headers were removed, so that a client cannot have ours removed by naming them in
// Connection.
func (u *Upstream) rewrite(pr *httputil.ProxyRequest) {
	if u.around.ForwardCanonical {
		u.canonicalise(pr.Out.URL)
	}
	pr.SetURL(u.target)
	if u.host {
		pr.Out.Host = pr.In.Host
	}
	trusted := u.around.Scrub(pr.Out.Header, pr.In.RemoteAddr)
	if trusted { // what the proxy in front has reported is passed on, and added to
		pr.Out.Header["X-Forwarded-For"] = pr.In.Header["X-Forwarded-For"]
	}
	pr.SetXForwarded()
	if !trusted {
		return
	}
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v := pr.In.Header[name]; v != nil {
			pr.Out.Header[name] = v
		}
	}
}

// canonicalise gives the URL the canonical path. The gate has read it before, so that
// it cannot fail.
func (u *Upstream) canonicalise(to *url.URL) {
	path, clean, err := route.Canonical(to.EscapedPath(), u.around.Paths)
	if err == nil && !clean {
		to.Path, to.RawPath = path, ""
	}
}

// cleaned does for a handler in this process what rewrite does for a server.
func (u *Upstream) cleaned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.around.Scrub(r.Header, r.RemoteAddr)
		if u.around.ForwardCanonical {
			u.canonicalise(r.URL)
		}
		next.ServeHTTP(w, r)
	})
}

// errRefused says that an answer has been refused, and the client told so.
var errRefused = errors.New("upstream: the answer was refused")

func (u *Upstream) admit(resp *http.Response) error {
	if !u.around.Admit(resp.Request.Context(), resp.Header) {
		return errRefused
	}
	return nil
}

// ErrBodyTimeout is what reading a request's body returns when it takes too long.
var ErrBodyTimeout = errors.New("upstream: the request's body took too long")

// StatusGone is the status of a request whose client has gone, or so it seems to the
// server. There is nobody to answer.
const StatusGone = 499

// fail answers a request that could not be forwarded.
func (u *Upstream) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, detail := http.StatusBadGateway, "the upstream could not be reached"
	var timeout net.Error
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, errRefused):
		return
	case errors.Is(err, ErrBodyTimeout):
		status, detail = http.StatusRequestTimeout, "the body took too long"
	case tooLarge:
		status, detail = http.StatusRequestEntityTooLarge, "the body is too large"
	case errors.Is(r.Context().Err(), context.Canceled):
		u.around.Fail(w, r, StatusGone, "the client has gone")
		return
	case errors.As(err, &timeout) && timeout.Timeout():
		status, detail = http.StatusGatewayTimeout, "the upstream took too long"
	}
	cmp.Or(u.around.Logger, slog.Default()).WarnContext(r.Context(), "a request could not be forwarded",
		"upstream", u.name, "status", status, "error", err)
	u.around.Fail(w, r, status, detail)
}

// buffers lend the memory in which bodies are copied.
type buffers struct{}

var bufferPool = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// Get is of [httputil.BufferPool].
func (buffers) Get() []byte { return bufferPool.Get().(*[32 << 10]byte)[:] }

// Put is of [httputil.BufferPool].
func (buffers) Put(b []byte) { bufferPool.Put((*[32 << 10]byte)(b)) }
