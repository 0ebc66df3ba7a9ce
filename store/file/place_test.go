package file_test

import (
	"os"
	"path/filepath"
	"testing"

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
	t.Run("nothing to read", func(t *testing.T) {
		_, err := file.Verify(filepath.Join(dir, "missing"))
		wantOneLine(t, err, "no such file")
	})
}
