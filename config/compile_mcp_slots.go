package config

import (
	"net/url"
	"slices"
	"strings"
)

// slotList checks the slots one by one and beside each other.
func (k *compiler) slotList(m *MCP) {
	names, prefixes := map[string]*string{}, map[string]*MCPSlot{}
	for i := range m.Slots {
		s := &m.Slots[i]
		if first, twice := names[s.Slot]; twice {
			k.problem(&s.Slot, CodeDuplicate, "two slots have this name; the other is at %s", k.c.places[first].pos)
		}
		names[s.Slot] = &s.Slot
		before := s.Slot + "-"
		if s.Prefix != nil {
			before = *s.Prefix
		}
		if first, twice := prefixes[before]; twice {
			k.problem(pick[any](s.Prefix != nil, &s.Prefix, &s.Slot), CodeConflict,
				"the tools of slot %q begin with %q too, at /_all; give one of them another prefix", first.Slot, before)
		}
		prefixes[before] = s
		k.reached(s)
		k.slotTimes(m, s)
		k.slotTools(s)
	}
}

// reached checks how a slot's provider is reached, and fills in the transport.
func (k *compiler) reached(s *MCPSlot) {
	var fits []string // the first is what is meant if the file says nothing
	switch {
	case len(s.Command) > 0 && s.URL != "":
		k.problem(&s.URL, CodeConflict, "the slot has a command already; a provider is started or called, not both")
		return
	case k.given(&s.Command) && (len(s.Command) == 0 || s.Command[0] == ""):
		k.problem(&s.Command, CodeRequired, "names no program; write it and its arguments, such as [npx, server]")
		return
	case len(s.Command) > 0:
		fits = []string{"stdio"}
	case strings.HasPrefix(s.URL, "ws"):
		fits = []string{"websocket"}
	case s.URL != "":
		fits = []string{"streamable-http", "sse"}
	}
	switch {
	case s.Transport != "" && len(fits) == 0:
		k.problem(&s.Transport, CodeConflict, "a slot with a transport has a command or a url; without both its provider dials in")
	case s.Transport != "" && !slices.Contains(fits, s.Transport):
		k.problem(&s.Transport, CodeConflict, "does not fit: what the slot gives is reached by %s", strings.Join(fits, " or "))
	case s.Transport == "" && len(fits) > 0:
		s.Transport = fits[0]
	}
	k.onlyWith(len(s.Command) > 0, "is about a program that is started; add command, or remove it", &s.Env, &s.Dir, &s.Sweep, &s.LogErrors, &s.ExitProvesStop)
	k.onlyWith(s.URL != "", "is about a server that is called; add url, or remove it", &s.Headers)
	k.onlyWith(len(fits) > 0, "is about a provider that is started or called; this one dials in", &s.ConnectTimeoutMs, &s.MaxFrameBytes)
	k.inClear(&s.Env, s.Env)
	k.inClear(&s.Headers, s.Headers)
	k.upstreamHeaders(s.Headers)
}

// onlyWith reports each of the fields that is given although what it is about is not there.
func (k *compiler) onlyWith(there bool, why string, fields ...any) {
	for _, f := range fields {
		if !there && k.given(f) {
			k.problem(f, CodeConflict, "%s", why)
		}
	}
}

// secretWords are what the names of secrets have in them.
var secretWords = []string{"authorization", "cookie", "token", "secret", "password", "key"}

// inClear refuses a secret that stands in the file. What is one shows in its name.
func (k *compiler) inClear(field any, list []NamedSecret) {
	for i := range list {
		n := &list[i]
		secret := slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(strings.ToLower(n.Name), w) })
		if secret && n.Value.clear {
			k.problem(&n.Value, CodeSecret, "a secret must not stand in the file; write ${NAME} for an environment variable or file:PATH")
		}
	}
}

// ownHeaders are those that the broker writes itself.
var ownHeaders = []string{"accept", "connection", "content-length", "content-type", "host", "last-event-id", "mcp-method", "mcp-name",
	"mcp-protocol-version", "mcp-session-id", "transfer-encoding", "upgrade"}

