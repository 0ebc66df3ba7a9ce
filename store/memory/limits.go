package memory

import (
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/limit"
)

// A registry numbers the limits that cells were last used under, so that a slot names
// its limit in 24 bits. Numbers are never reused; a reload that brings back the same
// limits adds none.
type registry struct {
	list atomic.Pointer[[]limit.Limit]
	mu   sync.Mutex
	byID map[limit.Limit]uint32
}

func (r *registry) at(number uint32) limit.Limit { return (*r.list.Load())[number] }

// number returns the number of l. It reports false when all are used up, after sixteen
// million different limits.
func (r *registry) number(l limit.Limit) (uint32, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, ok := r.byID[l]; ok {
		return n, true
	}
	var list []limit.Limit
	if p := r.list.Load(); p != nil {
		list = *p
	}
	if len(list) > limitMask {
		return 0, false
	}
	if r.byID == nil {
		r.byID = make(map[limit.Limit]uint32)
	}
	n := uint32(len(list))
	list = append(list, l)
	r.byID[l] = n
	r.list.Store(&list)
	return n, true
}
