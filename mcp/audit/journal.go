package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// A Journal writes events to a file, one JSON object a line, and begins a new file when
// that one is full. Writing waits for nobody: events that come faster than the disk takes
// them, or that it refuses, are lost, and counted. It is safe for concurrent use.
type Journal struct {
	path     string
	maxBytes int64
	keep     int
	failed   func(error)

	events chan Event
	done   chan struct{}
	lost   atomic.Int64

	mu     sync.RWMutex // held for reading by Write, so that no event comes after Close
	closed bool

	file *os.File // of the writing goroutine
	size int64
}

// waitingEvents is how many events may wait for the disk.
const waitingEvents = 10_000

// Open opens the journal at path, to go on with what is there. A file is full at maxBytes;
// keep full ones stay beside it, path.1 the newest. Failed is told when the file cannot be
// written, once until it can be again; it may be nil.
func Open(path string, maxBytes int64, keep int, failed func(error)) (*Journal, error) {
	j := &Journal{path: path, maxBytes: maxBytes, keep: keep, failed: failed, events: make(chan Event, waitingEvents), done: make(chan struct{})}
	if failed == nil {
		j.failed = func(error) {}
	}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	go j.run()
	return j, nil
}

func (j *Journal) open() error {
	f, err := os.OpenFile(j.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.file, j.size = f, info.Size()
	return nil
}

// Write takes an event, to be written soon.
func (j *Journal) Write(e Event) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.closed {
		j.lost.Add(1)
		return
	}
	select {
	case j.events <- e:
	default:
		j.lost.Add(1)
	}
}

// Lost returns how many events were not written.
func (j *Journal) Lost() int64 { return j.lost.Load() }

// Close writes what waits and closes the file. Events that come later are lost.
func (j *Journal) Close() error {
	j.mu.Lock()
	was := j.closed
	j.closed = true
	j.mu.Unlock()
	if was {
		return nil
	}
	close(j.events)
	<-j.done
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

// run writes events until Close. Those that wait go out in one write.
func (j *Journal) run() {
	defer close(j.done)
	var lines bytes.Buffer
	failing := false
	for e := range j.events {
		lines.Reset()
		n := int64(j.add(&lines, e))
		for more := true; more && lines.Len() < 64<<10; {
			select {
			case e, open := <-j.events:
				if more = open; open {
					n += int64(j.add(&lines, e))
				}
			default:
				more = false
			}
		}
		err := j.put(lines.Bytes())
		if err != nil {
			j.lost.Add(n)
			if !failing {
				j.failed(fmt.Errorf("audit: events are lost: %w", err))
			}
		}
		failing = err != nil
	}
}

// add adds a line, and returns how many it has added.
func (j *Journal) add(lines *bytes.Buffer, e Event) int {
	if json.NewEncoder(lines).Encode(e) != nil {
		j.lost.Add(1)
		return 0
	}
	return 1
}

// put appends lines, to a new file if this one would become too large. After a failure the
// file is opened anew.
func (j *Journal) put(lines []byte) error {
	if j.file == nil {
		if err := j.open(); err != nil {
			return err
		}
	}
	if j.size > 0 && j.size+int64(len(lines)) > j.maxBytes {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	n, err := j.file.Write(lines)
	j.size += int64(n)
	if err == nil {
		return nil
	}
	// What was written of a line would run into the next one.
	_ = j.file.Truncate(j.size - int64(n))
	_ = j.file.Close()
	j.file = nil
	return err
}

// rotate moves each file on by one number; the last one goes.
func (j *Journal) rotate() error {
	err := j.file.Close()
	j.file = nil
	if err != nil {
		return err
	}
	if j.keep == 0 {
		if err := os.Remove(j.path); err != nil {
			return err
		}
		return j.open()
	}
	for n := j.keep - 1; n >= 1; n-- {
		if err := os.Rename(j.numbered(n), j.numbered(n+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(j.path, j.numbered(1)); err != nil {
		return err
	}
	return j.open()
}

func (j *Journal) numbered(n int) string { return fmt.Sprintf("%s.%d", j.path, n) }
