package sluice

import (
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/ledger"
)

// heldSlots counts, by rule, the slots that the calls of one controller hold. It is for
// people who look on; what may be taken is the store's to say. Counts outlive a reload.
type heldSlots struct {
	mu     sync.Mutex
	byRule map[string]*atomic.Int64
}

func (c *Controller) heldOf(rule string) *atomic.Int64 {
	h := &c.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byRule == nil {
		h.byRule = make(map[string]*atomic.Int64)
	}
	n := h.byRule[rule]
	if n == nil {
		n = new(atomic.Int64)
		h.byRule[rule] = n
	}
	return n
}

// count adds the slots among steps to what their rules hold, or takes them off. Of those
// that another process has taken and this one gives back nothing was added.
func count(steps []ledger.Step, places []place, sign int64) {
	for i := range steps {
		if r := places[i].rule; r != nil && steps[i].Limit.OnRelease() {
			if n := r.held.Add(sign * steps[i].N); n < 0 {
				r.held.CompareAndSwap(n, 0)
			}
		}
	}
}

// Held returns how many slots the calls admitted by this controller hold, by rule. A
// rule that holds none is left out.
func (c *Controller) Held() map[string]int {
	h := &c.held
	h.mu.Lock()
	defer h.mu.Unlock()
	held := make(map[string]int)
	for rule, n := range h.byRule {
		if k := n.Load(); k > 0 {
			held[rule] = int(k)
		}
	}
	return held
}
