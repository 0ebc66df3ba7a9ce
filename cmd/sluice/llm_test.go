package main

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/llm"
)

// doorOf opens the gateway's door by a file whose provider has keys, or has none.
func doorOf(t *testing.T, unverified, keys, more string) llm.Options {
	t.Helper()
	at, err := filepath.Abs(examples)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	text := fmt.Sprintf("listen: {llm: \"127.0.0.1:0\"}\nidentity: {apiKeys: {file: %s/local.keys, secret: \"file:%s/local.key-secret\", unverified: %s}}\n"+
		"llm: {providers: {openai: {requestsPerMinute: 10, keys: [%s]}}%s}\n", at, at, unverified, keys, more)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, problems := config.Load([]string{path}, config.Options{Env: func(string) (string, bool) { return "held-by-the-gateway", true }})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	s := &llmServer{log: slog.New(slog.DiscardHandler)}
	o, d, err := s.options(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return o
}

func TestWhoComesIn(t *testing.T) {
	const held = `"${PROVIDER_KEY}"`
	good := key(t, "try-premium")
	for _, c := range []struct {
		name, unverified, keys, more, credential string
		in                                       bool
		subject                                  string // a part of it
		own                                      bool
	}{
		{"a key of the file", "ignore", held, "", good, true, "apikey:", true},
		{"a key of the file where clients bring their own too", "ignore", "", "", good, true, "apikey:", true},
		{"no key where the gateway holds the provider's", "ignore", held, "", "", false, "", false},
		{"an unknown key there", "ignore", held, "", "sk-unknown", false, "", false},
		{"D9 an unknown key there, where such keys are accepted elsewhere", "accept", held, "", "sk-unknown", false, "", false},
		{"a token that is none there", "ignore", held, "", "a.b.c", false, "", false},
		{"D9 an unknown key where clients bring their own", "ignore", "", "", "sk-unknown", true, "ip:203.0.113.9", false},
		{"nobody, where that is allowed", "ignore", held, ", anonymous: true", "", true, "ip:203.0.113.9", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := doorOf(t, c.unverified, c.keys, c.more)
			r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
			r.RemoteAddr = "203.0.113.9:1234"
			r.Header.Set("X-Tenant-Id", "forged")
			who, err := o.Identify(r, c.credential)
			if (err == nil) != c.in || who.Own != c.own || !strings.Contains(who.Subject, c.subject) || c.in && (who.Tenant != who.Subject || who.Tier == "") {
				t.Errorf("%+v %v", who, err)
			}
			if err != nil && strings.Contains(err.Error(), "unknown-") {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("D9 an address and its site", func(t *testing.T) {
		o := doorOf(t, "ignore", held, "")
		for remote, want := range map[string][2]string{"203.0.113.9:1": {"ip:203.0.113.9", ""}, "[2001:db8:1:2:3::4]:1": {"ip:2001:db8:1:2::/64", "ip:2001:db8:1::/48"}} {
			r := httptest.NewRequest("POST", "/", nil)
			r.RemoteAddr = remote
			r.Header.Set("X-Forwarded-For", "198.51.100.1")
			if ip, site := o.Address(r); ip != want[0] || site != want[1] {
				t.Errorf("%s: %q and %q", remote, ip, site)
			}
		}
	})
}
