package file

import (
	"sort"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A state is what the records of a log come to.
type state struct {
	cells  map[ledger.Key]*cellState
	grants map[ledger.ID]ledger.Record
	owners []ledger.Owner // nil if no rules were ever told
}

type cellState struct {
	pool   uint64
	limit  limit.Limit
	at     limit.Micros
	used   int64
	debits []limit.Debit
}

func newState() *state {
	return &state{cells: make(map[ledger.Key]*cellState), grants: make(map[ledger.ID]ledger.Record)}
}

// replay carries out the records of one payload.
func (s *state) replay(payload []byte) error {
	for r := (&reader{rest: payload}); len(r.rest) > 0; {
		switch tag := r.byte(); tag {
		case tagCell:
			key := r.key()
			s.cells[key] = &cellState{pool: r.fixed(), limit: r.limit(), at: r.micros(), used: r.number()}
		case tagWindow:
			s.replayWindow(r)
		case tagGone:
			delete(s.cells, r.key())
		case tagGrant, tagTimed, tagRecord:
			id := r.id()
			s.grants[id] = r.grant(tag)
		case tagForget:
			delete(s.grants, r.id())
		case tagOwners:
			s.owners = r.ownersOf()
		default:
			return errRecord
		}
		if r.bad {
			return errRecord
		}
	}
	return nil
}

// replayWindow replaces the debits of a Window from a time on, and drops those that had
// left it by the time of the record.
func (s *state) replayWindow(r *reader) {
	key := r.key()
	c := s.cells[key]
	if c == nil {
		c = new(cellState)
		s.cells[key] = c
	}
	c.pool, c.limit, c.at, c.used = r.fixed(), r.limit(), r.micros(), 0
	from := r.micros()
	n := len(c.debits)
	for n > 0 && c.debits[n-1].At >= from {
		n--
	}
	c.debits = c.debits[:n]
	for range r.count() {
		from += r.micros()
		c.debits = append(c.debits, limit.Debit{At: from, N: r.number()})
	}
	for len(c.debits) > 0 && c.debits[0].At+c.limit.Per <= c.at {
		c.debits = c.debits[1:]
	}
}

// cell is c as the algorithms know it.
func (c *cellState) cell() limit.Cell {
	cell := limit.Cell{At: c.at, Used: c.used}
	if c.limit.Kind == limit.KindWindow {
		cell.Log = new(limit.Log)
		for _, d := range c.debits {
			cell.Log.Append(d)
			cell.Used += d.N
		}
	}
	return cell
}

// heldSlots are the units of slots that open grants hold. Slots of volatile rules did
// not survive; they are struck from the grants, so that their release frees nobody
// else's.
func (s *state) heldSlots() map[ledger.Key]ledger.Step {
	held := make(map[ledger.Key]ledger.Step)
	for _, g := range s.grants {
		for i := range g.Steps {
			step := &g.Steps[i]
			switch {
			case g.Released || !step.Limit.OnRelease():
			case step.Volatile:
				step.N = 0
			case step.N > 0:
				step := *step
				step.N += held[step.Key].N
				held[step.Key] = step
			}
		}
	}
	return held
}

// byEnd are the ids of the grants, the open ones first and the others in the order in
// which they were released.
func (s *state) byEnd() []ledger.ID {
	ids := make([]ledger.ID, 0, len(s.grants))
	for id := range s.grants {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool {
		a, b := s.grants[ids[i]], s.grants[ids[j]]
		if a.Released != b.Released {
			return b.Released
		}
		return a.Ended < b.Ended
	})
	return ids
}
