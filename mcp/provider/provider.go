// Package provider connects an MCP server to a broker by dialling in, serves what the broker
// sends, and asks the broker about callers and budgets before native work begins.
//
//	server := &provider.Server{Name: "pumps", Version: "1", Tools: []provider.Tool{…}}
//	p, err := provider.Dial(ctx, provider.Options{
//		URL: "wss://broker.example", Slot: "pumps", Secret: os.Getenv("PUMPS_SECRET"), Handler: server,
//		Declaration: &provider.Declaration{Version: "1", Domain: "pump", Namespace: "/site", Capabilities: []string{"pump.run"}, BudgetUnits: []string{"start"}},
//	})
//
// The connection is made again whenever it ends, until the context of Dial does. The
// declaration is made first on each connection, and no request is handled before it has
// been accepted.
//
// What a provider may ask, and what it is answered, is the provider contract,
// docs/guide/providers.md.
package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// Errors of a Provider, beside [Error], which is what a broker has answered.
var (
	// ErrLost says that there is no connection, or that it ended before the answer came. In
	// the latter case the broker may have done what it was asked for.
	ErrLost = errors.New("provider: no connection to the broker")
	// ErrClosed says that the context of Dial has ended, or Close was called.
	ErrClosed = errors.New("provider: closed")
	// ErrReplayed says that a reservation was made before, so that its work may have been done.
	ErrReplayed = errors.New("provider: the reservation was made before; its work may have been done")
	// ErrExpired says that a grant came too late for its work to begin.
	ErrExpired = errors.New("provider: the grant has expired; the work may not begin any more")
)

// Options say where a broker is and what is served. They must not change while a Provider
// is open.
type Options struct {
	// URL is the broker's: ws or wss, host, and the path before /provider, if any. http and
	// https mean the same. Required.
	URL string
	// Slot is the place that the provider takes. Required.
	Slot string
	// Secret is what the broker knows the provider by. It goes out as X-Provider-Token and
	// nowhere else. Empty is none, for a broker that lets anybody in.
	Secret string
	// Handler serves what the broker sends. Required; usually a [*Server].
	Handler Handler
	// Declaration is made on each connection before anything is served. Nil declares nothing:
	// then there are no caller references, and no budgets.
	Declaration *Declaration

	// MaxFrame bounds a message in bytes. Zero is 16 MiB.
	MaxFrame int
	// MaxRequests bounds the requests under way; more are refused. Zero is 1000.
	MaxRequests int
	// FirstPause is how long is waited after an attempt to connect has failed; the pause
	// doubles with each, up to LongestPause, and half of it is random. A connection that has
	// ended before LongestPause was over counts as failed. Zero is 200 ms and 15 s.
	FirstPause, LongestPause time.Duration
	// Pulse is how often the broker is asked whether it is there. It has as long to answer.
	// Zero is 15 s.
	Pulse time.Duration
	// SettleWithin bounds how long [Provider.WithBudget] tries to settle. Zero is 30 s.
	SettleWithin time.Duration
	// ClockDifference is how far the clocks of broker and provider may be apart. It matters
	// for brokers alone that do not say how long a grant is good; sluice says it.
	ClockDifference time.Duration
	// TLS is for wss. Nil is the default of crypto/tls.
	TLS *tls.Config
	// Logger hears of connections. Nil is silence.
	Logger *slog.Logger
}

const (
	defaultFrame    = 16 << 20
	defaultRequests = 1000
	defaultFirst    = 200 * time.Millisecond
	defaultLongest  = 15 * time.Second
	defaultPulse    = 15 * time.Second
	defaultSettle   = 30 * time.Second
	declareTime     = 30 * time.Second
)

// slotForm is what a broker calls slots.
var slotForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// prepare checks the options and fills what is left out. It returns the address to dial.
func (o *Options) prepare() (string, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || !strings.Contains(" ws wss http https ", " "+u.Scheme+" "):
		return "", errors.New("provider: Options.URL has to be ws:// or wss:// and the broker's host")
	case u.RawQuery != "" || u.User != nil:
		return "", errors.New("provider: Options.URL must not carry a query or credentials; the secret goes into Options.Secret")
	case !slotForm.MatchString(o.Slot):
		return "", fmt.Errorf("provider: Options.Slot %.140q is no name of a slot: 1 to 128 of letters, digits and ._-, the first a letter or digit", o.Slot)
	case o.Handler == nil:
		return "", errors.New("provider: Options.Handler is missing; give a *Server")
	}
	orDefault(&o.MaxFrame, defaultFrame)
	orDefault(&o.MaxRequests, defaultRequests)
	orDefault(&o.FirstPause, defaultFirst)
	orDefault(&o.LongestPause, defaultLongest)
	orDefault(&o.Pulse, defaultPulse)
	orDefault(&o.SettleWithin, defaultSettle)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return u.JoinPath("provider", o.Slot).String(), nil
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// A Provider is a place in a broker, held through broken connections. It is safe for
// concurrent use.
type Provider struct {
	o       Options
	address string
	pool    *http.Client
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}

	mu       sync.Mutex
	conn     *conn         // nil while there is none
	change   chan struct{} // closed and made anew when conn changes
	declared *Declaration  // what is declared on each connection
}

