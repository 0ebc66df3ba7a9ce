package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// Subscriptions of many clients to one resource are one at the provider: the first asks
// for it, the last ends it.

func resourceURI(c *call) (string, bool) {
	raw, _ := c.request.Param("uri")
	var uri string
	if json.Unmarshal(raw, &uri) != nil || uri == "" {
		c.failCode(codeInvalidParams, okStatus, c.request.Method+" needs the resource's uri")
		return "", false
	}
	return uri, true
}

// subscribe asks an older provider each time, so that each client hears what it says.
func (s *Session) subscribe(c *call) {
	uri, ok := resourceURI(c)
	if !ok || !c.plainSlot() || !c.allowed("") {
		return
	}
	k := s.provider(c)
	if k == nil {
		return
	}
	modern := protocol.EraOf(k.hello.version) == protocol.Modern
	if modern && !k.hello.has("resources", "subscribe") {
		s.unknown(c)
		return
	}
	first, ok := s.slot.subscribe(s, uri)
	switch {
	case !ok:
		c.failCode(codeInvalidParams, okStatus, "Too many subscriptions, or too long a uri")
	case modern:
		if first {
			k.follow()
		}
		c.result(struct{}{}, audit.Completed)
	default:
		c.learn(func() { c.undo = func() { s.forgetURI(uri); s.slot.leave(s, uri) } })
		c.dispatch(k)
	}
}

func (s *Session) unsubscribe(c *call) {
	uri, ok := resourceURI(c)
	if !ok || !c.plainSlot() || !c.allowed("") {
		return
	}
	s.forgetURI(uri)
	s.slot.unsubscribe(s, uri)
	c.result(struct{}{}, audit.Completed)
}

func (s *Session) forgetURI(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribed, uri)
}

// plainSlot reports whether the slot is a provider's. It answers the call if not.
func (c *call) plainSlot() bool {
	if c.slot.all || c.slot.builtin != nil {
		c.session.unknown(c)
		return false
	}
	return true
}

// subscribe notes that s wants to hear of a resource. First is true if nobody did before.
func (sl *slot) subscribe(s *Session, uri string) (first, ok bool) {
	s.mu.Lock() // until the slot knows it too: a client that leaves in between would stay there
	defer s.mu.Unlock()
	if s.closed || len(s.subscribed) >= maxSubscriptions || len(uri) > maxURI {
		return false, false
	}
	s.subscribed[uri] = true
	sl.mu.Lock()
	defer sl.mu.Unlock()
	first = len(sl.interest[uri]) == 0
	if first {
		sl.interest[uri] = map[*Session]bool{}
	}
	sl.interest[uri][s] = true
	return first, true
}

// leave notes that s does not any more. It reports whether nobody does.
func (sl *slot) leave(s *Session, uri string) (last bool) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if !sl.interest[uri][s] {
		return false
	}
	delete(sl.interest[uri], s)
	if len(sl.interest[uri]) > 0 {
		return false
	}
	delete(sl.interest, uri)
	return true
}

// unsubscribe notes that s does not want to hear of resources any more, and tells the
// provider of those that nobody wants to hear of.
func (sl *slot) unsubscribe(s *Session, uris ...string) {
	uris = slices.DeleteFunc(uris, func(uri string) bool { return !sl.leave(s, uri) })
	k := sl.connection()
	switch {
	case k == nil || len(uris) == 0:
	case protocol.EraOf(k.hello.version) == protocol.Modern:
		k.follow()
	default:
		sl.b.running.Go(func() {
			k.aboutResources("resources/unsubscribe", uris)
			// Somebody may have subscribed before the provider has taken that.
			k.aboutResources("resources/subscribe", slices.DeleteFunc(uris, func(uri string) bool { return !sl.wanted(uri) }))
		})
	}
}

func (sl *slot) wanted(uri string) bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return len(sl.interest[uri]) > 0
}

// aboutResources asks a provider of an older revision something about resources, one by one.
func (k *conn) aboutResources(method string, uris []string) {
	for _, uri := range uris {
		ctx, cancel := context.WithTimeout(k.slot.b.ctx, listTime)
		m, err := k.ask(ctx, method, map[string]any{"uri": uri})
		cancel()
		if err == nil {
			err = failure(m)
		}
		if err != nil {
			k.slot.b.log.Warn("mcp: a provider did not take a subscription, or its end", "slot", k.slot.name, "error", err)
		}
		if k.isOver() {
			return
		}
	}
}

// subscribeTo asks the provider for resources that clients want to hear of.
func (k *conn) subscribeTo(uris []string) {
	switch {
	case len(uris) == 0:
	case protocol.EraOf(k.hello.version) == protocol.Modern:
		k.follow()
	case k.hello.has("resources", "subscribe"):
		k.slot.b.running.Go(func() { k.aboutResources("resources/subscribe", uris) })
	}
}

// updated tells those who have subscribed, to the resource or to one that it is part of.
func (sl *slot) updated(m *jsonrpc.Message) {
	raw, _ := m.Param("uri")
	var uri string
	if json.Unmarshal(raw, &uri) != nil {
		return
	}
	sl.mu.Lock()
	hear := map[*Session]bool{}
	for of, who := range sl.interest {
		if isPart(uri, of) {
			maps.Copy(hear, who)
		}
	}
	sl.mu.Unlock()
	m = protocol.Strip(m)
	for s := range hear {
		s.push(m)
	}
}

// isPart reports whether a URI is another one, or of something in it.
func isPart(uri, of string) bool {
	rest, ok := strings.CutPrefix(uri, of)
	return ok && (rest == "" || strings.HasSuffix(of, "/") || strings.ContainsAny(rest[:1], "/?#"))
}
