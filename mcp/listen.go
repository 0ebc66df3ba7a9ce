package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// wanted is what a client of the newest revision wants to hear of.
type wanted struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

func (w *wanted) hears(m *jsonrpc.Message) bool {
	switch m.Method {
	case "notifications/tools/list_changed":
		return w.Tools
	case "notifications/prompts/list_changed":
		return w.Prompts
	case "notifications/resources/list_changed":
		return w.Resources
	}
	raw, _ := m.Param("uri")
	uri, _ := jsonrpc.Text(raw)
	return m.Method == "notifications/resources/updated" && slices.ContainsFunc(w.URIs, func(of string) bool { return isPart(uri, of) })
}

// listen keeps the exchange open and tells the client what it wants to hear, until it
// closes the stream. It holds nothing.
func (s *Session) listen(c *call) {
	raw, ok := c.request.Param("notifications")
	var w wanted
	if !ok || json.Unmarshal(raw, &w) != nil || len(w.URIs) > maxSubscriptions {
		c.failCode(codeInvalidParams, badRequestStatus, "subscriptions/listen needs notifications")
		return
	}
	if !c.allowed("") {
		return
	}
	h, ok := s.hello(c)
	if !ok {
		return
	}
	w.Tools = w.Tools && h.has("tools")
	w.Prompts = w.Prompts && h.has("prompts", "listChanged")
	w.Resources = w.Resources && h.has("resources", "listChanged")
	if !h.has("resources", "subscribe") {
		w.URIs = nil
	}
	s.look()
	l := &listener{c, w}
	if !s.add(l) {
		c.cancel()
		return
	}
	c.mu.Lock()
	c.listening = true
	c.mu.Unlock()
	c.tell(jsonrpc.NewNotification("notifications/subscriptions/acknowledged", map[string]any{
		"_meta": map[string]any{protocol.MetaSubscription: c.request.ID.Raw()}, "notifications": w}))
	fresh := slices.DeleteFunc(slices.Clone(w.URIs), func(uri string) bool {
		first, ok := s.slot.subscribe(s, uri)
		return !first || !ok
	})
	if k := s.slot.connection(); k != nil {
		k.subscribeTo(fresh)
	}
	s.b.running.Go(func() { s.hear(l) })
}

// add notes a listener, unless the client has gone.
func (s *Session) add(l *listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.listening = append(s.listening, l)
	}
	return !s.closed
}

// hear lasts as long as a client listens, and ends it in order when the broker stops.
func (s *Session) hear(l *listener) {
	select {
	case <-l.call.ctx.Done():
	case <-s.b.stopping:
		l.call.result(map[string]any{"_meta": map[string]any{protocol.MetaSubscription: l.call.request.ID.Raw()}}, audit.Completed)
	}
	s.mu.Lock()
	s.listening = slices.DeleteFunc(slices.Clone(s.listening), func(o *listener) bool { return o == l })
	unheard := slices.DeleteFunc(slices.Clone(l.wanted.URIs), func(uri string) bool {
		return slices.ContainsFunc(s.listening, func(o *listener) bool { return slices.Contains(o.wanted.URIs, uri) })
	})
	for _, uri := range unheard {
		delete(s.subscribed, uri)
	}
	s.mu.Unlock()
	s.slot.unsubscribe(s, unheard...)
}

// A listener is an exchange on which a client hears what belongs to none of its requests.
type listener struct {
	call   *call
	wanted wanted
}

func (l *listener) tell(m *jsonrpc.Message) {
	if l.wanted.hears(m) {
		l.call.tell(m.Edit(jsonrpc.Set(l.call.request.ID.Raw(), "params", "_meta", protocol.MetaSubscription)))
	}
}

// greet asks a provider that has come, or has come back, for what its clients want to hear.
func (k *conn) greet() {
	if protocol.EraOf(k.hello.version) == protocol.Modern {
		k.follow()
		return
	}
	k.subscribeTo(k.slot.interesting())
	if level, ok := k.slot.b.sessions.loudest(k.slot); ok && k.hello.has("logging") {
		k.slot.b.running.Go(func() {
			ctx, cancel := context.WithTimeout(k.slot.b.ctx, listTime)
			defer cancel()
			_, _ = k.ask(ctx, "logging/setLevel", map[string]any{"level": level}) // it says more or less then
		})
	}
}

// follow asks a provider of the newest revision to tell of changes. Asked again, it asks for
// what is wanted by then.
func (k *conn) follow() {
	w := wanted{k.hello.has("tools", "listChanged"), k.hello.has("prompts", "listChanged"), k.hello.has("resources", "listChanged"), k.slot.interesting()}
	if !w.Tools && !w.Prompts && !w.Resources && len(w.URIs) == 0 {
		return
	}
	id := k.slot.b.nextID()
	k.mu.Lock()
	before := k.following
	k.following = id
	k.mu.Unlock()
	params := map[string]any{"_meta": k.ourMeta(), "notifications": w}
	f := follower{k, id, time.Now()}
	if err := k.send(k.slot.b.ctx, link.Outgoing{Message: jsonrpc.NewRequest(id, "subscriptions/listen", params)}, f); err != nil {
		f.lost(link.Failure{Err: err})
	}
	if !before.IsZero() {
		k.take(before)
		k.link.Cancel(before, "replaced")
	}
}

// interesting are the resources that somebody wants to hear of.
func (sl *slot) interesting() []string {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	uris := make([]string, 0, len(sl.interest))
	for uri := range sl.interest {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	return uris
}

// A follower waits for the end of a request by which a provider tells of changes.
type follower struct {
	conn  *conn
	id    jsonrpc.ID
	began time.Time
}

// reply ends it in order, or says that the provider knows no such request.
func (f follower) reply(m *jsonrpc.Message) {
	if m.Err == nil {
		f.again()
		return
	}
	f.conn.slot.b.log.Warn("mcp: a provider does not tell of changes", "slot", f.conn.slot.name, "error", failure(m))
}

func (f follower) lost(link.Failure)        { f.again() }
func (follower) step(*jsonrpc.Message)      {}
func (follower) tell(*jsonrpc.Message) bool { return false }

// again asks anew after a while, the longer the sooner it has ended, and looks what has
// changed in between. One that another has replaced is over.
func (f follower) again() {
	k := f.conn
	pause := max(firstPause, longestPause-time.Since(f.began))
	time.AfterFunc(pause, func() {
		k.mu.Lock()
		current := k.following == f.id && k.over == nil
		k.mu.Unlock()
		if current {
			k.follow()
			k.slot.changed(k)
		}
	})
}
