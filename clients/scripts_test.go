package clients_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// A step is something that every client does, and what the gateway sees of it.
type step struct {
	name, proves string
	statuses     []int // of its answers, one for each time that the client asks
	check        func(t *testing.T, r *rig, list []sight)
}

// steps are what the scripts in node and python do, in this order; Google's client does
// some of them.
var steps = []step{
	{"whole", "A-68", []int{200}, nil},
	{"streamed", "A-68", []int{200}, nil},
	{"a tool", "A-68", []int{200}, nil},
	{"a tool, streamed", "A-68", []int{200}, nil},
	{"another endpoint", "A-68", []int{200}, nil},
	{"larger than its limit", "L-012 is told once", []int{429}, nil},
	{"refused by the provider", "is told once", []int{400}, nil},
	{"room in a second", "is asked for again when there is some", []int{200, 429, 200}, inTime},
	{"room in an hour", "is told once", []int{200, 429}, nil},
	{"with a wrong key", "is told once", []int{401}, nil},
	{"cut in the middle", "A-73 is an error for the client too", []int{200}, nil},
	{"a client that leaves", "L-026 frees everything", []int{200}, func(t *testing.T, r *rig, _ []sight) { gone(t, r) }},
}

// inTime checks that a client has come again after the time that it was told, and not much
// later.
func inTime(t *testing.T, _ *rig, list []sight) {
	told, err := strconv.Atoi(list[1].answer.Get("Retry-After-Ms"))
	wait, waited := time.Duration(told)*time.Millisecond, list[2].at.Sub(list[1].at)
	if err != nil || waited < wait || waited > wait+5*time.Second {
		t.Errorf("the client was told to come again in %q ms and came after %v", list[1].answer.Get("Retry-After-Ms"), waited)
	}
}

func TestNode(t *testing.T) {
	packages := filepath.Join("node", "node_modules")
	for _, name := range []string{"openai", "anthropic"} {
		t.Run(name, func(t *testing.T) { play(t, packages, "node", filepath.Join("node", "with-"+name+".mjs")) })
	}
}

func TestPython(t *testing.T) {
	python := filepath.Join("python", ".venv", "bin", "python")
	for _, name := range []string{"openai", "anthropic"} {
		t.Run(name, func(t *testing.T) { play(t, python, "./"+python, filepath.Join("python", "with_"+name+".py")) })
	}
	t.Run("google", func(t *testing.T) {
		play(t, python, "./"+python, filepath.Join("python", "with_google.py"),
			"room in a second", "room in an hour", "cut in the middle")
	})
}

// play runs a script, which takes all steps but those that are named, and looks after each
// at what the gateway has seen. What the script needs is installed at needs.
func play(t *testing.T, needs, program, script string, without ...string) {
	_, err := os.Stat(needs)
	if _, missing := exec.LookPath(program); err != nil || missing != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not there", needs)
		}
		t.Skipf("%s is not there; make services installs it", needs)
	}
	r := start(t)
	out, in := run(t, r, program, script)
	for _, s := range steps {
		if !slices.Contains(without, s.name) {
			t.Run(s.name+" "+s.proves, func(t *testing.T) {
				defer fmt.Fprintln(in) // the script goes on; if it has died the next step finds that out
				s.look(t, r, out)
			})
		}
	}
	if out.Scan() {
		t.Errorf("a step that is not expected: %s", out.Text())
	}
}

// run starts a script and returns what it says and what it listens to.
func run(t *testing.T, r *rig, program, script string) (*bufio.Scanner, io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // it ends by itself, after the test
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, script)
	cmd.Env = append(os.Environ(), "GATEWAY="+r.url, "KEY="+tenantKey, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // which a script takes for the end
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("%s: %v", script, err)
		}
	})
	return bufio.NewScanner(out), in
}

// look reads how a step went for the client, and compares what the gateway has seen of it.
func (s *step) look(t *testing.T, r *rig, out *bufio.Scanner) {
	if !out.Scan() {
		t.Fatalf("the script has ended: %v", out.Err())
	}
	var said struct{ Step, Error string }
	if err := json.Unmarshal(out.Bytes(), &said); err != nil || said.Step != s.name {
		t.Fatalf("the script says %q", out.Text())
	}
	if said.Error != "" {
		t.Error(said.Error)
	}
	list := r.seen.take()
	var statuses []int
	for _, q := range list {
		statuses = append(statuses, q.status)
	}
	if !slices.Equal(statuses, s.statuses) {
		t.Fatalf("the gateway has answered %v, want %v", statuses, s.statuses)
	}
	if s.check != nil {
		s.check(t, r, list)
	}
}
