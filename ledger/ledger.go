// Package ledger keeps the books of admission. A change to the books is a [Command],
// plain data; what it does is a pure function of the books, the command and the time.
// A store is whatever makes that function atomic, and durable if it can.
//
// The package knows [limit.Limit] and nothing else: no clock, no lock, no I/O. It never
// asks which algorithm a limit has.
package ledger

import (
	"math"

	"github.com/sluicegate/sluice/limit"
)

// A Key names one cell. It is made of keyed hashes, so that no caller's text reaches a
// store, and it has two halves so that all cells of one caller can be found together.
type Key struct {
	// Group is the hash of the value that the cell is grouped by first, such as the
	// caller; zero if the cell is shared by all. Cell alone tells cells apart well enough:
	// a store may keep only the high 32 bits of Group.
	Group uint64
	// Cell is the hash of rule, limit and all grouping values.
	Cell uint64
}

// An ID names a grant that the books remember. The zero ID is a grant that nobody will
// ask for again: it leaves no record.
type ID struct{ Hi, Lo uint64 }

// Zero reports whether id is the zero ID.
func (id ID) Zero() bool { return id == ID{} }

// An Op is what a Command does.
type Op uint8

const (
	// Take takes every one of Takes, or changes nothing. With an ID it leaves a record,
	// and the same command again takes nothing and is answered as before.
	Take Op = iota
	// Peek answers as Take would and changes nothing.
	Peek
	// Settle corrects a grant to Used, once.
	Settle
	// Release gives back what comes back at the end of the work.
	Release
	// Free gives back the slots among Steps ahead of the release. If the grant has a
	// record, Release will not give them back again.
	Free
	// Void undoes a Take whose work has not begun: everything comes back and the record
	// is forgotten.
	Void
	// Cool starts the cooldown limits among Takes for Delay.
	Cool
	// Find answers with the record of ID.
	Find
	// Reset makes cells full: those of Group, or every one if All is set. What is held
	// stays held.
	Reset
)

// A Step is one limit of a Command.
type Step struct {
	Key   Key
	Limit limit.Limit
	// N is how many units are taken, or were. A Take sets it to zero in a shadow step that
	// took nothing.
	N int64
	// Set numbers shadow rules from 1. Zero is enforced. Each shadow set is decided on
	// its own and never refuses the command.
	Set uint8
	// Keep says that a settlement never returns units of this step.
	Keep bool
	// Volatile state may be lost in a crash: a durable store need not write it.
	Volatile bool
	// Part and Lease are those of a [limit.Lease] by whose limit the step is counted: a
	// store that leases may answer with units that it has taken ahead. Zero is never.
	Part  uint8
	Lease limit.Micros
	// At is when a step was taken whose units had been taken ahead: it stands in for
	// Command.At. A store that leases sets it and heeds it; others see zero.
	At limit.Micros
	// Pool is the hash of rule and limit without the caller. A store that has no room
	// for a new key takes from a cell of the pool instead and puts that cell's key in
	// place of Key; Settle and Release of the grant must carry the step as it came back.
	Pool uint64
}

// Renew puts l, by which the rules count now, in place of the limit by which s was taken,
// which would carry its cell back. It reports false if s has nothing left to give back.
func (s *Step) Renew(l limit.Limit) bool {
	carried := l.Carries(s.Limit)
	if !carried {
		s.N = 0
	}
	s.Limit = l
	return carried
}

// A Command is one atomic change to the books.
type Command struct {
	Op    Op
	ID    ID
	Steps []Step
	// At is when the steps were taken, for Settle and Release without a record.
	At limit.Micros
	// Used is what each step really used, for Settle; negative leaves a step as it is.
	Used []int64
	// Call fingerprints what an ID was used for, so that a second use is recognised.
	Call uint64
	// Calls is how many calls a Take with an ID stands for, before weights. The record
	// keeps it for a later settlement; zero is not known.
	Calls int64
	// Expires is how long after a Take its grant, which has an ID and holds no slots, is
	// good for work to begin. The books go on counting what was taken, and a settlement is
	// taken as long as the record is remembered: see [Grants]. Zero is for ever.
	Expires limit.Micros
	// Note is kept in the record of a Take with an ID and told with it, at most MaxNote
	// bytes. What it says is the caller's business. The books copy it.
	Note []byte
	// WhileHeld has the record of a Take with an ID forgotten when it is released, not a
	// retention later. Such an ID is not used again: a store that may lose answers knows it
	// for some minutes yet, and answers a Take that comes late with Replayed.
	WhileHeld bool
	// Outcome is a word about how the work ended, for Settle. The record keeps it.
	Outcome uint8
	// Delay is the length of a cooldown.
	Delay limit.Micros
	// Group and All say what Reset resets.
	Group uint64
	All   bool
	// Levels asks for Result.Levels to be filled.
	Levels bool
	// Watch is for how long somebody stays interested in the cells that refuse a Take,
	// beyond the wait they name. A store that processes share tells when units of theirs
	// are given back until then. Others take no notice. Zero is nobody.
	Watch limit.Micros
}

// MaxNote is how many bytes a Command.Note may have.
const MaxNote = 1 << 10

// A Status is how a Command ended.
type Status uint8

const (
	Done     Status = iota // it was carried out
	Refused                // a limit refused; nothing was changed
	Replayed               // it had been carried out before; nothing was changed
	Conflict               // its ID was used for something else; nothing was changed
	Unknown                // there is no record of its ID; nothing was changed
	Full                   // a bound of the store is reached; nothing was changed
)

