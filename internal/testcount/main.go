// Command testcount reads what "go test -json" writes and prints what "go test"
// would have, then why tests were skipped, and one line with how many passed and failed:
//
//	go test -json ./... | go run ./internal/testcount
//
// A test that only groups others counts as a test, as it does for go test. It ends
// with status 1 if a test or a package failed, or if there was no test at all.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	start := time.Now()
	c, err := read(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
	fmt.Printf("== tests took %.0f s\n", time.Since(start).Seconds())
	fmt.Print(c.leftOut())
	fmt.Println(c)
	if !c.good() {
		os.Exit(1)
	}
}

// count is the outcome of a run. broken are packages that failed otherwise than by
// a test: they did not build, or ended early. reasons are why tests were skipped, and how
// many for each.
type count struct {
	passed, failed, skipped, broken int
	reasons                         map[string]int
}

// String is the closing line.
func (c count) String() string {
	s := fmt.Sprintf("%d passed, %d failed", c.passed, c.failed+c.broken)
	if c.skipped > 0 {
		s += fmt.Sprintf(", %d skipped", c.skipped)
	}
	return s
}

// leftOut is a line for each reason to skip a test. Go test itself does not show them.
func (c count) leftOut() string {
	var s strings.Builder
	for _, reason := range slices.Sorted(maps.Keys(c.reasons)) {
		fmt.Fprintf(&s, "left out: %s (%d skipped)\n", reason, c.reasons[reason])
	}
	return s.String()
}

func (c count) good() bool { return c.failed+c.broken == 0 && c.passed > 0 }

// An event is one line of test2json; "go doc test2json" describes the fields.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

type test struct{ pkg, name string }

// reader follows the tests of all packages at once: go test mixes them.
type reader struct {
	count
	out      io.Writer
	said     map[test]*strings.Builder
	failures map[string]int // by package
}

func read(in io.Reader, out io.Writer) (count, error) {
	r := reader{out: out, said: map[test]*strings.Builder{}, failures: map[string]int{}}
	r.reasons = map[string]int{}
	for events := json.NewDecoder(in); ; {
		var e event
		if err := events.Decode(&e); err == io.EOF {
			return r.count, nil
		} else if err != nil {
			return r.count, fmt.Errorf("no output of go test -json: %w", err)
		}
		if err := r.take(e); err != nil {
			return r.count, err
		}
	}
}

func (r *reader) take(e event) error {
	at := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		if e.Test != "" {
			r.keep(at, e.Output)
			return nil
		}
		// Without -v, go test leaves this line to the summary of the package.
		if e.Output == "PASS\n" {
			return nil
		}
		return r.print(e.Output)
	case "build-output":
		return r.print(e.Output)
	case "pass", "skip", "fail":
		return r.end(at, e.Action)
	}
	return nil
}

// keep holds the output of a test back until its outcome is known.
func (r *reader) keep(at test, output string) {
	if r.said[at] == nil {
		r.said[at] = new(strings.Builder)
	}
	r.said[at].WriteString(output)
}

func (r *reader) end(at test, action string) error {
	said := r.said[at]
	delete(r.said, at)
	switch {
	case at.name == "" && action == "fail":
		return r.endPackage(at.pkg)
	case at.name == "":
	case action == "pass":
		r.passed++
	case action == "skip":
		r.skipped++
		r.reasons[reason(said)]++
	default:
		r.failed++
		r.failures[at.pkg]++
		if said != nil {
			return r.print(said.String())
		}
	}
	return nil
}

// logged is what a test says in a line of its own, such as "    a_test.go:7: no server".
var logged = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason is the last that a skipped test has said.
func reason(said *strings.Builder) string {
	if said != nil {
		if lines := logged.FindAllStringSubmatch(said.String(), -1); len(lines) > 0 {
			return lines[len(lines)-1][1]
		}
	}
	return "no reason given"
}

// endPackage is a package that failed. Tests without an outcome were running when
// it ended; what they said is the reason.
func (r *reader) endPackage(pkg string) error {
	if r.failures[pkg] == 0 {
		r.broken++
	}
	for at, said := range r.said {
		if at.pkg == pkg {
			delete(r.said, at)
			if err := r.print(said.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) print(s string) error {
	_, err := io.WriteString(r.out, s)
	return err
}
