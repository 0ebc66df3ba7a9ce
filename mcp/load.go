package mcp

import "github.com/sluicegate/sluice/mcp/cache"

// A Load is how busy a slot is.
type Load struct {
	Slot string
	// Provider is set if a provider belongs there, Connected if it is there. The broker's own
	// slots have none.
	Provider, Connected bool
	Clients             int
	Calls               map[State]int // that are under way or hold slots of rules
	Held                int           // slots of rules that these calls hold
}

// Loads says how busy each slot is, by what this process knows. It asks no ledger.
func (b *Broker) Loads() []Load {
	list := []Load{}
	at := map[string]int{}
	b.mu.RLock()
	for name, sl := range b.slots {
		at[name] = len(list)
		list = append(list, Load{Slot: name, Provider: sl.builtin == nil && !sl.all, Calls: map[State]int{}})
	}
	b.mu.RUnlock()
	for i := range list {
		if sl := b.slotNamed(list[i].Slot); sl != nil {
			list[i].Connected, list[i].Clients = sl.connection() != nil, b.sessions.count(sl)
		}
	}
	for _, c := range b.calls.all() {
		h, ok := c.held()
		i, known := at[h.Slot]
		if ok && known {
			list[i].Calls[h.State]++
			list[i].Held += len(h.Rules)
		}
	}
	return list
}

// CacheStats returns what the cache of results has done so far.
func (b *Broker) CacheStats() cache.Stats { return b.cache.Stats() }
