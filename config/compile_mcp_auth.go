package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// authorization checks the names that the broker's roles, assignments and providers use.
func (k *compiler) authorization(m *MCP) {
	providers, variables := map[string]*string{}, map[string]*string{}
	for i := range m.Providers {
		p := &m.Providers[i]
		if first, twice := providers[p.ID]; twice {
			k.problem(&p.ID, CodeDuplicate, "two providers have this id; the other is at %s", k.c.places[first].pos)
		}
		providers[p.ID] = &p.ID
		if first, twice := variables[p.SecretEnv]; twice {
			k.problem(&p.SecretEnv, CodeDuplicate, "two providers have the secret of this variable, the other at %s; whoever shows it would be both", k.c.places[first].pos)
		}
		variables[p.SecretEnv] = &p.SecretEnv
		if secret, _ := k.env(p.SecretEnv); secret == "" && p.SecretEnv != "" {
			k.problem(&p.SecretEnv, WarnMissing, "the environment variable %s is not set; serve does not start without it", p.SecretEnv)
		}
		if slices.Contains(p.Subjects, "anonymous") {
			k.problem(&p.Subjects, CodeValue, "a provider that has shown its secret is not anonymous; name a subject such as service:%s", p.ID)
		}
	}
	if named := len(m.Providers) > 0 || !m.ProviderSecret.IsZero(); named && m.AnonymousProviders {
		k.problem(&m.AnonymousProviders, CodeConflict, "providers have secrets here, so that nobody dials in without one; remove it, or the secrets")
	}
	if m.AnonymousProviders && k.c.Listen.MCP != "" && !loopback(k.c.Listen.MCP) {
		k.problem(&m.AnonymousProviders, CodeExposed, "everybody who reaches %s could serve a slot and see what callers send to it; listen on 127.0.0.1, or name providers", k.c.Listen.MCP)
	}
	if m.Auth == nil {
		return
	}
	k.paths(m.Auth)
	k.grants(m.Auth)
	k.resourceLimits(m.Auth.ResourceLimits)
	for i := range m.Auth.ProtectedSlots {
		s := &m.Auth.ProtectedSlots[i]
		for _, id := range []*string{&s.DeclaredBy, &s.PublishedBy} {
			if providers[*id] == nil {
				k.problem(id, CodeReference, "there is no provider %q%s", *id, suggestion(*id, slices.Collect(maps.Keys(providers))))
			}
		}
	}
}

// grants checks that roles lead to capabilities, and that everybody who has one has one that is there.
func (k *compiler) grants(a *MCPAuth) {
	var roles []string
	inherits := map[string][]string{}
	for i := range a.Roles {
		roles = append(roles, a.Roles[i].Name)
		inherits[a.Roles[i].Name] = a.Roles[i].Inherits
	}
	known := func(field any, name string) {
		if _, ok := inherits[name]; !ok {
			k.problem(field, CodeReference, "there is no role %q%s", name, suggestion(name, roles))
		}
	}
	for i := range a.Roles {
		r := &a.Roles[i]
		for _, name := range r.Inherits {
			known(&r.Inherits, name)
		}
		if path := cycle(inherits, r.Name, nil); path != "" {
			k.problem(&r.Inherits, CodeConflict, "the role inherits itself: %s", path)
		}
	}
	ids := map[string]*string{}
	for i := range a.Assignments {
		known(&a.Assignments[i].Role, a.Assignments[i].Role)
		k.onceID(ids, &a.Assignments[i].ID)
	}
	for i := range a.Denies {
		d := &a.Denies[i]
		k.onceID(ids, &d.ID)
		if len(d.Capabilities) == 0 {
			k.problem(&d.Capabilities, CodeRequired, `names nothing, so nothing is denied; write ["*"] for everything`)
		}
	}
}

// onceID reports an id of an assignment or a deny that another one has.
func (k *compiler) onceID(ids map[string]*string, id *string) {
	if *id == "" {
		return
	}
	if first, twice := ids[*id]; twice {
		k.problem(id, CodeDuplicate, "the id stands twice; the other is at %s", k.c.places[first].pos)
	}
	ids[*id] = id
}

// systemRoot is where the broker's own resources are.
const systemRoot = "/_system"

// paths checks the keys of maps, which have no format of their own.
func (k *compiler) paths(a *MCPAuth) {
	for i := range a.ProviderToolCapabilities {
		p := &a.ProviderToolCapabilities[i]
		if code, err := checkResource(p.Pattern); err != nil {
			k.problem(p, code, "%v", err)
		}
	}
	for i := range a.SlotResources {
		s := &a.SlotResources[i]
		if _, err := checkSlot(s.Slot); err != nil {
			k.problem(s, CodeValue, "%v", err)
		}
		if s.Path == systemRoot || strings.HasPrefix(s.Path, systemRoot+"/") {
			k.problem(&s.Path, CodeConflict, "%s is the broker's own; choose another path", systemRoot)
		}
	}
}

// cycle returns how name leads back to the first of path, or "".
func cycle(inherits map[string][]string, name string, path []string) string {
	if len(path) > 0 && name == path[0] {
		return fmt.Sprintf("%v", append(path, name))
	}
	for _, p := range path {
		if p == name {
			return "" // another role's cycle
		}
	}
	for _, next := range inherits[name] {
		if c := cycle(inherits, next, append(path, name)); c != "" {
			return c
		}
	}
	return ""
}
