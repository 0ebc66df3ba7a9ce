package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestListenOnSockets(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	l, err := listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := urlOf(l, false), "unix:"+path; got != want {
		t.Errorf("its address is %q, want %q", got, want)
	}
	if _, err := listen("unix:" + path); err == nil || !strings.Contains(err.Error(), "another process does already") {
		t.Errorf("a socket that is served: got %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as if the process were killed
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := listen("unix:" + path)
	if err != nil {
		t.Fatalf("a socket that a killed process left: %v", err)
	}
	again.Close()

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen("unix:" + file); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a file in the way: got %v", err)
	}
	if text, _ := os.ReadFile(file); string(text) != "mine" {
		t.Error("a file in the way was removed")
	}
}

func TestListenErrorsSayWhatToDo(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:0":  "this machine has no such address",
		"unix:/no/dir": "cannot listen on /no/dir: ",
	} {
		if _, err := listen(address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("listen(%q): got %v, want …%s", address, err, want)
		}
	}
}

func TestURLOf(t *testing.T) {
	for address, want := range map[string]string{"127.0.0.1:0": "https://127.0.0.1:", ":0": "https://localhost:", "[::1]:0": "https://[::1]:"} {
		l, err := listen(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := urlOf(l, true); !strings.HasPrefix(got, want) {
			t.Errorf("listening on %s: got %s, want %s…", address, got, want)
		}
		l.Close()
	}
}

func TestParseEnd(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 30, 0, 5, time.FixedZone("", 3600))
	for text, want := range map[string]string{
		"90d":                       "2027-02-27T11:30:00Z",
		"12h":                       "2026-11-29T23:30:00Z",
		"2027-01-31":                "2027-01-31T00:00:00Z",
		"2027-01-31T12:00:00+02:00": "2027-01-31T10:00:00Z",
		"2026-11-29":                "",
		"-1h":                       "",
		"soon":                      "",
		"d":                         "",
	} {
		end, err := parseEnd(text, now)
		if got := end.Format(time.RFC3339); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("parseEnd(%q): got %s, %v; want %s", text, got, err, want)
		}
	}
}
