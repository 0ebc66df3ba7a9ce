package socket

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

// longestSlot bounds a slot's name in bytes.
const longestSlot = 128

// many is a connection on which a provider serves several slots. Each frame is an envelope:
//
//	{"provider": "the slot's name", "payload": {…the message…}}
//
// A slot is registered when its first frame comes. What cannot be taken is answered with an
// error in the envelope of its slot.
type many struct {
	conn     *conn
	register Register
	maxFrame int
	maxSlots int

	mu      sync.Mutex
	lanes   map[string]*lane
	running sync.WaitGroup // registrations
}

// whole takes an envelope.
func (m *many) whole(frame []byte) {
	slot, ok := slotOf(frame)
	payload, found := jsonrpc.Lookup(frame, "payload")
	if !ok || !found {
		m.refuse("", frame, "the frame is no envelope with provider and payload")
		return
	}
	l := m.lane(slot)
	switch {
	case l == nil:
		m.refuse(slot, payload, "there are too many slots on this connection")
	case !l.put(payload):
		m.refuse(slot, payload, "the slot is closed for this connection, or not open yet")
	}
}

// part finds the slot and the message of an envelope that is too long. Whoever writes the
// payload first cannot be told from others, and the frame is nobody's.
func (m *many) part(frame []byte) (*link.Receiver, int) {
	slot, ok := slotOf(frame)
	at := bytes.Index(frame, []byte(`"payload"`))
	if !ok || at < 0 {
		return nil, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lanes[slot]
	if l == nil {
		return nil, 0
	}
	return l.hears(), at + len(`"payload"`)
}

// slotOf returns the slot that an envelope names.
func slotOf(frame []byte) (string, bool) {
	raw, _ := jsonrpc.Lookup(frame, "provider")
	slot, ok := jsonrpc.Text(raw)
	return slot, ok && slot != "" && len(slot) <= longestSlot
}

// lane returns the lane of a slot, which is new if it is the slot's first frame. It returns
// nil if there are too many.
func (m *many) lane(slot string) *lane {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lanes[slot]
	if l == nil && len(m.lanes) < m.maxSlots {
		l = newLane(m.conn, m.maxFrame)
		l.slot, l.prefix = slot, envelope(slot)
		m.lanes[slot] = l
		// Whoever registers may ask the holder of the slot whether it is there, which is on
		// another connection of this kind and may be asking the same. So this one reads on.
		m.running.Go(func() { m.enter(l) })
	}
	return l
}

// envelope returns what stands before a message to a slot.
func envelope(slot string) string {
	name, _ := json.Marshal(slot) // a string can always be written
	return `{"provider":` + string(name) + `,"payload":`
}

// enter registers a lane. If that fails the slot's next frame tries again.
func (m *many) enter(l *lane) {
	in, err := m.register(l.slot, l)
	if err == nil {
		l.open(in)
		return
	}
	m.mu.Lock()
	delete(m.lanes, l.slot)
	m.mu.Unlock()
	for _, frame := range l.shut() {
		m.refuse(l.slot, frame, err.Error())
	}
	l.late.is(nil)
}

// refuse answers a frame with an error, with the id of a request.
func (m *many) refuse(slot string, frame []byte, text string) {
	var g link.Glance
	_, _ = g.Write(frame)
	e := &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "Invalid request: " + text}
	if g.Asks {
		e.ID = g.ID()
	}
	m.conn.out.Offer(append(append([]byte(envelope(slot)), e.Frame()...), '}'))
}

// down ends the lanes of a connection that has ended.
func (m *many) down(why error) {
	m.running.Wait()
	m.mu.Lock()
	lanes := m.lanes
	m.lanes = nil
	m.mu.Unlock()
	for _, l := range lanes {
		l.in.Down(why)
	}
}
