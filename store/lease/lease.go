// Package lease lets a process take units of a hot limit ahead of need from a store that
// many share, and spend them by itself. Most decisions about a hot key then need no round
// trip, and cost the shared server nothing.
//
// A [Store] stands around any other; no store knows of it. Only steps with a
// [ledger.Step.Part] are concerned, which are those of rules with a Lease, and they are
// counted by the somewhat stricter limit of a [limit.Lease]. There it is proved that in no
// window more is admitted than the limit, by any number of processes, whichever of them
// crash, and how much less at the most.
//
// # How
//
// A question that has to be asked anyway carries the wish for units ahead beside the
// call's own, as a shadow set: it is decided in the same step, never refuses the call and
// costs no further round trip. How many are wished follows what the key has lately been
// used for: a [ledger.Step.Part]-th of it. So a cold key is never leased and asks
// exactly. Another question is asked when half of the units are spent, by one caller
// alone; the others go on spending.
//
// Units are spent until [ledger.Step.Lease] after they were asked for, by the monotonic
// and by the wall clock, so that a machine that was suspended does not spend old ones; less
// a fiftieth, in case the store's clock is the faster. What is left then is lost. It is
// not given back: a store may carry that out late, when time has brought the units back
// already, and then others would have them twice.
//
// # What asks exactly
//
// A call is decided here if units of every limit that it has to pass are ahead. Otherwise
// all of its steps go to the store in one command, so that all are taken or none. So do
// calls with an ID, whose record the store keeps. Nobody is refused because units ahead
// have run out: the store is asked, and refuses or not. If the store fails, units that are
// ahead may still be spent.
//
// # Reset and reload
//
// A Reset drops what this process has ahead. Others cannot be told: for at most a
// Step.Lease they may spend units that were taken before the Reset, beside the limit that
// is full again. When a rule changes, each process drops its units at its first call under
// the new one.
package lease

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/ledger"
)

// Books are a sluice.Store that processes share. A sluice.Keeper is none: it has one
// process, which needs no leases.
type Books interface {
	Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error
	Scan(ctx context.Context, group uint64) iter.Seq2[ledger.Entry, error]
	Close() error
}

// A Store is a sluice.Store that takes units ahead from another. It is safe for
// concurrent use.
type Store struct {
	books Books
	began time.Time
	banks [1024]bank
	// resets are under way. Nothing is taken ahead meanwhile, nor is there anything ahead.
	resets  atomic.Int32
	tickets atomic.Uint64
	spent   atomic.Uint64
	asked   atomic.Uint64
}

// New returns a Store on books, which it closes when it is closed itself. It has room for
// some four thousand hot keys at a time; others ask for every call.
func New(books Books) *Store { return &Store{books: books, began: time.Now()} }

// Stats are figures for people.
type Stats struct {
	Keys  int    // that have units ahead
	Ahead int64  // units that are ahead, of whatever kind
	Spent uint64 // decisions that needed no question, since the start
	Asked uint64 // questions about limits that may be leased
}

// Stats returns the present figures. It looks at every key and is not for a hot path.
func (s *Store) Stats() Stats {
	st := Stats{Spent: s.spent.Load(), Asked: s.asked.Load()}
	now := s.now()
	for i := range s.banks {
		s.banks[i].count(now, &st)
	}
	return st
}

// Leased returns how many keys have units ahead.
func (s *Store) Leased() int { return s.Stats().Keys }

// Apply implements sluice.Store.
func (s *Store) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	if len(cmds) == 1 {
		return s.one(ctx, cmds, res)
	}
	if !slices.ContainsFunc(cmds, concerned) {
		return s.books.Apply(ctx, cmds, res)
	}
	for i := range cmds {
		if err := s.one(ctx, cmds[i:i+1], res[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// concerned reports whether the books must not be left alone with cmd.
func concerned(cmd ledger.Command) bool {
	switch cmd.Op {
	case ledger.Take, ledger.Peek:
		return mayLease(cmd.Steps)
	case ledger.Settle, ledger.Void:
		return apart(&cmd)
	}
	return cmd.Op == ledger.Reset
}

// one carries out a single command.
func (s *Store) one(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	switch cmd := &cmds[0]; cmd.Op {
	case ledger.Reset:
		s.resets.Add(1)
		defer s.resets.Add(-1)
		s.drop(cmd)
	case ledger.Take:
		if cmd.ID.Zero() && mayLease(cmd.Steps) {
			return s.take(ctx, cmd, &res[0])
		}
		clearTimes(cmd.Steps)
	case ledger.Peek:
		if mayLease(cmd.Steps) && s.peek(cmd, &res[0]) {
			return nil
		}
	case ledger.Settle, ledger.Void:
		if cmd.ID.Zero() && apart(cmd) {
			return s.giveBack(ctx, cmd, &res[0])
		}
	}
	return s.books.Apply(ctx, cmds, res)
}

// mayLease reports whether some of steps are of a limit that may be leased.
func mayLease(steps []ledger.Step) bool {
	for i := range steps {
		if leasable(&steps[i]) {
			return true
		}
	}
	return false
}

func leasable(s *ledger.Step) bool { return s.Part > 0 && s.Set == 0 && s.N >= 0 }

// clearTimes takes out the times of an earlier Take with the same memory.
func clearTimes(steps []ledger.Step) {
	for i := range steps {
		steps[i].At = 0
	}
}

// take spends units that are ahead, or asks. Whoever is refused, or gets no answer, may
// have been sent to ask while there were still some.
func (s *Store) take(ctx context.Context, cmd *ledger.Command, res *ledger.Result) error {
	if s.spend(cmd, res, true) {
		return nil
	}
	clearTimes(cmd.Steps)
	err := s.ask(ctx, cmd, res)
	if err == nil && res.Status == ledger.Done || ctx.Err() != nil {
		return err
	}
	var late ledger.Result
	if s.spend(cmd, &late, false) {
		*res = late
		return nil
	}
	clearTimes(cmd.Steps)
	return err
}

// Scan implements sluice.Store. Units that are ahead count as used.
func (s *Store) Scan(ctx context.Context, group uint64) iter.Seq2[ledger.Entry, error] {
	return s.books.Scan(ctx, group)
}

// Watch implements sluice.Waker for books that do. Of others nobody hears anything.
func (s *Store) Watch(freed func(ledger.Key), heard func(bool)) (stop func()) {
	type waker interface {
		Watch(freed func(ledger.Key), heard func(bool)) (stop func())
	}
	if w, ok := s.books.(waker); ok {
		return w.Watch(freed, heard)
	}
	return func() {}
}

// Recorded implements sluice.Recorder for books that do. Others do not know.
func (s *Store) Recorded() (n int, ok bool) {
	if r, is := s.books.(recorder); is {
		return r.Recorded()
	}
	return 0, false
}

// Records implements sluice.Recorder for books that do. Others are an error.
func (s *Store) Records(ctx context.Context) iter.Seq2[ledger.Remembered, error] {
	if r, is := s.books.(recorder); is {
		return r.Records(ctx)
	}
	return func(yield func(ledger.Remembered, error) bool) {
		yield(ledger.Remembered{}, fmt.Errorf("lease: the books do not list what they remember: %w", errors.ErrUnsupported))
	}
}

type recorder interface {
	Recorded() (n int, ok bool)
	Records(ctx context.Context) iter.Seq2[ledger.Remembered, error]
}

// Close closes the books. Units that are ahead are lost.
func (s *Store) Close() error {
	s.drop(&ledger.Command{All: true})
	return s.books.Close()
}
