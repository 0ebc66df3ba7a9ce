package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/llm"
)

// A program is a serving sluice. It begins as a source and streams; Run makes the rest.
// Nothing of it is global, so that a test runs as many as it likes.
type program struct {
	source
	streams

	config     atomic.Pointer[config.Config] // in force
	level      slog.LevelVar
	log        *slog.Logger
	refusals   *refusalLog
	books      books
	controller *sluice.Controller
	admin      *admin.Admin
	gate       *gate.Gate   // set by its surface, for the administration to explain
	models     *llm.Gateway // the same
	broker     *mcpServer   // the same
	audit      *os.File     // nil if audit lines go to the log
	fronts     []*front

	serving, draining atomic.Bool
	reloading         sync.Mutex // one at a time
	failed            chan error // a listener that broke
	changed           chan struct{}
	blind             chan error // a watch that broke
	given, named      watching   // the files of the source, and those that they name
}

// A front is a surface that is made, and where it listens.
type front struct {
	surface
	server
	at       string       // the address as the file gives it; empty is none
	listener net.Listener // nil if there is none
}

// Run makes everything, serves until ctx ends, and stops without cutting anybody off. It
// returns an error if it could not begin, or if a listener breaks.
func (p *program) Run(ctx context.Context) error {
	hangup, stop := hangups() // before anything else: the default is to end the process
	defer stop()
	p.changed, p.blind = make(chan struct{}, 1), make(chan error, 1)
	p.given.see(p, p.files) // before they are read, so that no change is missed
	if err := p.Open(); err != nil {
		return errors.Join(err, p.Close())
	}
	for _, f := range p.fronts {
		p.accept(f, f.listener)
	}
	p.serving.Store(true)
	p.announce()
	err := p.wait(ctx, hangup)
	p.drain()
	return errors.Join(err, p.Close())
}

// Open makes everything there is and opens every listener. Nobody is served yet.
func (p *program) Open() error {
	c, warnings, err := p.load()
	if err != nil {
		return err
	}
	p.config.Store(c)
	p.failed = make(chan error, len(surfaces))
	p.log = newLogger(p.err, c.Observability.LogFormat, &p.level)
	p.level.Set(levels[c.Observability.LogLevel])
	p.warn(warnings)
	p.refusals = newRefusalLog(p.log)
	if p.books, err = openStore(&c.Store, p.log); err != nil {
		return err
	}
	if err := p.openAdmin(c); err != nil {
		return err
	}
	p.controller, err = sluice.Open(c.Policy(), p.books.Store, sluice.Options{
		Observe: p.observe, Logger: p.log, KeySecret: p.books.secret, Shares: p.books.shares, Processes: p.books.processes,
	})
	if err != nil {
		return err
	}
	p.named.see(p, filesIn(c))
	for _, s := range surfaces {
		f := &front{surface: s, at: s.address(&c.Listen)}
		if f.server, err = s.open(p, c); err != nil {
			return err
		}
		p.fronts = append(p.fronts, f)
		if f.at == "" {
			continue
		}
		if f.listener, err = listen(f.at); err != nil {
			return fmt.Errorf("listen.%s: %w", f.name, err)
		}
	}
	p.admin.Loaded(c.Hash(), nil)
	return nil
}

// openAdmin makes the administration, which learns of decisions and so comes first.
func (p *program) openAdmin(c *config.Config) (err error) {
	o := admin.Options{
		Policy:   func() *sluice.Policy { return p.config.Load().Policy() },
		Waiting:  func() map[string]int { return p.controller.Waiting() },
		Held:     func() map[string]int { return p.controller.Held() },
		Stats:    p.books.stats,
		Summary:  func() admin.Summary { return summary(p.config.Load()) },
		Reset:    func(ctx context.Context, key string) (int, error) { return p.controller.Reset(ctx, key) },
		ResetAll: func(ctx context.Context) (int, error) { return p.controller.ResetAll(ctx) },
		Broker:   func() bool { return p.broker.listens.Load() },
		Release: func(ctx context.Context, slot, request, by string) (bool, error) {
			return p.broker.broker.Release(ctx, slot, request, by)
		},
		Reload:   func(context.Context) error { return p.Reload("the administration") },
		Ready:    p.ready,
		Draining: p.draining.Load,
		Hosts:    c.Admin.AllowedHosts,
		Mask:     c.Admin.Mask,
		Recent:   recentEvents(c.Observability.RecentEvents),
		Version:  thisBuild().Version,
		Logger:   p.log,
	}
	if o.Tokens, err = adminTokens(&c.Admin); err != nil {
		return err
	}
	if path := c.Observability.AuditFile; path != "" {
		if p.audit, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
			return fmt.Errorf("observability.auditFile: %w", err)
		}
		o.Audit = slog.New(slog.NewJSONHandler(p.audit, nil))
	}
	p.admin, err = admin.New(o)
	return err
}

// observe is told of every decision.
func (p *program) observe(e *sluice.Event) {
	p.admin.Observe(e)
	p.refusals.observe(e)
}

func (p *program) ready() error {
	if !p.serving.Load() {
		return errors.New("starting")
	}
	return nil
}

// accept serves a listener. One that is closed by a reload or a stop has not failed.
func (p *program) accept(f *front, l net.Listener) {
	if l == nil {
		return
	}
	go func() {
		err := f.server.Serve(l)
		if errors.Is(err, net.ErrClosed) || p.draining.Load() {
			return
		}
		select {
		case p.failed <- fmt.Errorf("listen.%s: %w", f.name, err):
		default: // one is enough to stop for
		}
	}()
}

// wait returns when the program has to stop, and why if that is nobody's wish.
func (p *program) wait(ctx context.Context, hangup <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-p.failed:
			return err
		case <-hangup:
			_ = p.Reload("a hangup signal") // it has been logged
		case <-p.changed:
			_ = p.Reload("a changed file")
		case err := <-p.blind:
			p.log.Warn("changes of files are not seen until the next reload; send a hangup signal after one", "error", err)
		}
	}
}

// drain stops without cutting anybody off: readiness goes first, so that whoever
// balances load sends no more, then the listeners, and what runs may end in its time.
func (p *program) drain() {
	c := p.last()
	p.log.Info("stopping", "delay", c.Shutdown.Delay, "grace", c.Shutdown.Grace)
	time.Sleep(c.Shutdown.Delay)
	ctx, cancel := context.WithTimeout(context.Background(), c.Shutdown.Grace)
	defer cancel()
	for _, f := range p.fronts {
		if err := f.Shutdown(ctx); err != nil {
			p.log.Warn("some requests did not end in time and were cut off", "surface", f.name, "grace", c.Shutdown.Grace)
		}
	}
	p.refusals.flush()
	p.log.Info("stopped")
}

// last ends the time of reloads, after one that has begun, and returns the configuration
// that stays.
func (p *program) last() *config.Config {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	p.draining.Store(true)
	return p.config.Load()
}

// Close gives back what Open took, also after it failed halfway.
func (p *program) Close() error {
	p.given.end()
	p.named.end()
	var errs []error
	for _, f := range p.fronts {
		if f.listener != nil {
			_ = f.listener.Close() // a stop has closed it already
		}
		f.Close()
	}
	if p.controller != nil {
		errs = append(errs, p.controller.Close())
	}
	if p.books.Store != nil {
		errs = append(errs, p.books.Close())
	}
	if p.audit != nil {
		errs = append(errs, p.audit.Close())
	}
	return errors.Join(errs...)
}
