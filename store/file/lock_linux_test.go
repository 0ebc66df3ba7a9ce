package file_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/sluicegate/sluice/store/file"
)

func TestLockOfAProcessNobodyWaitedFor(t *testing.T) {
	stat := func(pid int) [][]byte {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	}
	cmd := exec.CommandContext(t.Context(), "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // it has ended, and how is nobody's business
	lock := leftover{}
	for k, v := range deadLock(t) {
		lock[k] = v
	}
	lock["pid"], lock["processStart"] = cmd.Process.Pid, string(stat(cmd.Process.Pid)[19])

	path := freshPath(t)
	writeLock(t, path, lock)
	_, err = file.Open(path, file.Options{StaleLock: file.PIDCheck})
	wantOneLine(t, err, "is alive")

	in.Close()
	for state := byte(0); state != 'Z'; state = stat(cmd.Process.Pid)[0][0] {
		_, _ = out.Read(make([]byte, 1)) // blocks until it has closed its output
	}
	t.Run("C-91 a process that has ended is dead, though its parent has not asked", func(t *testing.T) {
		s, err := file.Open(path, file.Options{StaleLock: file.PIDCheck})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
