package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Bounds of what one provider makes the broker remember.
const (
	maxDeclarations = 64
	maxDomains      = 64
)

// Declarations are what the providers of a broker have declared, one for each provider
// and slot. A domain belongs to the provider that was first to declare it for as long as
// the broker runs, connected or not: a broken network must not hand it to another. Only
// an operator can take it away. The zero Declarations are empty and ready. Its methods
// are safe for concurrent use.
type Declarations struct {
	mu      sync.RWMutex
	held    map[holder]*Declaration
	owners  map[string]string // of domains
	changes int
}

type holder struct{ principal, slot string }

// A Withdrawal is what an operator has taken away.
type Withdrawal struct {
	Principal, Slot string
	// Domains are those that belong to nobody now.
	Domains []string
	// PolicyVersion is the version that has come of it.
	PolicyVersion string
}

// Declare carries out broker/authorization/declare with the given parameters, from a
// provider on a slot. Either everything about it is right, and it replaces what the
// provider has declared on this slot before; or nothing changes, and problems says all
// that is wrong.
func (s *Declarations) Declare(p *Policy, who *Principal, slot string, params json.RawMessage) (d *Declaration, problems []string) {
	if why := who.refuse(); why != "" {
		return nil, []string{why}
	}
	r := reader{policy: p, who: who, d: &Declaration{Principal: who.ID, Slot: slot}}
	r.read(params)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := holder{who.ID, slot}
	if owner, owned := s.owners[r.d.Domain]; owned && owner != who.ID {
		r.problem("domain %q belongs to another provider; a domain has one owner", r.d.Domain)
	} else if !owned && len(s.domainsOf(who.ID)) >= maxDomains {
		r.problem("the provider owns %d domains; more are not kept", maxDomains)
	}
	if s.held[key] == nil && s.countOf(who.ID) >= maxDeclarations {
		r.problem("the provider has declared on %d slots; more are not kept", maxDeclarations)
	}
	if problems = r.all(); problems != nil {
		return nil, problems
	}
	if s.held == nil {
		s.held, s.owners = map[holder]*Declaration{}, map[string]string{}
	}
	s.changes++
	r.d.PolicyVersion = s.version(p)
	s.held[key], s.owners[r.d.Domain] = r.d, who.ID
	return r.d, nil
}

// Of returns what a provider has declared on a slot, or nil.
func (s *Declarations) Of(who *Principal, slot string) *Declaration {
	if who == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.held[holder{who.ID, slot}]
}

// All returns the declarations that are held, in the order of providers and slots.
func (s *Declarations) All() []*Declaration {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*Declaration, 0, len(s.held))
	for _, d := range s.held {
		all = append(all, d)
	}
	slices.SortFunc(all, func(x, y *Declaration) int {
		return cmp.Or(strings.Compare(x.Principal, y.Principal), strings.Compare(x.Slot, y.Slot))
	})
	return all
}

// Withdraw takes away what a provider has declared on a slot, and every domain of the
// provider that none of its other declarations has. It reports whether there was
// anything. Who calls it has seen that the operator may ([DeclareAdmin]) and that the
// provider does not serve the slot any more, and writes the withdrawal to the audit.
func (s *Declarations) Withdraw(p *Policy, principal, slot string) (Withdrawal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := holder{principal, slot}
	if s.held[key] == nil {
		return Withdrawal{}, false
	}
	delete(s.held, key)
	w := Withdrawal{Principal: principal, Slot: slot}
	for _, domain := range s.domainsOf(principal) {
		if !s.inUse(principal, domain) {
			delete(s.owners, domain)
			w.Domains = append(w.Domains, domain)
		}
	}
	s.changes++
	w.PolicyVersion = s.version(p)
	return w, true
}

// Version names the policy together with the declarations: every change of either gives
// another.
func (s *Declarations) Version(p *Policy) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version(p)
}

func (s *Declarations) version(p *Policy) string { return fmt.Sprintf("%s.%d", p.Version(), s.changes) }

// domainsOf returns the domains of a provider, sorted.
func (s *Declarations) domainsOf(principal string) (domains []string) {
	for domain, owner := range s.owners {
		if owner == principal {
			domains = append(domains, domain)
		}
	}
	slices.Sort(domains)
	return domains
}

func (s *Declarations) inUse(principal, domain string) bool {
	for key, d := range s.held {
		if key.principal == principal && d.Domain == domain {
			return true
		}
	}
	return false
}

func (s *Declarations) countOf(principal string) (n int) {
	for key := range s.held {
		if key.principal == principal {
			n++
		}
	}
	return n
}
