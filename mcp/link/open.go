package link

import (
	"fmt"
	"sync"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// Open is an [Inbox] before another one that remembers which requests have no answer yet,
// for a link whose provider may be unable to answer some time before the link has ended.
type Open struct {
	Inbox

	mu   sync.Mutex
	ids  map[jsonrpc.ID]struct{}
	over bool
}

// NewOpen returns an Open before in.
func NewOpen(in Inbox) *Open { return &Open{Inbox: in, ids: map[jsonrpc.ID]struct{}{}} }

// Begin notes that a message is about to be sent. After Fail it is an error that wraps
// [ErrNotSent].
func (o *Open) Begin(m *jsonrpc.Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return fmt.Errorf("mcp/link: the provider cannot answer any more: %w", ErrNotSent)
	}
	if m.Kind == jsonrpc.Request {
		o.ids[m.ID] = struct{}{}
	}
	return nil
}

// End forgets a request, and reports whether it was open.
func (o *Open) End(id jsonrpc.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, open := o.ids[id]
	delete(o.ids, id)
	return open
}

// Waits reports whether a request is open.
func (o *Open) Waits(id jsonrpc.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, open := o.ids[id]
	return open
}

// Fail tells the Inbox that all open requests are lost, and lets none begin.
func (o *Open) Fail(f Failure) {
	o.mu.Lock()
	ids := o.ids
	o.ids, o.over = nil, true
	o.mu.Unlock()
	for id := range ids {
		o.Inbox.Lost(id, f)
	}
}

// Message ends the request that it answers, and passes it on.
func (o *Open) Message(m *jsonrpc.Message, of jsonrpc.ID) {
	if m.Kind == jsonrpc.Response {
		o.End(m.ID)
	}
	o.Inbox.Message(m, of)
}

// Lost ends the request, and passes it on.
func (o *Open) Lost(id jsonrpc.ID, f Failure) {
	o.End(id)
	o.Inbox.Lost(id, f)
}
