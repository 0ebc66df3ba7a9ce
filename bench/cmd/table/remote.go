package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// printRemote writes all rows with books that can be shared: those of sluice in every
// store, the floor and the peers, for each number of callers. It writes nothing if none was
// measured.
func (f figures) printRemote(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\nkeys\tcallers\trow\tdecisions/s\tratio\tp50\tp99\tRedis CPU\tratio")
	empty := true
	for _, keys := range []string{"uni100k", "hot"} {
		for _, callers := range []string{"1", "16", "64", "256"} {
			contest := "Remote/" + keys + "/" + callers + "/"
			for _, row := range f.rows(contest) {
				empty = false
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", keys, callers, row, f.beside(contest, row, "dec/s"),
					f.alone(contest, row, "p50-ns"), f.alone(contest, row, "p99-ns"), f.beside(contest, row, "redis-ns/dec"))
			}
		}
	}
	if empty {
		return nil
	}
	return out.Flush()
}

// rows are those of a contest, in the order of their names: floors, peers, ours.
func (f figures) rows(contest string) (rows []string) {
	for _, at := range f.sorted() {
		if row, ok := strings.CutPrefix(at.name, contest); ok && at.unit == "dec/s" {
			rows = append(rows, row)
		}
	}
	return rows
}

// alone is a figure of a row.
func (f figures) alone(contest, row, unit string) string {
	v := f[figure{contest + row, unit}]
	if v == nil {
		return "–"
	}
	return amount(median(v), unit)
}

// beside is a figure of a row, and its ratio to that of the floor.
func (f figures) beside(contest, row, unit string) string {
	ratios := over(f[figure{contest + row, unit}], f[figure{contest + gcra, unit}])
	if len(ratios) == 0 {
		return f.alone(contest, row, unit) + "\t–"
	}
	return fmt.Sprintf("%s\t%.2f", f.alone(contest, row, unit), median(ratios))
}
