package mcp

import (
	"sync"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

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

// slotNamed returns the slot of a name that has clients, nil if there is none.
func (ss *sessions) slotNamed(name string) *slot {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for sl := range ss.by {
		if sl.name == name {
			return sl
		}
	}
	return nil
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

// loudest returns the most talkative level that clients of a slot have asked for, and whether
// any has.
func (ss *sessions) loudest(sl *slot) (level string, asked bool) {
	ss.each(sl, func(s *Session) { asked = asked || s.asksForLogs() })
	return ss.mostTalkative(sl), asked
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
