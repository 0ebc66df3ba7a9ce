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

// sessions are the clients at each slot.
type sessions struct {
	mu      sync.Mutex
	stopped bool
	by      map[*slot]map[*Session]bool
}

func (ss *sessions) add(s *Session) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.stopped {
		return false
	}
	if ss.by[s.slot] == nil {
		ss.by[s.slot] = map[*Session]bool{}
	}
	ss.by[s.slot][s] = true
	return true
}

func (ss *sessions) remove(s *Session) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.by[s.slot], s)
	if len(ss.by[s.slot]) == 0 {
		delete(ss.by, s.slot)
	}
}

// stop lets no more sessions begin. It reports whether they could until now.
func (ss *sessions) stop() bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	was := ss.stopped
	ss.stopped = true
	return !was
}

// each calls f for each session at a slot.
func (ss *sessions) each(sl *slot, f func(*Session)) {
	ss.mu.Lock()
	list := make([]*Session, 0, len(ss.by[sl]))
	for s := range ss.by[sl] {
		list = append(list, s)
	}
	ss.mu.Unlock()
	for _, s := range list {
		f(s)
	}
}

func (ss *sessions) eachAll(f func(*Session)) {
	ss.mu.Lock()
	var list []*Session
	for _, at := range ss.by {
		for s := range at {
			list = append(list, s)
		}
	}
	ss.mu.Unlock()
	for _, s := range list {
		f(s)
	}
}

// count returns how many clients are at a slot.
func (ss *sessions) count(sl *slot) int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.by[sl])
}

// mostTalkative returns the lowest level that any client of a slot wants.
func (ss *sessions) mostTalkative(sl *slot) string {
	most := len(levels) - 1
	ss.each(sl, func(s *Session) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.level != "" {
			most = min(most, severity(s.level))
		}
	})
	return levels[most]
}

var toolsChanged = jsonrpc.NewNotification("notifications/tools/list_changed", nil)

// toolsChanged tells those who see other tools of a slot than before, there and in _all.
func (ss *sessions) toolsChanged(sl *slot) {
	ss.each(sl, (*Session).toolsMayHaveChanged)
	if all := sl.b.slotNamed(AllSlot); all != nil {
		ss.each(all, (*Session).toolsMayHaveChanged)
	}
}

func (ss *sessions) listChanged(sl *slot, m *jsonrpc.Message) {
	ss.each(sl, func(s *Session) { s.push(m) })
}

// owners remembers for a while whose a task was that has ended.
type owners struct {
	mu    sync.Mutex
	by    map[taskKey]string
	order []taskKey
}

func (o *owners) init() { o.by = map[taskKey]string{} }

func (o *owners) keep(sl *slot, id, identity string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := taskKey{sl, id}
	if _, known := o.by[key]; !known {
		o.order = append(o.order, key)
	}
	o.by[key] = identity
	if len(o.order) > maxTasks {
		delete(o.by, o.order[0])
		o.order = slices.Delete(o.order, 0, 1)
	}
}

func (o *owners) of(sl *slot, id string) (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	identity, ok := o.by[taskKey{sl, id}]
	return identity, ok
}

// recent are the latest events of a kind that an operator asks about.
type recent struct {
	mu   sync.Mutex
	ring []audit.Event
	next int
}

const maxRecent = 200

func (r *recent) add(e *audit.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, *e)
		return
	}
	r.ring[r.next] = *e
	r.next = (r.next + 1) % maxRecent
}

// list returns the events, oldest first.
func (r *recent) list() []audit.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(slices.Clone(r.ring[r.next:]), r.ring[:r.next]...)
}
