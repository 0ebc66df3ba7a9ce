// Package child connects to a provider that is a program: the broker starts it and talks
// with it over its standard input and output, one JSON-RPC message a line
// (docs/specification/2025-11-25/basic/transports of the Model Context Protocol, "stdio").
//
// No shell is involved. The program gets a process group of its own, and whatever is left
// of the group ends with it, so that no grandchild lives on. On Linux it is also killed when
// the broker dies.
package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sluicegate/sluice/mcp/link"
)

// Command is a program that is a provider. It is a [link.Dialer]: each Dial starts it once.
// It must not change while it is in use.
type Command struct {
	// Path is the program. Without a slash it is looked up in the broker's PATH.
	Path string
	// Args are its arguments, without the program's name. No shell reads them.
	Args []string
	// Dir is the directory it runs in. Empty is the broker's.
	Dir string
	// Env is its environment. Besides it gets from the broker's, if they are set there, PATH,
	// HOME, USER, LOGNAME, SHELL, TERM, TMPDIR, TZ, LANG and LC_ALL, and on Windows
	// what programs cannot start without. Nothing else: the broker's secrets stay its own.
	Env map[string]string

	// MaxFrame bounds a message in bytes, in both directions. Zero is [link.MaxFrame].
	MaxFrame int
	// Grace is how long the program may take to end once its input is closed, and then again
	// once its group has been sent SIGTERM. After that the group is killed. Zero is 2 s.
	Grace time.Duration
	// Sweep is a command that removes what the program may leave behind outside of its process
	// group, as in {"docker", "rm", "-f", NAME}. It runs before each start and after each end,
	// for up to ten seconds, and what it says does not matter.
	Sweep []string

	// Log takes what the program writes to its standard error, a line a record, in moderation.
	// Nil throws it away: it is the provider's text, and may repeat what callers have sent.
	Log *slog.Logger
	// Secrets must not reach Log, such as arguments that were secrets in the configuration.
	// The values of Env do not either.
	Secrets []string
}

var _ link.Dialer = (*Command)(nil)

const (
	defaultGrace = 2 * time.Second
	sweepTime    = 10 * time.Second
)

// inherited are the variables that programs expect everywhere and that hold no secrets.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LC_ALL",
	"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "ProgramData", "ProgramFiles",
}

// String returns the program's name.
func (c *Command) String() string { return filepath.Base(c.Path) }

// Dial starts the program. The context bounds the start, not the program's life.
func (c *Command) Dial(ctx context.Context, in link.Inbox) (link.Link, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("mcp/link/child: %s was not started: %w", c, err)
	}
	c.sweep(ctx)
	pipes, err := newPipes()
	if err != nil {
		return nil, fmt.Errorf("mcp/link/child: cannot start %s: %w", c, err)
	}
	p := newProcess(c, pipes, in)
	started := make(chan error)
	go p.live(started)
	err = <-started
	pipes.closeTheirs()
	if err != nil {
		pipes.closeOurs()
		return nil, fmt.Errorf("mcp/link/child: cannot start %s: %w", c, err)
	}
	p.begin()
	return p, nil
}

// environ returns the program's environment.
func (c *Command) environ() []string {
	env := []string{}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range c.Env {
		env = append(env, name+"="+value) // of two the later counts
	}
	return env
}

// exec returns the command that starts the program with its ends of the pipes.
func (c *Command) exec(p *pipes) *exec.Cmd {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.environ()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.theirs[0], p.theirs[1], p.theirs[2]
	ownGroup(cmd)
	return cmd
}

// sweep runs the command that removes what an earlier process has left behind.
func (c *Command) sweep(ctx context.Context) {
	if len(c.Sweep) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Sweep[0], c.Sweep[1:]...)
	cmd.Env, cmd.WaitDelay = c.environ(), time.Second
	_ = cmd.Run()
}

// pipes are the three between the broker and a program.
type pipes struct {
	theirs         [3]*os.File
	stdin          *os.File
	stdout, stderr *os.File
}

func newPipes() (*pipes, error) {
	var p pipes
	var errs [3]error
	p.theirs[0], p.stdin, errs[0] = os.Pipe()
	p.stdout, p.theirs[1], errs[1] = os.Pipe()
	p.stderr, p.theirs[2], errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		p.closeTheirs()
		p.closeOurs()
		return nil, err
	}
	return &p, nil
}

// closeTheirs closes the program's ends, of which it has copies.
func (p *pipes) closeTheirs() { closeAll(p.theirs[:]) }

func (p *pipes) closeOurs() { closeAll([]*os.File{p.stdin, p.stdout, p.stderr}) }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // one that was never opened says so
	}
}
