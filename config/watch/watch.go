// Package watch says when one of a few files has changed, however it was changed: written
// in place, renamed over as editors do, or swapped through a symbolic link as Kubernetes
// does with a ConfigMap. It says that something changed and nothing more; what to do about
// it is the caller's business.
package watch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Settle is how long a file must be left alone before a change is reported, so that a
// file that is written in pieces is read once, whole.
const Settle = 200 * time.Millisecond

// patience is how long a change waits at most for the directory to be quiet: a neighbour
// that is written all the time, such as a log, must not hide it.
const patience = 10 * Settle

// largest bounds what is read of a file to see whether it changed.
const largest = 4 << 20

// A Watcher watches files. It is made by [New] and used by one goroutine.
type Watcher struct {
	files []string
	last  [sha256.Size]byte
	fs    *fsnotify.Watcher
}

// New begins to watch the files. A file need not exist; its directory must. The caller
// ends the watch with Run's context, or with Close if it never calls Run.
func New(files ...string) (*Watcher, error) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch: the system gives no notifications: %w", err)
	}
	w := &Watcher{fs: fs}
	for _, f := range files {
		abs, err := filepath.Abs(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("watch: %w", err), fs.Close())
		}
		w.files = append(w.files, abs)
	}
	if err := w.follow(); err != nil {
		return nil, errors.Join(err, fs.Close())
	}
	w.last = w.digest()
	return w, nil
}

// Close ends the watch.
func (w *Watcher) Close() error { return w.fs.Close() }

// Run calls changed once for each change, after the files have been left alone for
// [Settle], until ctx ends. Calls do not overlap; changes during a call are reported after
// it. It returns nil when ctx ends, and else why it cannot go on.
func (w *Watcher) Run(ctx context.Context, changed func()) error {
	defer w.fs.Close()
	var settled <-chan time.Time
	var first time.Time // of the notifications that settled waits for
	wait := func() {
		if settled == nil {
			first = time.Now()
		}
		settled = time.After(min(Settle, patience-time.Since(first)))
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-w.fs.Events:
			if !ok {
				return errors.New("watch: the watcher was closed")
			}
			wait()
		case err, ok := <-w.fs.Errors:
			if !ok {
				return errors.New("watch: the watcher was closed")
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch: %w", err)
			}
			wait() // notifications were lost: look
		case <-settled:
			settled = nil
			if err := w.follow(); err != nil {
				return err
			}
			if d := w.digest(); d != w.last {
				w.last = d
				changed()
			}
		}
	}
}

// follow watches the directory of each file and of everything its links lead through.
// Directories are watched and not files, because a file that is renamed over, or a link
// that is swapped, is another file afterwards, and its watch would end with the old one.
func (w *Watcher) follow() error {
	for _, f := range w.files {
		if err := w.add(filepath.Dir(f)); err != nil {
			return err
		}
		for range 40 { // as many links as Linux follows
			target, err := os.Readlink(f)
			if err != nil {
				break // no link, or not there yet: its directory is watched
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(f), target)
			}
			f = target
			if err := w.add(filepath.Dir(f)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// add watches a directory by its real name, once. The system forgets a directory that is
// removed, so one that is back after a swap is added anew.
func (w *Watcher) add(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if slices.Contains(w.fs.WatchList(), real) {
		return nil
	}
	if err := w.fs.Add(real); err != nil {
		return fmt.Errorf("watch: cannot watch %s: %w", real, err)
	}
	return nil
}

// digest sums up what the files hold. A file that cannot be read counts as absent. Times
// and inodes are left out: a touch is no change, and a copy of the same text neither.
func (w *Watcher) digest() [sha256.Size]byte {
	h := sha256.New()
	for _, path := range w.files {
		f, err := os.Open(path)
		if err != nil {
			fmt.Fprint(h, "absent;")
			continue
		}
		n, _ := io.Copy(h, io.LimitReader(f, largest)) // a read that fails is seen as another text
		fmt.Fprintf(h, ";%d;", n)
		f.Close()
	}
	return [sha256.Size]byte(h.Sum(nil))
}
