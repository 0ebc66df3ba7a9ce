package file

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluicegate/sluice/ledger"
)

// A log only grows, and most of what is in it has been overtaken. Now and then a new
// generation takes its place: a file with the state as it is, filled beside the log while
// callers go on, that gets what was written meanwhile and then the log's name.

// A generation is a log that is being filled, by a goroutine of its own that is given one
// slice of the state after the other.
type generation struct {
	journal *journal
	path    string
	slice   writer
	more    func() (struct{}, bool) // puts more of the state into slice
	stop    func()
	slices  chan stamp // slice is to be written
	wants   chan error // it was, or how not
	full    bool       // there are no more slices
	// tail is what was written to the old log meanwhile. It comes last, so that a cell
	// that was read before it changed ends as it is on the disk.
	tail []tailFrame
	// lacks is how many batches the tail lacks that had something of what was read.
	lacks int
	// spoilt is set if a write to the old log failed: a cell may have been read with what
	// was taken back since.
	spoilt bool
	synced int64 // end of what has been synced
}

type tailFrame struct {
	at      stamp
	payload []byte
}

// scanRecords is how many cells are read while callers wait, about 50 µs.
const scanRecords = 256

// syncBytes are written to a generation before they are synced. All at once at the end
// would keep the disk from the callers for as long as that takes.
const syncBytes = 256 << 10

// renew begins a generation when the log has grown enough. The disk is at rest.
func (s *Store) renew() {
	if s.putOff {
		s.putOff = false
		s.journal.base, s.journal.records = s.journal.confirmed.end, s.recorded()
	}
	if s.next != nil || !s.journal.grown(s.recorded(), s.recordBytes) {
		return
	}
	g, err := s.begin()
	if err != nil {
		s.notRenewed(err)
		return
	}
	g.more, g.stop = iter.Pull(s.everything(&g.slice))
	g.slices, g.wants = make(chan stamp), make(chan error, 1)
	go func() {
		for at := range g.slices {
			g.wants <- g.put(at)
		}
	}()
	s.next = g
	s.fillMore(nil)
}

// recorded is how many grants are remembered.
func (s *Store) recorded() int {
	n, _ := s.memory.Recorded() // which memory always knows
	return n
}

// filled is where a generation says how its last slice was written.
func (s *Store) filled() <-chan error {
	if s.next == nil {
		return nil
	}
	return s.next.wants
}

// fillMore gives a generation the next slice of the state.
func (s *Store) fillMore(err error) {
	g := s.next
	if err == nil && !g.spoilt {
		if _, more := g.more(); more {
			g.slices <- stampNow(s.memory.Now())
			return
		}
	}
	g.full = true
	close(g.slices)
	if err != nil || g.spoilt {
		s.giveUp(g, err)
		return
	}
	for _, b := range []*batch{s.writing, s.pending} {
		if b != nil && !b.empty() {
			g.lacks++
		}
	}
}

// follow adds a batch to the tail that was written to the old log.
func (g *generation) follow(b *batch) {
	g.tail = append(g.tail, tailFrame{b.at, slices.Clone(b.records)})
	if g.full {
		g.lacks--
	}
}

// complete reports whether a generation can take the log's place.
func (g *generation) complete() bool { return g.full && g.lacks <= 0 }

// giveUp drops a generation.
func (s *Store) giveUp(g *generation, err error) {
	s.next = nil
	g.discard()
	if err != nil {
		s.notRenewed(err)
	}
}

// notRenewed has the log grow as much again before the next try.
func (s *Store) notRenewed(err error) {
	s.putOff = true // the disk may be at work on the log
	s.options.Logger.Error("file: the log could not be written anew and goes on growing", "store", s.path, "error", err)
}

// begin makes the file of a generation.
func (s *Store) begin() (*generation, error) {
	m := thisMoment()
	h := s.head
	h.boot, h.host, h.created = m.boot, m.host, m.wall
	rand.Read(h.id[:])
	g := &generation{path: s.path + ".tmp"}
	var err error
	if g.journal, err = create(g.path, h); err != nil {
		return nil, err
	}
	g.journal.filling = true
	return g, nil
}

// everything puts the whole state into w, which is a slice of it each time it yields and
// is to be empty again then. A cell that changes afterwards comes again in the tail; so
// does one whose change is not confirmed yet, unless it fails and spoils the generation.
func (s *Store) everything(w *writer) iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		if s.owners != nil {
			w.ownersOf(s.owners)
		}
		n := 0
		goOn := func() bool {
			n++
			return n%scanRecords != 0 || yield(struct{}{})
		}
		for key, d := range s.cells {
			if !s.encodeWhole(w, key, d) {
				delete(s.cells, key)
			}
			if !goOn() {
				return
			}
		}
		for id := range s.grants {
			if !s.memory.ViewRecord(id, func(r *ledger.Record) { w.grant(id, r) }) {
				delete(s.grants, id)
			}
			if !goOn() {
				return
			}
		}
		yield(struct{}{})
	}
}

// put writes the slice.
func (g *generation) put(at stamp) error {
	err := g.journal.put(at, g.slice)
	g.slice = g.slice[:0]
	if err == nil && g.journal.written.end-g.synced > syncBytes {
		g.synced = g.journal.written.end
		err = datasync(g.journal.file)
	}
	return err
}

// finishGeneration gives a filled generation the log's place.
func (s *Store) finishGeneration() {
	g := s.next
	if g.spoilt {
		s.giveUp(g, nil)
		return
	}
	s.give(func() error { return s.install(g) }, func(err error) {
		s.next = nil
		if err != nil {
			s.giveUp(g, err)
		}
	})
}

// install finishes a generation and renames it. The log that it replaces stays as the
// backup.
func (s *Store) install(g *generation) error {
	base := g.journal.written.end
	for _, f := range g.tail {
		if err := g.journal.put(f.at, f.payload); err != nil {
			return err
		}
	}
	g.journal.filling = false
	if err := errors.Join(g.journal.reserve(1), g.journal.commit(), g.journal.file.Sync()); err != nil {
		return err
	}
	s.backUp()
	if err := os.Rename(g.path, s.path); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(s.path)); err != nil {
		g.journal.suspect = true // the name may not last: the next write begins anew
	}
	if s.journal != nil {
		s.journal.file.Close()
	}
	g.journal.base, g.journal.records = base, s.recorded()
	s.journal = g.journal
	s.stats.generations.Add(1)
	return nil
}

// backUp keeps the log under a second name. A file system that has no second names has no
// backup.
func (s *Store) backUp() {
	backup := s.path + ".bak"
	os.Remove(backup)
	if err := os.Link(s.path, backup); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.options.Logger.Warn("file: no backup of the log is kept", "store", s.path, "error", err)
	}
}

// rewrite writes a new generation while nobody may take anything: at the start, and when
// the log is suspect.
func (s *Store) rewrite() error {
	g, err := s.begin()
	if err != nil {
		return err
	}
	for range s.everything(&g.slice) {
		if err = g.put(stampNow(s.memory.Now())); err != nil {
			break
		}
	}
	if err == nil {
		err = s.install(g)
	}
	if err != nil {
		g.discard()
	}
	return err
}

// dropGeneration gives up a generation that is being filled, if there is one.
func (s *Store) dropGeneration() {
	g := s.next
	if g == nil {
		return
	}
	if !g.full {
		<-g.wants
		close(g.slices)
	}
	s.giveUp(g, nil)
}

func (g *generation) discard() {
	if g.stop != nil {
		g.stop()
	}
	g.journal.file.Close()
	os.Remove(g.path)
}
