package mcp

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// calls are the calls whose work has not ended, by the broker's ids. One that goes on with
// the admission of an earlier call also has the id of that, which is its name in the ledger.
type calls struct {
	mu    sync.Mutex
	by    map[string]*call
	empty chan struct{} // closed when the last one ends, if somebody waits for that
}

func (cs *calls) add(c *call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.by[c.name] = c
}

func (cs *calls) remove(c *call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.by, c.name)
	delete(cs.by, c.earlier)
	if len(cs.by) == 0 && cs.empty != nil {
		close(cs.empty)
		cs.empty = nil
	}
}

// hand gives c the id of an earlier call, which has ended.
func (cs *calls) hand(earlier string, c *call) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.earlier, cs.by[earlier] = earlier, c
}

func (cs *calls) get(id string) *call {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.by[id]
}

// all returns the calls, oldest first.
func (cs *calls) all() []*call {
	cs.mu.Lock()
	list := make([]*call, 0, len(cs.by))
	for id, c := range cs.by {
		if id == c.name {
			list = append(list, c)
		}
	}
	cs.mu.Unlock()
	slices.SortFunc(list, func(a, b *call) int {
		return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.name, b.name))
	})
	return list
}

// drain waits until no call is under way that its client still waits for.
func (cs *calls) drain(ctx context.Context) {
	for _, c := range cs.all() {
		if ctx.Err() != nil {
			return
		}
		select {
		case <-c.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// newCall begins a call.
func (b *Broker) newCall(s *Session, m *jsonrpc.Message, x Exchange) *call {
	id := b.nextID()
	c := &call{id: id, name: strings.Trim(id.String(), `"`), b: b, slot: s.slot, session: s, x: x, request: m, start: time.Now()}
	c.from(s, x)
	if token, _ := m.Param("_meta", protocol.MetaProgress); jsonrpc.RawID(token).Valid() {
		c.token = token
	}
	c.ctx, c.leave = context.WithCancel(b.ctx)
	return c
}

// learn changes what is known of the call. The audit reads it when the call is cancelled,
// which may be at any moment.
func (c *call) learn(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// note tells the audit what was done about the call.
func (c *call) note(e audit.Event) {
	e.Slot, e.RequestID, e.CorrelationID = c.slot.name, c.name, c.correlation
	e.Method, e.Tool, e.Capability, e.Identity = c.request.Method, c.tool.nameOr(""), c.capability(), c.caller.Identity()
	e.DurationMs = time.Since(c.start).Milliseconds()
	if !known[e.Method] {
		e.Method = "other" // a method of the client's own is its text
	}
	c.b.note(e)
}

// capability is what the call needs, as others may read it. That of a method of the client's
// own has the method in it.
func (c *call) capability() string {
	if !known[c.request.Method] {
		return ""
	}
	return c.who.Capability
}
