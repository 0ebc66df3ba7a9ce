package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchfmt"
)

// figures is what was measured: benchmark name and unit to one value a round.
type figures map[figure][]float64

type figure struct{ name, unit string }

func (a figure) compare(b figure) int {
	return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.unit, b.unit))
}

func (f figures) sorted() []figure { return slices.SortedFunc(maps.Keys(f), figure.compare) }

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

// median of v, which is not empty. The mean of the middle two when they are even.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// over divides what two rows measured in the same rounds. A nil floor is none. It
// returns nil if a round lacks one of them.
func over(rounds, floor []float64) []float64 {
	if floor == nil {
		return rounds
	}
	if len(rounds) != len(floor) {
		return nil
	}
	ratios := make([]float64, len(rounds))
	for i := range ratios {
		ratios[i] = rounds[i] / floor[i]
	}
	return ratios
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
	floor, our []float64 // one value a round; floor is nil if there is none
	figure     float64   // what is held against the bar
	peer       string    // the best peer and its figure
	measured   bool
}

// weigh fills in a bar. A bar whose rows were not measured stays unmeasured.
func (f figures) weigh(b bar) line {
	l := line{bar: b, our: f[figure{b.subject(), b.unit}], peer: "–"}
	if b.floor != "" {
		if l.floor = f[figure{b.name(b.floor), b.unit}]; l.floor == nil {
			return l
		}
	}
	ratios := over(l.our, l.floor)
	if len(ratios) == 0 {
		return l
	}
	l.figure, l.measured = median(ratios), true
	if b.row == "" {
		l.peer = f.bestPeer(b, l.floor)
	}
	return l
}

// wrong reports whether any round left the bounds of a right answer.
func (b bar) wrong(rounds []float64) bool {
	return slices.ContainsFunc(rounds, func(v float64) bool {
		return v < b.least || b.most > 0 && v > b.most
	})
}

// better reports whether a figure of b is better than another.
func (b bar) better(v, other float64) bool {
	if b.more {
		v, other = other, v
	}
	return v < other
}

// bestPeer names the peer with the best figure, among those that were never wrong.
func (f figures) bestPeer(b bar, floor []float64) string {
	best, name := 0.0, ""
	for _, at := range f.sorted() {
		row, ok := strings.CutPrefix(at.name, b.bench+"/")
		if !ok || at.unit != b.unit || strings.HasPrefix(row, ours) || strings.HasPrefix(row, "floor.") || b.wrong(f[at]) {
			continue
		}
		ratios := over(f[at], floor)
		if len(ratios) == 0 {
			continue
		}
		if v := median(ratios); name == "" || b.better(v, best) {
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
	case l.wrong(l.our):
		return "WRONG"
	case !l.better(l.goal, l.figure):
		return "goal"
	case !l.better(l.must, l.figure):
		return "must"
	}
	return "no"
}

// print writes the table and returns the bars that were not reached.
func (f figures) print(w io.Writer) (missed []bar, err error) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "work\tmode\tfloor\tsluice\tratio\tbest peer\tmust\tgoal\treached")
	for _, b := range bars {
		l := f.weigh(b)
		floor, our, ratio := "–", "–", "–"
		if l.measured {
			our, ratio = amount(median(l.our), b.unit), fmt.Sprintf("%.3g", l.figure)
		}
		if l.measured && l.floor != nil {
			floor = amount(median(l.floor), b.unit)
		}
		verdict := l.verdict()
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%g\t%g\t%s\n", b.work, b.mode, floor, our, ratio, l.peer, b.must, b.goal, verdict)
		if verdict == "no" || verdict == "WRONG" {
			missed = append(missed, b)
		}
	}
	if err := out.Flush(); err != nil {
		return nil, err
	}
	if err := f.printRemote(w); err != nil {
		return nil, err
	}
	_, err = io.WriteString(w, `
A ratio is the median of those of all rounds; the floor is of the same round. Less than
1.15 apart in process, or 1.25 over HTTP, is noise on a small shared machine.
`)
	return missed, err
}

// amount writes a figure with the unit a person reads it in.
func amount(v float64, unit string) string {
	what, _, per := strings.Cut(unit, "/")
	switch {
	case what == "ns" || strings.HasPrefix(what, "ns-") || strings.HasSuffix(what, "-ns"):
		return span(v)
	case per && strings.HasSuffix(unit, "/s"):
		return thousands(v)
	case what == "B":
		return fmt.Sprintf("%.0f B", v)
	}
	return fmt.Sprintf("%.4g", v)
}

func thousands(v float64) string {
	if v < 1e4 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.0f k", v/1e3)
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
