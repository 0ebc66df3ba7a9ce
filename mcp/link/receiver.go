package link

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// A Receiver is the receiving half of a link: it reads frames and tells an [Inbox], and it
// keeps the Inbox's promises: no batches, and one Down with nothing after it. It is safe for
// concurrent use.
type Receiver struct {
	in     Inbox
	bounds jsonrpc.Bounds
	reply  func(*jsonrpc.Message)

	mu   sync.RWMutex // held for reading while in is told, for writing by Down
	over bool
}

// NewReceiver returns a Receiver of frames of up to maxFrame bytes, where 0 is [MaxFrame].
// Reply sends the answer to a request of the provider's that could not be read.
func NewReceiver(in Inbox, maxFrame int, reply func(*jsonrpc.Message)) *Receiver {
	if maxFrame <= 0 {
		maxFrame = MaxFrame
	}
	return &Receiver{in: in, bounds: jsonrpc.Bounds{MaxBytes: maxFrame}, reply: reply}
}

// Limit returns what a frame may have in bytes.
func (r *Receiver) Limit() int { return r.bounds.MaxBytes }

// Frame takes a frame that came on the stream of our request of, and keeps it.
func (r *Receiver) Frame(frame []byte, of jsonrpc.ID) {
	if len(frame) > r.Limit() {
		long := &TooLong{Limit: r.Limit()}
		long.Glance.Write(frame)
		r.TooLong(long)
		return
	}
	m, err := jsonrpc.Parse(frame, r.bounds)
	switch {
	case err != nil:
		var g Glance
		g.Write(frame)
		r.unusable(&g, fmt.Errorf("mcp/link: the provider has sent a frame that cannot be used: %w", err))
	case m.Kind == jsonrpc.Batch:
		for item, err := range m.Items(r.bounds) {
			if err != nil {
				r.Bad(fmt.Errorf("mcp/link: the provider has sent a batch with an item that cannot be used: %w", err))
				continue
			}
			r.message(item, of)
		}
	default:
		r.message(m, of)
	}
}

// TooLong takes what is left of a frame that was skipped.
func (r *Receiver) TooLong(e *TooLong) { r.unusable(&e.Glance, e) }

// unusable tells everybody whom a frame was for that it cannot be used.
func (r *Receiver) unusable(g *Glance, err error) {
	switch id := g.ID(); {
	case id.IsZero():
	case g.Asks:
		r.reply(jsonrpc.NewError(id, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "Invalid request: " + reason(err)}))
	case g.Answer:
		r.Lost(id, Failure{Err: err, Stopped: true})
	}
	r.Bad(err)
}

// reason is what the provider is told of its frame.
func reason(err error) string {
	if long, ok := errors.AsType[*TooLong](err); ok {
		return fmt.Sprintf("the frame has more than %d bytes", long.Limit)
	}
	return "the frame is no message"
}

func (r *Receiver) message(m *jsonrpc.Message, of jsonrpc.ID) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.over {
		r.in.Message(m, of)
	}
}

// Lost tells that no answer to a request will come.
func (r *Receiver) Lost(id jsonrpc.ID, f Failure) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.over {
		r.in.Lost(id, f)
	}
}

// Bad tells that a frame was none.
func (r *Receiver) Bad(err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.over {
		r.in.Bad(err)
	}
}

// Down tells that the link has ended, if that has not been told yet. It waits for what is
// being told. A nil error is [ErrClosed].
func (r *Receiver) Down(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.over = true
	if err == nil {
		err = ErrClosed
	}
	r.in.Down(err)
}