func (k *compiler) upstreamHeaders(list []NamedSecret) {
	for i := range list {
		h := &list[i]
		if code, err := formats["header"](h.Name); err != nil {
			k.problem(h, code, "%v", err)
		}
		if name := strings.ToLower(h.Name); slices.Contains(ownHeaders, name) || strings.HasPrefix(name, "sec-websocket-") {
			k.problem(h, CodeConflict, "the broker writes this header itself; remove it")
		}
	}
}

// slotTimes checks that no bound makes another one meaningless.
func (k *compiler) slotTimes(m *MCP, s *MCPSlot) {
	shorter := func(most **int64, requests ...*int64) {
		for _, request := range requests {
			if request == nil {
				continue
			}
			switch {
			case *most == nil:
			case *request == 0:
				k.problem(most, CodeConflict, "there is no time-out that progress could extend; give requestTimeoutMs")
			case **most < *request:
				k.problem(most, CodeConflict, "%d is shorter than the time-out itself, %d; progress extends that", **most, *request)
			}
			return
		}
	}
	shorter(&s.MaxRequestMs, s.RequestTimeoutMs, &m.ProviderRequestTimeoutMs)
	for i := range s.ToolTimeouts {
		t := &s.ToolTimeouts[i]
		shorter(&t.MaxRequestMs, t.RequestTimeoutMs, s.RequestTimeoutMs, &m.ProviderRequestTimeoutMs)
	}
	if s.MaxResultBytes != nil && *s.MaxResultBytes > s.MaxFrameBytes {
		k.problem(&s.MaxResultBytes, CodeConflict, "%d is more than a whole message may have, %d; raise maxFrameBytes, or lower it", *s.MaxResultBytes, s.MaxFrameBytes)
	}
}

// slotTools checks that tools are named once, and that they are offered.
func (k *compiler) slotTools(s *MCPSlot) {
	offered := func(field any, tool string) {
		if len(s.Tools) > 0 && !slices.Contains(s.Tools, tool) {
			k.problem(field, CodeReference, "the slot does not offer the tool %q%s", tool, suggestion(tool, s.Tools))
		}
	}
	for i := range s.ToolTimeouts {
		offered(&s.ToolTimeouts[i], s.ToolTimeouts[i].Tool)
	}
	cached := map[string]*string{}
	for i := range s.Cache {
		c := &s.Cache[i]
		offered(&c.Tool, c.Tool)
		if first, twice := cached[c.Tool]; twice {
			k.problem(&c.Tool, CodeDuplicate, "the tool is cached already, at %s", k.c.places[first].pos)
		}
		cached[c.Tool] = &c.Tool
	}
}

// oauth checks that tokens which clients are told to get are checked to be meant for the broker.
func (k *compiler) oauth(m *MCP) {
	if o := m.AllowedOrigins; len(o) > 1 && slices.Contains(o, "*") {
		k.problem(&m.AllowedOrigins, CodeConflict, `"*" is every origin; keep it alone, or name the origins`)
	}
	o := m.OAuth
	if o == nil {
		return
	}
	if len(o.AuthorizationServers) == 0 {
		k.problem(&o.AuthorizationServers, CodeRequired, "names no issuer; a client would not know where to get a token")
	}
	var issuers []string
	for i := range k.c.Identity.JWT {
		j := &k.c.Identity.JWT[i]
		issuers = append(issuers, j.Issuer)
		if !slices.ContainsFunc(j.Audience, func(a string) bool { return a == o.Resource || strings.HasPrefix(a, o.Resource+"/") }) {
			k.problem(&j.Audience, CodeRequired, "does not name %s, so that tokens which are meant for others would be good at the broker", o.Resource)
		}
	}
	for _, server := range o.AuthorizationServers {
		if !slices.ContainsFunc(issuers, func(i string) bool { return sameURL(i, server) }) {
			k.problem(&o.AuthorizationServers, CodeReference, "no issuer of identity.jwt is %s, so its tokens would be refused%s", server, suggestion(server, issuers))
		}
	}
}

// sameURL compares as RFC 8414 and RFC 9728 issuers are compared, but for a slash at the end,
// which people write or not.
func sameURL(a, b string) bool {
	x, err := url.Parse(strings.TrimSuffix(a, "/"))
	y, err2 := url.Parse(strings.TrimSuffix(b, "/"))
	return err == nil && err2 == nil && x.String() == y.String()
}
