package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/ledger"
)

// A migration is how the rules in force differ from those the counters were written
// under.
type migration struct {
	gone      map[uint64]bool // pools of limits that are no more
	removed   []string
	added     []string
	changed   []string // the numbers are others; the state stays
	regrouped []string // the grouping is another; the state cannot be found again
}

func compareOwners(was, is []ledger.Owner) migration {
	m := migration{gone: make(map[uint64]bool)}
	byPool := make(map[uint64]*ledger.Owner, len(is))
	for i := range is {
		byPool[is[i].Pool] = &is[i]
	}
	for i := range was {
		old := &was[i]
		now := byPool[old.Pool]
		delete(byPool, old.Pool)
		switch {
		case now == nil:
			m.gone[old.Pool] = true
			m.removed = append(m.removed, title(old))
		case now.Group != old.Group:
			m.regrouped = append(m.regrouped, fmt.Sprintf("%s (from %q to %q)", title(old), old.Group, now.Group))
		case now.Limit != old.Limit:
			m.changed = append(m.changed, fmt.Sprintf("%s (from %v to %v)", title(old), old.Limit, now.Limit))
		}
	}
	for _, o := range byPool {
		m.added = append(m.added, title(o))
	}
	slices.Sort(m.added)
	return m
}

func title(o *ledger.Owner) string { return o.Rule + " " + o.Name }

func (m *migration) empty() bool {
	return len(m.removed)+len(m.added)+len(m.changed)+len(m.regrouped) == 0
}

func (m *migration) String() string {
	var parts []string
	for _, p := range []struct {
		what string
		list []string
	}{{"removed", m.removed}, {"new", m.added}, {"changed", m.changed}, {"grouped otherwise", m.regrouped}} {
		if len(p.list) > 0 {
			parts = append(parts, p.what+": "+strings.Join(p.list, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// Keep implements sluice.Keeper: owners are the limits of the rules in force. Counters
// of a limit that is still there stay and meet its new numbers; those of one that is gone
// are dropped, and a grant that held its slots holds them no longer. With [RefuseRules]
// any difference is an error and nothing changes.
func (s *Store) Keep(owners []ledger.Owner) error {
	owners = slices.Clone(owners)
	slices.SortFunc(owners, func(a, b ledger.Owner) int { return cmp.Compare(a.Pool, b.Pool) })
	r := requests.Get().(*request)
	r.do = func() error { return s.keep(r, owners) }
	return s.ask(context.Background(), r)
}

// keep migrates in memory, and has r wait for it to be written.
func (s *Store) keep(r *request, owners []ledger.Owner) error {
	if s.failure != nil {
		return s.refusal()
	}
	m := compareOwners(s.owners, owners)
	first := s.owners == nil
	if m.empty() && !first {
		return nil
	}
	if !first && s.options.OnRulesChange == RefuseRules {
		return errors.New("file: the store " + s.path + " was written under other rules (" + m.String() +
			"); to keep the counters of the rules that stay, set onRulesChange to migrate")
	}
	cells := s.dropCells(m.gone)
	slots := s.dropSlots(m.gone)
	if !first {
		s.options.Logger.Info("file: the rules have changed", "store", s.path, "counters dropped", cells,
			"slots freed", slots, "differences", m.String())
	}
	s.owners, s.pending.owners = owners, true
	s.waitFor(r)
	return nil
}

// dropCells forgets the cells of pools that are gone.
func (s *Store) dropCells(gone map[uint64]bool) (dropped int) {
	for key, d := range s.cells {
		if gone[d.pool] {
			s.memory.Clear(key)
			s.pending.touch(key, d.pool, 0)
			dropped++
		}
	}
	return dropped
}

// dropSlots frees the slots of pools that are gone. A grant that held slots and has none
// left is over.
func (s *Store) dropSlots(gone map[uint64]bool) (freed int) {
	for id, r := range s.memory.OpenRecords() {
		var slots []ledger.Step
		left := 0
		for _, step := range r.Steps {
			switch {
			case !step.Limit.OnRelease() || step.N == 0:
			case gone[step.Pool]:
				slots = append(slots, step)
			default:
				left++
			}
		}
		if len(slots) == 0 {
			continue
		}
		freed += len(slots)
		unwritten := s.holderOf(id) != nil
		s.also(ledger.Command{Op: ledger.Free, ID: id, Steps: slots})
		if !unwritten && left == 0 { // one that is may yet have to be taken back whole
			s.also(ledger.Command{Op: ledger.Release, ID: id})
		}
	}
	return freed
}
