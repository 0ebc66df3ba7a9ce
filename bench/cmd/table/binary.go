package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A binary is the compiled benchmarks.
type binary struct {
	path    string
	profile string   // where a profile goes
	env     []string // nil is this process's
}

func (b binary) build() error {
	fmt.Fprintln(os.Stderr, "building")
	cmd := exec.Command("go", "test", "-c", "-o", b.path, ".")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go test -c: %w", err)
	}
	return nil
}

// measure runs all steps in rounds and keeps what they print in the file raw.
func (b binary) measure(quick bool, rounds int, raw string) error {
	out, err := os.Create(raw)
	if err != nil {
		return err
	}
	defer out.Close()
	start := time.Now()
	if quick {
		rounds = 2
	}
	for round := range rounds {
		for _, s := range steps {
			if quick && round >= s.quickRounds || round%s.every != 0 {
				continue
			}
			fmt.Fprintf(os.Stderr, "%5.0fs  round %d of %d: %s\n", time.Since(start).Seconds(), round+1, rounds, s.what)
			each := s.time
			if quick {
				each = s.quick
			}
			if err := b.run(out, "-test.bench="+s.bench, "-test.cpu="+s.cpu, "-test.benchtime="+each); err != nil {
				return fmt.Errorf("%s: %w; the end of %s may say why", s.what, err, raw)
			}
		}
	}
	fmt.Fprintf(os.Stderr, "%5.0fs  done; raw output in %s\n", time.Since(start).Seconds(), raw)
	return out.Close()
}

// run runs some benchmarks. One that hangs is ended with its stacks: a lock that is
// never released shows nowhere else.
func (b binary) run(out io.Writer, args ...string) error {
	cmd := exec.Command(b.path, append([]string{"-test.run=^$", "-test.timeout=3m"}, args...)...)
	cmd.Env = b.env
	var complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &complaints
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, &complaints)
	}
	return nil
}

// explain prints where the time of a bar that was not reached goes. A server profiles
// itself, because it is another process. Rows that take turns cannot be told apart in a
// profile, and none is made.
func (b binary) explain(w io.Writer, m bar) error {
	name := m.subject()
	if m.turns {
		_, err := fmt.Fprintf(w, "\n%s, %s (%s) is not reached\n", m.work, m.mode, name)
		return err
	}
	each, cpu := "300ms", "2"
	switch {
	case m.once:
		each = "1x"
	case m.server:
		each, cpu = "20000x", "1"
	case strings.Contains(name, "/serial/"):
		cpu = "1"
	}
	args := []string{"-test.bench=^Benchmark" + strings.ReplaceAll(name, "/", "$/^") + "$", "-test.cpu=" + cpu, "-test.benchtime=" + each}
	if m.server {
		b.env = append(os.Environ(), "SLUICE_BENCH_PROFILE="+b.profile)
	} else {
		args = append(args, "-test.cpuprofile="+b.profile)
	}
	if err := b.run(io.Discard, args...); err != nil {
		return fmt.Errorf("profile of %s: %w", name, err)
	}
	top, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=8", b.path, b.profile).Output()
	if err != nil {
		return fmt.Errorf("profile of %s: %w", name, err)
	}
	_, table, _ := strings.Cut(string(top), "flat  flat%")
	_, err = fmt.Fprintf(w, "\n%s, %s (%s) is not reached; its time goes to\n      flat  flat%%%s", m.work, m.mode, name, table)
	return err
}
