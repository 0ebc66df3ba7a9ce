package mcp

import (
	"context"
	"encoding/json"

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

func (s *Session) subscribe(c *call) {
	uri, ok := resourceURI(c)
	if !ok || !c.plainSlot() || !c.allowed("") {
		return
	}
	k := s.provider(c)
	if k == nil {
		return
	}
	first, ok := s.slot.subscribe(s, uri)
	if !ok {
		c.failCode(codeInvalidParams, okStatus, "Too many subscriptions")
		return
	}
	if !first {
		c.result(struct{}{}, audit.Completed)
		return
	}
	c.dispatch(k)
}

func (s *Session) unsubscribe(c *call) {
	uri, ok := resourceURI(c)
	if !ok || !c.plainSlot() || !c.allowed("") {
		return
	}
	k := s.provider(c)
	if k == nil {
		return
	}
	s.mu.Lock()
	delete(s.subscribed, uri)
	s.mu.Unlock()
	if s.slot.leave(s, uri) {
		c.dispatch(k)
		return
	}
	c.result(struct{}{}, audit.Completed)
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
	s.mu.Lock()
	if s.closed || len(s.subscribed) >= maxSubscriptions {
		s.mu.Unlock()
		return false, false
	}
	s.subscribed[uri] = true
	s.mu.Unlock()
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

// unsubscribe is leave for a client that has gone: nobody waits for the provider's answer.
func (sl *slot) unsubscribe(s *Session, uri string) {
	k := sl.connection()
	if !sl.leave(s, uri) || k == nil || protocol.EraOf(k.hello.version) == protocol.Modern {
		return
	}
	sl.b.running.Go(func() {
		ctx, cancel := context.WithTimeout(sl.b.ctx, listTime)
		defer cancel()
		_, _ = k.ask(ctx, "resources/unsubscribe", map[string]any{"uri": uri})
	})
}

// subscribeAgain asks a provider that has come back for what its clients still want.
func (b *Broker) subscribeAgain(k *conn) {
	if protocol.EraOf(k.hello.version) == protocol.Modern || !k.hello.has("resources", "subscribe") {
		return
	}
	sl := k.slot
	sl.mu.Lock()
	uris := make([]string, 0, len(sl.interest))
	for uri := range sl.interest {
		uris = append(uris, uri)
	}
	sl.mu.Unlock()
	b.running.Go(func() {
		for _, uri := range uris {
			ctx, cancel := context.WithTimeout(b.ctx, listTime)
			_, err := k.ask(ctx, "resources/subscribe", map[string]any{"uri": uri})
			cancel()
			if err != nil {
				b.log.Warn("mcp: a subscription was not taken up again", "slot", sl.name, "error", err)
				return
			}
		}
	})
}

// updated tells those who have subscribed.
func (sl *slot) updated(m *jsonrpc.Message) {
	raw, _ := m.Param("uri")
	var uri string
	_ = json.Unmarshal(raw, &uri)
	sl.mu.Lock()
	var hear []*Session
	for s := range sl.interest[uri] {
		hear = append(hear, s)
	}
	sl.mu.Unlock()
	for _, s := range hear {
		s.push(m)
	}
}
