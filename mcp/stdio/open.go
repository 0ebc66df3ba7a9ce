package stdio

import (
	"maps"
	"slices"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// messages reads a frame, or the messages of a batch. What cannot be read is left to the
// broker, which says so.
func (b *bridge) messages(frame []byte) []*jsonrpc.Message {
	bounds := jsonrpc.Bounds{MaxBytes: max(b.o.MaxFrame, b.o.MaxAnswer)}
	m, e := jsonrpc.Parse(frame, bounds)
	if e != nil {
		return nil
	}
	if m.Kind != jsonrpc.Batch {
		return []*jsonrpc.Message{m}
	}
	var list []*jsonrpc.Message
	for i, e := range m.Items(bounds) {
		if e == nil {
			list = append(list, i)
		}
	}
	return list
}

// asked notes what the client wants answers to. It may take that back.
func (b *bridge) asked(frame []byte) {
	list := b.messages(frame)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range list {
		switch {
		case m.Kind == jsonrpc.Request:
			b.open[m.ID]++
		case m.Method == "notifications/cancelled":
			id, _ := m.Param("requestId")
			b.closeLocked(jsonrpc.RawID(id))
		}
	}
}

// told notes what the client has got answers to.
func (b *bridge) told(frame []byte) {
	list := b.messages(frame)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range list {
		if m.Kind == jsonrpc.Response {
			b.closeLocked(m.ID)
		}
	}
	b.tellLocked()
}

func (b *bridge) closeLocked(id jsonrpc.ID) {
	if b.open[id]--; b.open[id] <= 0 {
		delete(b.open, id)
	}
}

// ended notes that the client asks nothing more.
func (b *bridge) ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.eof = true
	b.tellLocked()
}

func (b *bridge) tellLocked() {
	if b.eof && len(b.open) == 0 {
		b.eof = false // once
		close(b.answered)
	}
}

// failOpen answers what the broker has not.
func (b *bridge) failOpen() {
	b.mu.Lock()
	ids := slices.Collect(maps.Keys(b.open))
	clear(b.open)
	b.mu.Unlock()
	for _, id := range ids {
		if b.write(errorFrame(id, jsonrpc.InternalError, "The connection to the broker has ended before the answer came")) != nil {
			return // the client has gone
		}
	}
}
