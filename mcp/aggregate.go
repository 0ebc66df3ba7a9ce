package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// _all is the union of all providers' tools. A call there is a call at its provider: only
// that one's rules count it, once.

const maxName = 128 // of a tool, by the protocol

// A listed is a tool of some provider under its name in _all.
type listed struct {
	slot *slot
	tool *tool
	name string
}

// union returns the tools of all providers. Of two with one name, which prefixes of the
// operator's making can bring about, the one of the slot that comes first by name counts,
// whenever either was connected; the other is a problem that diagnosis shows.
func (b *Broker) union() (list []listed, twice []listed) {
	taken := map[string]bool{}
	for _, sl := range b.providers() {
		if sl.connection() == nil {
			continue
		}
		l := sl.tools.Load()
		if l == nil {
			continue
		}
		for _, t := range l.tools {
			entry := listed{sl, t, b.nameInAll(sl, t.name)}
			if taken[entry.name] {
				twice = append(twice, entry)
				continue
			}
			taken[entry.name] = true
			list = append(list, entry)
		}
	}
	return list, twice
}

// nameInAll is a tool's name in _all. One that is too long keeps its beginning and ends in
// a digest, so that two never become one.
func (b *Broker) nameInAll(sl *slot, tool string) string {
	prefix := sl.name + "-"
	if p := sl.conf().Prefix; p != nil {
		prefix = *p
	}
	name := prefix + tool
	most := b.settings().MaxName
	if most == 0 {
		most = maxName
	}
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	digest := "-" + hex.EncodeToString(sum[:6])
	return strings.ToValidUTF8(name[:max(0, most-len(digest))], "") + digest
}

// gather waits for providers that are being connected for the first time, within the time
// that they have for listing their tools: what is seen in _all shall not depend on how soon
// after the start somebody looks.
func (b *Broker) gather(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(b.settings().ListTimeout, listTime))
	defer cancel()
	for _, sl := range b.providers() {
		sl.awaitFirst(ctx)
	}
}

// allTools are the tools in _all that the caller may call.
func (s *Session) allTools() []json.RawMessage {
	list, _ := s.b.union()
	visible := []json.RawMessage{}
	for _, l := range list {
		if s.maySee(l.slot, l.tool.name) {
			name, _ := json.Marshal(l.name)
			visible = append(visible, jsonrpc.SetIn(l.tool.raw, name, "name"))
		}
	}
	return visible
}

// callAny passes a call in _all to the provider whose tool it names. One that the caller
// may not call looks like one that is not there.
func (s *Session) callAny(c *call, name string) {
	find := func() ([]listed, int) {
		list, _ := s.b.union()
		return list, slices.IndexFunc(list, func(l listed) bool { return l.name == name })
	}
	list, i := find()
	if i < 0 {
		s.b.gather(c.ctx)
		list, i = find()
	}
	if i < 0 || !s.maySee(list[i].slot, list[i].tool.name) {
		c.failWith(protocol.UnknownTool, audit.Event{Action: audit.Admit, Outcome: audit.Invalid, Reason: "unknown-tool"}, "Unknown tool", nil)
		return
	}
	own, _ := json.Marshal(list[i].tool.name)
	c.mu.Lock()
	c.slot = list[i].slot
	// Nobody could ask for a task here, so that none may be asked for.
	c.request = c.request.Edit(jsonrpc.Set(own, "params", "name"), jsonrpc.Delete("params", "task"))
	c.mu.Unlock()
	s.callProvider(c, list[i].tool.name)
}

// sees are the tools that the client may call at its slot.
func (s *Session) sees() []json.RawMessage {
	switch l := s.slot.tools.Load(); {
	case s.slot.all:
		return s.allTools()
	case l != nil:
		return s.visibleTools(s.slot, l)
	}
	return nil
}

// look notes which tools the client may see now, and reports whether those are others than
// before.
func (s *Session) look() (changed bool) {
	h := sha256.New()
	for _, raw := range s.sees() {
		h.Write(raw)
	}
	now := string(h.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.visible != now
	s.visible = now
	return changed
}

// toolsMayHaveChanged tells the client that its tools have changed, if what it may see has.
func (s *Session) toolsMayHaveChanged() {
	if s.hears() && s.look() {
		s.push(toolsChanged)
	}
}

// unionMayHaveChanged tells the clients of _all soon, if a provider that has come or gone
// is not away for a moment only.
func (b *Broker) unionMayHaveChanged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.telling == nil {
		b.telling = time.AfterFunc(settleTime, func() {
			b.mu.Lock()
			b.telling = nil
			b.mu.Unlock()
			b.sessions.each(b.slotNamed(AllSlot), (*Session).toolsMayHaveChanged)
		})
	}
}
