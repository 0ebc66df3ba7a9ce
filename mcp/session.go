package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// An Exchange takes what answers one message of a client, in order. Its methods are called
// by one goroutine at a time and return without waiting for the client.
type Exchange interface {
	// Notify sends a frame that belongs to the message before it is answered: progress, a
	// log line, a question to the client.
	Notify(frame []byte)
	// Answer ends the exchange, and is called once. A nil frame is no answer: the message
	// was a notification, or was cancelled. Status is the HTTP status to use if none has
	// been sent yet.
	Answer(frame []byte, status int)
}

// ConnectOptions say how a client is connected.
type ConnectOptions struct {
	// Transport is "http", "sse", "websocket", "stdio" or "internal", for audit.
	Transport string
	// Push sends the client a frame that belongs to none of its messages, and reports
	// whether it was taken. Nil is a client that cannot be reached like that.
	Push func(frame []byte) bool
	// OneStream is set where all answers share a stream: two requests under way with one
	// id could not be told apart there, and the second is refused.
	OneStream bool
	// Correlation is the caller's own id for what it does, for audit; empty gives each
	// request a new one.
	Correlation string
}

// A Session is one client at one slot. A client of a revision without sessions has one
// for each request. Its methods are safe for concurrent use.
type Session struct {
	b    *Broker
	slot *slot
	who  atomic.Pointer[policy.Caller] // never nil
	o    ConnectOptions

	mu           sync.Mutex
	closed       bool
	version      string          // negotiated; empty before initialize
	capabilities json.RawMessage // the client's
	level        string          // of log messages; empty is what the provider sends
	under        map[jsonrpc.ID][]*call
	questions    map[jsonrpc.ID]*relayed
	subscribed   map[string]bool
	elsewhere    map[string]bool // elicitations for which the user was sent to a page, by id
	listening    []*listener
	visible      string // digest of the tools that the client was last told of
}

// Connect connects a client to a slot, which is a provider's name, "_all" or "_broker".
// It returns an error if there is no such slot, or if the broker is stopping.
func (b *Broker) Connect(name string, who *policy.Caller, o ConnectOptions) (*Session, error) {
	sl := b.slotNamed(name)
	if sl == nil {
		return nil, ErrNoSlot
	}
	if who == nil {
		who = &policy.Caller{}
	}
	s := &Session{b: b, slot: sl, o: o,
		under: map[jsonrpc.ID][]*call{}, questions: map[jsonrpc.ID]*relayed{}, subscribed: map[string]bool{}}
	s.who.Store(who)
	if !b.sessions.add(s) {
		return nil, ErrStopping
	}
	return s, nil
}

// An Access says whether a caller may use a slot at all.
type Access uint8

// The answers. A caller that may use a slot may still be denied each request of its own.
const (
	Open       Access = iota
	NeedsToken        // somebody who says who it is may
	Denied
)

// Access says whether a caller may use a slot, and whether there is one of that name. It is
// asked for each attempt: one that it denies is audited.
func (b *Broker) Access(name string, who *policy.Caller) (found bool, need Access) {
	if b.slotNamed(name) == nil {
		return false, Open
	}
	if b.settings().Policy.Reachable(who, name) {
		return true, Open
	}
	b.note(audit.Event{Action: audit.Admit, Outcome: audit.Denied, Slot: name, Identity: who.Identity(), Reason: "protected-slot"})
	return true, pick(who == nil || !who.Verified, NeedsToken, Denied)
}

// Version returns the revision that was negotiated, empty before initialize.
func (s *Session) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Close says that the client has gone. Its calls go on and keep what they hold: that a
// client has gone does not stop a provider.
func (s *Session) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	uris, questions, listening := s.subscribed, s.questions, slices.Clone(s.listening)
	s.subscribed, s.questions = nil, nil
	s.mu.Unlock()
	s.b.sessions.remove(s)
	for _, l := range listening { // it holds nothing, and nobody else would end it
		l.call.cancel()
	}
	for _, q := range questions {
		q.from.refused("the client has gone")
	}
	s.slot.unsubscribe(s, slices.Collect(maps.Keys(uris))...)
}

// Receive takes a message of the client and returns at once; what answers it goes to x. It
// returns how the client can be taken to have cancelled it, or nil if nothing is under way.
func (s *Session) Receive(m *jsonrpc.Message, x Exchange) (cancel func()) {
	switch m.Kind {
	case jsonrpc.Request:
		return s.request(m, x)
	case jsonrpc.Response:
		s.responded(m)
		x.Answer(nil, acceptedStatus)
	case jsonrpc.Notification:
		s.notification(m)
		x.Answer(nil, acceptedStatus)
	default:
		e := &jsonrpc.Error{Code: codeInvalidRequest, Message: "A batch is not a request"}
		x.Answer(jsonrpc.NewError(jsonrpc.ID{}, e).Raw, badRequestStatus)
	}
	return nil
}

