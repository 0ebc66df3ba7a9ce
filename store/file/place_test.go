package file_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"C-14 no directory", filepath.Join(dir, "none", "ledger"), "there is no directory"},
		{"a file for a directory", filepath.Join(plain, "ledger"), "not a directory"},
		{"a directory for a file", dir, "it is not a file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := file.Open(c.path, file.Options{})
			wantOneLine(t, err, c.want)
		})
	}
	t.Run("C-87 the temporary file's name is taken", func(t *testing.T) {
		path := filepath.Join(dir, "ledger")
		if err := os.Mkdir(path+".tmp", 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := file.Open(path, file.Options{})
		wantOneLine(t, err, "is a directory")
		if _, err := os.Stat(path + ".lock"); err == nil {
			t.Error("the lock is still there")
		}
	})
	t.Run("C-86 nobody else reads what is written, nor what was there before", func(t *testing.T) {
		path := filepath.Join(dir, "mine")
		if err := os.WriteFile(path+".tmp", []byte("an old attempt"), 0o644); err != nil {
			t.Fatal(err)
		}
		d := newDesk(t, path, file.Options{})
		d.want(ledger.Done, take(step(1, limit.Window(9, limit.Hour), 1)))
		wantModes(t, dir, "mine", "mine.lock")
		d = d.again(path, file.Options{})
		wantModes(t, dir, "mine", "mine.bak", "mine.lock")
		d.left(8, step(1, limit.Window(9, limit.Hour), 1))
	})
	t.Run("nothing to read", func(t *testing.T) {
		_, err := file.Verify(filepath.Join(dir, "missing"))
		wantOneLine(t, err, "no such file")
	})
}

// wantModes fails the test unless these are the files whose names begin with the first
// name, and only their owner may read and write them.
func wantModes(t *testing.T, dir string, names ...string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, names[0]+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range found {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if found[i] = filepath.Base(path); info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", found[i], info.Mode())
		}
	}
	if !slices.Equal(found, names) {
		t.Errorf("there are %v, want %v", found, names)
	}
}
