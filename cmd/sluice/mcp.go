package main

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/admin/metrics"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/internal/knock"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	mcpfront "github.com/sluicegate/sluice/mcp/front"
	"github.com/sluicegate/sluice/mcp/link/socket"
	"github.com/sluicegate/sluice/mcp/policy"
)

// An mcpServer is the MCP broker and its door for clients.
type mcpServer struct {
	http.Server
	broker  *mcp.Broker
	front   *mcpfront.Front
	knocks  *knock.Door
	log     *slog.Logger
	metrics *metrics.Metrics
	label   func(identity string) string // how the administration shows a caller
	dialled *socket.Door                 // where providers dial in
	dialIn  atomic.Bool                  // whether they may
	listens atomic.Bool                  // whether there is a broker
	now     atomic.Pointer[mcp.Options]
	door    atomic.Pointer[door]
	old     *door // until the next reload, which may be taken back
	grace   time.Duration
	journal *audit.Journal // nil if the log has the audit
}

func openMCP(p *program, c *config.Config) (server, error) {
	s := &mcpServer{log: p.log, metrics: p.admin.Metrics(), label: p.admin.Label, knocks: knock.New(p.controller)}
	p.broker = s
	o, err := brokerOptions(c, p.log)
	if err != nil {
		return nil, err
	}
	s.grace = o.Grace
	if p.books.secret != nil { // what clients carry is good after a restart, and at another broker
		if o.Secret, err = hkdf.Key(sha256.New, p.books.secret, nil, "sluice mcp", sha256.Size); err != nil {
			return nil, err
		}
	}
	d, err := openBrokerDoor(c, p.log)
	if err != nil {
		return nil, err
	}
	o.StoreFault = func() string { return p.books.stats().Fault }
	if o.Audit, err = s.auditTo(c); err != nil {
		return nil, err
	}
	s.take(c, &o, d)
	if s.broker, err = mcp.New(p.controller, o); err != nil {
		return nil, err
	}
	s.metrics.Broker(s.state)
	s.dialled = &socket.Door{Admit: s.admit}
	if m := c.MCP; m != nil {
		s.dialled.MaxFrame, s.dialled.Pulse.Every = int(m.MaxProviderFrameBytes), milliseconds(m.ProviderKeepAliveMs)
	}
	f := frontOptions(c, p.log)
	f.Broker, f.Identify, f.Providers = s.broker, s.identify, s.dialled
	if s.front, err = mcpfront.New(f); err != nil {
		s.broker.Close(context.Background())
		return nil, err
	}
	s.Server = http.Server{
		Handler:           s.front,
		ReadHeaderTimeout: c.Bounds.HeaderTimeout,
		IdleTimeout:       c.Bounds.IdleTimeout,
		MaxHeaderBytes:    int(c.Bounds.HeaderBytes),
		ErrorLog:          gate.ErrorLog(p.log),
	}
	return s, nil
}

// auditTo is where the broker's events go: to the metrics, and to a file or else the log of
// details.
func (s *mcpServer) auditTo(c *config.Config) (func(audit.Event), error) {
	write, err := s.writeTo(c)
	return func(e audit.Event) {
		write(e)
		s.told(&e)
	}, err
}

func (s *mcpServer) writeTo(c *config.Config) (func(audit.Event), error) {
	if c.MCP == nil || c.MCP.Audit == nil {
		return s.logEvent, nil
	}
	a := c.MCP.Audit
	j, err := audit.Open(a.File, a.MaxBytes, int(a.Keep), func(err error) { s.log.Error("mcp: the audit cannot be written; events are lost", "error", err) })
	if err != nil {
		return nil, fmt.Errorf("mcp.audit.file: %w", err)
	}
	s.journal = j
	return j.Write, nil
}

func (s *mcpServer) logEvent(e audit.Event) {
	if !s.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	text, err := json.Marshal(e)
	if err != nil {
		return // texts and numbers; it cannot be
	}
	s.log.Debug("mcp: event", "event", string(text))
}

// take puts in force what is not the broker's own.
func (s *mcpServer) take(c *config.Config, o *mcp.Options, d *door) (before *door) {
	m := c.MCP
	s.dialIn.Store(m != nil && (len(m.Providers) > 0 || !m.ProviderSecret.IsZero() || m.AnonymousProviders))
	s.listens.Store(c.Listen.MCP != "")
	s.now.Store(o)
	s.metrics.BrokerNames(brokerNames(c, o))
	return s.door.Swap(d)
}

// policy is the one in force.
func (s *mcpServer) policy() *policy.Policy { return s.now.Load().Policy }

func inFrontOfProviders(c *config.Config) string {
	if c.MCP == nil {
		return ""
	}
	text := count(len(c.MCP.Slots), "slot")
	if n := len(c.MCP.Providers); n > 0 {
		text += fmt.Sprintf(", and %s that may dial in", count(n, "provider"))
	}
	return "in front of " + text
}

// Serve implements server.
func (s *mcpServer) Serve(l net.Listener) error {
	if err := s.Server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Reload takes over slots, permissions and what the broker is told of rules. Providers whose
// slots have not changed stay connected.
func (s *mcpServer) Reload(c *config.Config) (undo func(), err error) {
	next, err := brokerOptions(c, s.log)
	if err != nil {
		return nil, err
	}
	d, err := openBrokerDoor(c, s.log)
	if err != nil {
		return nil, err
	}
	if err := s.broker.Reload(next); err != nil {
		d.close()
		return nil, err
	}
	s.old.close()
	before, wasOpen, listened := s.now.Load(), s.dialIn.Load(), s.listens.Load()
	old := s.take(c, &next, d)
	s.old = old
	return func() {
		s.now.Store(before)
		s.dialIn.Store(wasOpen)
		s.listens.Store(listened)
		s.old = nil
		s.door.Store(old)
		d.close()
		if err := s.broker.Reload(*before); err != nil {
			s.log.Error("serve: the broker could not go back to the configuration before", "error", err)
		}
	}, nil
}

// Shutdown lets calls end in their time. What still holds slots then is in the books of the
// next start.
func (s *mcpServer) Shutdown(ctx context.Context) error {
	within := ctx
	if s.grace > 0 { // there is a section
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, s.grace)
		defer cancel()
	}
	err := s.front.Close(within)
	s.broker.Close(within)
	err = errors.Join(err, s.dialled.Close())
	if e := s.Server.Shutdown(ctx); e != nil {
		err = errors.Join(err, e, s.Server.Close())
	}
	return err
}

// Close ends what Shutdown has not.
func (s *mcpServer) Close() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.front.Close(over) // nobody is waited for
	s.broker.Close(over)
	_ = s.dialled.Close() // the connections have ended
	s.old.close()
	s.door.Load().close()
	if s.journal != nil {
		if err := s.journal.Close(); err != nil {
			s.log.Error("mcp: the audit was not written to its end", "error", err)
		}
	}
}
