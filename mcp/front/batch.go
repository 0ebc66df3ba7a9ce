package front

import (
	"bytes"
	"net/http"
	"slices"
	"sync"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// banned is the answer to a batch in a revision that has none. The broker counts what was in
// it, as it does all calls that did not happen.
func (f *Front) banned(core *mcp.Session, m *jsonrpc.Message) *fault {
	items, _, _ := f.items(m)
	if callsTool(items) {
		core.RefuseBatch(items, true)
	}
	return invalid(http.StatusBadRequest, jsonrpc.ID{}, "A batch is not a request in this revision of the protocol")
}

// batch takes a JSON-RPC batch apart. Its answers go out together, as one array. Revision
// 2025-03-26 alone has batches; there the broker refuses one with a tools/call whole while
// limits are on, as calls without a place of their own cannot be tracked.
func (f *Front) batch(core *mcp.Session, m *jsonrpc.Message, s *sender, x mcp.Exchange) {
	if core.Version() != protocol.V20250326 {
		no := f.banned(core, m)
		x.Answer(no.err.Frame(), no.status)
		return
	}
	items, answers, no := f.items(m)
	if no == nil && slices.ContainsFunc(items, func(i *jsonrpc.Message) bool { return i.Method == "initialize" }) {
		no = invalid(http.StatusBadRequest, jsonrpc.ID{}, "initialize may not be in a batch")
	}
	if no != nil {
		x.Answer(no.err.Frame(), no.status)
		return
	}
	b := &batch{x: x, answers: answers, open: 1}
	if callsTool(items) {
		if refusals := core.RefuseBatch(items, false); refusals != nil {
			b.answers, items = append(b.answers, refusals...), nil
		}
	}
	b.open += len(items)
	for _, i := range items {
		core.Receive(i, &item{sender: *s, batch: b})
	}
	b.end(nil)
}

// items reads the messages of a batch, and the answers to those that are none.
func (f *Front) items(m *jsonrpc.Message) (items []*jsonrpc.Message, answers [][]byte, no *fault) {
	for i, e := range m.Items(f.o.Bounds.Frame) {
		if len(items)+len(answers) == f.o.Bounds.BatchItems {
			return items, answers, invalid(http.StatusBadRequest, jsonrpc.ID{}, "The batch has too many messages")
		}
		if e != nil {
			answers = append(answers, e.Frame())
		} else {
			items = append(items, i)
		}
	}
	return items, answers, nil
}

func callsTool(items []*jsonrpc.Message) bool {
	return slices.ContainsFunc(items, func(i *jsonrpc.Message) bool { return i.Method == "tools/call" })
}

// A batch collects the answers to its messages.
type batch struct {
	mu      sync.Mutex
	x       mcp.Exchange
	answers [][]byte
	open    int // messages without an answer, and one while the batch is still being taken apart
}

// An item is the [mcp.Exchange] of one message of a batch.
type item struct {
	sender
	*batch
}

// Notify gives the client a frame before the answer.
func (b *batch) Notify(frame []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.x.Notify(frame)
}

// Answer adds an answer, and gives the client all of them when it is the last.
func (b *batch) Answer(frame []byte, _ int) { b.end(frame) }

func (b *batch) end(frame []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if frame != nil {
		b.answers = append(b.answers, frame)
	}
	b.open--
	switch {
	case b.open > 0:
	case len(b.answers) == 0:
		b.x.Answer(nil, http.StatusAccepted)
	default:
		all := append([]byte{'['}, bytes.Join(b.answers, []byte{','})...)
		b.x.Answer(append(all, ']'), http.StatusOK)
	}
}
