package file

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// Open opens the store at path, or makes it if there is none. The directory must exist,
// on a disk of this machine. It takes the lock, reads everything back and writes the log
// anew, so that what is out of date is gone.
//
// It fails with one line that says what to do if another process uses the store, if the
// store is damaged ([DamageError]), was written by a newer program or under another key
// secret.
func Open(path string, o Options) (*Store, error) {
	s, err := open(path, o.withDefaults())
	if err != nil {
		var damage *DamageError
		if errors.As(err, &damage) {
			return nil, err
		}
		return nil, fmt.Errorf("file: the store %s cannot be opened: %w", path, err)
	}
	go s.keepBooks()
	return s, nil
}

func open(path string, o Options) (_ *Store, err error) {
	if path, err = checkPlace(path); err != nil {
		return nil, err
	}
	if n := len(o.KeySecret); o.KeySecret != nil && n < minSecret {
		return nil, fmt.Errorf("a key secret of %d bytes can be guessed; use at least %d random ones", n, minSecret)
	}
	lock, err := acquire(path+".lock", o.StaleLock, o.Logger)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.release()
		}
	}()
	s := &Store{
		path: path, options: o, lock: lock, inbox: inbox{wake: make(chan struct{}, 1)},
		stop: make(chan struct{}), stopped: make(chan struct{}),
		jobs: make(chan func() error), written: make(chan error, 1),
		books: books{
			pending: newBatch(), spare: newBatch(),
			cells: make(map[ledger.Key]*onDisk), grants: make(map[ledger.ID]struct{}),
			probe: time.NewTimer(0),
		},
	}
	s.probe.Stop()
	s.see = s.seeTaken
	if err := s.readBack(); err != nil {
		return nil, err
	}
	if err := s.rewrite(); err != nil {
		return nil, err
	}
	s.stats.durable.Store(int64(len(s.cells)))
	return s, nil
}

const minSecret = 16

// checkPlace reports why no store can be at path, and makes it absolute.
func checkPlace(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no directory %s; make it first", dir)
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory", dir)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", errors.New("it is not a file")
	}
	if share := networkShare(dir); share != "" {
		return "", fmt.Errorf("%s is on a network share (%s), where neither locks nor writes can be relied on; use a local disk, or Redis for several machines", dir, share)
	}
	return path, nil
}

// readBack makes the store what its log says, or a new one.
func (s *Store) readBack() error {
	l, err := load(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.fresh()
	case err != nil:
		return err
	}
	if err := s.checkSecret(&l.header); err != nil {
		return err
	}
	s.head = l.header
	now, doubt, err := resume(l.last, l.header.boot, l.header.host, thisMoment())
	if err != nil {
		return err
	}
	if doubt != "" {
		s.options.Logger.Warn("file: "+doubt, "store", s.path)
	}
	s.owners = l.state.owners
	s.start(now)
	return s.restore(l.state)
}

// fresh makes a store without a past.
func (s *Store) fresh() error {
	if s.options.KeySecret != nil {
		s.head.given, s.head.secret = true, fingerprint(s.options.KeySecret)
	} else {
		rand.Read(s.head.secret[:])
	}
	s.start(limit.Second)
	return nil
}

// fingerprint tells one key secret from another and does not give it away.
func fingerprint(secret []byte) [32]byte {
	return sha256.Sum256(append([]byte("sluice ledger key secret\x00"), secret...))
}

func (s *Store) checkSecret(h *header) error {
	print := fingerprint(s.options.KeySecret)
	switch given := s.options.KeySecret != nil; {
	case !given && h.given:
		return errors.New("it was written with a key secret of its owner's; give the same one, or its counters are not found")
	case given && h.given && h.secret != print,
		given && !h.given && !bytes.Equal(h.secret[:], s.options.KeySecret):
		return errors.New("it was written with another key secret; give that one, or its counters are not found")
	}
	return nil
}

func (s *Store) start(now limit.Micros) {
	s.memory = memory.New(memory.Options{
		MaxCells: s.options.MaxCells, MaxGrants: s.options.MaxRecords, Retention: s.options.Retention, Start: now,
	})
}

// restore puts a state into memory. Slots are held by grants: their cells are not in the
// log but the sums of what open grants hold.
func (s *Store) restore(st *state) error {
	tooMany := errors.New("it has more different limits than can be numbered")
	for key, c := range st.cells {
		cell := c.cell()
		if c.limit.Idle(&cell, s.memory.Now()) {
			continue
		}
		if !s.memory.Restore(key, c.limit, cell) {
			return tooMany
		}
		s.cells[key] = &onDisk{pool: c.pool}
	}
	for key, held := range st.heldSlots() {
		if !s.memory.Restore(key, held.Limit, limit.Cell{Used: held.N}) {
			return tooMany
		}
	}
	for _, id := range st.byEnd() {
		s.memory.RestoreRecord(id, st.grants[id])
		s.grants[id] = struct{}{}
	}
	return nil
}
