package file_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

// Tests that need another process start this binary again with the name of a child in
// the environment.
const childVariable = "SLUICE_FILE_TEST_CHILD"

var children = map[string]func(path string) error{
	"load": loadUntilKilled,
	"race": raceForLock,
	"hold": holdTheStore,
}

func TestMain(m *testing.M) {
	name := os.Getenv(childVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := children[name](os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is a process of this binary that runs children[name] on the store at path.
func child(name, path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(os.Environ(), childVariable+"="+name)
	return cmd
}

// A desk sends commands to a store.
type desk struct {
	testing.TB
	*file.Store
}

// newDesk opens a store at path, which the test closes at its end at the latest.
func newDesk(t testing.TB, path string, o file.Options) *desk {
	t.Helper()
	return &desk{t, openStore(t, path, o)}
}

func freshPath(t testing.TB) string { return filepath.Join(t.TempDir(), "ledger") }

func (d *desk) do(cmd ledger.Command) ledger.Result {
	d.Helper()
	cmds, res := []ledger.Command{cmd}, make([]ledger.Result, 1)
	if err := d.Apply(context.Background(), cmds, res); err != nil {
		d.Fatalf("apply: %v", err)
	}
	return res[0]
}

func (d *desk) want(status ledger.Status, cmd ledger.Command) ledger.Result {
	d.Helper()
	res := d.do(cmd)
	if res.Status != status {
		d.Errorf("status %d of %+v, want %d", res.Status, cmd, status)
	}
	return res
}

func (d *desk) left(want int64, s ledger.Step) {
	d.Helper()
	s.N = 0
	res := d.do(ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{s}, Levels: true})
	if got := res.Levels[0].Left; got != want {
		d.Errorf("%d left of %v, want %d", got, s.Limit, want)
	}
}

// again closes the store and opens it anew.
func (d *desk) again(path string, o file.Options) *desk {
	d.Helper()
	if err := d.Close(); err != nil {
		d.Fatalf("close: %v", err)
	}
	return newDesk(d.TB, path, o)
}

func step(cell uint64, l limit.Limit, n int64) ledger.Step {
	return ledger.Step{Key: ledger.Key{Group: cell << 32, Cell: cell * 0x9e3779b97f4a7c15}, Limit: l, N: n, Pool: cell}
}

func volatile(s ledger.Step) ledger.Step {
	s.Volatile = true
	return s
}

func take(steps ...ledger.Step) ledger.Command { return ledger.Command{Steps: steps} }

func named(id uint64, cmd ledger.Command) ledger.Command {
	cmd.ID = ledger.ID{Hi: 7, Lo: id}
	return cmd
}

func settle(used ...int64) ledger.Command { return ledger.Command{Op: ledger.Settle, Used: used} }

var (
	release = ledger.Command{Op: ledger.Release}
	find    = ledger.Command{Op: ledger.Find}
)
