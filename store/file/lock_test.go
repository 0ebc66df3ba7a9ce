package file_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/store/file"
)

// leftover is a lock file as a crashed process leaves it.
type leftover map[string]any

// deadLock is the lock of a child of this test that has ended, on this machine.
func deadLock(t *testing.T) leftover {
	t.Helper()
	path := freshPath(t)
	cmd := child("hold", path)
	in, out := pipes(t, cmd)
	if line, err := out.ReadString('\n'); err != nil {
		t.Fatalf("the child said %q, %v", line, err)
	}
	text := readFile(t, path+".lock")
	cmd.Process.Kill()
	in.Close()
	cmd.Wait()
	var l leftover
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// holdTheStore opens a store and keeps it until its input ends or it is killed.
func holdTheStore(path string) error {
	s, err := file.Open(path, file.Options{})
	if err != nil {
		return err
	}
	fmt.Println("open")
	io.Copy(io.Discard, os.Stdin)
	return s.Close()
}

// pipes starts cmd and returns its ends.
func pipes(t *testing.T, cmd *exec.Cmd) (in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return in, bufio.NewReader(stdout)
}

func TestLeftoverLocks(t *testing.T) {
	dead := deadLock(t)
	with := func(changes leftover) leftover {
		l := leftover{}
		for k, v := range dead {
			l[k] = v
		}
		for k, v := range changes {
			l[k] = v
		}
		return l
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := leftover{"host": "elsewhere", "bootId": "", "processStart": ""}
	for _, c := range []struct {
		name   string
		lock   any
		policy file.StaleLock
		want   string // "" is taken over
	}{
		{"C-91 a dead process", dead, file.PIDCheck, ""},
		{"C-91 a dead process, an older lock", leftover{"pid": dead["pid"], "host": host}, file.PIDCheck, ""},
		{"C-91 a live process", leftover{"pid": os.Getppid(), "host": host}, file.PIDCheck, "is alive"},
		{"C-91 one that we may not ask", leftover{"pid": 1, "host": host}, file.PIDCheck, "is alive"},
		{"C-91 another host", with(elsewhere), file.PIDCheck, `of host "elsewhere"`},
		{"C-91 no host", with(leftover{"host": ""}), file.PIDCheck, "does not say on which host"},
		{"C-91 unreadable", "garbage", file.PIDCheck, "cannot be read"},
		{"C-W8 our own number at another time", with(leftover{"pid": os.Getpid(), "processStart": "1"}), file.PIDCheck, ""},
		{"C-W8 a live number of an earlier boot", with(leftover{"pid": os.Getppid(), "bootId": "earlier"}), file.PIDCheck, ""},
		{"D17 a container of another name on this machine", with(leftover{"host": "earlier-pod"}), file.PIDCheck, ""},
		{"C-92 refuse", dead, file.RefuseLock, "did not stop in order"},
		{"C-92 refuse, another host", with(elsewhere), file.RefuseLock, "did not stop in order"},
		{"a lock that was only begun", nil, file.PIDCheck, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := freshPath(t)
			writeLock(t, path, c.lock)
			var log strings.Builder
			s, err := file.Open(path, file.Options{StaleLock: c.policy, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if c.want != "" {
				wantOneLine(t, err, c.want)
				if _, err := os.Stat(path + ".lock"); err != nil {
					t.Error("the lock of somebody else was removed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.lock != nil && !strings.Contains(log.String(), "took over the lock") {
				t.Errorf("nothing was logged: %q", log.String())
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path + ".lock"); err == nil {
				t.Error("C-93 the lock is still there")
			}
		})
	}
}

func writeLock(t *testing.T, path string, lock any) {
	t.Helper()
	var text []byte
	switch l := lock.(type) {
	case string:
		text = []byte(l)
	case leftover:
		var err error
		if text, err = json.Marshal(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path+".lock", text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantOneLine fails the test unless err is one line that holds part.
func wantOneLine(t *testing.T, err error, part string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("no error, want one with %q", part)
	case !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "file: "):
		t.Errorf("error %q, want one line with %q", err, part)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	path := freshPath(t)
	d := newDesk(t, path, file.Options{})
	if mode := fileMode(t, path+".lock"); mode != 0o600 {
		t.Errorf("the lock's mode is %o, want 600", mode)
	}
	if mode := fileMode(t, path); mode != 0o600 {
		t.Errorf("the store's mode is %o, want 600", mode)
	}
	_, err := file.Open(path, file.Options{})
	wantOneLine(t, err, fmt.Sprintf("process %d on", os.Getpid()))
	t.Run("C-89 another process", func(t *testing.T) {
		cmd := child("hold", path)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), fmt.Sprintf("process %d on", os.Getpid())) {
			t.Errorf("the second process: %v, %q", err, out)
		}
	})
	t.Run("C-93 after a stop in order", func(t *testing.T) { d.again(path, file.Options{}) })
}

func fileMode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// TestTwentyRaceForOneStaleLock starts twenty processes, lets them go at once and counts
// those that have the store.
func TestTwentyRaceForOneStaleLock(t *testing.T) {
	dead := deadLock(t)
	for range 5 {
		path := freshPath(t)
		writeLock(t, path, dead)
		var ins []io.WriteCloser
		var outs []*bufio.Reader
		for range 20 {
			in, out := pipes(t, child("race", path))
			if _, err := out.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			ins, outs = append(ins, in), append(outs, out)
		}
		var start sync.WaitGroup
		for _, in := range ins {
			start.Go(func() { io.WriteString(in, "go\n") })
		}
		start.Wait()
		winners := 0
		for _, out := range outs {
			line, err := out.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case line == "won\n":
				winners++
			case !strings.Contains(line, "uses it"):
				t.Errorf("C-W7 a loser was told %q", line)
			}
		}
		if winners != 1 {
			t.Errorf("C-W7 %d of twenty have the store, want one", winners)
		}
		for _, in := range ins {
			in.Close()
		}
	}
}

// raceForLock waits for the start, tries to open the store, says how that went and keeps
// what it has until its input ends.
func raceForLock(path string) error {
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	s, err := file.Open(path, file.Options{})
	if err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("won")
		defer s.Close()
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// TestALockNeedsItsName is the other half of C-W7: who opened the lock file before its
// holder removed it may get the system's lock on a file without a name, while a third has
// a new one.
func TestALockNeedsItsName(t *testing.T) {
	path := freshPath(t)
	release, err := file.Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	early, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	if !file.Named(early, path) {
		t.Error("the file that is locked does not count")
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if file.Named(early, path) {
		t.Error("a file without a name counts")
	}
	if release, err = file.Acquire(path); err != nil {
		t.Fatal(err)
	}
	defer release()
	if file.Named(early, path) {
		t.Error("a file whose name another has now counts")
	}
}
