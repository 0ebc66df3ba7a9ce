package file

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// A DamageError says that a log is not as it was written. Nothing of it is used then:
// a wrong number is worse than none.
type DamageError struct {
	Path    string
	Offset  int64 // where in the file
	Problem string
}

// Error says what is wrong, where, and what to do.
func (e *DamageError) Error() string {
	return fmt.Sprintf("file: %s is damaged at byte %d: %s; restore it from a backup, or see what \"sluice ledger recover\" can save",
		e.Path, e.Offset, e.Problem)
}

// A loaded is a log that has been read.
type loaded struct {
	header header
	state  *state
	last   stamp
	end    position
	size   int64
}

// load reads the log at path. After a *[DamageError] what it returns holds everything
// before the damage, for somebody who asks for that.
func load(path string) (*loaded, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return read(f, info.Size(), path)
}

// read reads a log. Up to the mark everything must be whole: it was confirmed. Behind it
// there may be one more frame, the one whose mark a power cut has lost, or the remains of
// one that nobody was told of.
func read(f io.ReaderAt, size int64, path string) (*loaded, error) {
	l := &loaded{state: newState(), size: size}
	damage := func(at int64, problem string) (*loaded, error) {
		return l, &DamageError{path, at, problem}
	}
	var first [framesAt]byte
	if n, err := f.ReadAt(first[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} else if n < framesAt {
		return damage(int64(n), "it ends before its first record")
	}
	var head sum
	var err error
	if l.header, head, err = decodeHeader(first[:headSize]); err != nil {
		return damage(0, err.Error())
	}
	l.end = position{end: framesAt, sum: head}
	mark, err := decodeMark(first[markAt:markAt+markSize], head)
	if err != nil {
		l.follow(f) // for whoever wants to save what is there
		return damage(markAt, err.Error())
	}
	for l.end.end < mark.end {
		at := l.end.end
		if ok, err := l.step(f); err != nil || !ok {
			return damage(at, fmt.Sprintf("a frame that was confirmed is not whole (%d of %d)", l.end.seq+1, mark.seq))
		}
	}
	if l.end != mark {
		return damage(l.end.end, "the frames do not end where the mark says")
	}
	if _, err := l.step(f); err != nil {
		return damage(l.end.end, err.Error())
	}
	return l, nil
}

// step reads the next frame and reports whether there was a whole one.
func (l *loaded) step(f io.ReaderAt) (bool, error) {
	payload, at, next, ok := readFrame(f, l.size, l.end)
	if !ok {
		return false, nil
	}
	if err := l.state.replay(payload); err != nil {
		return false, err
	}
	l.last, l.end = at, next
	return true, nil
}

// follow reads whole frames as long as there are any.
func (l *loaded) follow(f io.ReaderAt) {
	for {
		if ok, err := l.step(f); err != nil || !ok {
			return
		}
	}
}
