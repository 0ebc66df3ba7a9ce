package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/admin/metrics"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/gate"
)

// surfaces are the protocols in front of admission, in the order in which they start.
// They stop in that order too: the administration last, so that it can be asked while
// requests end.
var surfaces = []surface{
	{"gate", func(l *config.Listen) string { return l.Gate }, openGate, inFront},
	{"llm", func(l *config.Listen) string { return l.LLM }, openLLM, inFrontOfModels},
	{"mcp", func(l *config.Listen) string { return l.MCP }, openMCP, inFrontOfProviders},
	{"admin", func(l *config.Listen) string { return l.Admin }, openAdmin, forOperators},
}

// A surface is a protocol: its name, its address in the file, and how it is made.
type surface struct {
	name    string
	address func(*config.Listen) string
	open    func(*program, *config.Config) (server, error)
	purpose func(*config.Config) string // in a few words, for the start
}

// A server is a surface that has been made. It serves any number of listeners, none at
// times, because a reload may move it.
type server interface {
	// Serve accepts connections until Shutdown, or until l is closed.
	Serve(l net.Listener) error
	// Reload takes over a configuration. On an error nothing has changed. undo brings
	// back what was in force, if something else could not take over.
	Reload(*config.Config) (undo func(), err error)
	// Shutdown stops accepting and returns when all requests have ended. When ctx ends
	// the rest is cut off.
	Shutdown(ctx context.Context) error
	// Close stops what runs in the background.
	Close()
}

// A gateServer is the inbound gate as a reverse proxy.
type gateServer struct {
	*gate.Server
	gate    *gate.Gate
	log     *slog.Logger
	observe gate.Observer
	now     gate.Options // in force
	tlsAt   gate.TLS
}

func openGate(p *program, c *config.Config) (server, error) {
	s := &gateServer{log: p.log, observe: observer(p.admin.Metrics()), tlsAt: tlsOptions(&c.TLS)}
	var err error
	if s.now, err = s.options(c); err != nil {
		return nil, err
	}
	if s.gate, err = gate.New(p.controller, s.now); err != nil {
		return nil, err
	}
	p.gate = s.gate
	if s.Server, err = gate.NewServer(s.gate, s.gate.Proxy(), s.tlsAt); err != nil {
		s.gate.Close()
		return nil, err
	}
	return s, nil
}

// options are those of the file, and who is told what happens.
func (s *gateServer) options(c *config.Config) (gate.Options, error) {
	o, err := gateOptions(c, s.log)
	o.Observe = s.observe
	return o, err
}

// observer feeds the metrics that no decision shows.
func observer(m *metrics.Metrics) gate.Observer {
	return gate.Observer{
		Answered:         func(status int, o gate.Outcome) { m.Request("gate", status, string(o)) },
		CredentialFailed: m.AuthFailure,
		ClientUnclear:    m.ClientIPFallback,
		Decided:          m.Decision,
	}
}

func inFront(c *config.Config) string {
	var names []string
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if u.URL == demoURL {
			names = append(names, "a built-in demo")
			continue
		}
		names = append(names, u.URL)
	}
	return "in front of " + strings.Join(names, ", ")
}

// Reload reads keys, issuers and certificates anew.
func (s *gateServer) Reload(c *config.Config) (undo func(), err error) {
	next, err := s.options(c)
	if err != nil {
		return nil, err
	}
	before, tlsBefore := s.now, s.tlsAt
	undo = func() {
		s.now, s.tlsAt = before, tlsBefore
		if err := errors.Join(s.gate.Reload(before), s.ReloadTLS(tlsBefore)); err != nil {
			s.log.Error("serve: the gate could not go back to the configuration before", "error", err)
		}
	}
	if err := s.gate.Reload(next); err != nil {
		return nil, err
	}
	s.now, s.tlsAt = next, tlsOptions(&c.TLS)
	if err := s.ReloadTLS(s.tlsAt); err != nil {
		undo()
		return nil, err
	}
	return undo, nil
}

// Close ends streams and the fetching of key sets.
func (s *gateServer) Close() { s.gate.Close() }

// An adminServer is the administration. Its settings do not change while it runs.
type adminServer struct {
	http.Server
	stop context.CancelFunc
}

func openAdmin(p *program, _ *config.Config) (server, error) {
	ctx, stop := context.WithCancel(context.Background())
	go p.admin.Run(ctx)
	mux := http.NewServeMux()
	mux.Handle("/", p.admin.Handler())
	mux.Handle("POST "+explainPath, p.admin.Guard(admin.Reader, explainLive(p.gate)))
	if p.broker != nil {
		mux.Handle("GET "+brokerPath, p.admin.Guard(admin.Reader, http.HandlerFunc(p.broker.diagnosis)))
		mux.Handle("POST "+explainCallPath, p.admin.Guard(admin.Reader, explainCallLive(p)))
	}
	if p.models != nil {
		mux.Handle("POST "+explainModelsPath, p.admin.Guard(admin.Reader, explainModelsLive(p.models)))
		mux.Handle("GET "+flightsPath, p.admin.Guard(admin.Reader, flightsLive(p.models)))
	}
	return &adminServer{stop: stop, Server: http.Server{
		Handler:        mux,
		ReadTimeout:    5 * time.Second, // also of a body that nobody reads, before a refusal can be sent
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 32 << 10,
		ErrorLog:       gate.ErrorLog(p.log),
	}}, nil
}

func forOperators(*config.Config) string { return "a page, /metrics, /actuator" }

// Reload has nothing to do: program.reload refuses a configuration that changes it.
func (s *adminServer) Reload(*config.Config) (undo func(), err error) { return func() {}, nil }

// Shutdown ends open pages first, which would keep it waiting.
func (s *adminServer) Shutdown(ctx context.Context) error {
	s.stop()
	if err := s.Server.Shutdown(ctx); err != nil {
		return errors.Join(err, s.Server.Close())
	}
	return nil
}

// Close stops the counting of seconds.
func (s *adminServer) Close() { s.stop() }
