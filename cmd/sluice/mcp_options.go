package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/mcp"
	mcpfront "github.com/sluicegate/sluice/mcp/front"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/child"
	"github.com/sluicegate/sluice/mcp/link/httplink"
	"github.com/sluicegate/sluice/mcp/link/socket"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// brokerOptions are those of the broker that the file gives. A broker that does not listen
// starts and calls nobody.
func brokerOptions(c *config.Config, log *slog.Logger) (o mcp.Options, err error) {
	o.Name, o.Version, o.Logger = "sluice", thisBuild().Version, log
	m := c.MCP
	if m == nil {
		return o, nil
	}
	if o.Policy, err = mcpPolicy(c, secretOfEnvironment); err != nil {
		return o, err
	}
	o.Takeover, o.MaxName, o.CacheBytes = takeovers[m.Takeover], int(m.Aggregate.MaxNameLength), int(m.CacheBytes)
	o.ListTimeout, o.DialledTimeout, o.Grace = milliseconds(m.Aggregate.ListTimeoutMs), milliseconds(m.ProviderRequestTimeoutMs), milliseconds(m.ShutdownGraceMs)
	o.Durable = c.Store.Backend != "in-memory"
	if l := m.Limits; l != nil && c.Enabled {
		o.Limits = true
		if o.Table, err = errorTable(&l.Errors); err != nil {
			return o, err
		}
		blockOptions(l.Rules, &o)
	}
	o.Methods = slices.ContainsFunc(c.Policy().Rules, func(r sluice.Rule) bool { return slices.Contains(r.Match.Is[sluice.Kind], config.KindMethod) })
	for i := range m.Slots {
		o.Slots = append(o.Slots, slotOptions(m, &m.Slots[i], log))
	}
	if c.Listen.MCP == "" {
		o.Slots = nil
	}
	return o, nil
}

var takeovers = map[string]mcp.TakeoverMode{"reject": mcp.TakeoverNever, "liveness": mcp.TakeoverDead, "always": mcp.TakeoverAlways}

