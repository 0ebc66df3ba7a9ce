package admin

import (
	"context"
	"flag"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

var picture = flag.String("picture", "", "write a picture of the page over made-up traffic to this file")

// chromium runs a headless browser on url and returns what it prints. Its clock runs
// ahead by a few seconds when nothing happens, so that the page has drawn a tick or two.
func chromium(t *testing.T, url string, args ...string) string {
	t.Helper()
	name := browser(t)
	args = append(append(quiet(t), "--virtual-time-budget=4000"), append(args, url)...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// browser returns the program to open pages with.
func browser(t *testing.T) string {
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

// page serves an Admin after five minutes of made-up traffic until the test ends.
func page(t *testing.T, o Options) (*Admin, string) {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	a.Loaded("5be1c0ffee", nil)
	newTraffic().run(a, 300)
	server := httptest.NewServer(a.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(a.live.close) // before the server closes, which waits for streams
	return a, server.URL
}

func TestPageInABrowser(t *testing.T) {
	const evil = `user:<img src=x onerror="document.title='owned'">`
	attack := &sluice.Event{
		Call: &sluice.Call{Kind: "http", Subject: evil, Method: `<svg onload=alert(1)>`, Tier: "standard"}, Outcome: sluice.Refused,
		Refusal: &sluice.Refusal{Reason: sluice.ReasonRate, Rule: "tier-standard", RetryAfter: time.Second},
		Rules:   []sluice.RuleOutcome{{Rule: "tier-standard", Refused: true}},
	}
	o := newTraffic().options()
	o.Draining = func() bool { return true }
	a, url := page(t, o)
	a.Observe(attack)
	go a.Run(t.Context())
	dom := chromium(t, url, "--dump-dom")
	for what, part := range map[string]string{
		"the connection":              `data-state="live"`,
		"a rule":                      "endpoint-api-v1-memory-consolidate",
		"a limit":                     "20/min burst 5",
		"a talker":                    "apikey:2e8d510f…",
		"a reset button":              `aria-label="Reset the limits of ip:198.51.100.77"`,
		"a refusal":                   "by tier-anonymous",
		"the shadow tag":              ">shadow</span>",
		"the chart":                   `<path class="o-refused" d="M`,
		"the banner":                  "Draining.",
		"an attacker's name, as text": `user:&lt;img src=x onerror=`,
	} {
		if !strings.Contains(dom, part) {
			t.Errorf("the page lacks %s: %s", what, part)
		}
	}
	for what, part := range map[string]string{"an attacker's image": "<img src=\"x\"", "an attacker's script has run": "owned</title>", "an attacker's svg": "<svg onload"} {
		if strings.Contains(dom, part) {
			t.Errorf("the page has %s", what)
		}
	}
}

func TestPageWithoutTrafficSaysWhatToDo(t *testing.T) {
	w := newWorld(t, nil)
	dom := chromium(t, w.url, "--dump-dom")
	for _, part := range []string{"Nobody has called in the last minute.", "Nobody has been refused."} {
		if !strings.Contains(dom, part) {
			t.Errorf("the empty page lacks %q", part)
		}
	}
}

// TestPicture makes the picture of the README: go test ./admin -run TestPicture -picture ../docs/img/page.png.
func TestPicture(t *testing.T) {
	if *picture == "" {
		return // nobody wants one
	}
	path, err := filepath.Abs(*picture)
	if err != nil {
		t.Fatal(err)
	}
	_, url := page(t, newTraffic().options())
	chromium(t, url, "--screenshot="+path, "--window-size=1280,1180", "--force-device-scale-factor=1.5")
	if info, err := os.Stat(path); err != nil || info.Size() < 10_000 {
		t.Errorf("no picture: %v, %v", info, err)
	}
}
