package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/identity"
)

const (
	secret     = "the secret of the plant in a test"
	keySecret  = "the secret of the digests of keys"
	maxRecords = 20_000
	life       = 2 * time.Second // of a broker
	// concurrency leaves room for what brokers that were killed have left: their slots come back
	// after maxHoldMs and five seconds.
	concurrency = 6 * goroutines
)

// A broker is "sluice serve", in the hands of whoever kills it.
type broker struct {
	t       *testing.T
	command string
	dir     string
	address string
	ledger  string
	keys    []string          // of the callers
	names   map[string]string // of the callers, by what the broker calls them
	kills   int
	cmd     *exec.Cmd
	log     bytes.Buffer // of the process that runs
}

// newBroker builds the command and writes its configuration. The rule "run" lets total operations
// be reserved.
func newBroker(t *testing.T, total int) *broker {
	t.Helper()
	b := &broker{t: t, dir: t.TempDir(), address: freeAddress(t), names: map[string]string{}}
	b.command, b.ledger = filepath.Join(b.dir, "sluice"), filepath.Join(b.dir, "ledger")
	build := exec.Command("go", "build", "-o", b.command, "github.com/sluicegate/sluice/cmd/sluice")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var lines, assignments string
	for _, name := range []string{"alice", "bob"} {
		key, line, err := identity.NewKey([]byte(keySecret), identity.KeyRecord{Name: name})
		var rec identity.KeyRecord
		if err == nil {
			err = json.Unmarshal(line, &rec)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.keys, lines = append(b.keys, key), lines+string(line)
		subject := "client:apikey:" + rec.Digest[:32]
		b.names[subject] = name
		assignments += fmt.Sprintf("    - {subject: %q, role: operator, resource: /plant/**}\n", subject)
	}
	write(t, b.dir, "keys", lines)
	write(t, b.dir, "key-secret", keySecret)
	write(t, b.dir, "sluice.yaml", fmt.Sprintf(`
listen: {mcp: %q}
identity: {apiKeys: {file: keys, secret: "file:key-secret"}}
mcp:
  slots: [{slot: plant}]
  providers: [{id: plant, secretEnv: PLANT_SECRET, allowedResources: [/plant/**]}]
  providerRequestTimeoutMs: 5000
auth:
  roles: {operator: {capabilities: [plant.run, mcp.tools.call]}}
  assignments:
%slimits:
  storeFile: ledger
  maxRecords: %d
  rules:
    - {id: run, budget: {unit: op, max: %d, windowMs: 86400000, startWithinMs: %d}, requireReservation: true}
%s    - {id: calls, concurrency: %d, maxHoldMs: 1000}
`, b.address, assignments, maxRecords, total, startWithin.Milliseconds(), rules(), concurrency))
	return b
}

// rules are the bounds as the file has them.
func rules() (text string) {
	for i, r := range bounds {
		group := ""
		if r.each {
			group = "groupBy: [subject], "
		}
		text += fmt.Sprintf("    - {id: bound-%d, %sbudget: {unit: op, max: %d, windowMs: %d, startWithinMs: %d}}\n", i, group, r.most, r.window.Milliseconds(), startWithin.Milliseconds())
	}
	return text
}

// start starts the process and returns when it listens.
func (b *broker) start() {
	b.t.Helper()
	b.log.Reset()
	b.cmd = exec.Command(b.command, "serve", "--config", "sluice.yaml")
	b.cmd.Dir, b.cmd.Stdout, b.cmd.Stderr = b.dir, &b.log, &b.log
	b.cmd.Env = append(os.Environ(), "PLANT_SECRET="+secret)
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		conn, err := net.Dial("tcp", b.address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			b.kill()
			b.t.Errorf("the broker does not start: %v\n%s", err, &b.log)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// killAgainAndAgain kills the process each two seconds and starts it again, until ctx ends.
func (b *broker) killAgainAndAgain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(life):
		}
		if !b.kill() {
			b.t.Errorf("the broker had ended by itself: %v\n%s", b.cmd.ProcessState, &b.log)
		}
		b.kills++
		b.start()
	}
}

// kill ends the process in whatever it does, and reports whether it still ran.
func (b *broker) kill() bool {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	status, ok := b.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// stop lets the process end by itself.
func (b *broker) stop() {
	b.t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	if err := b.cmd.Wait(); err != nil {
		b.t.Errorf("the broker ended with %v\n%s", err, &b.log)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
