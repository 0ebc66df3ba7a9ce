package hazelcast

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxFailures = 3                      // in a row, until callers are not let wait any more
	probeEvery  = 100 * time.Millisecond // while the cluster does not answer
	probeWait   = 500 * time.Millisecond // for one probe
)

// A breaker keeps callers from waiting for a cluster that does not answer. No caller ever
// tries the cluster out: a probe of its own does.
type breaker struct {
	failures atomic.Int32
	open     atomic.Bool

	tripped func(error)                 // called when it opens
	healed  func(time.Duration)         // called when it closes, with how long it was open
	probe   func(context.Context) error // asks the cluster

	mu      sync.Mutex
	ctx     context.Context // ends with the store
	quit    context.CancelFunc
	probing sync.WaitGroup
	cause   error // of its being open
}

func (b *breaker) start(s *Store) {
	b.ctx, b.quit = context.WithCancel(context.Background())
	b.probe = s.probe
	b.tripped = func(err error) {
		s.log.Error("hazelcast: the cluster does not answer; calls are decided by their rules' onStoreError", "error", err)
	}
	b.healed = func(d time.Duration) {
		s.log.Info("hazelcast: the cluster answers again", "after", d.Round(time.Millisecond))
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

// note counts the end of an operation.
func (b *breaker) note(err error) {
	switch {
	case err == nil:
		if b.failures.Load() != 0 {
			b.failures.Store(0)
		}
		return
	case errors.Is(err, context.Canceled): // the store is closed
		return
	case b.failures.Add(1) < maxFailures || b.open.Load():
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil || b.open.Swap(true) {
		return
	}
	b.cause = err
	b.tripped(err)
	b.probing.Go(b.heal)
}

// heal probes until the cluster answers.
func (b *breaker) heal() {
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
		if err == nil {
			b.failures.Store(0)
			b.open.Store(false)
			b.healed(time.Since(began))
			return
		}
	}
}
