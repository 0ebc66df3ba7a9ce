// Package limittest replays what every kind of limit must answer, moment by moment, on
// whatever carries the algorithms out: the Go of package limit, and any other form of
// them, such as a script inside a database. Their answers must agree to the microsecond.
//
// The traces are text, in testdata. A trace is scenarios one after the other; each starts
// with a fresh cell under a limit and goes on line by line:
//
//	# P-041: five in any second, also across the edge of one
//	limit window 5 per 1s
//	@0s     take 1     -> ok
//	@960ms  take 1 x4  -> ok
//	@1s     take 1     -> ok
//	@1020ms take 1     -> wait 940ms
//
// A time is @ and a duration since the start; it may go back. What can be said:
//
//	limit KIND …             bucket MAX per SPAN burst N | pace SPAN | window MAX per SPAN
//	                         slots MAX | cooldown LONGEST
//	@T become KIND …         the rule's limit changes; the state is kept
//	@T take N [xTIMES]       -> ok | wait SPAN | wait release | never
//	@T give N [from @T]      units of a grant made at a time come back; negative debits more
//	@T cool SPAN
//	@T level                 -> left N of MAX [next SPAN] [full SPAN]
//
// A wait is the least wait: if it says 940ms, 940 ms later passes and 1 µs earlier does
// not. Text from # on is a comment.
package limittest

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/limit"
)

//go:embed testdata/*.trace
var traces embed.FS

// A Machine carries out the algorithms on one cell that starts as new. When l is not the
// limit of the call before, the machine carries the state over first, as [limit.Limit.Convert] does.
type Machine interface {
	Take(l limit.Limit, now limit.Micros, n int64) limit.Verdict
	Give(l limit.Limit, now, at limit.Micros, n int64)
	Cool(l limit.Limit, now, d limit.Micros)
	Level(l limit.Limit, now limit.Micros) limit.Level
}

// Run replays every trace, each scenario on a machine of its own.
func Run(t *testing.T, fresh func() Machine) {
	files, err := fs.Glob(traces, "testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, name := range files {
		text, err := traces.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r := replay{fresh: fresh, file: name}
		for i, line := range strings.Split(string(text), "\n") {
			if title, ok := strings.CutPrefix(line, "# "); ok {
				r.title = title
			}
			line, _, _ = strings.Cut(line, "#")
			if fields := strings.Fields(line); len(fields) > 0 {
				r.lines = append(r.lines, said{i + 1, r.title, fields})
			}
		}
		r.run(t)
	}
}

// A said is one line of a trace.
type said struct {
	number int
	title  string // the last comment before it
	fields []string
}

type replay struct {
	fresh func() Machine
	file  string
	title string
	lines []said
}

// run makes a subtest of every scenario, named by the comment above it.
func (r *replay) run(t *testing.T) {
	for len(r.lines) > 0 {
		end := 1
		for end < len(r.lines) && r.lines[end].fields[0] != "limit" {
			end++
		}
		scenario := r.lines[:end]
		r.lines = r.lines[end:]
		t.Run(scenario[0].title, func(t *testing.T) {
			s := state{machine: r.fresh()}
			for _, line := range scenario {
				if err := s.say(line.fields); err != nil {
					t.Fatalf("%s:%d: %s: %v", r.file, line.number, strings.Join(line.fields, " "), err)
				}
			}
		})
	}
}

type state struct {
	machine Machine
	limit   limit.Limit
}

func (s *state) say(f []string) (err error) {
	if f[0] == "limit" {
		s.limit, err = parseLimit(f[1:])
		return err
	}
	if len(f) < 2 {
		return fmt.Errorf("want @TIME and what happens")
	}
	now, err := parseTime(f[0])
	if err != nil {
		return err
	}
	do, args := f[1], f[2:]
	switch do {
	case "become":
		s.limit, err = parseLimit(args)
		return err
	case "take":
		return s.take(now, args)
	case "give":
		return s.give(now, args)
	case "cool":
		d, err := span(args, 0)
		if err == nil {
			s.machine.Cool(s.limit, now, d)
		}
		return err
	case "level":
		return want(args, levelText(s.machine.Level(s.limit, now)))
	}
	return fmt.Errorf("unknown word %q", do)
}

