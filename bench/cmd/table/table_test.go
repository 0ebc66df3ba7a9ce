package main

import (
	"strings"
	"testing"
)

// rounds is what two rounds print: the second is the faster one for everybody.
const rounds = `goos: linux
BenchmarkKeyed/hot/par/floor.sharded+mutex-2   100   100 ns/op   0 B/op   0 allocs/op
BenchmarkKeyed/hot/par/go-limiter-2            100   150 ns/op   0 B/op   0 allocs/op
BenchmarkKeyed/hot/par/sluice-2                100    60 ns/op   0 B/op   0 allocs/op
BenchmarkPaced/20k/sluice-2                      1   1.002 x-ideal   900 ns-cpu/waiter
BenchmarkPaced/20k/xtime.map-2                   1   0.980 x-ideal   900 ns-cpu/waiter
PASS
BenchmarkKeyed/hot/par/floor.sharded+mutex-2   100    80 ns/op   0 B/op   0 allocs/op
BenchmarkKeyed/hot/par/go-limiter-2            100   130 ns/op   0 B/op   0 allocs/op
BenchmarkKeyed/hot/par/sluice-2                100    48 ns/op   0 B/op   0 allocs/op
BenchmarkPaced/20k/sluice-2                      1   1.004 x-ideal   900 ns-cpu/waiter
BenchmarkPaced/20k/xtime.map-2                   1   1.001 x-ideal   900 ns-cpu/waiter
PASS
`

func TestWeigh(t *testing.T) {
	hot := bar{bench: "Keyed/hot/par", floor: sharded, unit: "ns/op", must: 0.9, goal: 0.75}
	paced := bar{bench: "Paced/20k", unit: "x-ideal", must: 1.01, goal: 1.0035, least: 1}
	with := func(b bar, change func(*bar)) bar { change(&b); return b }
	for _, c := range []struct {
		what          string
		bar           bar
		verdict, peer string
	}{
		{"0.6 of the floor is below the goal", hot, "goal", "1.56 go-limiter"},
		{"between must and goal", with(hot, func(b *bar) { b.goal = 0.5 }), "must", "1.56 go-limiter"},
		{"above must", with(hot, func(b *bar) { b.goal, b.must = 0.4, 0.5 }), "no", "1.56 go-limiter"},
		{"a floor that was not run", with(hot, func(b *bar) { b.floor = "floor.gone" }), "not measured", "–"},
		{"a row that was not run", with(hot, func(b *bar) { b.bench = "Keyed/gone" }), "not measured", "–"},
		{"a peer that was ever too early is no best peer", paced, "goal", "–"},
		{"one round too early is wrong", with(paced, func(b *bar) { b.least = 1.003 }), "WRONG", "–"},
		{"one round too much is wrong", with(paced, func(b *bar) { b.most = 1.003 }), "WRONG", "–"},
		{"another row than ours has no peers", with(hot, func(b *bar) { b.row = "go-limiter" }), "no", "–"},
	} {
		t.Run(c.what, func(t *testing.T) {
			f, err := read(strings.NewReader(rounds), "rounds")
			if err != nil {
				t.Fatal(err)
			}
			l := f.weigh(c.bar)
			if l.verdict() != c.verdict || l.peer != c.peer {
				t.Errorf("got %q, best peer %q; want %q, %q (%+v)", l.verdict(), l.peer, c.verdict, c.peer, l)
			}
		})
	}
}

func TestReadNothing(t *testing.T) {
	if _, err := read(strings.NewReader("PASS\n"), "empty"); err == nil {
		t.Error("output without results was accepted")
	}
}

func TestPrint(t *testing.T) {
	f, err := read(strings.NewReader(rounds), "rounds")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	missed, err := f.print(&out)
	if err != nil {
		t.Fatal(err)
	}
	if len(missed) != 0 {
		t.Errorf("missed %+v, want none: what was not measured was not missed", missed)
	}
	for _, want := range []string{
		"one rule, one hot key       2 cores",
		"90 ns  54 ns   0.6",
		"not measured",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
