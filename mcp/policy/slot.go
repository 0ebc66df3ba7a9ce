package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/resource"
)

// The broker's own slots and their resources. Nothing else lies under /_system.
const (
	BrokerSlot     = "_broker"
	AllSlot        = "_all"
	BrokerResource = "/_system/broker"
	AllResource    = "/_system/all"
	system         = "/_system"
)

// A Protection says who alone may call a slot, and who alone may serve it.
type Protection struct {
	// DeclaredBy is the provider whose subjects may call the slot, and whose declaration
	// confirms the protection. Until it has, the protection holds all the same.
	DeclaredBy string
	// PublishedBy is the provider that may serve the slot.
	PublishedBy string
}

// Resource returns the resource of a slot: the one that is configured, or "/" and the
// slot's name. It is empty if the name makes no resource: decisions about the slot then
// are [UnknownResource].
func (p *Policy) Resource(slot string) string {
	switch slot {
	case BrokerSlot:
		return BrokerResource
	case AllSlot:
		return AllResource
	}
	if p != nil {
		if path, ok := p.slots[slot]; ok {
			return path
		}
	}
	if strings.Contains(slot, "/") || slot == system[1:] {
		return ""
	}
	path, err := resource.Clean("/" + slot)
	if err != nil || slot == "" {
		return ""
	}
	return path
}

func (b *builder) slots(configured map[string]string) {
	b.p.slots = map[string]string{}
	for _, slot := range slices.Sorted(maps.Keys(configured)) {
		path, err := resource.Clean(configured[slot])
		if !b.check(err, "slotResources: slot %q", slot) {
			continue
		}
		switch own := (*Policy)(nil).Resource(slot); {
		case slot == "":
			b.problem("slotResources: a slot's name must not be empty")
		case slot == BrokerSlot || slot == AllSlot:
			if path != own {
				b.problem("slotResources: slot %q is the broker's own, and its resource is %s", slot, own)
			}
		case resource.Within(system, path):
			b.problem("slotResources: slot %q must not use %s; what lies under %s is the broker's own", slot, path, system)
		}
		b.p.slots[slot] = path
	}
}

func (b *builder) protections(configured map[string]Protection) {
	b.p.protected = maps.Clone(configured)
	for _, slot := range slices.Sorted(maps.Keys(configured)) {
		for _, id := range []string{configured[slot].DeclaredBy, configured[slot].PublishedBy} {
			if b.p.Principal(id) == nil {
				b.problem("protectedSlots: slot %q: there is no provider %q", slot, id)
			}
		}
		if b.p.Resource(slot) == "" {
			b.problem("protectedSlots: slot %q has no resource; use a name without a slash", slot)
		}
	}
}

// Reachable reports whether a caller may call a slot at all. A slot that is not protected
// is open to everybody here; a protected one admits callers that have a subject of the
// provider that declares it.
func (p *Policy) Reachable(c *Caller, slot string) bool {
	protection, protected := p.protection(slot)
	if !protected {
		return true
	}
	declarer := p.Principal(protection.DeclaredBy)
	return c != nil && declarer != nil && slices.ContainsFunc(c.Subjects, func(s string) bool { return slices.Contains(declarer.Subjects, s) })
}

// MayServe reports whether a provider may serve a slot: its resource lies where the
// provider is allowed to be, and nobody else has the slot to himself. who is nil for a
// provider that has not said who it is.
func (p *Policy) MayServe(who *Principal, slot string) bool {
	path := p.Resource(slot)
	if path == "" || slot == BrokerSlot || slot == AllSlot || !who.allows(path) {
		return false
	}
	protection, protected := p.protection(slot)
	return !protected || who != nil && !who.shared && who.ID == protection.PublishedBy
}

func (p *Policy) protection(slot string) (Protection, bool) {
	if p == nil {
		return Protection{}, false
	}
	protection, protected := p.protected[slot]
	return protection, protected
}
