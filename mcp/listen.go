package mcp

import (
	"encoding/json"
	"errors"
	"slices"

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
	return m.Method == "notifications/resources/updated" // of the subscribed ones alone
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
	s.mu.Lock()
	s.listening = &listener{c, w}
	s.mu.Unlock()
	c.mu.Lock()
	c.listening = true
	c.mu.Unlock()
	c.tell(jsonrpc.NewNotification("notifications/subscriptions/acknowledged", map[string]any{
		"_meta": map[string]any{protocol.MetaSubscription: c.request.ID.Raw()}, "notifications": w}))
	for _, uri := range w.URIs {
		s.slot.subscribe(s, uri)
	}
	if k := s.slot.connection(); k != nil && len(w.URIs) > 0 {
		k.follow()
	}
	s.b.running.Go(func() { c.untilStopped(s) })
}

// untilStopped ends a listening exchange in order when the broker stops.
func (c *call) untilStopped(s *Session) {
	select {
	case <-c.ctx.Done():
	case <-s.b.stopping:
		c.result(map[string]any{"_meta": map[string]any{protocol.MetaSubscription: c.request.ID.Raw()}}, audit.Completed)
	}
	s.Close()
}

// A listener is the exchange on which a client hears what belongs to none of its requests.
type listener struct {
	call   *call
	wanted wanted
}

func (l *listener) tell(m *jsonrpc.Message) {
	if l.wanted.hears(m) {
		l.call.tell(m.Edit(jsonrpc.Set(l.call.request.ID.Raw(), "params", "_meta", protocol.MetaSubscription)))
	}
}

// follow asks a provider of the newest revision to tell of changes, and an older one for
// the resources that somebody wants to hear of. Asked again, it asks for what is wanted by
// then.
func (k *conn) follow() {
	if protocol.EraOf(k.hello.version) != protocol.Modern {
		k.slot.b.subscribeAgain(k)
		return
	}
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
	err := k.send(k.slot.b.ctx, link.Outgoing{Message: jsonrpc.NewRequest(id, "subscriptions/listen", params)}, silent{})
	if err != nil && !errors.Is(err, link.ErrNotSent) {
		k.slot.b.log.Warn("mcp: a provider does not tell of changes", "slot", k.slot.name, "error", err)
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

// silent waits for an answer that says nothing: of a request that lasts.
type silent struct{}

func (silent) reply(*jsonrpc.Message)     {}
func (silent) lost(link.Failure)          {}
func (silent) step(*jsonrpc.Message)      {}
func (silent) tell(*jsonrpc.Message) bool { return false }
