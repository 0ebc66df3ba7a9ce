package admin

import (
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/browser"
)

var picture = flag.String("picture", "", "write a picture of the page over made-up traffic to this file")

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
	dom := browser.Run(t, url, "--dump-dom")
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
	dom := browser.Run(t, w.url, "--dump-dom")
	for _, part := range []string{"Nobody has called in the last minute.", "Nobody has been refused.", `<section id="broker" aria-labelledby="broker-title" hidden=`} {
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
	browser.Run(t, url, "--screenshot="+path, "--window-size=1280,1180", "--force-device-scale-factor=1.5")
	if info, err := os.Stat(path); err != nil || info.Size() < 10_000 {
		t.Errorf("no picture: %v, %v", info, err)
	}
}

func TestHandsOnThePage(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) { o.Tokens = []Token{NewToken("boss", "open sesame", Operator)} })
	w.exhaust("user:alice")
	go w.admin.Run(t.Context())
	b := browser.Open(t, w.url)

	b.Until("true", "document.getElementById('login').open")
	b.Eval("document.getElementById('token').value = 'wrong'")
	b.Click("#login button")
	b.Until("not right", "document.getElementById('login-why').textContent")
	b.Eval("document.getElementById('token').value = 'open sesame'")
	b.Click("#login button")
	b.Until("live", "document.getElementById('link').dataset.state")
	b.Until("tier-standard", "document.getElementById('rules').textContent")

	const reset = "#talkers button"
	b.Click(reset)
	b.Until("Sure?", "document.querySelector('#talkers button').textContent")
	b.Press(reset, "Escape")
	b.Until("Reset", "document.querySelector('#talkers button').textContent")
	if w.call("user:alice") {
		t.Error("one press has reset already")
	}
	b.Click(reset)
	b.Click(reset)
	b.Until("Done", "document.querySelector('#talkers button').textContent")
	if !w.call("user:alice") {
		t.Error("after the reset alice is still refused")
	}

	b.Click(`th button[data-sort="id"]`)
	b.Until("endpoint-auth", "document.querySelector('#rules .id').textContent")
	b.Until("ascending", "document.querySelector('th[aria-sort]').getAttribute('aria-sort')")
	b.Click(`th button[data-sort="id"]`)
	b.Until("tier-standard", "document.querySelector('#rules .id').textContent")

	b.Press("#chart", "Home")
	b.Until("admitted", "document.getElementById('chart-said').textContent")
	b.Press("#chart", "Escape")
	b.Until("true", "document.querySelector('.tip').hidden")

	b.Click("#theme")
	b.Until("light", "getComputedStyle(document.documentElement).colorScheme")
	b.Click("#pause")
	b.Until("paused", "document.getElementById('link-text').textContent")
}
