package link

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// outboxRoom is what may wait in an Outbox in bytes, besides one frame of the largest size.
const outboxRoom = 4 << 20

// An Outbox is the sending half of a link over one stream. Frames go out in the order they
// were given, from the one goroutine that runs it.
type Outbox struct {
	limit int64 // bytes of a frame
	room  *semaphore.Weighted

	mu     sync.Mutex
	queue  []outgoing
	closed bool
	wake   chan struct{} // has a token if queue or closed may have changed
}

// An outgoing is a frame that waits, and who is told if it never leaves.
type outgoing struct {
	frame  []byte
	weight int64      // of the room it takes
	id     jsonrpc.ID // zero if nobody waits for an answer
	in     *Receiver
}

// NewOutbox returns an Outbox for frames of up to maxFrame bytes; 0 is [MaxFrame].
func NewOutbox(maxFrame int) *Outbox {
	if maxFrame <= 0 {
		maxFrame = MaxFrame
	}
	limit := int64(maxFrame)
	return &Outbox{limit: limit, room: semaphore.NewWeighted(limit + outboxRoom), wake: make(chan struct{}, 1)}
}

// Send puts a frame in the queue that is message m on the wire. While the queue is full it
// waits, no longer than ctx allows. Errors wrap [ErrNotSent]. If the frame has not left by
// the time the Outbox ends, and m is a request, in is told.
func (o *Outbox) Send(ctx context.Context, frame []byte, m *jsonrpc.Message, in *Receiver) error {
	weight := int64(len(frame))
	if weight > o.limit {
		return fmt.Errorf("mcp/link: a frame of %d bytes is longer than the %d that maxFrameBytes allows: %w", weight, o.limit, ErrNotSent)
	}
	if err := o.room.Acquire(ctx, weight); err != nil {
		return fmt.Errorf("mcp/link: the provider does not read, and the queue is full: %w (%w)", ErrNotSent, context.Cause(ctx))
	}
	out := outgoing{frame: frame, weight: weight, in: in}
	if m.Kind == jsonrpc.Request {
		out.id = m.ID
	}
	if !o.push(out) {
		o.room.Release(weight)
		return fmt.Errorf("mcp/link: the connection has ended: %w", ErrNotSent)
	}
	return nil
}

// Push puts a frame in the queue without waiting. It takes no room: it is for cancellations,
// of which each request has one at most.
func (o *Outbox) Push(frame []byte) { o.push(outgoing{frame: frame}) }

// Offer puts a frame in the queue if there is room, and drops it otherwise. It is for
// answers to frames that cannot be used, of which a provider may send any number.
func (o *Outbox) Offer(frame []byte) {
	weight := int64(len(frame))
	if o.room.TryAcquire(weight) && !o.push(outgoing{frame: frame, weight: weight}) {
		o.room.Release(weight)
	}
}

func (o *Outbox) push(out outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.queue = append(o.queue, out)
	o.signal()
	return true
}

// signal wakes Run. The caller holds o.mu.
func (o *Outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Close ends the Outbox. A write that is under way goes on; what waits does not leave.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signal()
}

// Run writes frames until the Outbox is closed, for which it returns nil, or write fails.
// Write reports whether any byte of the frame may have left. In the end the requests that
// did not leave are lost, with proof that they were not run, and nothing more is taken.
func (o *Outbox) Run(write func(frame []byte) (left bool, err error)) error {
	for {
		batch, closed := o.take()
		if closed {
			o.drop(batch)
			return nil
		}
		for i, out := range batch {
			left, err := write(out.frame)
			if err != nil {
				o.Close()
				if left {
					o.room.Release(out.weight)
					i++
				}
				rest, _ := o.take()
				o.drop(append(batch[i:], rest...))
				return err
			}
			o.room.Release(out.weight)
		}
	}
}

// take waits for frames, or for the end.
func (o *Outbox) take() (batch []outgoing, closed bool) {
	for {
		o.mu.Lock()
		batch, closed = o.queue, o.closed
		o.queue = nil
		o.mu.Unlock()
		if len(batch) > 0 || closed {
			return batch, closed
		}
		<-o.wake
	}
}

func (o *Outbox) drop(batch []outgoing) {
	for _, out := range batch {
		out.lose()
		o.room.Release(out.weight)
	}
}

func (out outgoing) lose() {
	if !out.id.IsZero() {
		out.in.Lost(out.id, Failure{Err: fmt.Errorf("mcp/link: the connection ended before the request left: %w", ErrNotSent), NotRun: true})
	}
}
