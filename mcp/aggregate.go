package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"iter"
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

// sees are the tools that the client may call at its slot, under their names there.
func (s *Session) sees() iter.Seq2[string, *tool] {
	return func(yield func(string, *tool) bool) {
		for _, l := range s.candidates() {
			if s.maySee(l.slot, l.tool.name) && !yield(l.name, l.tool) {
				return
			}
		}
	}
}

// candidates are the tools at the client's slot, whoever it is.
func (s *Session) candidates() (list []listed) {
	switch {
	case s.slot.all:
		list, _ = s.b.union()
	case s.slot.builtin != nil:
		for i := range s.slot.builtin.tools {
			if t := &s.slot.builtin.tools[i]; s.offers(t) {
				list = append(list, listed{s.slot, &t.tool, t.name})
			}
		}
	default:
		if l := s.slot.tools.Load(); l != nil {
			for _, t := range l.tools {
				list = append(list, listed{s.slot, t, t.name})
			}
		}
	}
	return list
}

// visibleTools are the descriptions of what the client sees.
func (s *Session) visibleTools() []json.RawMessage {
	visible := []json.RawMessage{}
	for name, t := range s.sees() {
		raw := t.raw
		if name != t.name {
			raw = jsonrpc.SetIn(raw, jsonrpc.Encode(name), "name")
		}
		visible = append(visible, raw)
	}
	return visible
}

// look notes which tools the client may see now, and reports whether those are others than
// before.
func (s *Session) look() (changed bool) {
	h := sha256.New()
	for name, t := range s.sees() {
		_, _ = io.WriteString(h, name)
		h.Write(t.sum[:])
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
