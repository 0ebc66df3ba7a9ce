package file

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A Summary is what a store's log holds, in numbers.
type Summary struct {
	Path    string
	Version int
	Begun   time.Time // when the log was last written anew
	Written time.Time // when its last frame was written
	Frames  uint64
	Bytes   int64 // up to the end of the last frame
	Rules   int   // limits that cells may belong to
	Cells   int   // cells that are not full, at the time of the last frame
	Open    int   // grants that have not been released
	Ended   int   // released grants that are still remembered
}

// Contents are what a store's log holds.
type Contents struct {
	Summary
	Now    limit.Micros // the store's time of the last frame
	Owners []ledger.Owner
	Cells  []Cell  // by rule, limit and key
	Grants []Grant // the open ones first, then by their ends
}

// A Cell is a cell in a log. Its owner has no names if its rule is not known.
type Cell struct {
	Key   ledger.Key
	Owner ledger.Owner
	Level limit.Level
}

// A Grant is the record of an admission with an ID in a log.
type Grant struct {
	ID ledger.ID
	ledger.Record
}

// Verify reads the whole log at path, checks every byte that counts and says what is in
// it. It changes nothing and may be used on a store that is in use. It returns a
// *[DamageError] if the log is not as it was written.
func Verify(path string) (Summary, error) {
	c, err := Inspect(path)
	return c.Summary, err
}

// Inspect is Verify that also returns what is in the log.
func Inspect(path string) (Contents, error) {
	l, err := load(path)
	if err != nil {
		return Contents{}, inWords(path, err)
	}
	return l.contents(path), nil
}

func inWords(path string, err error) error {
	var damage *DamageError
	if errors.As(err, &damage) {
		return err
	}
	return fmt.Errorf("file: the store %s cannot be read: %w", path, err)
}

func (l *loaded) contents(path string) Contents {
	c := Contents{Now: l.last.now, Owners: l.state.owners, Summary: Summary{
		Path: path, Version: int(l.header.version), Begun: time.UnixMicro(l.header.created), Written: time.UnixMicro(l.last.wall),
		Frames: l.end.seq, Bytes: l.end.end, Rules: len(l.state.owners),
	}}
	owners := make(map[uint64]ledger.Owner)
	for _, o := range l.state.owners {
		owners[o.Pool] = o
	}
	for key, s := range l.state.cells {
		cell := s.cell()
		if s.limit.Idle(&cell, c.Now) {
			continue
		}
		owner := owners[s.pool]
		owner.Pool, owner.Limit = s.pool, s.limit
		c.Cells = append(c.Cells, Cell{Key: key, Owner: owner, Level: s.limit.Level(&cell, c.Now)})
	}
	slices.SortFunc(c.Cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Owner.Rule, b.Owner.Rule), cmp.Compare(a.Owner.Name, b.Owner.Name),
			cmp.Compare(a.Key.Group, b.Key.Group), cmp.Compare(a.Key.Cell, b.Key.Cell))
	})
	for _, id := range l.state.byEnd() {
		g := Grant{id, l.state.grants[id]}
		c.Grants = append(c.Grants, g)
		if g.Released {
			c.Ended++
		}
	}
	c.Summary.Cells, c.Open = len(c.Cells), len(c.Grants)-c.Ended
	return c
}

// Compact writes the log of a store anew that no process uses, without what is out of
// date, and says what it held before and holds now. A store in use does this by itself.
func Compact(path string, o Options) (before, after Summary, err error) {
	if before, err = Verify(path); err != nil {
		return before, after, err
	}
	s, err := Open(path, o)
	if err != nil {
		return before, after, err
	}
	if err := s.Close(); err != nil {
		return before, after, err
	}
	after, err = Verify(path)
	return before, after, err
}

// Recover saves what can be saved of a damaged store: of its log, or of the backup that
// stands beside it if that knows more, everything before the first damage. What came
// after is lost: debits since then are forgotten, which errs in favour of callers, and
// that is why nobody but a person who asks for it gets here. The damaged file is kept,
// under the name that is returned.
//
// Recover fails if the store is not damaged, is in use, or has nothing that can be saved.
func Recover(path string, o Options) (kept string, saved Summary, err error) {
	o = o.withDefaults()
	if path, err = checkPlace(path); err != nil {
		return "", saved, fmt.Errorf("file: %w", err)
	}
	lock, err := acquire(path+".lock", o.StaleLock, o.Logger)
	if err != nil {
		return "", saved, fmt.Errorf("file: the store %s cannot be recovered: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	best, err := salvage(path)
	if err != nil {
		return "", saved, err
	}
	kept = path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000")
	if err := os.Rename(path, kept); err != nil {
		return "", saved, fmt.Errorf("file: the damaged file cannot be set aside: %w", err)
	}
	if err := best.write(path); err != nil {
		return kept, saved, fmt.Errorf("file: what was saved of %s cannot be written: %w", kept, err)
	}
	saved, err = Verify(path)
	return kept, saved, err
}

// salvage reads a damaged log and its backup and returns the one that knows more.
func salvage(path string) (*loaded, error) {
	l, err := load(path)
	var damage *DamageError
	switch {
	case err == nil:
		return nil, fmt.Errorf("file: %s is not damaged; there is nothing to recover", path)
	case !errors.As(err, &damage):
		return nil, inWords(path, err)
	}
	backup, err := load(path + ".bak")
	if err != nil && !errors.As(err, &damage) {
		backup = nil
	}
	if backup != nil && backup.last.now > l.last.now {
		l = backup
	}
	if l.end.seq == 0 {
		return nil, fmt.Errorf("file: nothing of %s can be saved: neither it nor its backup has a whole frame", path)
	}
	return l, nil
}

// write makes a log of what was read.
func (l *loaded) write(path string) error {
	j, err := create(path, l.header)
	if err != nil {
		return err
	}
	w := writer{}
	if l.state.owners != nil {
		w.ownersOf(l.state.owners)
	}
	for key, c := range l.state.cells {
		cell := c.cell()
		w.cell(key, c.pool, c.limit, &cell, 0)
	}
	for id, g := range l.state.grants {
		w.grant(id, &g)
	}
	return errors.Join(j.put(l.last, w), j.commit(), j.close(), syncDir(filepath.Dir(path)))
}
