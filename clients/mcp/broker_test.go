package mcp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// sluice is the command, built once.
var sluice = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "sluice")
	cmd := exec.Command("go", "build", "-o", path, "github.com/sluicegate/sluice/cmd/sluice")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// A broker is "sluice serve" with a file.
type broker struct {
	command string
	address string
	header  []string // which a client shows
}

// startBroker starts one with slots, each a line of YAML, and further sections of the file.
func startBroker(t *testing.T, more string, slots ...string) *broker {
	t.Helper()
	command, err := sluice()
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{command: command, address: free(t)}
	text := fmt.Sprintf("listen: {mcp: %q}\nmcp:\n  slots:\n", b.address)
	for _, s := range slots {
		text += "    - " + s + "\n"
	}
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(text+more), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command, "serve", "--config", file)
	cmd.Env = append(os.Environ(), "PLANT_SECRET="+plantSecret)
	serve(t, b.address, cmd)
	return b
}

// plantSecret is what a provider shows that dials in.
const plantSecret = "a-secret-of-the-plant-0123456789"

// slot is where clients find a slot, over every transport.
func (b *broker) slot(name string) target {
	at := "http://" + b.address + "/" + name
	return target{http: at + "/mcp", sse: at + "/sse", websocket: strings.Replace(at, "http", "ws", 1),
		stdio: []string{b.command, "mcp", "stdio", "--slot", name, "--url", "http://" + b.address}, header: b.header}
}

// await waits until a slot has its provider.
func (b *broker) await(t *testing.T, slot string) {
	t.Helper()
	hello := mcptest.Ask{Body: string(mcptest.Request("1", "initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"}}))}
	for ctx := bounded(t); ; {
		r, err := hello.Send(ctx, b.slot(slot).http)
		if err != nil {
			t.Fatal(err)
		}
		f, err := r.Next()
		r.Close()
		if err != nil || ctx.Err() != nil {
			t.Fatalf("%s: %v %v", slot, err, ctx.Err())
		}
		if f.Error == nil {
			return
		}
	}
}
