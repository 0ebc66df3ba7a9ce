package file_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

func init() { children["full"] = fillTheDisk }

// TestFullDisk runs fillTheDisk in a process of its own: on a file system of one
// megabyte where we may mount one, and everywhere under the system's limit on the size of
// a file. Both refuse real writes of the real store.
func TestFullDisk(t *testing.T) {
	for _, c := range []struct {
		name  string
		mount bool
	}{{"C-87, C-W4 ENOSPC", true}, {"C-87, C-W4 EFBIG", false}} {
		t.Run(c.name, func(t *testing.T) {
			cmd := child("full", freshPath(t))
			if c.mount {
				cmd.Env = append(cmd.Env, "SLUICE_MOUNT=1")
				cmd.SysProcAttr = ownMounts()
			}
			out, err := cmd.CombinedOutput()
			if errors.Is(err, syscall.EPERM) {
				t.Log("this process may not mount a file system; the limit on a file's size stands for the full disk")
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// ownMounts gives a child mounts of its own, which end with it.
func ownMounts() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// A disk that can be full.
type disk struct{ fill, free func() error }

// smallDisk mounts one megabyte at dir. It is full when another file has taken the rest.
func smallDisk(dir string) (disk, error) {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return disk{}, err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return disk{}, err
	}
	ballast := filepath.Join(dir, "ballast")
	return disk{
		fill: func() error {
			if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
				return fmt.Errorf("the small disk took two megabytes: %v", err)
			}
			return nil
		},
		free: func() error { return os.Remove(ballast) },
	}, nil
}

// shortFiles lets this process make no file longer than the store's is now.
func shortFiles(path string) disk {
	signal.Ignore(syscall.SIGXFSZ) // the write itself is to fail, not the process
	var whole syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &whole)
	return disk{
		fill: func() error {
			info, statErr := os.Stat(path)
			if err := errors.Join(err, statErr); err != nil {
				return err
			}
			return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(info.Size()), Max: whole.Max})
		},
		free: func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &whole) },
	}
}

// A lineCounter counts what is logged.
type lineCounter struct {
	mu    sync.Mutex
	lines []string
}

func (c *lineCounter) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, string(b))
	return len(b), nil
}

// fillTheDisk opens a store, fills its disk under it, and makes room again.
func fillTheDisk(path string) error {
	log := new(lineCounter)
	full := shortFiles(path)
	if os.Getenv("SLUICE_MOUNT") != "" {
		var err error
		if full, err = smallDisk(filepath.Dir(path)); err != nil {
			return err
		}
	}
	s, err := file.Open(path, file.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		return err
	}
	f := &flood{store: s, window: step(1, limit.Window(1<<40, limit.Day), 1), slots: step(2, limit.Slots(1<<20), 1)}
	return errors.Join(f.run(full), s.Close(), f.readBack(path), onePerChange(log))
}

// onePerChange reports an error unless each change of state was logged once.
func onePerChange(log *lineCounter) error {
	failed, back := 0, 0
	for _, line := range log.lines {
		if strings.Contains(line, "the disk refuses writes") {
			failed++
		}
		if strings.Contains(line, "takes writes again") {
			back++
		}
	}
	if failed != 1 || back != 1 {
		return fmt.Errorf("the failure was logged %d times and its end %d times, want once each:\n%s", failed, back, strings.Join(log.lines, ""))
	}
	return nil
}

// A flood makes grants until the disk is full.
type flood struct {
	store         *file.Store
	window, slots ledger.Step
	n, confirmed  uint64
	converted     uint64 // the bucket whose first take as a window failed
}

// asBucket and asWindow are one of many cells whose rule has changed its kind.
func asBucket(i uint64) ledger.Step { return step(1000+i, limit.Bucket(1, limit.Day, 10), 3) }
func asWindow(i uint64) ledger.Step { return step(1000+i, limit.Window(10, limit.Day), 1) }

