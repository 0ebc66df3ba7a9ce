// Package file keeps the books of one process on its disk, so that they survive it.
//
// It decides in memory, by a [memory.Store], and writes what a decision has changed to a
// log before it confirms it. All who wait for the disk share one write: while one is
// under way the next gathers. What need not survive waits for nothing: steps that are
// volatile, and slots that are held without an ID, for after a crash nobody could give
// them back.
//
// What was confirmed is on the disk. When the disk refuses, every caller who waited is
// refused, what they took comes back, and controlled work is refused until a write
// succeeds again; releases are carried out meanwhile and written then.
//
// One process uses a store at a time; the operating system's lock on a file beside it
// sees to that. FORMAT.md draws what is in the files.
package file

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// StaleLock says what to do with the lock file of a process that has crashed.
type StaleLock uint8

const (
	PIDCheck   StaleLock = iota // take it over if that process is gone for certain
	RefuseLock                  // refuse: somebody is to look
)

// RulesChange says what to do with counters that were written under other rules.
type RulesChange uint8

const (
	Migrate     RulesChange = iota // keep those of rules that are still there, drop the others
	RefuseRules                    // refuse: somebody is to look
)

// Options of a Store. The zero value is usable.
type Options struct {
	// MaxCells is how many keys have cells of their own; see [memory.Options]. Zero is
	// 1 << 20.
	MaxCells int
	// MaxRecords is how many admissions with an ID may be open. Zero is 10 000.
	MaxRecords int
	// Retention is how long an admission with an ID is remembered after its release.
	// Zero is a day.
	Retention time.Duration
	// KeySecret is the secret of the store's keys if its owner keeps it. Nil has the store
	// draw one when it is made and keep it; see [Store.KeySecret].
	KeySecret []byte
	// StaleLock says what to do with the lock of a crashed process.
	StaleLock StaleLock
	// OnRulesChange says what to do with counters written under other rules.
	OnRulesChange RulesChange
	// Logger is told what happens to the store as a whole: a lock taken over, rules that
	// have changed, a disk that fails and that is back. Nil is silence.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.MaxRecords == 0 {
		o.MaxRecords = 10_000
	}
	if o.Retention <= 0 {
		o.Retention = 24 * time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrClosed is returned by a Store after Close.
var ErrClosed = errors.New("file: the store is closed")

// A Store is a sluice.Store on disk. It is safe for concurrent use.
type Store struct {
	memory  *memory.Store
	path    string
	options Options
	lock    *lockFile
	head    header
	stats   counters
	closed  atomic.Bool

	inbox   inbox
	stop    chan struct{} // closed by Close
	stopped chan struct{} // closed when the books are
	ended   error         // of the last write before Close; read after stopped
	closing sync.Once

	jobs    chan func() error // for the disk
	written chan error        // how the last one ended

	books
}

// The books are what the goroutine that keeps them owns; see keepBooks.
type books struct {
	// pending gathers what the next write will hold; writing is the batch that is being
	// written, or nil; spare takes pending's place then.
	pending, writing, spare *batch
	// cells and grants are what the disk knows.
	cells  map[ledger.Key]*onDisk
	grants map[ledger.ID]struct{}
	owners []ledger.Owner
	// failure is why the last write failed; nil when the disk is well.
	failure error
	probe   *time.Timer   // says when to try the disk again
	pause   time.Duration // until the next time
	probing bool          // it is to be tried
	// then is called when the disk has done its job; nil while it has none.
	then    func(error)
	next    *generation // being filled, or nil
	putOff  bool        // the next one has to wait until the log has grown as much again
	journal *journal    // used by whoever runs the disk's job
	asked   []*request  // memory of decideAll
	see     memory.Seer // seeTaken
	noted   bool        // seeTaken has written something down
	// recordBytes is how many bytes the last record of a Take took.
	recordBytes int
}

// An onDisk says what the log knows of a cell.
type onDisk struct {
	pool uint64
	// youngest is the time of a Window's youngest debit, so that only what has changed
	// since is written; zero to write the whole cell.
	youngest limit.Micros
	per      limit.Micros // of the Window's limit
}

// counters are the figures that others may read.
type counters struct {
	writes, confirmed, bytes, generations atomic.Uint64
	durable                               atomic.Int64
	failure                               atomic.Pointer[error]
}

// Stats are figures about a Store.
type Stats struct {
	memory.Stats
	Writes      uint64 // writes to the log, each with one sync
	Confirmed   uint64 // commands that waited for them
	Bytes       uint64 // written to the log
	Generations uint64 // times the log was written anew, at the start included
	Durable     int    // cells on the disk
	Failure     error  // why the disk refuses; nil when it is well
}

// Stats returns the store's figures.
func (s *Store) Stats() Stats {
	st := Stats{
		Stats:  s.memory.Stats(),
		Writes: s.stats.writes.Load(), Confirmed: s.stats.confirmed.Load(),
		Bytes: s.stats.bytes.Load(), Generations: s.stats.generations.Load(),
		Durable: int(s.stats.durable.Load()),
	}
	if err := s.stats.failure.Load(); err != nil {
		st.Failure = *err
	}
	return st
}

// KeySecret returns the secret to open a Controller with, so that its keys find the
// counters of the last one.
func (s *Store) KeySecret() []byte {
	if s.options.KeySecret != nil {
		return slices.Clone(s.options.KeySecret)
	}
	return slices.Clone(s.head.secret[:])
}

// Scan implements sluice.Store.
func (s *Store) Scan(ctx context.Context, group uint64) iter.Seq2[ledger.Entry, error] {
	return s.memory.Scan(ctx, group)
}

// Recorded implements sluice.Recorder.
func (s *Store) Recorded() (n int, ok bool) { return s.memory.Recorded() }

// Records implements sluice.Recorder. Takes whose callers still wait for the disk are among
// them.
func (s *Store) Records(ctx context.Context) iter.Seq2[ledger.Remembered, error] {
	return s.memory.Records(ctx)
}

// Close writes what is still to be written, gives the lock back and makes further
// commands fail with [ErrClosed]. It reports what could not be written.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		close(s.stop)
		<-s.stopped
		s.ended = errors.Join(s.ended, s.journal.close(), s.memory.Close(), s.lock.release())
	})
	return s.ended
}
