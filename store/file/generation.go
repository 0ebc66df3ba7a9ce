package file

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluicegate/sluice/ledger"
)

// A log only grows, and most of what is in it has been overtaken. Now and then a new
// generation takes its place: a file with the state as it is, filled beside the log while
// callers go on, that gets what was written meanwhile and then the log's name.

// A generation is a log that is being filled.
type generation struct {
	journal *journal
	path    string
	// tail is what was written to the old log meanwhile. It comes last, so that a cell
	// that was read before it changed ends as it is on the disk.
	tail []tailFrame
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

// renew begins a generation in the background when the log has grown enough. Only the
// writer calls it.
func (s *Store) renew() {
	if s.next != nil || !s.journal.grown() {
		return
	}
	g, err := s.begin()
	if err != nil {
		s.putOff(err)
		return
	}
	s.mu.Lock()
	s.next = g
	s.mu.Unlock()
	go func() { s.scanned <- s.fill(g) }()
}

// putOff waits for the log to grow as much again before the next try.
func (s *Store) putOff(err error) {
	s.journal.base = s.journal.confirmed.end
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

// fill writes the whole state into a generation, a little at a time. A cell that changes
// afterwards comes again in the tail; so does one whose change is not confirmed yet,
// unless it fails and spoils the generation.
func (s *Store) fill(g *generation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := make(writer, 0, 64*scanRecords)
	if s.owners != nil {
		w.ownersOf(s.owners)
	}
	n := 0
	pause := func() error {
		if n++; n%scanRecords != 0 {
			return nil
		}
		return s.unlocked(g, &w)
	}
	for key, d := range s.cells {
		if !s.encodeWhole(&w, key, d) {
			delete(s.cells, key)
		}
		if err := pause(); err != nil {
			return err
		}
	}
	for id := range s.grants {
		if !s.memory.ViewRecord(id, func(r *ledger.Record) { w.grant(id, r) }) {
			delete(s.grants, id)
		}
		if err := pause(); err != nil {
			return err
		}
	}
	return s.unlocked(g, &w)
}

// unlocked writes what was gathered while callers may go on.
func (s *Store) unlocked(g *generation, w *writer) error {
	at := stampNow(s.memory.Now())
	s.mu.Unlock()
	defer s.mu.Lock()
	err := g.journal.put(at, *w)
	*w = (*w)[:0]
	if err == nil && g.journal.written.end-g.synced > syncBytes {
		g.synced = g.journal.written.end
		err = datasync(g.journal.file)
	}
	return err
}

// replace gives a filled generation the log's place.
func (s *Store) replace(err error) {
	g := s.next
	if g == nil {
		return
	}
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()
	switch {
	case g.spoilt:
		g.discard()
		return
	case err == nil:
		err = s.install(g)
	}
	if err != nil {
		g.discard()
		s.putOff(err)
	}
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
	if err := errors.Join(g.journal.reserve(reserveLeast), g.journal.commit(), g.journal.file.Sync()); err != nil {
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
	g.journal.base = base
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
	if err = s.fill(g); err == nil {
		err = s.install(g)
	}
	if err != nil {
		g.discard()
	}
	return err
}

// dropGeneration gives up a generation that is being filled.
func (s *Store) dropGeneration() {
	if s.next == nil {
		return
	}
	s.mu.Lock()
	s.abandonGeneration()
	s.mu.Unlock()
	s.replace(<-s.scanned)
}

// abandonGeneration spoils a generation that is being filled. The caller holds s.mu.
func (s *Store) abandonGeneration() {
	if s.next != nil {
		s.next.spoilt = true
	}
}

func (g *generation) discard() {
	g.journal.file.Close()
	os.Remove(g.path)
}