// Dial connects to a broker and returns when the provider has its slot and its declaration
// has been accepted. A broker that is not there is tried again until ctx ends. What only a
// person can mend is an error at once: a secret that is not accepted, a slot that is another
// provider's or taken, a declaration that is refused (an [*Error] with all problems).
//
// The Provider lives until ctx ends or Close is called.
func Dial(ctx context.Context, o Options) (*Provider, error) {
	address, err := o.prepare()
	if err != nil {
		return nil, err
	}
	pool := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: o.TLS.Clone(), DisableKeepAlives: true}
	p := &Provider{o: o, address: address, declared: o.Declaration, done: make(chan struct{}), change: make(chan struct{}),
		pool: &http.Client{Transport: pool, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	p.ctx, p.cancel = context.WithCancel(context.WithValue(ctx, providerKey{}, p))
	first := make(chan error, 1)
	go p.run(first)
	if err := <-first; err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close ends the connection, cancels the contexts of requests under way, and waits until
// nothing comes from the broker any more.
func (p *Provider) Close() {
	p.cancel()
	<-p.done
}

// Done is closed when the Provider has ended.
func (p *Provider) Done() <-chan struct{} { return p.done }

// run keeps the provider connected. The first connection is reported.
func (p *Provider) run(first chan<- error) {
	defer close(p.done)
	report := func(err error) {
		if first != nil {
			first <- err
			first = nil
		}
	}
	for failures := 0; ; failures++ {
		c, err := p.connect()
		if err == nil {
			began := time.Now()
			p.use(c) // before anything is served: tools ask over it
			if c.open() {
				p.o.Logger.Info("provider: connected", "slot", p.o.Slot)
				report(nil)
			}
			<-c.done
			if time.Since(began) >= p.o.LongestPause { // others are as good as failures, or they would follow each other at once
				failures = 0
			}
			p.use(nil)
			err = c.why()
		}
		if p.ctx.Err() != nil {
			report(fmt.Errorf("provider: not connected: %w; last: %w", context.Cause(p.ctx), err))
			return
		}
		if first != nil && isFinal(err) {
			report(err)
			return
		}
		p.pause(failures, err)
	}
}

// connect makes a connection and declares.
func (p *Provider) connect() (*conn, error) {
	c, err := p.dial()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	d := p.declared
	p.mu.Unlock()
	if d != nil {
		within, cancel := context.WithTimeout(p.ctx, declareTime)
		_, err = c.ask(within, "broker/authorization/declare", d)
		cancel()
		if err != nil {
			c.end(err)
			<-c.done
			// The reason of the broker's to end the connection says more than that it has ended.
			return nil, pick(errors.Is(err, ErrLost), c.why(), err)
		}
	}
	return c, nil
}

func (p *Provider) pause(failures int, err error) {
	most := min(p.o.FirstPause<<min(failures, 20), p.o.LongestPause)
	if most <= 0 { // shifted out
		most = p.o.LongestPause
	}
	wait := most/2 + rand.N(most/2+1)
	p.o.Logger.Warn("provider: not connected", "slot", p.o.Slot, "error", err, "next", wait.Round(time.Millisecond))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
	}
}

// use makes c the connection that questions go over.
func (p *Provider) use(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = c
	close(p.change)
	p.change = make(chan struct{})
}

// ask asks the broker over the connection that is there. One that is lost is not tried
// again, since the answer may have been.
func (p *Provider) ask(ctx context.Context, method string, params any) (*jsonrpc.Message, error) {
	p.mu.Lock()
	c := p.conn
	p.mu.Unlock()
	switch {
	case p.ctx.Err() != nil:
		return nil, ErrClosed
	case c == nil:
		return nil, ErrLost
	}
	return c.ask(ctx, method, params)
}

// askAgain asks until there is an answer, over as many connections as that takes. It is for
// questions that may be asked twice.
func (p *Provider) askAgain(ctx context.Context, method string, params any) (*jsonrpc.Message, error) {
	for {
		p.mu.Lock()
		change := p.change
		p.mu.Unlock()
		m, err := p.ask(ctx, method, params)
		if !errors.Is(err, ErrLost) {
			return m, err
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), ErrLost)
		case <-p.ctx.Done():
			return nil, ErrClosed
		}
	}
}

func pick[T any](yes bool, a, b T) T {
	if yes {
		return a
	}
	return b
}
