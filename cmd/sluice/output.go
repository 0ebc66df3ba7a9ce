package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// writeJSON writes v for machines that people look over the shoulder of.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// A table is rows of cells that are written in columns.
type table [][]string

// row adds a row. What a terminal would take for a command, such as a colour or the way to
// another line, is shown as U+FFFD: names of tools and callers come from others.
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return utf8.RuneError
			}
			return r
		}, cell)
	}
	*t = append(*t, cells)
}

// write writes the rows, each after indent and without blanks at its end, which a
// [text/tabwriter] would leave.
func (t table) write(w io.Writer, indent string) error {
	var widths []int
	for _, row := range t {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, row := range t {
		line := indent
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// count returns "1 rule" or "2 rules".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
