// Package browser opens pages in a real browser, for tests.
//
// It is Chromium or one like it; a machine without one leaves the tests out, in CI they fail.
package browser

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Run runs a headless browser on url and returns what it prints. Its clock runs
// ahead by a few seconds when nothing happens, so that the page has drawn a tick or two.
func Run(t *testing.T, url string, args ...string) string {
	t.Helper()
	name := path(t)
	args = append(append(quiet(t), "--virtual-time-budget=4000"), append(args, url)...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// path returns the program to open pages with.
func path(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no chromium, and in CI there must be")
	}
	t.Skip("no chromium on this machine; Debian's package of that name has it")
	return ""
}

// quiet returns the arguments of a browser that only does what the test asks for.
func quiet(t *testing.T) []string {
	t.Helper()
	profile, err := os.MkdirTemp("", "sluice-page")
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir, which fails the test if a dying browser still writes there.
	t.Cleanup(func() { os.RemoveAll(profile) })
	return []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
		"--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--user-data-dir=" + profile,
	}
}
