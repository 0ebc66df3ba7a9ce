package sluice

import (
	"errors"
	"strings"

	"github.com/sluicegate/sluice/ledger"
)

// A Keeper is a Store whose books outlive the process. It is told which limits there are
// that must survive, when a Controller is opened and before a policy is replaced, so that
// it can drop the counters of those that are gone. An error keeps the policy from coming
// into force.
type Keeper interface {
	Keep(owners []ledger.Owner) error
}

// tellKeeper tells a store that keeps books which limits p has.
func (c *Controller) tellKeeper(p *compiled) error {
	k, ok := c.store.(Keeper)
	if !ok {
		return nil
	}
	if c.hash.secret == nil {
		return errors.New("sluice: a store that outlives the process needs a KeySecret that does; store/file has one")
	}
	return k.Keep(p.owners())
}

// owners are the limits whose cells must survive.
func (p *compiled) owners() []ledger.Owner {
	owners := []ledger.Owner{}
	for _, r := range p.rules {
		if r.Volatile {
			continue
		}
		var group []string
		for _, d := range r.group {
			group = append(group, d.String())
		}
		for i := range r.limits {
			l := &r.limits[i]
			owners = append(owners, ledger.Owner{
				Pool: l.salt, Rule: r.ID, Name: l.name, Group: strings.Join(group, ","), Limit: l.step.Limit,
			})
		}
	}
	return owners
}