// take is "take N [xTIMES] -> VERDICT"; every one of the times must answer so.
func (s *state) take(now limit.Micros, args []string) error {
	n, err := number(args, 0)
	if err != nil {
		return err
	}
	times := int64(1)
	if len(args) > 1 && args[1][0] == 'x' {
		if times, err = strconv.ParseInt(args[1][1:], 10, 64); err != nil {
			return err
		}
		args = args[1:]
	}
	for i := range times {
		if err := want(args[1:], verdictText(s.machine.Take(s.limit, now, n))); err != nil {
			return fmt.Errorf("time %d: %w", i+1, err)
		}
	}
	return nil
}

// give is "give N [from @TIME]".
func (s *state) give(now limit.Micros, args []string) error {
	n, err := number(args, 0)
	if err != nil {
		return err
	}
	at := now
	if len(args) == 3 && args[1] == "from" {
		if at, err = parseTime(args[2]); err != nil {
			return err
		}
	}
	s.machine.Give(s.limit, now, at, n)
	return nil
}

// want compares "-> ANSWER" with what was answered.
func want(args []string, got string) error {
	if len(args) == 0 || args[0] != "->" {
		return fmt.Errorf("want -> and the answer")
	}
	if text := strings.Join(args[1:], " "); text != got {
		return fmt.Errorf("answered %q", got)
	}
	return nil
}

func verdictText(v limit.Verdict) string {
	switch {
	case v.OK:
		return "ok"
	case v.Never:
		return "never"
	case v.Wait == 0:
		return "wait release"
	}
	return "wait " + v.Wait.Duration().String()
}

func levelText(v limit.Level) string {
	text := fmt.Sprintf("left %d of %d", v.Left, v.Max)
	if v.Next > 0 {
		text += " next " + v.Next.Duration().String()
	}
	if v.Full > 0 {
		text += " full " + v.Full.Duration().String()
	}
	return text
}

func parseLimit(f []string) (l limit.Limit, err error) {
	format := map[string]string{
		"bucket": "bucket N per D burst N", "pace": "pace D", "window": "window N per D",
		"slots": "slots N", "cooldown": "cooldown D",
	}
	if len(f) == 0 {
		return l, fmt.Errorf("want the kind of limit")
	}
	words := strings.Fields(format[f[0]])
	if len(words) != len(f) {
		return l, fmt.Errorf("want %q", format[f[0]])
	}
	var numbers []int64
	for i, w := range words {
		var n int64
		switch w {
		case "N":
			n, err = number(f, i)
		case "D":
			var d limit.Micros
			d, err = span(f, i)
			n = int64(d)
		default:
			continue
		}
		if err != nil {
			return l, err
		}
		numbers = append(numbers, n)
	}
	switch f[0] {
	case "bucket":
		l = limit.Bucket(numbers[0], limit.Micros(numbers[1]), numbers[2])
	case "pace":
		l = limit.Pace(limit.Micros(numbers[0]))
	case "window":
		l = limit.Window(numbers[0], limit.Micros(numbers[1]))
	case "slots":
		l = limit.Slots(numbers[0])
	case "cooldown":
		l = limit.Cooldown(limit.Micros(numbers[0]))
	}
	return l, l.Validate()
}

func number(f []string, i int) (int64, error) {
	if i >= len(f) {
		return 0, fmt.Errorf("want a number")
	}
	return strconv.ParseInt(f[i], 10, 64)
}

func span(f []string, i int) (limit.Micros, error) {
	if i >= len(f) {
		return 0, fmt.Errorf("want a duration")
	}
	d, err := time.ParseDuration(f[i])
	return limit.MicrosOf(d), err
}

// parseTime reads @DURATION. Traces start an hour after the origin, so that time can go
// back without leaving it.
func parseTime(s string) (limit.Micros, error) {
	text, ok := strings.CutPrefix(s, "@")
	if !ok {
		return 0, fmt.Errorf("want @TIME, not %q", s)
	}
	d, err := time.ParseDuration(text)
	return limit.Hour + limit.MicrosOf(d), err
}
