package processes

import (
	"cmp"
	"slices"
	"testing"
)

// mostInWindow is the most units that were for certain taken within one span: from the
// instant of some grant on, and before the first of them comes back.
func mostInWindow(list []entry, span int64) int64 {
	most, sum, end := int64(0), int64(0), 0
	for i, first := range list {
		for ; end < len(list) && list[end].From < first.From+span; end++ {
			sum += list[end].N
		}
		late := int64(0)
		for k := end - 1; k >= i && list[k].From > first.From+span-slack; k-- {
			if list[k].To >= first.From+span {
				late += list[k].N
			}
		}
		most = max(most, sum-late)
		sum -= first.N
	}
	return most
}

// slack bounds how long a command is under way: who searches for late ones looks no
// further back.
const slack = 10_000_000

// mostOwed is the most that a bucket has ever lacked of being full, if n units come back in
// each span: what was for certain taken from the instant of some grant to that of another,
// less what came back between the two. It counts in parts of a unit, of which a unit has
// span and n come back in a microsecond.
func mostOwed(list []entry, n, span int64) int64 {
	ends := slices.Clone(list)
	slices.SortFunc(ends, func(a, b entry) int { return cmp.Compare(a.To, b.To) })
	most, from := int64(0), 0
	for _, first := range list {
		for ends[from].To < first.From {
			from++
		}
		owed := int64(0)
		for _, e := range ends[from:] {
			if e.From >= first.From {
				owed += e.N * span
				most = max(most, owed-(e.To-first.From)*n)
			}
		}
	}
	return most
}

// mostHeld is the most slots that were for certain held at one instant, and which part of
// slots was held from start to end.
func mostHeld(list []entry, start, end, slots int64) (most int64, used float64) {
	type change struct{ at, n int64 }
	var changes []change
	for _, e := range list {
		if e.Op == taken {
			changes = append(changes, change{e.To, e.N})
		} else {
			changes = append(changes, change{e.From, -e.N})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	held, last, area := int64(0), start, int64(0)
	for _, c := range changes {
		if at := min(max(c.at, start), end); at > last {
			area += held * (at - last)
			last = at
		}
		held += c.n
		most = max(most, held)
	}
	return most, float64(area) / float64(slots*(end-start))
}

// unitsIn is how many units were taken from start on and before end.
func unitsIn(list []entry, start, end int64) (sum int64) {
	for _, e := range list {
		if e.Op == taken && e.To >= start && e.To < end {
			sum += e.N
		}
	}
	return sum
}

func at(n int64, times ...int64) (list []entry) {
	for _, t := range times {
		list = append(list, entry{N: n, From: t, To: t})
	}
	return list
}

// TestChecks shows that the arithmetic finds what is wrong.
func TestChecks(t *testing.T) {
	const second = 1_000_000
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"three in a window", mostInWindow(at(1, 0, second/2, second-1), second), int64(3)},
		{"the third when the first is back", mostInWindow(at(1, 0, second/2, second), second), int64(2)},
		{"a window that begins later", mostInWindow(at(1, 0, second-1, second+1, second+2), second), int64(3)},
		{"one that may have been late", mostInWindow([]entry{{N: 1}, {N: 1, From: second - 1, To: second}}, second), int64(1)},
		{"a burst", mostOwed(at(3, 0, 0), 10, second), int64(6 * second)},
		{"a burst and a rate", mostOwed(at(1, 0, second/10, second/5), 10, second), int64(1 * second)},
		{"faster than the rate", mostOwed(at(1, 0, second/20, second/10), 10, second), int64(2 * second)},
		{"a pause that is not saved up", mostOwed(at(2, 0, 10*second, 10*second), 10, second), int64(4 * second)},
		{"two that may have been apart", mostOwed([]entry{{N: 1, To: second / 10}, {N: 1, From: second / 10, To: second / 5}}, 10, second), int64(0 * second)},
		{"two that were not so far apart", mostOwed([]entry{{N: 1, To: second / 20}, {N: 1, From: second / 20, To: second / 10}}, 10, second), int64(1 * second)},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
	held := []entry{{N: 1, From: 0, To: 0}, {N: 1, From: 5, To: 5}, {Op: back, N: 1, From: 5, To: 5}, {Op: back, N: 1, From: 10, To: 10}}
	if most, used := mostHeld(held, 0, 10, 1); most != 1 || used != 1 {
		t.Errorf("one slot after the other: %d at once, %v of the time", most, used)
	}
	held[2].From++
	if most, _ := mostHeld(held, 0, 10, 1); most != 2 {
		t.Errorf("two slots for a microsecond: %d at once", most)
	}
}
