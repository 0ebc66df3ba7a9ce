package mcp

import (
	"slices"
	"sync"

	"github.com/sluicegate/sluice/mcp/audit"
)

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
