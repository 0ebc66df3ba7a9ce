package watch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// forever is how long a test waits for what must happen. What must not happen is waited
// for with a change that must: two reports would come in order.
const forever = 10 * time.Second

// watching starts a Watcher and returns a channel that gets one value for each report.
func watching(t *testing.T, files ...string) <-chan struct{} {
	t.Helper()
	w, err := New(files...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reports, ended := make(chan struct{}, 100), make(chan error)
	go func() { ended <- w.Run(ctx, func() { reports <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return reports
}

func wait(t *testing.T, reports <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-reports:
	case <-time.After(forever):
		t.Fatalf("%s was not reported", what)
	}
}

// only fails if more was reported than was waited for.
func only(t *testing.T, reports <-chan struct{}) {
	t.Helper()
	if n := len(reports); n > 0 {
		t.Errorf("%d reports too many", n)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriteInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "1")
	reports := watching(t, path)
	write(t, path, "2")
	wait(t, reports, "a write")
	write(t, path, "3")
	wait(t, reports, "a second write")
	only(t, reports)
}

func TestPiecesAreOneChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "")
	reports := watching(t, path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	for range 50 {
		_, err := f.WriteString("more\n")
		must(t, err)
	}
	must(t, f.Close())
	wait(t, reports, "a write in pieces")
	only(t, reports)
}

func TestRenameOver(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, "1")
	reports := watching(t, path)
	for _, text := range []string{"2", "3"} { // a watch on the file itself sees the first only
		write(t, filepath.Join(dir, ".a.yaml.swp"), text)
		must(t, os.Rename(filepath.Join(dir, ".a.yaml.swp"), path))
		wait(t, reports, "a rename")
	}
	only(t, reports)
}

func TestOtherFilesAndTouchesAreNoChange(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, "1")
	reports := watching(t, path)
	write(t, filepath.Join(dir, "b.yaml"), "1")
	must(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)))
	write(t, path, "1")
	time.AfterFunc(2*Settle, func() { os.WriteFile(path, []byte("2"), 0o644) })
	wait(t, reports, "the real change")
	only(t, reports)
}

func TestRemovedAndBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "1")
	reports := watching(t, path)
	must(t, os.Remove(path))
	wait(t, reports, "a removal")
	write(t, path, "2")
	wait(t, reports, "a new file")
	only(t, reports)
}

// TestConfigMap changes files as the kubelet does: a.yaml is a link to ..data/a.yaml,
// ..data a link to a directory with a time in its name. A new directory is made, ..data is
// renamed over, and the old directory is removed. a.yaml itself never changes.
func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	publish := func(version, text string) {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o755))
		write(t, filepath.Join(dir, version, "a.yaml"), text)
		must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	publish("..2026_01", "1")
	must(t, os.Symlink(filepath.Join("..data", "a.yaml"), filepath.Join(dir, "a.yaml")))
	reports := watching(t, filepath.Join(dir, "a.yaml"))

	publish("..2026_02", "2")
	must(t, os.RemoveAll(filepath.Join(dir, "..2026_01")))
	wait(t, reports, "the first swap")
	publish("..2026_03", "3")
	must(t, os.RemoveAll(filepath.Join(dir, "..2026_02")))
	wait(t, reports, "the second swap")
	only(t, reports)
}

func TestLinkIntoAnotherDirectory(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, filepath.Join(elsewhere, "real.yaml"), "1")
	must(t, os.Symlink(filepath.Join(elsewhere, "real.yaml"), filepath.Join(dir, "a.yaml")))
	reports := watching(t, filepath.Join(dir, "a.yaml"))
	write(t, filepath.Join(elsewhere, "real.yaml"), "2")
	wait(t, reports, "a write behind the link")
	only(t, reports)
}

func TestBusyNeighbour(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, "1")
	reports := watching(t, path)
	write(t, path, "2")
	log, err := os.Create(filepath.Join(dir, "access.log"))
	must(t, err)
	busy := time.NewTicker(Settle / 10)
	defer busy.Stop()
	for began := time.Now(); time.Since(began) < forever; {
		select {
		case <-reports:
			must(t, log.Close())
			return
		case <-busy.C:
			_, err := log.WriteString("line\n")
			must(t, err)
		}
	}
	t.Fatal("a file that is written all the time hides the change of another")
}

func TestSeveralFiles(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a.yaml"), filepath.Join(t.TempDir(), "b.yaml")
	write(t, a, "1")
	reports := watching(t, a, b)
	write(t, b, "1")
	wait(t, reports, "a file that was not there before")
	only(t, reports)
}

func TestNoDirectory(t *testing.T) {
	if _, err := New(filepath.Join(t.TempDir(), "no", "a.yaml")); err == nil {
		t.Error("a directory that is not there cannot be watched")
	}
}
