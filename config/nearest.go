package config

import (
	"fmt"
	"strings"
	"unicode"
)

// suggestion returns ` (did you mean "x"?)` for the known name that is nearest to the
// given one, or "" if none is near.
func suggestion(name string, known []string) string {
	if best := nearest(name, known); best != "" {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}
	return ""
}

// nearest returns the known name with the fewest slips of the keyboard from name: one for
// two to four letters, two for up to seven, and so on; "" if all have more.
func nearest(name string, known []string) string {
	if len(name) > 64 {
		return "" // no slip of the keyboard, and long to compare
	}
	best, least := "", (len(name)+1)/3+1
	for _, k := range known {
		if d := slips(foldKey(name), foldKey(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// slips counts the letters to insert, drop, change or swap with their neighbour that
// lead from a to b (optimal string alignment).
func slips(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			change := row[j]
			if a[i] != b[j] {
				change++
			}
			next[j+1] = min(change, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}

// foldKey returns what the spellings of a key have in common, so that a slip counts and a
// hyphen does not.
func foldKey(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}