func errorTable(e *config.MCPErrors) (*protocol.Table, error) {
	t := protocol.Default()
	for _, era := range []struct {
		era protocol.Era
		e   *config.MCPError
	}{{protocol.Legacy, &e.Legacy}, {protocol.Modern, &e.Modern}} {
		var code int64
		if era.e.Code != nil {
			code = *era.e.Code
		}
		var err error
		if t, err = t.With(era.era, code, int(era.e.Status)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// blockOptions are what rules of the limits block say that is not the engine's business.
func blockOptions(rules []config.MCPRule, o *mcp.Options) {
	for i := range rules {
		r := &rules[i]
		o.Order = append(o.Order, r.ID)
		if r.RequireReservation && !r.Shadow {
			o.Requirements = append(o.Requirements, mcp.Requirement{Rule: r.ID, Unit: r.Budget.Unit,
				Subject: r.Match.Subject, Provider: r.Match.Provider, Capability: r.Match.Capability, Resource: r.Match.Resource})
		}
		if r.Budget != nil && r.Budget.StartWithinMs != nil {
			if o.StartWithin == nil {
				o.StartWithin = map[string]time.Duration{}
			}
			o.StartWithin[r.ID] = milliseconds(*r.Budget.StartWithinMs)
		}
		if r.OnCancel == "forward-and-hold" {
			o.ForwardCancel = append(o.ForwardCancel, r.ID)
		}
	}
}

func slotOptions(m *config.MCP, s *config.MCPSlot, log *slog.Logger) mcp.Slot {
	o := mcp.Slot{Name: s.Slot, Protocol: s.Protocol, ConnectTimeout: milliseconds(s.ConnectTimeoutMs), ExitProvesStop: s.ExitProvesStop,
		MaxResult: int(s.MaxFrameBytes), NoValidation: !s.Validate, Prefix: s.Prefix, Tools: s.Tools,
		RequestTimeout: within(s.RequestTimeoutMs, milliseconds(m.ProviderRequestTimeoutMs)), MaxRequest: within(s.MaxRequestMs, 0)}
	for _, t := range s.ToolTimeouts {
		if o.ToolTimeouts == nil {
			o.ToolTimeouts = map[string]mcp.ToolTimeout{}
		}
		o.ToolTimeouts[t.Tool] = mcp.ToolTimeout{Request: within(t.RequestTimeoutMs, o.RequestTimeout), MaxRequest: within(t.MaxRequestMs, o.MaxRequest)}
	}
	if s.MaxResultBytes != nil {
		o.MaxResult = int(*s.MaxResultBytes)
	}
	for _, r := range s.Cache {
		o.Cache = append(o.Cache, mcp.CacheRule{Tool: r.Tool, TTL: milliseconds(r.TTLMs), Shared: r.Scope == "shared", Writes: r.Writes})
	}
	o.Dialer, o.Mark = dialerOf(s, log), markOf(s)
	return o
}

// within is a time of the file, or another one if the file says none.
func within(ms *int64, other time.Duration) time.Duration {
	if ms == nil {
		return other
	}
	return milliseconds(*ms)
}

// dialerOf is how a slot's provider is reached; nil is one that dials in.
func dialerOf(s *config.MCPSlot, log *slog.Logger) link.Dialer {
	header := http.Header{}
	for name, value := range revealed(s.Headers) {
		header.Set(name, value)
	}
	switch s.Transport {
	case "stdio":
		cmd := &child.Command{Path: s.Command[0], Args: s.Command[1:], Dir: s.Dir, Env: revealed(s.Env), MaxFrame: int(s.MaxFrameBytes), Sweep: s.Sweep}
		if s.LogErrors {
			cmd.Log = log.With("slot", s.Slot)
		}
		return cmd
	case "streamable-http", "sse":
		return &httplink.Server{URL: s.URL, SSE: s.Transport == "sse", Header: header, MaxFrame: int(s.MaxFrameBytes)}
	case "websocket":
		return &socket.Server{URL: s.URL, Header: header, MaxFrame: int(s.MaxFrameBytes)}
	}
	return nil
}

func revealed(list []config.NamedSecret) map[string]string {
	byName := map[string]string{}
	for i := range list {
		byName[list[i].Name] = list[i].Value.Reveal()
	}
	return byName
}

// markOf tells a slot whose provider has to be started or called anew from one that may keep
// its connection. No secret can be read out of it.
func markOf(s *config.MCPSlot) string {
	text, err := json.Marshal([]any{s.Command, revealed(s.Env), s.Dir, s.Sweep, s.LogErrors, s.URL, revealed(s.Headers), s.Transport, s.Protocol, s.MaxFrameBytes})
	if err != nil {
		return "" // texts and numbers; it cannot be
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// frontOptions are those of the door for clients.
func frontOptions(c *config.Config, log *slog.Logger) mcpfront.Options {
	o := mcpfront.Options{Logger: log}
	m := c.MCP
	if m == nil {
		return o
	}
	o.Origins, o.Hosts = m.AllowedOrigins, m.AllowedHosts
	if a := m.OAuth; a != nil {
		o.NeedToken = true // without a 401 no client looks for a token
		o.Resource = mcpfront.Resource{URL: a.Resource, AuthorizationServers: a.AuthorizationServers, Scopes: a.Scopes}
	}
	o.Bounds = mcpfront.Bounds{
		Frame:    jsonrpc.Bounds{MaxBytes: int(m.MaxFrameBytes)},
		Sessions: int(m.Sessions.MaxSessions), SessionsPerCaller: int(m.Sessions.PerSubject), StartsPerMinute: int(m.Sessions.StartsPerMinute),
		SessionIdle: milliseconds(m.Sessions.IdleMs), SessionAge: milliseconds(m.Sessions.MaxAgeMs),
		BodyTimeout: c.Bounds.BodyTimeout,
	}
	return o
}
