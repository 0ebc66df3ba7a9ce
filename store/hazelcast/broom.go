package hazelcast

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluicegate/sluice/limit"
)

// Where time alone does not tell that a value is useless, as with slots that are free, it
// is removed later: after leftFor, when no pass can be under way that read it.
const (
	leftFor    = time.Minute
	sweepEvery = 10 * time.Minute // of the whole map
	broomTick  = 5 * time.Second
	maxLeft    = 100_000 // values that this process remembers to remove; a sweep finds the rest
)

// A broom knows the values that this process has to remove.
type broom struct {
	mu   sync.Mutex
	left map[string]leftover
}

type leftover struct {
	raw   []byte
	since time.Time
}

// later notes that raw, the value of key, is to be removed if it is still there then.
func (b *broom) later(key string, raw []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.left[key]; known || len(b.left) < maxLeft {
		b.left[key] = leftover{raw, time.Now()}
	}
}

// due takes out the values whose time has come.
func (b *broom) due() map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make(map[string][]byte)
	for key, l := range b.left {
		if time.Since(l.since) >= leftFor {
			list[key] = l.raw
			delete(b.left, key)
		}
	}
	return list
}

// sweepUp removes what is useless until the store is closed: every few seconds what this
// process has left, and now and then what any other has, which may have died.
func (s *Store) sweepUp() {
	tick := time.NewTicker(broomTick)
	defer tick.Stop()
	next := time.Now().Add(leftFor + rand.N(sweepEvery))
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if s.breaker.IsOpen() {
			continue
		}
		for key, raw := range s.broom.due() {
			s.remove(key, raw)
		}
		if time.Now().After(next) {
			next = time.Now().Add(sweepEvery/2 + rand.N(sweepEvery))
			s.sweepMapAt(s.clock.now())
		}
	}
}

// remove removes key if its value is still raw. If that fails a sweep will.
func (s *Store) remove(key string, raw []byte) {
	_, _ = ask(s, func(ctx context.Context) (bool, error) { return s.books.RemoveIfSame(ctx, key, raw) })
}

// sweepMapAt removes every cell and record of the map that has been useless for long at
// time now, and ends what a process that died has left half done.
func (s *Store) sweepMapAt(now limit.Micros) {
	ctx, cancel := context.WithTimeout(s.ctx, leftFor)
	defer cancel()
	keys, err := s.keys(ctx, "%")
	for len(keys) > 0 && err == nil {
		n := min(len(keys), scanPortion)
		var found map[string]*entry
		found, err = s.look(ctx, keys[:n])
		for key, e := range found {
			if w := e.value.writers; len(w) > 0 && now-w[0].at < limit.MicrosOf(leftFor) {
				continue
			}
			s.sweep(key, e, now)
		}
		keys = keys[n:]
	}
}

// sweep looks after one value that nobody has written for long.
func (s *Store) sweep(key string, e *entry, now limit.Micros) {
	if e.value.intent != nil {
		_ = s.settle(key, e)
		return // written just now
	}
	if m := e.value.mark; m != nil && s.clean(m) != nil {
		return
	}
	if e.raw != nil && e.value.state.useless(now, s.retention) {
		s.remove(key, e.raw)
	}
}
