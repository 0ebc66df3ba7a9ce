package llm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/knock"
	"github.com/sluicegate/sluice/upstream"
)

// A Gateway admits calls to language models and makes them. It is an http.Handler, and safe
// for concurrent use.
type Gateway struct{ settings atomic.Pointer[settings] }

// settings are the Options in force and what was made of them.
type settings struct {
	Options
	control   *sluice.Controller
	providers map[string]*provider
	backoff   upstream.Backoff
	door      *knock.Door
	weight    *atomic.Int64 // bytes of all bodies that are held
	flights   *flights
}

// New returns a Gateway whose calls c decides about. It reports everything that is wrong
// with o.
func New(c *sluice.Controller, o Options) (*Gateway, error) {
	s, err := newSettings(c, o, nil)
	if err != nil {
		return nil, err
	}
	g := &Gateway{}
	g.settings.Store(s)
	return g, nil
}

func newSettings(c *sluice.Controller, o Options, before *settings) (*settings, error) {
	if c == nil {
		return nil, errors.New("llm: a gateway needs a controller")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if before != nil { // what was learned, and connections, outlive a reload
		if o.Estimator == nil {
			o.Estimator = before.Estimator
		}
		if o.Base == nil && o.withDefaults().HeaderTimeout == before.HeaderTimeout {
			o.Base = before.Base
		}
	}
	s := &settings{Options: o.withDefaults(), control: c, providers: map[string]*provider{}, flights: &flights{}, door: knock.New(c), weight: &atomic.Int64{}}
	if before != nil {
		s.flights, s.door, s.weight = before.flights, before.door, before.weight
	}
	for i := range s.Providers {
		p := newProvider(&s.Providers[i])
		if before != nil && before.providers[p.Name] != nil && before.providers[p.Name].BaseURL == p.BaseURL {
			p.breaker = before.providers[p.Name].breaker
		}
		s.providers[p.Name] = p
	}
	return s, nil
}

// Reload puts o in force for the requests that come from now on. On an error nothing has
// changed.
func (g *Gateway) Reload(o Options) error {
	before := g.settings.Load()
	s, err := newSettings(before.control, o, before)
	if err == nil {
		g.settings.Store(s)
	}
	return err
}

// Wait waits until no request is under way, those that are read to their end for a client that
// has left included: then everything is settled. It returns ctx's error if that ends before.
// A server is to be shut down before, and the store to be closed after.
func (g *Gateway) Wait(ctx context.Context) error { return g.settings.Load().flights.wait(ctx) }

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := g.settings.Load()
	if s.BodyTime > 0 && r.ContentLength != 0 { // the server lifts it with the body's last byte
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.BodyTime)) // a server without deadlines has its own ways
	}
	x := s.arrive(r)
	held, fault := x.knock()
	defer held.Release()
	if fault == nil {
		fault = x.enter(nil)
	}
	if x.guessed {
		fault = x.guess(fault)
	}
	var answer *http.Response
	if fault == nil {
		answer, fault = x.run()
	} else {
		x.close(fault.Status, nil)
	}
	switch {
	case fault != nil && fault.Status == statusGone:
		panic(http.ErrAbortHandler) // nobody is there to be told
	case fault != nil:
		x.route.Dialect.Write(w, *fault)
	default:
		copyAnswer(w, answer)
	}
}

// copyAnswer sends an answer to the client as it comes.
func copyAnswer(w http.ResponseWriter, answer *http.Response) {
	defer answer.Body.Close()
	for _, field := range answer.Header.Values("Connection") {
		for name := range strings.SplitSeq(field, ",") {
			answer.Header.Del(strings.TrimSpace(name))
		}
	}
	h := w.Header()
	for name, values := range answer.Header {
		h[name] = values
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Trailer", "Proxy-Authenticate", "Set-Cookie", "Alt-Svc"} {
		h.Del(name)
	}
	streams := !strings.HasPrefix(h.Get("Content-Type"), "application/json") || answer.ContentLength < 0
	w.WriteHeader(answer.StatusCode)
	if err := pump(w, answer.Body, streams); err != nil {
		panic(http.ErrAbortHandler) // an answer that is cut must not look whole
	}
}

// patience is how long a client may take nothing of what it is sent, before it counts as one
// that has left: what it holds is wanted by others.
const patience = time.Minute

// pump copies a body, and lets every piece out at once if flush is set.
func pump(w http.ResponseWriter, body io.Reader, flush bool) error {
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // the connection goes on
	buf := buffers.Get().(*[readSize]byte)
	defer buffers.Put(buf)
	for {
		n, err := body.Read(buf[:])
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(patience)) // a server without deadlines has its own ways
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if flush {
				if err := control.Flush(); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
