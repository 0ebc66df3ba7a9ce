package main

// A bar is one line of the table: a figure of ours over a floor's, and how low, or
// high, that has to be. The numbers are those of the performance section of the design.
type bar struct {
	work string // what is measured
	mode string // how it is asked

	bench string // benchmark with its modes, without the row: "Keyed/hot/serial"
	row   string // the row held against the bars; empty is [ours]
	floor string // the floor's row, or a whole name; empty when the figure has none
	unit  string

	must, goal float64
	more       bool // the figure has to be high, not low: so much in a second

	// least and most bound a figure in every single round: outside them a limiter
	// decides wrongly, however fast. Zero is no bound.
	least, most float64

	once   bool // one operation is a whole experiment
	turns  bool // the rows take turns, and -benchtime counts them
	server bool // our side is a process of its own
}

// ours is our row beside the peers.
const ours = "sluice"

const (
	sharded = "floor.sharded+mutex"
	gcra    = "floor.gcra"
	leased  = "sluice.leased"
)

var bars = []bar{
	{work: "one rule, one hot key", mode: "serial", bench: "Keyed/hot/serial", floor: sharded, unit: "ns/op", must: 1.0, goal: 0.65},
	{work: "one rule, one hot key", mode: "2 cores", bench: "Keyed/hot/par", floor: sharded, unit: "ns/op", must: 0.9, goal: 0.75},
	{work: "one rule, one hot key", mode: "64 goroutines", bench: "Keyed/hot/par32", floor: sharded, unit: "ns/op", must: 0.4, goal: 0.2},
	{work: "refusal", mode: "serial", bench: "Keyed/hotdeny/serial", floor: sharded, unit: "ns/op", must: 1.0, goal: 0.8},
	{work: "refusal", mode: "2 cores", bench: "Keyed/hotdeny/par", floor: sharded, unit: "ns/op", must: 1.0, goal: 0.36},
	{work: "100 000 keys uniform", mode: "serial", bench: "Keyed/uni100k/serial", floor: sharded, unit: "ns/op", must: 0.85, goal: 0.8},
	{work: "100 000 keys uniform", mode: "2 cores", bench: "Keyed/uni100k/par", floor: sharded, unit: "ns/op", must: 1.0, goal: 0.62},
	{work: "1 000 000 keys zipf", mode: "serial", bench: "Keyed/zipf1M/serial", floor: sharded, unit: "ns/op", must: 1.2, goal: 0.76},
	{work: "1 000 000 keys zipf", mode: "2 cores", bench: "Keyed/zipf1M/par", floor: sharded, unit: "ns/op", must: 1.0, goal: 0.54},
	{work: "four rules atomically", mode: "serial", bench: "Rules/hot/serial", row: "4", floor: "1", unit: "ns/op", must: 3, goal: 2},
	{work: "allocations", mode: "granted", bench: "Keyed/hot/serial", unit: "allocs/op"},
	{work: "allocations", mode: "refused", bench: "Keyed/hotdeny/serial", unit: "allocs/op"},
	{work: "allocations", mode: "four rules", bench: "Rules/hot/serial", row: "4", unit: "allocs/op"},
	{work: "bytes a key", mode: "1 M keys", bench: "Million", floor: sharded, unit: "B/key", must: 1.0, goal: 0.65, once: true},
	{work: "full GC", mode: "1 M keys", bench: "Million", floor: sharded, unit: "ns/gc", must: 1.0, goal: 0.5, once: true},
	{work: "slots: try + release", mode: "serial", bench: "Slots/serial", floor: "floor.fifo-handoff", unit: "ns/op", must: 0.95, goal: 0.6},
	{work: "slots: try + release", mode: "2 cores", bench: "Slots/par", floor: "floor.fifo-handoff", unit: "ns/op", must: 0.85, goal: 0.6},
	{work: "10 000 paced: wall ÷ ideal", mode: "20 k/s", bench: "Paced/20k", unit: "x-ideal", must: 1.01, goal: 1.01, least: 1, once: true},
	{work: "10 000 paced: wall ÷ ideal", mode: "100 k/s", bench: "Paced/100k", unit: "x-ideal", must: 1.01, goal: 1.01, least: 1, once: true},
	{work: "10 000 paced: CPU a waiter", mode: "20 k/s", bench: "Paced/20k", floor: "floor.sleep-own-slot", unit: "ns-cpu/waiter", must: 1.0, goal: 0.5, once: true},
	{work: "10 000 paced: CPU a waiter", mode: "100 k/s", bench: "Paced/100k", floor: "floor.sleep-own-slot", unit: "ns-cpu/waiter", must: 1.0, goal: 0.5, once: true},
	{work: "granted ÷ ideal", mode: "1 k/s, 2 askers", bench: "Accuracy/1k/g2", unit: "x-granted", must: 1, goal: 1, most: 1, once: true},
	{work: "granted ÷ ideal", mode: "1 k/s, 1000 askers", bench: "Accuracy/1k/g1000", unit: "x-granted", must: 1, goal: 1, most: 1, once: true},
	{work: "granted ÷ ideal", mode: "100 k/s, 2 askers", bench: "Accuracy/100k/g2", unit: "x-granted", must: 1, goal: 1, most: 1, once: true},
	{work: "granted ÷ ideal", mode: "100 k/s, 1000 askers", bench: "Accuracy/100k/g1000", unit: "x-granted", must: 1, goal: 1, most: 1, once: true},
	{work: "net/http middleware CPU", mode: "granted", bench: "Guard/pass", floor: "floor.bare", unit: "ns-cpu/req", must: 1.10, goal: 1.05, server: true},
	{work: "net/http middleware CPU", mode: "429", bench: "Guard/deny", floor: "Guard/pass/floor.bare", unit: "ns-cpu/req", must: 1.0, goal: 0.86, server: true},
	{work: "reverse proxy CPU", mode: "granted", bench: "Proxy/pass", floor: "floor.bare", unit: "ns-cpu/req", must: 1.03, goal: 0.7, server: true},
	{work: "reverse proxy CPU", mode: "429", bench: "Proxy/deny", floor: "Proxy/pass/floor.bare", unit: "ns-cpu/req", must: 0.17, goal: 0.12, server: true},
	{work: "Redis: decisions/s", mode: "100 000 keys", bench: "Remote/uni100k/64", floor: gcra, unit: "dec/s", must: 1, goal: 2.2, more: true, turns: true},
	{work: "Redis: decisions/s", mode: "one hot key", bench: "Remote/hot/64", floor: gcra, unit: "dec/s", must: 1, goal: 2.2, more: true, turns: true},
	{work: "Redis: decisions/s", mode: "one hot key, leased", bench: "Remote/hot/64", row: leased, floor: gcra, unit: "dec/s", must: 1, goal: 10, more: true, turns: true},
	{work: "Redis: CPU a decision", mode: "100 000 keys", bench: "Remote/uni100k/64", floor: gcra, unit: "redis-ns/dec", must: 0.75, goal: 0.45, turns: true},
	{work: "Redis: CPU a decision", mode: "one hot key", bench: "Remote/hot/64", floor: gcra, unit: "redis-ns/dec", must: 0.75, goal: 0.45, turns: true},
	{work: "Redis: CPU a decision", mode: "one hot key, leased", bench: "Remote/hot/64", row: leased, floor: gcra, unit: "redis-ns/dec", must: 0.75, goal: 0.05, turns: true},
	{work: "durable reservations/s", mode: "64 callers", bench: "Durable/64", floor: "floor.sync", unit: "res/s", must: 0.5, goal: 0.8, more: true, turns: true},
	{work: "durable reservation: p50", mode: "10⁶ records ÷ 10", bench: "Records", row: "1000000", floor: "10", unit: "p50-ns", must: 1.25, goal: 1.15, once: true},
}

