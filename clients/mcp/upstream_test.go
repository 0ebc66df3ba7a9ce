package mcp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Scenarios of the suite in which it is a server, and looks at what a client sends. The client is
// go-sdk's: alone, and through the broker, whose own side towards providers is what the suite
// sees then. Those about OAuth are left out: the broker shows a provider the headers that the
// configuration names, and asks nobody for tokens.
var upstream = []struct{ version, scenario string }{
	{"2025-11-25", "initialize"},
	{"2025-11-25", "tools_call"},
	{"2025-11-25", "elicitation-sep1034-client-defaults"},
	{"2025-11-25", "sse-retry"},
	{"2026-07-28", "tools_call"},
	{"2026-07-28", "request-metadata"},
	{"2026-07-28", "http-standard-headers"},
	{"2026-07-28", "http-custom-headers"},
	{"2026-07-28", "http-invalid-tool-headers"},
	{"2026-07-28", "sep-2322-client-request-state"},
	{"2026-07-28", "json-schema-ref-no-deref"},
	{"2026-07-28", "json-schema-2020-12-preservation"},
}

// between is set for this test binary where the suite starts it as its client.
const between = "SLUICE_BETWEEN"

// TestUpstream compares what the suite sees of a client with what it sees of the broker.
func TestUpstream(t *testing.T) {
	node(t)
	command, err := sluice()
	if err != nil {
		t.Fatal(err)
	}
	client := tool(t, "everything-client")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range upstream {
		t.Run(u.version+" "+u.scenario, func(t *testing.T) {
			t.Parallel()
			watch := func(program string) outcomes {
				cmd := conformance(t, "client", "--command", program, "--scenario", u.scenario, "--spec-version", u.version)
				cmd.Env = append(os.Environ(), between+"="+command, "EVERYTHING_CLIENT="+client)
				return outcomes{"client " + u.scenario: run(t, cmd, u.scenario+"-*")[u.scenario]}
			}
			compare(t, u.version, watch(client), watch(self))
		})
	}
}

// standBetween is what this test binary does as the suite's client: it starts a broker in front of
// the suite's server, and go-sdk's client in front of that.
func standBetween(sluice string) error {
	dir, err := os.MkdirTemp("", "between")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	url, file := os.Args[len(os.Args)-1], filepath.Join(dir, "sluice.yaml")
	address, err := unused()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("listen: {mcp: %q}\nmcp: {slots: [{slot: suite, url: %q}]}\n", address, url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	broker := exec.Command(sluice, "serve", "--config", file)
	broker.Stderr = os.Stderr
	if err := broker.Start(); err != nil {
		return err
	}
	defer func() {
		_ = broker.Process.Signal(os.Interrupt)
		_ = broker.Wait() // however it ends
	}()
	if err := listens(address); err != nil {
		return err
	}
	client := exec.Command(os.Getenv("EVERYTHING_CLIENT"), "http://"+address+"/suite/mcp")
	client.Stdout, client.Stderr = os.Stdout, os.Stderr
	return client.Run()
}
