package file

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

// A lockFile says that this process uses a store. What decides is the operating system's
// lock on it, which cannot outlive a process; what is written in it is for the case that
// such a lock does not reach, such as a directory that two machines share, and for people.
type lockFile struct {
	path string
	file *os.File
}

// A holder is who has a lock.
type holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Boot    string    `json:"bootId,omitempty"`
	Start   string    `json:"processStart,omitempty"` // clock ticks from boot to the process
	Started time.Time `json:"startedAt"`
}

func thisProcess() holder {
	host, _ := os.Hostname()
	return holder{PID: os.Getpid(), Host: host, Boot: bootID(), Start: startTime(os.Getpid()), Started: time.Now().UTC()}
}

func hostHash() [16]byte {
	host, _ := os.Hostname()
	return sumOf([]byte(host))
}

// acquire takes the lock at path.
//
// A lock file is removed by the one who has it locked. Who opened it before may then lock
// a file that has no name any more, and somebody else a new one: so a lock counts only if
// the name still leads to the file that is locked.
func acquire(path string, stale StaleLock, log *slog.Logger) (*lockFile, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		locked, err := flock(f)
		if err == nil && !locked {
			err = inUse(f)
		}
		if err == nil && !named(f, path) {
			f.Close()
			continue
		}
		if err == nil {
			err = takeOver(f, path, stale, log)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return &lockFile{path, f}, nil
	}
}

// named reports whether path leads to f.
func named(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

func inUse(f *os.File) error {
	if h, err := readHolder(f); err == nil && h != nil {
		return fmt.Errorf("process %d on %s uses it since %s; stop that one first", h.PID, h.Host, h.Started.Format(time.RFC3339))
	}
	return fmt.Errorf("another process uses it; stop that one first")
}

// takeOver writes this process into a locked file, unless what is there forbids it.
func takeOver(f *os.File, path string, stale StaleLock, log *slog.Logger) error {
	was, err := readHolder(f)
	if err != nil {
		return fmt.Errorf("its lock %s cannot be read; make sure that no process uses the store and remove the lock", path)
	}
	if was != nil {
		if err := was.judge(thisProcess(), stale); err != nil {
			return fmt.Errorf("its lock %s was left behind: %w", path, err)
		}
		log.Warn("file: took over the lock of a process that is gone", "lock", path, "pid", was.PID, "since", was.Started)
	}
	b, err := json.Marshal(thisProcess())
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(append(b, '\n'), 0); err != nil {
		return err
	}
	return f.Sync()
}

// readHolder returns who is written in a lock file, nil if it is new.
func readHolder(f *os.File) (*holder, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<16))
	if err != nil || len(b) == 0 {
		return nil, err
	}
	h := new(holder)
	return h, json.Unmarshal(b, h)
}

// judge reports why the lock that h has left behind must not be taken over by me. The
// system's lock is free, so h has ended if it was on this machine.
func (h *holder) judge(me holder, stale StaleLock) error {
	const advice = "make sure that no process uses the store and remove the lock"
	sameBoot := h.Boot != "" && h.Boot == me.Boot
	switch {
	case stale == RefuseLock:
		return fmt.Errorf("process %d on %q did not stop in order; %s", h.PID, h.Host, advice)
	case h.Host == "":
		return fmt.Errorf("it does not say on which host; %s", advice)
	case !sameBoot && h.Host != me.Host:
		return fmt.Errorf("it is of host %q and this is %q; %s", h.Host, me.Host, advice)
	case h.Boot != "" && me.Boot != "" && !sameBoot:
		return nil // the machine has been started since
	case h.Start != "" && startTime(h.PID) != h.Start:
		return nil // the number is free, or another process has it now
	case alive(h.PID):
		return fmt.Errorf("process %d is alive; stop it, or %s", h.PID, advice)
	}
	return nil
}

// release gives the lock back.
func (l *lockFile) release() error {
	err := os.Remove(l.path) // before the lock goes, or it might be another's
	if e := l.file.Close(); err == nil {
		err = e
	}
	return err
}
