package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchfmt"
)

// figures is what was measured: benchmark name and unit to one value a round.
type figures map[figure][]float64

type figure struct{ name, unit string }

// read collects the results of all rounds. Lines that are no results are the
// framework's own.
func read(r io.Reader, file string) (figures, error) {
	f := figures{}
	in := benchfmt.NewReader(r, file)
	for in.Scan() {
		result, ok := in.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		name := bareName(result.Name)
		for _, v := range result.Values {
			// The reader turns ns into seconds and keeps what was written beside it.
			value, unit := v.Value, v.Unit
			if v.OrigUnit != "" {
				value, unit = v.OrigValue, v.OrigUnit
			}
			at := figure{name, unit}
			f[at] = append(f[at], value)
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(f) == 0 {
		return nil, fmt.Errorf("%s has no benchmark results", file)
	}
	return f, nil
}

// bareName cuts the processor count off, which the modes imply.
func bareName(n benchfmt.Name) string {
	base, parts := n.Parts()
	var b strings.Builder
	b.Write(base)
	for _, p := range parts {
		if p[0] == '/' {
			b.Write(p)
		}
	}
	return b.String()
}

// median of what all rounds measured. The mean of the middle two when they are even.
func (f figures) median(name, unit string) (float64, bool) {
	v := slices.Sorted(slices.Values(f[figure{name, unit}]))
	if len(v) == 0 {
		return 0, false
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2, true
}

// name is a row of the bar's benchmark, unless row already names a whole one.
func (b bar) name(row string) string {
	if strings.Contains(row, "/") {
		return row
	}
	return b.bench + "/" + row
}

// subject is the benchmark that is held against the bar.
func (b bar) subject() string { return b.name(cmp.Or(b.row, ours)) }

// A line is a bar with what was measured.
type line struct {
	bar
	floorValue, ourValue float64
	figure               float64 // what is held against the bar
	peer                 string  // the best peer and its figure
	measured, wrong      bool
}

// weigh fills in a bar. A bar whose rows were not measured stays unmeasured.
func (f figures) weigh(b bar) line {
	l := line{bar: b, floorValue: 1, peer: "–"}
	var ok bool
	if l.ourValue, ok = f.median(b.subject(), b.unit); !ok {
		return l
	}
	if b.floor != "" {
		if l.floorValue, ok = f.median(b.name(b.floor), b.unit); !ok {
			return l
		}
	}
	l.figure, l.measured = l.ourValue/l.floorValue, true
	l.wrong = b.wrong(f[figure{b.subject(), b.unit}])
	if b.row == "" {
		l.peer = f.bestPeer(b, l.floorValue)
	}
	return l
}

// wrong reports whether any round left the bounds of a right answer.
func (b bar) wrong(rounds []float64) bool {
	return slices.ContainsFunc(rounds, func(v float64) bool {
		return v < b.least || b.most > 0 && v > b.most
	})
}

// bestPeer names the peer with the lowest figure, among those that were never wrong.
func (f figures) bestPeer(b bar, floor float64) string {
	best, name := math.Inf(1), ""
	for at, rounds := range f {
		row, ok := strings.CutPrefix(at.name, b.bench+"/")
		if !ok || at.unit != b.unit || row == ours || strings.HasPrefix(row, "floor.") || b.wrong(rounds) {
			continue
		}
		v, _ := f.median(at.name, b.unit)
		if v /= floor; v < best {
			best, name = v, row
		}
	}
	if name == "" {
		return "–"
	}
	return fmt.Sprintf("%.2f %s", best, name)
}

// verdict says which bar was reached.
func (l line) verdict() string {
	switch {
	case !l.measured:
		return "not measured"
	case l.wrong:
		return "WRONG"
	case l.figure <= l.goal:
		return "goal"
	case l.figure <= l.must:
		return "must"
	}
	return "no"
}

func (f figures) print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "work\tmode\tfloor\tsluice\tratio\tbest peer\tmust\tgoal\treached")
	var missed []bar
	for _, b := range bars {
		l := f.weigh(b)
		floor, our, ratio := "–", "–", "–"
		if l.measured {
			our, ratio = amount(l.ourValue, b.unit), fmt.Sprintf("%.3g", l.figure)
			if b.floor != "" {
				floor = amount(l.floorValue, b.unit)
			}
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%g\t%g\t%s\n", b.work, b.mode, floor, our, ratio, l.peer, b.must, b.goal, l.verdict())
		if v := l.verdict(); v == "no" || v == "WRONG" {
			missed = append(missed, b)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return printProfiles(w, missed)
}

// printProfiles says how to see why a bar was missed.
func printProfiles(w io.Writer, missed []bar) error {
	var b strings.Builder
	b.WriteString("\nMedians of all rounds; the floor is from the same run. Under 1.15 apart in process,\nor 1.25 over HTTP, is noise: see README.md.\n")
	for _, m := range missed {
		name := strings.ReplaceAll(m.subject(), "/", "$/^")
		fmt.Fprintf(&b, "not reached: %s, %s; profile: go test -run '^$' -bench '^Benchmark%s$' -cpuprofile cpu.out && go tool pprof -top cpu.out\n", m.work, m.mode, name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// amount writes a figure with the unit a person reads it in.
func amount(v float64, unit string) string {
	what, _, _ := strings.Cut(unit, "/")
	switch {
	case what == "ns" || what == "ns-cpu":
		return span(v)
	case what == "B":
		return fmt.Sprintf("%.0f B", v)
	}
	return fmt.Sprintf("%.4g", v)
}

func span(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	}
	return fmt.Sprintf("%.1f ms", ns/1e6)
}