func (s *Session) request(m *jsonrpc.Message, x Exchange) func() {
	c := s.b.newCall(s, m, x)
	if !s.begin(c) {
		c.leave()
		return nil
	}
	if !c.self(s) {
		return nil
	}
	go s.serve(c)
	return c.cancel
}

// begin notes a call as under way, unless the client could not tell its answer.
func (s *Session) begin(c *call) bool {
	id := c.request.ID
	s.mu.Lock()
	twice := s.o.OneStream && len(s.under[id]) > 0
	full := s.count() >= maxUnderWay
	if !twice && !full {
		s.under[id] = append(s.under[id], c)
	}
	s.mu.Unlock()
	if twice {
		e := &jsonrpc.Error{Code: codeInvalidRequest, Message: "A request with this id is still under way; use another id"}
		c.x.Answer(jsonrpc.NewError(id, e).Raw, badRequestStatus)
		return false
	}
	if full {
		e := &jsonrpc.Error{Code: codeInvalidRequest, Message: "Too many requests of this session are under way; wait for answers"}
		c.x.Answer(jsonrpc.NewError(id, e).Raw, okStatus)
		return false
	}
	s.b.calls.add(c)
	return true
}

// count is how many requests are under way. The caller holds s.mu.
func (s *Session) count() int {
	n := 0
	for _, same := range s.under {
		n += len(same)
	}
	return n
}

// forget takes c from what is under way.
func (s *Session) forget(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := c.request.ID
	same := slices.DeleteFunc(s.under[id], func(o *call) bool { return o == c })
	if len(same) == 0 {
		delete(s.under, id)
		return
	}
	s.under[id] = same
}

// serve does what a request asks for.
func (s *Session) serve(c *call) {
	if era, one := eraOf[c.request.Method]; one && era != protocol.EraOf(c.version) {
		s.unknown(c)
		return
	}
	if h := handler(c.request.Method); h != nil {
		h(s, c)
		return
	}
	s.forward(c)
}

// notification takes a client's notification, to which there is no answer.
func (s *Session) notification(m *jsonrpc.Message) {
	switch m.Method {
	case "notifications/cancelled":
		s.cancelled(m)
	case "notifications/initialized":
	case "notifications/progress":
		s.progressed(m)
	case "notifications/roots/list_changed":
		if k := s.slot.connection(); k != nil && protocol.EraOf(k.hello.version) == protocol.Legacy {
			k.respond(protocol.Strip(m))
		}
	case "tools/call":
		// Without an id nothing tells when it ends, so no slot could ever come back.
		s.b.note(audit.Event{Action: audit.Admit, Outcome: audit.Dropped, Slot: s.slot.name, Method: m.Method,
			Reason: "untracked-notification", Identity: s.caller().Identity(), CorrelationID: s.o.Correlation})
	}
}

// cancelled cancels the request with the given id, if there is exactly one: of two under
// way with one id nobody knows which is meant.
func (s *Session) cancelled(m *jsonrpc.Message) {
	raw, _ := m.Param("requestId")
	s.mu.Lock()
	same := slices.Clone(s.under[jsonrpc.RawID(raw)])
	s.mu.Unlock()
	switch {
	case len(same) == 1 && same[0].request.Method != "initialize":
		same[0].cancel()
	case len(same) > 1:
		s.b.note(audit.Event{Action: audit.Cancel, Outcome: audit.Ignored, Slot: s.slot.name, Reason: "ambiguous-id",
			Identity: s.caller().Identity(), CorrelationID: s.o.Correlation})
	}
}

// self checks what a request of a revision without sessions has to say of itself. It
// answers the call and returns false if it does not.
func (c *call) self(s *Session) bool {
	version, stated := c.request.Param("_meta", protocol.MetaVersion)
	if !stated {
		c.version = s.Version()
		return true
	}
	v, _ := jsonrpc.Text(version)
	if !protocol.Known(v) || protocol.EraOf(v) != protocol.Modern {
		c.version = protocol.V20260728
		c.fail(protocol.UnsupportedVersion, audit.Invalid, "Unsupported protocol version",
			protocol.Unsupported{Supported: protocol.Versions(), Requested: v})
		return false
	}
	c.version = v
	if caps, ok := c.request.Param("_meta", protocol.MetaCapabilities); !ok || len(caps) == 0 || caps[0] != '{' {
		c.failCode(codeInvalidParams, badRequestStatus, "params._meta lacks "+protocol.MetaCapabilities)
		return false
	}
	return true
}

// push sends the client a frame of no request. One of a revision without sessions hears of
// nothing that it has not asked for.
func (s *Session) push(m *jsonrpc.Message) {
	s.mu.Lock()
	list, old := slices.Clone(s.listening), s.version != ""
	s.mu.Unlock()
	for _, l := range list {
		l.tell(m)
	}
	if len(list) == 0 && old && s.o.Push != nil {
		s.o.Push(m.Raw)
	}
}

// hears reports whether push leads anywhere.
func (s *Session) hears() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listening) > 0 || s.version != "" && s.o.Push != nil
}
