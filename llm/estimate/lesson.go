package estimate

import (
	"math"
	"slices"
)

// A lesson is what has been learned of the requests of one tenant to one model.
type lesson struct {
	key uint64
	// ratio is of ln(used ÷ counted) of inputs that were seen.
	ratio tally
	// hidden is of ln(used) of inputs that were not.
	hidden tally
	// outputs are the last outputs, a ring; usual is what nine of ten did not exceed.
	outputs [outputsKept]int64
	written int
	usual   int64
}

const (
	outputsKept = 64
	firstOutput = 1024 // tokens, of an answer of which nothing is known
	fewOutputs  = 10
)

// answer takes in an output. With few of them, the first guess is one of them.
func (l *lesson) answer(output int64) {
	l.outputs[l.written%outputsKept] = output
	l.written++
	var known [outputsKept + 1]int64
	n := copy(known[:], l.outputs[:min(l.written, outputsKept)])
	if n < fewOutputs {
		known[n] = firstOutput
		n++
	}
	slices.Sort(known[:n])
	l.usual = known[(n*9+9)/10-1]
}

// A tally is the mean of the last twenty or so of some logarithms, and how far from it they
// were.
type tally struct {
	n            int
	mean, spread float64
}

const (
	slowest     = 0.05 // what the newest value weighs at least
	firstSpread = 0.25
	firstWeight = 4 // of firstSpread, in values
	margin      = 1.5
)

// learn takes in a value.
func (t *tally) learn(x float64) {
	if t.n == 0 {
		t.mean, t.spread = x, firstSpread
	}
	t.n++
	off := math.Abs(x - t.mean)
	t.mean += max(slowest, 1/float64(t.n)) * (x - t.mean)
	t.spread += max(slowest, 1/float64(t.n+firstWeight)) * (off - t.spread)
}

// high is what few values exceed.
func (t *tally) high() float64 { return t.mean + margin*t.spread }
