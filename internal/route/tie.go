package route

import (
	"slices"
)

// A Tie is two routes, by index, of which neither is more specific although one request
// can match both. First is below Second.
type Tie struct{ First, Second int }

// Ties returns all ties of the routes, in order. It is for the loading of a policy: its
// time grows with the square of the number of routes.
func Ties(routes []Route) []Tie {
	seen := map[Tie]bool{}
	for _, m := range append(methodsOf(routes), "") {
		entries := entriesFor(routes, m)
		for i := range entries {
			for j := i + 1; j < len(entries) && compareEntries(entries[i], entries[j]) == 0; j++ {
				a, b := &entries[i], &entries[j]
				if a.route != b.route && a.host == b.host && overlap(a.pattern.segments, b.pattern.segments) {
					seen[Tie{min(a.route, b.route), max(a.route, b.route)}] = true
				}
			}
		}
	}
	ties := make([]Tie, 0, len(seen))
	for t := range seen {
		ties = append(ties, t)
	}
	slices.SortFunc(ties, func(a, b Tie) int { return slices.Compare([]int{a.First, a.Second}, []int{b.First, b.Second}) })
	return ties
}

// overlap reports whether one path can match both patterns. Row i of the table says for
// each j whether the first i segments of a and the first j of b can match one path.
func overlap(a, b []segment) bool {
	return meet(len(a), len(b),
		func(i int) bool { return a[i].class == deep },
		func(j int) bool { return b[j].class == deep },
		func(i, j int) bool { return a[i].overlaps(&b[j]) })
}

// overlaps reports whether one segment can match both.
func (s *segment) overlaps(t *segment) bool {
	switch {
	case s.any || t.any:
		return true
	case s.class == exact:
		return t.match(s.text)
	case t.class == exact:
		return s.match(t.text)
	}
	a, b := []rune(s.text), []rune(t.text)
	return meet(len(a), len(b),
		func(i int) bool { return a[i] == '*' },
		func(j int) bool { return b[j] == '*' },
		func(i, j int) bool { return a[i] == b[j] || a[i] == '?' || b[j] == '?' })
}

// meet reports whether two sequences of n and m items can stand for one and the same.
// An item that stars says may stand for any number of items; two others must agree.
func meet(n, m int, starA, starB func(int) bool, agree func(i, j int) bool) bool {
	row := make([]bool, m+1) // row[j]: the items of a so far can meet the first j of b
	row[0] = true
	for j := 0; j < m && starB(j); j++ {
		row[j+1] = true
	}
	for i := range n {
		before := row
		row = make([]bool, m+1)
		row[0] = before[0] && starA(i)
		for j := range m {
			switch {
			case starA(i) || starB(j):
				row[j+1] = before[j+1] || row[j]
			default:
				row[j+1] = before[j] && agree(i, j)
			}
		}
	}
	return row[m]
}
