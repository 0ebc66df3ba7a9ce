package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the messages and pages that the code makes into the files that tests compare")

// wantMark begins the part of a bad file that holds its expected messages.
const wantMark = "# want:\n"

// TestBadFiles loads each file of the corpus and compares every message with the end of
// the file, where it stands as a comment. The first line says what the file is about and
// which rows it proves.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("the corpus is gone: %d files, %v", len(files), err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		about, _, _ := strings.Cut(strings.TrimPrefix(string(data), "# "), "\n")
		t.Run(about+" "+filepath.Base(path), func(t *testing.T) { checkBad(t, path, data) })
	}
}

func checkBad(t *testing.T, path string, data []byte) {
	body, want, ok := bytes.Cut(data, []byte(wantMark))
	if !ok {
		t.Fatalf("%s has no %q line", path, wantMark)
	}
	c, problems := Load([]string{filepath.Base(path)}, Options{
		Env: func(string) (string, bool) { return "", false },
		ReadFile: func(name string) ([]byte, error) {
			if name == filepath.Base(path) {
				return body, nil
			}
			return os.ReadFile(name)
		},
	})
	var got bytes.Buffer
	for _, p := range problems {
		got.WriteString("# " + strings.ReplaceAll(p.String(), "\n", "\n# ") + "\n")
	}
	if *update {
		if err := os.WriteFile(path, append(append(body, wantMark...), got.Bytes()...), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() != string(want) {
		t.Errorf("got:\n%swant:\n%s", got.Bytes(), want)
	}
	if len(problems) == 0 {
		t.Error("a bad file has no problem")
	}
	if errors := problems.Errors(); (c == nil) != (len(errors) > 0) {
		t.Errorf("the Config is nil: %v, with %d errors", c == nil, len(errors))
	}
	if bytes.Contains(got.Bytes(), []byte("hunter2")) {
		t.Error("a message repeats a secret")
	}
}