// A step is one run of the benchmark binary. Every round runs every step once, so
// that a drift of the machine hits all rows alike.
type step struct {
	what  string
	bench string // pattern
	cpu   string
	time  string // of one row
	quick string // the same with -quick
	every int    // only every so many rounds

	quickRounds int // in how many of the rounds with -quick
}

var steps = []step{
	{"one key, serial", "Keyed/^(hot|hotdeny)$/^serial$", "1", "60ms", "30ms", 1, 2},
	{"one key, parallel", "Keyed/^(hot|hotdeny)$/^par", "2", "60ms", "30ms", 1, 2},
	{"many keys, serial", "Keyed/^(uni100k|zipf1M)$/^serial$", "1", "100ms", "50ms", 1, 1},
	{"many keys, parallel", "Keyed/^(uni100k|zipf1M)$/^par$", "2", "100ms", "50ms", 1, 1},
	{"several rules, serial", "Rules/./^serial$", "1", "100ms", "50ms", 1, 2},
	{"several rules, parallel", "Rules/./^par$", "2", "100ms", "50ms", 1, 2},
	{"slots, serial", "Slots/^serial$", "1", "60ms", "30ms", 1, 2},
	{"slots, parallel", "Slots/^par$", "2", "60ms", "30ms", 1, 2},
	{"paced waiting", "Paced", "2", "1x", "1x", 1, 1},
	{"a million keys", "Million", "2", "1x", "1x", 2, 1},
	{"accuracy", "Accuracy", "2", "1x", "1x", 3, 1},
	{"middleware", "Guard", "1", "40000x", "15000x", 1, 2},
	{"reverse proxy", "Proxy", "1", "15000x", "6000x", 1, 2},
	{"shared books", "Remote", "2", "5x", "2x", 1, 1},
	{"durable reservations", "Durable", "2", "5x", "3x", 1, 1},
	{"many records", "Records", "2", "1x", "1x", 3, 0},
}
