package file

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/ledger"
)

// A request is what a caller asks of the goroutine that keeps the books.
type request struct {
	cmds []ledger.Command
	res  []ledger.Result
	next int // of cmds, the one to carry out next
	// do is something other than commands. It returns like a command that was carried out.
	do func() error
	// in is the last batch that holds something of the request.
	in  *batch
	err error

	state  atomic.Int32
	answer chan error // has room for the one answer
}

const (
	idle     = iota // it waits; nobody touches cmds and res
	busy            // it is being carried out
	answered        // the answer is on its way
	gone            // its caller has gone
)

var requests = sync.Pool{New: func() any { return &request{answer: make(chan error, 1)} }}

// begin reports whether the request may be carried out: its caller is still there.
func (r *request) begin() bool { return r.state.CompareAndSwap(idle, busy) }

// reply answers a request that was begun.
func (r *request) reply(err error) {
	r.state.Store(answered)
	r.answer <- err
}

// leave reports whether the caller may go without an answer: not while cmds and res are
// in use, nor when the answer is on its way.
func (r *request) leave() bool {
	for {
		switch r.state.Load() {
		case idle:
			if r.state.CompareAndSwap(idle, gone) {
				return true
			}
		case busy:
			runtime.Gosched() // a few microseconds
		case answered:
			return false
		}
	}
}

// Apply implements sluice.Store. Commands that change what must survive return when it is
// on the disk; the others do not wait. If ctx ends meanwhile, or the disk refuses,
// nothing has been taken; a settlement, cooldown or reset has then been carried out and
// will be written when the disk allows.
func (s *Store) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if !anyDurable(cmds) {
		return s.memory.Apply(ctx, cmds, res)
	}
	r := requests.Get().(*request)
	r.cmds, r.res = cmds, res
	return s.ask(ctx, r)
}

// ask hands a request to the goroutine that keeps the books and waits for its answer.
func (s *Store) ask(ctx context.Context, r *request) error {
	if !s.inbox.put(r) {
		return ErrClosed
	}
	select {
	case err := <-r.answer:
		return r.over(err)
	case <-ctx.Done():
	}
	if r.leave() {
		return context.Cause(ctx)
	}
	return r.over(<-r.answer)
}

// over gives the memory of a request back. After an error a batch may still know it.
func (r *request) over(err error) error {
	if err == nil {
		*r = request{answer: r.answer}
		requests.Put(r)
	}
	return err
}

// An inbox holds the requests that have not been looked at.
type inbox struct {
	mu     sync.Mutex
	list   []*request
	closed bool
	wake   chan struct{} // has room for one: there is something
}

// put adds a request, and reports false if the inbox is closed.
func (b *inbox) put(r *request) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.list = append(b.list, r)
	first := len(b.list) == 1
	b.mu.Unlock()
	if first {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns what has come, in its order, and leaves spare for what is to come.
func (b *inbox) take(spare []*request) []*request {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = spare[:0]
	return list
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
