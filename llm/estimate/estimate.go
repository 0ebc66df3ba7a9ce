package estimate

import (
	"container/list"
	"math"
	"slices"
	"sync"

	"github.com/sluicegate/sluice/llm/dialect"
)

// Options of an Estimator. The zero value is usable.
type Options struct {
	// ImageTokens, AudioTokens and FileTokens are what one of each counts if nothing better
	// is known. Zero is 1100, 1000 and 3000.
	ImageTokens, AudioTokens, FileTokens int64
	// Keys bounds how many tenants × models are learned of; the one that was not used for
	// the longest time is forgotten. Zero is 10 000.
	Keys int
}

// An Estimator estimates requests and learns from their answers. It is safe for concurrent
// use.
type Estimator struct {
	o Options

	mu    sync.Mutex
	byKey map[Key]*list.Element // of *lesson
	order list.List             // most recently used first
}

// A Key is whose requests are alike: one tenant's to one model.
type Key struct{ Tenant, Model string }

// A lesson is what has been learned of one Key.
type lesson struct {
	key Key
	// n counts answers. bias and spread are the mean of ln(used ÷ estimated) of their input
	// and its mean deviation, of which the last twenty or so count.
	n, bias, spread float64
	// input is the mean of the input used, for requests that do not show theirs.
	input float64
	// outputs are the last outputs, a ring.
	outputs [outputsKept]int64
	written int
}

const (
	outputsKept = 64
	firstOutput = 1024 // tokens, of an answer of which nothing is known
	margin      = 1.5  // deviations that are reserved beyond the mean
	firstSpread = 0.25
	widest      = 1.4 // of a correction, as a logarithm: four times
	slowest     = 0.05
)

// New returns an Estimator that has learned nothing yet.
func New(o Options) *Estimator {
	for _, d := range []struct {
		v       *int64
		initial int64
	}{{&o.ImageTokens, 1100}, {&o.AudioTokens, 1000}, {&o.FileTokens, 3000}} {
		if *d.v <= 0 {
			*d.v = d.initial
		}
	}
	if o.Keys <= 0 {
		o.Keys = 10_000
	}
	return &Estimator{o: o, byKey: map[Key]*list.Element{}}
}

// An Input is an estimate of a request's input.
type Input struct {
	// Counted is what the request's own parts come to, before any correction.
	Counted int64
	// Tokens is what the input is expected to be. Reserve is a little more: few requests
	// turn out to be larger.
	Tokens, Reserve int64
}

// Input estimates the input of a request. It is at least 1.
func (e *Estimator) Input(key Key, q *dialect.Request) Input {
	counted := e.count(q)
	e.mu.Lock()
	defer e.mu.Unlock()
	bias, spread, hidden := 0.0, firstSpread, 0.0
	if l := e.find(key); l != nil {
		bias, spread, hidden = l.bias, l.spread, l.input
	}
	in := Input{Counted: counted, Tokens: scale(counted, bias), Reserve: scale(counted, bias+margin*spread)}
	if q.Hidden {
		in.Tokens, in.Reserve = max(in.Tokens, int64(hidden)), max(in.Reserve, int64(hidden))
	}
	return in
}

func scale(n int64, by float64) int64 {
	return max(1, int64(min(math.Ceil(float64(n)*math.Exp(by)), 1<<50)))
}

// count adds up the parts of a request.
func (e *Estimator) count(q *dialect.Request) int64 {
	var c Counter
	for i := range q.Parts {
		p := &q.Parts[i]
		switch p.Kind {
		case dialect.Text, dialect.JSON:
			c.Add(p.Raw)
		case dialect.Turn:
			c.AddTokens(perTurn)
		case dialect.IDs:
			c.AddTokens(p.N)
		case dialect.Image:
			c.AddTokens(e.image(p))
		case dialect.Audio:
			c.AddTokens(e.o.AudioTokens)
		case dialect.File:
			c.AddTokens(e.o.FileTokens)
		}
	}
	return max(1, c.Tokens())
}

const perTurn = 4 // tokens that frame a message

// Output estimates how many tokens an answer has: what nine of ten of the last answers did
// not exceed, and no more than asked, unless that is negative.
func (e *Estimator) Output(key Key, asked int64) int64 {
	e.mu.Lock()
	n := int64(firstOutput)
	if l := e.find(key); l != nil && l.written > 0 {
		n = l.quantile()
	}
	e.mu.Unlock()
	if asked >= 0 {
		n = min(n, asked)
	}
	return n
}

// quantile is the output that nine of ten did not exceed; with few of them, the first guess
// is one of them.
func (l *lesson) quantile() int64 {
	known := slices.Clone(l.outputs[:min(l.written, outputsKept)])
	if len(known) < 10 {
		known = append(known, firstOutput)
	}
	slices.Sort(known)
	return known[(len(known)*9+9)/10-1]
}

// Learn takes in what a request of which in was the estimate has really used. A figure that
// is negative is not known.
func (e *Estimator) Learn(key Key, in Input, input, output int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.learn(key)
	if input > 0 && in.Counted > 0 {
		l.n++
		alpha := max(slowest, 1/l.n)
		ratio := math.Log(float64(input) / float64(in.Counted))
		l.bias += alpha * (min(max(ratio, -widest), widest) - l.bias)
		l.spread += max(slowest, 1/(l.n+4)) * (math.Abs(ratio-l.bias) - l.spread)
		l.spread = min(l.spread, widest)
		l.input += alpha * (float64(input) - l.input)
	}
	if output >= 0 {
		l.outputs[l.written%outputsKept] = output
		l.written++
	}
}

// find returns what is known of key, nil if nothing is. The caller holds e.mu.
func (e *Estimator) find(key Key) *lesson {
	at := e.byKey[key]
	if at == nil {
		return nil
	}
	e.order.MoveToFront(at)
	return at.Value.(*lesson)
}

// learn returns what is known of key, and makes room for it. The caller holds e.mu.
func (e *Estimator) learn(key Key) *lesson {
	if l := e.find(key); l != nil {
		return l
	}
	for len(e.byKey) >= e.o.Keys {
		oldest := e.order.Back()
		delete(e.byKey, e.order.Remove(oldest).(*lesson).key)
	}
	l := &lesson{key: key, spread: firstSpread}
	e.byKey[key] = e.order.PushFront(l)
	return l
}
