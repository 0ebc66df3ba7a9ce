package main

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/config"
)

// Reload reads the files anew and takes them over: everything new is made first, then
// put in force, then the old is let go. Counters stay. On an error the old stays in
// force as a whole. The outcome is logged, shown by the administration, and a metric.
func (p *program) Reload(why string) error {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	if p.draining.Load() {
		return errors.New("sluice is stopping and takes nothing over any more")
	}
	p.given.see(p, p.files) // anew: a watch may have broken
	c, warnings, err := p.load()
	if err == nil {
		p.warn(warnings)
		err = p.takeOver(c)
	}
	if err != nil {
		p.admin.Loaded("", err)
		for line := range strings.Lines(err.Error()) {
			p.log.Error("the configuration was not taken over; the one before stays in force", "because", why, "error", strings.TrimSuffix(line, "\n"))
		}
		return err
	}
	p.admin.Loaded(c.Hash(), nil)
	p.log.Info("the configuration was taken over", "because", why, "hash", c.Hash(), "rules", len(c.Policy().Rules))
	return nil
}

// takeOver puts c in force, or changes nothing.
func (p *program) takeOver(c *config.Config) (err error) {
	old := p.config.Load()
	if err := unchanging(old, c); err != nil {
		return err
	}
	moved, err := p.openMoved(c)
	if err != nil {
		return err
	}
	p.named.see(p, filesIn(c)) // before they are read
	var undo []func()
	defer func() {
		if err == nil {
			return
		}
		for _, l := range moved {
			_ = l.Close() // nobody has used it
		}
		for _, back := range slices.Backward(undo) {
			back()
		}
		p.named.see(p, filesIn(old))
	}()
	for _, f := range p.fronts {
		back, err := f.Reload(c)
		if err != nil {
			return err
		}
		undo = append(undo, back)
	}
	if err := p.controller.SetPolicy(c.Policy()); err != nil {
		return err
	}
	p.config.Store(c)
	p.level.Set(levels[c.Observability.LogLevel])
	p.move(c, moved)
	return nil
}

// openMoved opens the listeners whose address has changed. Listeners that stay are not
// touched: no connection is lost and none refused.
func (p *program) openMoved(c *config.Config) (map[*front]net.Listener, error) {
	moved := map[*front]net.Listener{}
	for _, f := range p.fronts {
		at := f.address(&c.Listen)
		if at == f.at || at == "" {
			continue
		}
		l, err := listen(at)
		if err != nil {
			for _, l := range moved {
				_ = l.Close() // nobody has used it
			}
			return nil, fmt.Errorf("listen.%s: %w", f.name, err)
		}
		moved[f] = l
	}
	return moved, nil
}

// move serves the new listeners and closes those they replace. Connections that were
// accepted go on.
func (p *program) move(c *config.Config, moved map[*front]net.Listener) {
	for _, f := range p.fronts {
		at := f.address(&c.Listen)
		if at == f.at {
			continue
		}
		old := f.listener
		f.at, f.listener = at, moved[f]
		p.accept(f, f.listener)
		if old != nil {
			_ = old.Close() // its Serve returns
		}
	}
}

// unchanging refuses what cannot change while the program runs.
func unchanging(old, c *config.Config) error {
	changed := differing([]setting{
		{"store", old.Store, c.Store},
		{"admin", old.Admin, c.Admin},
		{"bounds.headerBytes", old.Bounds.HeaderBytes, c.Bounds.HeaderBytes},
		{"bounds.headerTimeout", old.Bounds.HeaderTimeout, c.Bounds.HeaderTimeout},
		{"bounds.idleTimeout", old.Bounds.IdleTimeout, c.Bounds.IdleTimeout},
		{"bounds.concurrentStreams", old.Bounds.ConcurrentStreams, c.Bounds.ConcurrentStreams},
		{"bounds.connectionsPerIp", old.Bounds.ConnectionsPerIP, c.Bounds.ConnectionsPerIP},
		{"observability.logFormat", old.Observability.LogFormat, c.Observability.LogFormat},
		{"observability.recentEvents", old.Observability.RecentEvents, c.Observability.RecentEvents},
		{"observability.auditFile", old.Observability.AuditFile, c.Observability.AuditFile},
		{"whether there is an mcp section", old.MCP != nil, c.MCP != nil},
	})
	if old.MCP != nil && c.MCP != nil {
		changed = append(changed, unchangingBroker(old.MCP, c.MCP)...)
	}
	if len(changed) == 0 {
		return nil
	}
	return fmt.Errorf("%s cannot change while sluice runs; restart it", strings.Join(changed, " and "))
}

// unchangingBroker names what cannot change of the broker's section.
func unchangingBroker(old, c *config.MCP) []string {
	return differing([]setting{
		{"mcp.allowedOrigins", old.AllowedOrigins, c.AllowedOrigins},
		{"mcp.allowedHosts", old.AllowedHosts, c.AllowedHosts},
		{"mcp.oauth", old.OAuth, c.OAuth},
		{"mcp.sessions", old.Sessions, c.Sessions},
		{"mcp.maxFrameBytes", old.MaxFrameBytes, c.MaxFrameBytes},
		{"mcp.maxProviderFrameBytes", old.MaxProviderFrameBytes, c.MaxProviderFrameBytes},
		{"mcp.cacheBytes", old.CacheBytes, c.CacheBytes},
		{"mcp.audit", old.Audit, c.Audit},
		{"mcp.shutdownGraceMs", old.ShutdownGraceMs, c.ShutdownGraceMs},
		{"mcp.providerKeepAliveMs", old.ProviderKeepAliveMs, c.ProviderKeepAliveMs},
	})
}

// A setting is what two configurations say of one thing.
type setting struct {
	name     string
	old, new any
}

// differing returns the names of those of which they say different things.
func differing(list []setting) (names []string) {
	for _, s := range list {
		if !reflect.DeepEqual(s.old, s.new) {
			names = append(names, s.name)
		}
	}
	return names
}