// fillUp goes on until the disk refuses. It takes from cells that the disk knows as
// buckets, that have just become windows: the first that fails must not be taken for one
// that the disk knows as a window.
func (f *flood) fillUp() error {
	for i := range uint64(buckets) {
		peek := take(asWindow(i))
		peek.Op = ledger.Peek
		if _, err := f.apply(peek); err != nil {
			return err
		}
		time.Sleep(10 * time.Microsecond) // so that the debit is younger than the conversion
		if _, err := f.apply(take(asWindow(i))); err != nil {
			f.converted = i
			return err
		}
	}
	return errors.New("the full disk took everything")
}

const buckets = 2000

func (f *flood) apply(cmd ledger.Command) (ledger.Result, error) {
	cmds, res := []ledger.Command{cmd}, make([]ledger.Result, 1)
	err := f.store.Apply(context.Background(), cmds, res)
	return res[0], err
}

func (f *flood) take() error {
	f.n++
	_, err := f.apply(named(f.n, take(f.window, f.slots)))
	if err == nil {
		f.confirmed++
	}
	return err
}

// held is how many units the store says are taken of each limit.
func (f *flood) held() (window, slots int64, err error) {
	cmd := take(f.window, f.slots)
	cmd.Op, cmd.Levels = ledger.Peek, true
	res, err := f.apply(cmd)
	if err != nil {
		return 0, 0, err
	}
	return res.Levels[0].Max - res.Levels[0].Left, res.Levels[1].Max - res.Levels[1].Left, nil
}

func (f *flood) run(d disk) error {
	for range 20 {
		if err := f.take(); err != nil {
			return err
		}
	}
	var cells []ledger.Command
	for i := range uint64(buckets) {
		cells = append(cells, take(asBucket(i)))
	}
	if err := f.store.Apply(context.Background(), cells, make([]ledger.Result, buckets)); err != nil {
		return err
	}
	if err := d.fill(); err != nil {
		return err
	}
	err := f.fillUp()
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("refused with %w, want a full disk", err)
	}
	if err := f.whileFull(); err != nil {
		return err
	}
	if err := d.free(); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); f.take() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("C-W4 service did not resume within ten seconds of the space coming back")
		}
	}
	return nil
}

// whileFull looks at what is refused, what is not, and that nothing has changed.
func (f *flood) whileFull() error {
	if window, slots, err := f.held(); err != nil || window != int64(f.confirmed) || slots != int64(f.confirmed) {
		return fmt.Errorf("C-87 memory has changed: %d and %d units are taken by %d grants: %v", window, slots, f.confirmed, err)
	}
	if _, err := f.apply(take(f.window)); err == nil {
		return errors.New("C-87 a later debit was not refused")
	}
	v := f.window
	v.Volatile, v.Key.Cell = true, 99
	if _, err := f.apply(take(v)); err != nil {
		return fmt.Errorf("a call that needs no disk was refused: %w", err)
	}
	if res, err := f.apply(named(1, release)); err != nil || res.Status != ledger.Done {
		return fmt.Errorf("C-W4 a release was refused: %d, %w", res.Status, err)
	}
	if _, err := f.apply(named(2, settle(5, -1))); err == nil {
		return errors.New("a settlement was confirmed that is not on the disk")
	}
	if _, err := f.apply(named(2, settle(5, -1))); err == nil {
		return errors.New("its repetition was confirmed")
	}
	if _, slots, err := f.held(); err != nil || slots != int64(f.confirmed)-1 {
		return fmt.Errorf("C-W4 the slot is still held: %d of %d, %v", slots, f.confirmed, err)
	}
	return nil
}

// readBack opens the store again and finds what was confirmed, and what was carried out
// while the disk was full.
func (f *flood) readBack(path string) error {
	var err error
	if f.store, err = file.Open(path, file.Options{}); err != nil {
		return err
	}
	defer f.store.Close()
	window, slots, err := f.held()
	if err != nil || window != int64(f.confirmed)+4 || slots != int64(f.confirmed)-1 {
		return fmt.Errorf("C-W4 %d and %d units are taken after the restart by %d grants, one released and one settled to five: %v",
			window, slots, f.confirmed, err)
	}
	peek := take(asWindow(f.converted))
	peek.Op, peek.Levels = ledger.Peek, true
	res, err := f.apply(peek)
	if err != nil || res.Levels[0].Left != 10-3 {
		return fmt.Errorf("%+v of the cell that became a window, want 7 left: %v", res.Levels, err)
	}
	return nil
}
