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
BenchmarkRemote/hot/64/floor.gcra-2              5   50000 dec/s   600000 p50-ns   900000 p99-ns   6000 redis-ns/dec
BenchmarkRemote/hot/64/gubernator-2              5   15000 dec/s   900000 p50-ns   950000 p99-ns
BenchmarkRemote/hot/64/redis_rate-2              5   30000 dec/s   800000 p50-ns   900000 p99-ns   9000 redis-ns/dec
BenchmarkRemote/hot/64/sluice-2                  5  100000 dec/s   300000 p50-ns   400000 p99-ns   3000 redis-ns/dec
BenchmarkRemote/hot/64/sluice.memory-2           5 1000000 dec/s     1000 p50-ns     2000 p99-ns
PASS
BenchmarkKeyed/hot/par/floor.sharded+mutex-2   100    80 ns/op   0 B/op   0 allocs/op
BenchmarkKeyed/hot/par/go-limiter-2            100   130 ns/op   0 B/op   0 allocs/op
BenchmarkKeyed/hot/par/sluice-2                100    48 ns/op   0 B/op   0 allocs/op
BenchmarkPaced/20k/sluice-2                      1   1.004 x-ideal   900 ns-cpu/waiter
BenchmarkPaced/20k/xtime.map-2                   1   1.001 x-ideal   900 ns-cpu/waiter
BenchmarkRemote/hot/64/floor.gcra-2              5   60000 dec/s   600000 p50-ns   900000 p99-ns   6000 redis-ns/dec
BenchmarkRemote/hot/64/gubernator-2              5   15000 dec/s   900000 p50-ns   950000 p99-ns
BenchmarkRemote/hot/64/redis_rate-2              5   30000 dec/s   800000 p50-ns   900000 p99-ns   9000 redis-ns/dec
BenchmarkRemote/hot/64/sluice-2                  5  120000 dec/s   300000 p50-ns   400000 p99-ns   3000 redis-ns/dec
BenchmarkRemote/hot/64/sluice.memory-2           5 1000000 dec/s     1000 p50-ns     2000 p99-ns
PASS
`

func TestWeigh(t *testing.T) {
	hot := bar{bench: "Keyed/hot/par", floor: sharded, unit: "ns/op", must: 0.9, goal: 0.75}
	paced := bar{bench: "Paced/20k", unit: "x-ideal", must: 1.01, goal: 1.0035, least: 1}
	many := bar{bench: "Remote/hot/64", floor: gcra, unit: "dec/s", must: 1, goal: 2, more: true}
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
		{"twice the floor, of which more is better", many, "goal", "0.55 redis_rate"},
		{"twice the floor is less than three times", with(many, func(b *bar) { b.goal = 3 }), "must", "0.55 redis_rate"},
		{"twice the floor is not enough", with(many, func(b *bar) { b.must, b.goal = 2.5, 3 }), "no", "0.55 redis_rate"},
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
	words := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"one rule, one hot key 2 cores 90 ns 54 ns 0.6 1.56 go-limiter",
		"not measured",
		"hot 64 sluice 110 k 2.00 300.0 µs 400.0 µs 3.0 µs 0.50",
		"hot 64 sluice.memory 1000 k 18.33 1.0 µs 2.0 µs – –",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