// A Result is the answer to a Command. Its slices are reused by the next command it
// answers.
type Result struct {
	Status Status
	// At is the store's time of the command, or zero if none of its limits knows time.
	// Give it back as Command.At.
	At limit.Micros
	// Outcomes answer the steps of a Take or Peek, in their order. They are left empty
	// when all steps were told yes.
	Outcomes []limit.Verdict
	// Levels are where the steps stand after a Take or Peek, if Command.Levels.
	Levels []limit.Level
	// Steps are those of the record, of which a replayed Take and any other command that
	// names one are told. A Take that was carried out has changed its own.
	Steps []Step
	// What follows describes the record, for Find and for a replayed Take. Left is how long
	// the grant is good for work to begin, from the time of this command on: zero or less
	// when it has expired, [Forever] if it does not. Used and Outcome are what it was
	// settled to.
	Settled, Released, WhileHeld bool
	Outcome                      uint8
	Calls                        int64
	Left                         limit.Micros
	Used                         []int64
	Note                         []byte
	// Count is how many cells a Reset changed.
	Count int
}

// Forever is Result.Left of a grant that does not expire.
const Forever limit.Micros = math.MaxInt64

// Start makes r the answer to a command at time now that has not been carried out yet.
// Nothing of an earlier answer is left but the memory of its slices.
func (r *Result) Start(now limit.Micros) {
	r.Status, r.At, r.Count = Done, now, 0
	r.Settled, r.Released, r.WhileHeld, r.Outcome, r.Calls, r.Left = false, false, false, 0, 0, Forever
	r.Outcomes, r.Levels, r.Steps = r.Outcomes[:0], r.Levels[:0], r.Steps[:0]
	r.Used, r.Note = r.Used[:0], r.Note[:0]
}

// An Owner says whose cells those of a pool are.
type Owner struct {
	Pool  uint64 // as in Step
	Rule  string // the rule's ID
	Name  string // the limit's name in the rule
	Group string // what the rule groups by, in canonical order
	Limit limit.Limit
}

// An Entry is one cell as Scan finds it.
type Entry struct {
	Key   Key
	Limit limit.Limit
	Level limit.Level
}

// Run carries out cmd on the cells of its steps, cells[i] being that of steps[i], and
// answers in res, which the caller has started. Steps of one cell must have one pointer
// to it: together they take the sum of their units.
func Run(cmd *Command, steps []Step, cells []*limit.Cell, res *Result) {
	now := res.At
	switch cmd.Op {
	case Take, Peek:
		decide(cmd, steps, cells, res)
	case Settle:
		if len(cmd.Used) != len(steps) {
			res.Status = Conflict
			return
		}
		for i := range steps {
			settle(&steps[i], cells[i], now, cmd.At, cmd.Used[i])
		}
	case Release, Free:
		for i := range steps {
			if s := &steps[i]; s.Limit.OnRelease() {
				s.Limit.Give(cells[i], now, cmd.At, s.N)
			}
		}
	case Void:
		for i := range steps {
			steps[i].Limit.Give(cells[i], now, cmd.At, steps[i].N)
		}
	case Cool:
		for i := range steps {
			steps[i].Limit.Cool(cells[i], now, cmd.Delay)
		}
	}
}

// decide takes every enforced step or none, then each shadow set that fits whole.
func decide(cmd *Command, steps []Step, cells []*limit.Cell, res *Result) {
	now, allOK := res.At, true
	for i := range steps {
		s := &steps[i]
		v := s.Limit.Fit(cells[i], now, together(steps, cells, i))
		if !v.OK {
			allOK = false
			if s.Set == 0 {
				res.Status = Refused
			}
		}
		res.Outcomes = append(res.Outcomes, v)
	}
	if cmd.Op == Take && res.Status == Done {
		for i := range steps {
			s := &steps[i]
			if s.Set != 0 && !allOK && !fits(steps, res.Outcomes, s.Set) {
				s.N = 0
			}
			s.Limit.Take(cells[i], now, s.N)
		}
	}
	if allOK {
		res.Outcomes = res.Outcomes[:0]
	}
	for i := range steps {
		if cmd.Levels {
			res.Levels = append(res.Levels, steps[i].Limit.Level(cells[i], now))
		}
	}
}

// together is what the i-th step and those before it take from its cell.
func together(steps []Step, cells []*limit.Cell, i int) int64 {
	sum := steps[i].N
	for j := range i {
		if cells[j] == cells[i] && sum >= 0 {
			sum += min(max(0, steps[j].N), math.MaxInt64-sum)
		}
	}
	return sum
}

// fits reports whether every step of a shadow set was told yes.
func fits(steps []Step, outs []limit.Verdict, set uint8) bool {
	for i := range steps {
		if steps[i].Set == set && !outs[i].OK {
			return false
		}
	}
	return true
}

// settle corrects one step from N to used. What a shadow step would have refused was
// not used, as far as it is concerned.
func settle(s *Step, c *limit.Cell, now, at limit.Micros, used int64) {
	if used < 0 || s.Limit.OnRelease() || s.Set != 0 && s.N == 0 {
		return
	}
	back := s.N - used
	if back > 0 && s.Keep {
		return
	}
	s.Limit.Give(c, now, at, back)
}
