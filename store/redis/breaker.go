package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxFailures = 3                      // in a row, until callers are not let wait any more
	probeEvery  = 100 * time.Millisecond // while the server does not answer
)

// A breaker keeps callers from waiting for a server that does not answer. No caller ever
// tries the server out: a probe of its own does.
type breaker struct {
	failures atomic.Int32
	open     atomic.Bool

	tripped func(error)                 // called when it opens
	healed  func(time.Duration)         // called when it closes, with how long it was open
	probe   func(context.Context) error // asks the server

	mu      sync.Mutex
	ctx     context.Context // ends with the store
	quit    context.CancelFunc
	probing sync.WaitGroup
	cause   error // of its being open
}

func (b *breaker) start(s *Store, n *node) {
	log := s.log
	if n.addr != "" {
		log = log.With("server", n.addr)
	}
	b.ctx, b.quit = context.WithCancel(context.Background())
	b.probe = func(ctx context.Context) error { return s.probe(ctx, n) }
	b.tripped = func(err error) {
		log.Error("redis: the server does not answer; calls are decided by their rules' onStoreError", "error", err)
	}
	b.healed = func(d time.Duration) {
		log.Info("redis: the server answers again, or another does in its place", "after", d.Round(time.Millisecond))
	}
}

func (b *breaker) stop() {
	b.mu.Lock()
	b.quit()
	b.mu.Unlock()
	b.probing.Wait()
}

func (b *breaker) isOpen() bool { return b.open.Load() }

// failure is why the breaker is open, nil if it is not.
func (b *breaker) failure() error {
	if !b.isOpen() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}

// note counts the end of a script call.
func (b *breaker) note(err error) {
	if !isDown(err) || isTryAgain(err) {
		if b.failures.Load() != 0 {
			b.failures.Store(0)
		}
		return
	}
	if b.failures.Add(1) < maxFailures || b.open.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil || b.open.Swap(true) {
		return
	}
	b.cause = err
	b.tripped(err)
	b.probing.Go(b.wait)
}

// wait probes until the server answers.
func (b *breaker) wait() {
	began := time.Now()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-time.After(probeEvery):
		}
		ctx, cancel := context.WithTimeout(b.ctx, probeWait)
		err := b.probe(ctx)
		cancel()
		if !isDown(err) && b.ctx.Err() == nil {
			b.failures.Store(0)
			b.healed(time.Since(began))
			b.open.Store(false)
			return
		}
	}
}

// probeWait is how long a probe waits. It may have to connect anew.
const probeWait = 500 * time.Millisecond
