package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/mcp/policy"
)

// A providerSecret finds the secret of a provider.
type providerSecret func(*config.Config, *config.MCPProvider) ([]byte, error)

// secretOfEnvironment reads the variable that the file names.
func secretOfEnvironment(c *config.Config, p *config.MCPProvider) ([]byte, error) {
	secret := os.Getenv(p.SecretEnv)
	if secret == "" {
		return nil, fmt.Errorf("%s: mcp.providers: the environment variable %s is not set, so that provider %q could not show that it is itself",
			c.Pos(&p.SecretEnv), p.SecretEnv, p.ID)
	}
	return []byte(secret), nil
}

// noSecret is for whoever asks what a policy says and lets no provider in.
func noSecret(*config.Config, *config.MCPProvider) ([]byte, error) { return []byte(rand.Text()), nil }

// mcpPolicy compiles what the file says of who may do what at the broker. It is nil if there is
// no broker.
func mcpPolicy(c *config.Config, secret providerSecret) (*policy.Policy, error) {
	m := c.MCP
	if m == nil {
		return nil, nil
	}
	var o policy.Config
	if !m.ProviderSecret.IsZero() {
		o.SharedSecret = []byte(m.ProviderSecret.Reveal())
	}
	for i := range m.Providers {
		p := &m.Providers[i]
		shown, err := secret(c, p)
		if err != nil {
			return nil, err
		}
		o.Providers = append(o.Providers, policy.Provider{ID: p.ID, Secret: shown, Subjects: p.Subjects, AllowedResources: p.AllowedResources})
	}
	if a := m.Auth; a != nil {
		if err := authorization(a, &o); err != nil {
			return nil, err
		}
	}
	return policy.New(o)
}

// authorization carries the auth section over.
func authorization(a *config.MCPAuth, o *policy.Config) error {
	o.ToolCapabilities = capabilities(a.ToolCapabilities)
	o.SlotResources, o.ProviderToolCapabilities, o.ProtectedSlots = map[string]string{}, map[string]map[string]string{}, map[string]policy.Protection{}
	for _, s := range a.SlotResources {
		o.SlotResources[s.Slot] = s.Path
	}
	for _, p := range a.ProviderToolCapabilities {
		o.ProviderToolCapabilities[p.Pattern] = capabilities(p.Tools)
	}
	for _, s := range a.ProtectedSlots {
		o.ProtectedSlots[s.Slot] = policy.Protection{DeclaredBy: s.DeclaredBy, PublishedBy: s.PublishedBy}
	}
	for _, r := range a.Roles {
		o.Roles = append(o.Roles, policy.Role{Name: r.Name, Capabilities: r.Capabilities, Inherits: r.Inherits})
	}
	for _, s := range a.Assignments {
		o.Assignments = append(o.Assignments, policy.Assignment{ID: s.ID, Subject: s.Subject, Role: s.Role, Resource: s.Resource})
	}
	for _, d := range a.Denies {
		o.Denies = append(o.Denies, policy.Deny{ID: d.ID, Subject: d.Subject, Capabilities: d.Capabilities, Resource: d.Resource})
	}
	for i := range a.ResourceLimits {
		l, err := resourceLimit(&a.ResourceLimits[i])
		if err != nil {
			return err
		}
		o.ResourceLimits = append(o.ResourceLimits, l)
	}
	return nil
}

func capabilities(list []config.Mapping) map[string]string {
	byTool := map[string]string{}
	for _, m := range list {
		byTool[m.Name] = m.To
	}
	return byTool
}

func resourceLimit(l *config.ResourceLimit) (policy.ResourceLimit, error) {
	o := policy.ResourceLimit{ID: l.ID, Pattern: l.Pattern, Where: map[string]string{}}
	for _, w := range l.Where {
		o.Where[w.Segment] = w.Expression
	}
	e := &l.Limits
	o.Limits.Destinations = e.Destinations
	for _, f := range []struct {
		from *config.Free
		to   any
	}{{e.MinValue, &o.Limits.MinValue}, {e.MaxValue, &o.Limits.MaxValue}, {e.AllowedValues, &o.Limits.AllowedValues}} {
		if f.from == nil {
			continue
		}
		text, err := json.Marshal(f.from.Value)
		if err == nil {
			err = json.Unmarshal(text, f.to)
		}
		if err != nil {
			return o, fmt.Errorf("mcp.auth.resourceLimits %q: %w", l.ID, err)
		}
	}
	return o, nil
}
