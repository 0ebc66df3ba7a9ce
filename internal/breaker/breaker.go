// Package breaker keeps the callers of a store from waiting for a server that does not
// answer.
package breaker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxFailures is how many questions in a row go unanswered until nobody is let wait any
	// more.
	maxFailures = 3
	// ProbeEvery is how often a server is tried out that does not answer.
	ProbeEvery = 100 * time.Millisecond
	// ProbeWait is how long one try may take. It may have to connect anew.
	ProbeWait = 500 * time.Millisecond
)

// A Breaker is closed as long as a server answers, and open from the third failure in a row
// until a probe is answered. No caller ever tries the server out. It is used by pointer,
// after Start, and is safe for concurrent use.
type Breaker struct {
	failures atomic.Int32
	open     atomic.Bool

	probe  func(context.Context) error
	opened func(error)
	closed func(time.Duration)

	mu      sync.Mutex
	ctx     context.Context // ends with Stop
	quit    context.CancelFunc
	probing sync.WaitGroup
	cause   error // of its being open
}

// Start says what the breaker does: probe asks the server and returns an error if it still
// does not answer; opened is called with the failure that opens the breaker, closed with
// how long it was open. It is called once, before anything else.
func (b *Breaker) Start(probe func(context.Context) error, opened func(error), closed func(time.Duration)) {
	b.probe, b.opened, b.closed = probe, opened, closed
	b.ctx, b.quit = context.WithCancel(context.Background())
}

// Stop ends the probes, and waits for one that is under way. The breaker opens no more.
func (b *Breaker) Stop() {
	b.mu.Lock()
	b.quit()
	b.mu.Unlock()
	b.probing.Wait()
}

// IsOpen reports whether the server is known not to answer.
func (b *Breaker) IsOpen() bool { return b.open.Load() }

// Failure is why the breaker is open, nil if it is not.
func (b *Breaker) Failure() error {
	if !b.IsOpen() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}

// Answered notes that the server has answered.
func (b *Breaker) Answered() {
	if b.failures.Load() != 0 {
		b.failures.Store(0)
	}
}

// Failed notes that it has not, and why.
func (b *Breaker) Failed(err error) {
	if b.failures.Add(1) < maxFailures || b.open.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil || b.open.Swap(true) {
		return
	}
	b.cause = err
	b.opened(err)
	b.probing.Go(b.heal)
}

// heal probes until the server answers.
func (b *Breaker) heal() {
	began := time.Now()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-time.After(ProbeEvery):
		}
		ctx, cancel := context.WithTimeout(b.ctx, ProbeWait)
		err := b.probe(ctx)
		cancel()
		if err == nil && b.ctx.Err() == nil {
			b.failures.Store(0)
			b.closed(time.Since(began))
			b.open.Store(false)
			return
		}
	}
}
