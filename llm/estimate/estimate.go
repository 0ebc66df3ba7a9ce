package estimate

import (
	"container/list"
	"hash/maphash"
	"math"
	"sync"

	"github.com/sluicegate/sluice/llm/dialect"
)

// Options of an Estimator. The zero value is usable.
type Options struct {
	// ImageTokens, AudioTokens and FileTokens are what one of each counts if nothing better
	// is known. Zero or less is 1100, 1000 and 3000.
	ImageTokens, AudioTokens, FileTokens int64
	// Keys bounds how many tenants × models are learned of; the one that was not used for
	// the longest time is forgotten. Each takes about 700 bytes. Zero or less is 10 000.
	Keys int
}

// An Estimator estimates requests and learns from their answers. It is safe for concurrent
// use.
type Estimator struct {
	o    Options
	seed maphash.Seed

	mu    sync.Mutex
	byKey map[uint64]*list.Element // of *lesson
	order list.List                // most recently used first
}

// A Key is whose requests are alike: one tenant's to one model. Only a hash of it is kept, so
// that its length does not matter.
type Key struct{ Tenant, Model string }

// widest bounds every correction, as a logarithm: four times more, or less.
const widest = 1.4

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
	return &Estimator{o: o, seed: maphash.MakeSeed(), byKey: map[uint64]*list.Element{}}
}

// An Input is an estimate of a request's input.
type Input struct {
	// Counted is what the request's own parts come to, before any correction.
	Counted int64
	// Tokens is what the input is expected to be. Reserve is more: few requests turn out to be
	// larger. Neither is more than about four times Counted, unless the input is hidden.
	Tokens, Reserve int64
	// Hidden says that the request does not show all of its input.
	Hidden bool
}

// Input estimates the input of a request. It is at least 1. Of an input that is hidden, such
// as an earlier response, it is what those of the same key were, once some are known.
func (e *Estimator) Input(key Key, q *dialect.Request) Input {
	in := Input{Counted: e.count(q), Hidden: q.Hidden}
	first := tally{spread: firstSpread}
	ratio, hidden := first, tally{}
	e.mu.Lock()
	if l := e.find(e.hash(key)); l != nil {
		hidden = l.hidden
		if l.ratio.n > 0 {
			ratio = l.ratio
		}
	}
	e.mu.Unlock()
	in.Tokens, in.Reserve = scale(in.Counted, ratio.mean), scale(in.Counted, ratio.high())
	if q.Hidden && hidden.n > 0 {
		in.Tokens, in.Reserve = max(in.Tokens, whole(math.Exp(hidden.mean))), max(in.Reserve, whole(math.Exp(hidden.high())))
	}
	return in
}

// scale corrects n by a logarithm.
func scale(n int64, by float64) int64 {
	return whole(float64(n) * math.Exp(min(max(by, -widest), widest)))
}

// whole rounds to a number of tokens, which is at least 1.
func whole(n float64) int64 { return max(1, int64(min(math.Round(n), most/1000))) }

// count adds up the parts of a request.
func (e *Estimator) count(q *dialect.Request) int64 {
	var (
		c      Counter
		few    [32][]byte // most requests have no more
		texts  = few[:0]
		images = pictures{dialect: q.Route.Dialect, unknown: e.o.ImageTokens}
		turns  int64
	)
	for i := range q.Parts {
		p := &q.Parts[i]
		switch p.Kind {
		case dialect.Text, dialect.JSON:
			texts = append(texts, p.Raw)
		case dialect.Turn:
			turns++
		case dialect.IDs:
			c.AddTokens(p.N)
		case dialect.Image:
			c.AddTokens(images.tokens(p))
		case dialect.Audio:
			c.AddTokens(e.o.AudioTokens)
		case dialect.File:
			c.AddTokens(e.o.FileTokens)
		}
	}
	c.addAll(texts)
	if turns > 0 {
		c.AddTokens(turns*perTurn + perAnswer)
	}
	return max(1, c.Tokens())
}

const (
	perTurn   = 4 // tokens that frame a message
	perAnswer = 3 // tokens that begin the answer
)

// Output estimates how many tokens an answer has: what nine of ten of the last 64 answers did
// not exceed, and no more than asked, unless that is negative. Before there are answers it is
// 1024.
func (e *Estimator) Output(key Key, asked int64) int64 {
	n := int64(firstOutput)
	e.mu.Lock()
	if l := e.find(e.hash(key)); l != nil && l.written > 0 {
		n = l.usual
	}
	e.mu.Unlock()
	if asked >= 0 {
		n = min(n, asked)
	}
	return n
}

// Learn takes in what a request of which in was the estimate has really used. A figure that
// is negative is not known; no request has an input of 0.
func (e *Estimator) Learn(key Key, in Input, input, output int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.learn(e.hash(key))
	switch {
	case input <= 0:
	case in.Hidden:
		l.hidden.learn(math.Log(float64(input)))
	case in.Counted > 0:
		l.ratio.learn(min(max(math.Log(float64(input)/float64(in.Counted)), -widest), widest))
	}
	if output >= 0 {
		l.answer(output)
	}
}

func (e *Estimator) hash(key Key) uint64 { return maphash.Comparable(e.seed, key) }

// find returns what is known of a key, nil if nothing is. The caller holds e.mu.
func (e *Estimator) find(key uint64) *lesson {
	at := e.byKey[key]
	if at == nil {
		return nil
	}
	e.order.MoveToFront(at)
	return at.Value.(*lesson)
}

// learn returns what is known of a key, and makes room for it. The caller holds e.mu.
func (e *Estimator) learn(key uint64) *lesson {
	if l := e.find(key); l != nil {
		return l
	}
	if len(e.byKey) >= e.o.Keys {
		oldest := e.order.Back()
		delete(e.byKey, e.order.Remove(oldest).(*lesson).key)
	}
	l := &lesson{key: key}
	e.byKey[key] = e.order.PushFront(l)
	return l
}
