package audit_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/mcp/audit"
)

// ids reads the request ids in a file, each line of which must be an event.
func ids(t *testing.T, path string) (list []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e audit.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v in %s", path, err, lines.Text())
		}
		list = append(list, e.RequestID)
	}
	return list
}

func TestJournal(t *testing.T) {
	t.Run("M-121 every event is there, in order, over as many files as are kept", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		var want []string
		for round := range 20 {
			j, err := audit.Open(path, 2000, 100, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				id := fmt.Sprintf("brk-%d-%d", round, i)
				want = append(want, id)
				j.Write(audit.Event{Action: audit.Admit, Outcome: audit.Dispatched, RequestID: id})
			}
			if err := j.Close(); err != nil || j.Lost() != 0 {
				t.Fatalf("%v, %d lost", err, j.Lost())
			}
		}
		files, _ := filepath.Glob(path + ".*")
		var got []string
		for n := len(files); n > 0; n-- {
			got = append(got, ids(t, fmt.Sprintf("%s.%d", path, n))...)
		}
		got = append(got, ids(t, path)...)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %d events in %d files, want %d", len(got), len(files)+1, len(want))
		}
		if info, err := os.Stat(path + ".1"); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("a full file: %v, %v", info.Mode(), err)
		}
	})
	t.Run("no more files stay than are kept", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		for range 10 {
			j, err := audit.Open(path, 1, 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			j.Write(audit.Event{Action: audit.Admit})
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		files, _ := filepath.Glob(path + "*")
		if len(files) != 3 {
			t.Errorf("there are %v", files)
		}
	})
	t.Run("M-121 events that cannot be written are counted, and it goes on when they can", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "audit.jsonl")
		// The first event needs a new file, whose place is taken by a directory that is not empty.
		if err := errors.Join(os.WriteFile(path, []byte("full\n"), 0o600), os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700)); err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 10)
		j, err := audit.Open(path, 1, 1, func(err error) { told <- err })
		if err != nil {
			t.Fatal(err)
		}
		j.Write(audit.Event{RequestID: "lost"})
		if err := <-told; err == nil {
			t.Error("nobody was told")
		}
		if err := os.RemoveAll(path + ".1"); err != nil {
			t.Fatal(err)
		}
		j.Write(audit.Event{RequestID: "after"})
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, path); j.Lost() < 1 || len(got) != 1 || got[0] != "after" {
			t.Errorf("%d lost, %v there", j.Lost(), got)
		}
	})
	t.Run("events come from everywhere, and none after the end", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		j, err := audit.Open(path, 1<<20, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					j.Write(audit.Event{RequestID: "x"})
				}
			})
		}
		all.Wait()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j.Write(audit.Event{RequestID: "late"})
		if got := len(ids(t, path)); got != 800 || j.Lost() != 1 {
			t.Errorf("%d there, %d lost", got, j.Lost())
		}
	})
}
