package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

const (
	keySetTimeout   = 3 * time.Second  // for one fetch of an issuer's keys
	unknownKeyEvery = 30 * time.Second // between fetches that unknown key names cause
	maxKeySet       = 1 << 20          // bytes of a key set
)

// openKeySet reads an issuer's keys from a file, or fetches them now and ever again
// until ctx ends.
func openKeySet(ctx context.Context, o *Issuer, log *slog.Logger) (jwt.Keyfunc, error) {
	if !strings.Contains(o.JWKS, "://") {
		raw, err := os.ReadFile(o.JWKS)
		if err != nil {
			return nil, fmt.Errorf("opening the key set: %w", err)
		}
		set, err := keyfunc.NewJWKSetJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", o.JWKS, err)
		}
		return set.Keyfunc, nil
	}
	if err := checkKeySetURL(o.JWKS); err != nil {
		return nil, err
	}
	set, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{o.JWKS}, keyfunc.Override{
		Client:            keySetClient(),
		HTTPTimeout:       keySetTimeout,
		RateLimitWaitMax:  keySetTimeout, // it also bounds the fetch that follows
		RefreshInterval:   time.Hour,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(unknownKeyEvery), 1),
		RefreshErrorHandlerFunc: func(string) func(context.Context, error) {
			return func(ctx context.Context, err error) {
				log.WarnContext(ctx, "keys of a token issuer could not be fetched; the last good ones stay in force",
					"issuer", o.Issuer, "error", err)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("opening the key set: %w", err)
	}
	return set.Keyfunc, nil
}

// checkKeySetURL insists on https. Keys that come in clear are anybody's keys; only
// the loopback interface is safe without.
func checkKeySetURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return fmt.Errorf("the JWKS address: %w", err)
	}
	if u.Scheme == "https" && u.Host != "" {
		return nil
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && addr.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("the JWKS address %q must be https (http only on a loopback address)", raw)
}

// keySetClient fetches key sets: never another address than the configured one, and
// never more than fits.
func keySetClient() *http.Client {
	return &http.Client{
		Timeout: keySetTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("identity: the key set's address redirects; configure the final one")
		},
		Transport: capped{&http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: keySetTimeout}).DialContext,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          2,
			IdleConnTimeout:       time.Minute,
			ResponseHeaderTimeout: keySetTimeout,
		}},
	}
}

// capped bounds the bodies of responses.
type capped struct{ http.RoundTripper }

func (c capped) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxKeySet), resp.Body}
	}
	return resp, err
}
