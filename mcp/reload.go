package mcp

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice/mcp/policy"
)

// Reload takes over new options at once. Slots whose mark stays keep their connections;
// calls that are under way go on. On an error nothing has changed.
func (b *Broker) Reload(o Options) error {
	if err := o.compile(); err != nil {
		return err
	}
	b.reloading.Lock()
	defer b.reloading.Unlock()
	b.options.Store(&o)
	gone, changed := b.arrange(o.Slots)
	for _, sl := range gone {
		sl.end()
		sl.tried(errEnded)
	}
	for _, restart := range changed {
		restart()
	}
	time.AfterFunc(settleTime, func() { b.sessions.eachAll((*Session).toolsMayHaveChanged) }) // once who was called again is back
	return nil
}

// arrange makes the broker's slots those of a list. It returns the slots that are gone, and
// what ends and starts those that have changed.
func (b *Broker) arrange(list []Slot) (gone []*slot, changed []func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, sl := range b.slots {
		listed := slices.ContainsFunc(list, func(s Slot) bool { return s.Name == name })
		if sl.builtin == nil && !sl.all && !listed && (sl.dials() || !b.mayStay(sl)) {
			gone = append(gone, sl)
			delete(b.slots, name)
		}
	}
	for i := range list {
		s := list[i]
		switch old := b.slots[s.Name]; {
		case old == nil:
			b.slots[s.Name] = b.place(s)
		case s.Dialer == nil && !old.dials() && !b.mayStay(old):
			old.options.Store(&s)
			changed = append(changed, old.end)
		case old.conf().Mark == s.Mark && old.dials() == (s.Dialer != nil):
			old.options.Store(&s)
		default:
			changed = append(changed, func() { old.end(); old.start(&s) }) // its clients stay
		}
	}
	return gone, changed
}

// place makes a slot, or takes the one of that name again whose clients have stayed.
func (b *Broker) place(o Slot) *slot {
	sl := b.sessions.slotNamed(o.Name)
	if sl == nil {
		return b.newSlot(o)
	}
	sl.start(&o)
	return sl
}

// mayStay reports whether the provider that has dialled into a slot may still be there.
func (b *Broker) mayStay(sl *slot) bool {
	k := sl.taken()
	return k != nil && b.mayServe(k.provider, sl.name)
}

// mayServe reports whether a provider that has been let in may serve a slot under the policy in
// force, which need not be the one that has let it in.
func (b *Broker) mayServe(who *policy.Principal, slot string) bool {
	p := b.settings().Policy
	now, known := p.Now(who)
	return known && p.MayServe(now, slot)
}
