package gate

import (
	"bufio"
	"context"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate/socket"
)

// streams are the long answers that are under way. The zero value has none.
type streams struct {
	mu       sync.Mutex
	open     map[*stream]struct{}
	draining bool
	empty    chan struct{} // closed when the last one has ended while draining
}

// A stream is a long answer. It holds its admission until it ends.
type stream struct {
	of        *streams
	admission sluice.Admission
	// part asks the stream to end, with a close code for a WebSocket.
	part  func(code uint16, reason string)
	timer *time.Timer // of the longest time it may stay open; nil is no bound

	mu    sync.Mutex // held while part runs
	ended bool
}

// ask asks the stream to end, unless it has: its connection may by then serve another
// request.
func (s *stream) ask(code uint16, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.part(code, reason)
	}
}

// begin adds s, to be ended after longest if that is above zero.
func (ss *streams) begin(s *stream, longest time.Duration) {
	s.of = ss
	ss.mu.Lock()
	if ss.open == nil {
		ss.open = map[*stream]struct{}{}
	}
	ss.open[s] = struct{}{}
	draining := ss.draining
	if longest > 0 {
		s.timer = time.AfterFunc(longest, func() { s.ask(socket.GoingAway, "the time is up") })
	}
	ss.mu.Unlock()
	if draining {
		s.ask(socket.GoingAway, "the server stops")
	}
}

// end gives back what the stream holds. It is called once it has ended, by whoever
// notices first.
func (s *stream) end() {
	s.mu.Lock()
	again := s.ended
	s.ended = true
	s.mu.Unlock()
	if again {
		return
	}
	s.admission.Release()
	ss := s.of
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	delete(ss.open, s)
	if ss.draining && len(ss.open) == 0 {
		ss.closeEmptyLocked()
	}
}

func (ss *streams) closeEmptyLocked() {
	select {
	case <-ss.empty:
	default:
		close(ss.empty)
	}
}

// partAll asks all streams to end, those that are and those that come.
func (ss *streams) partAll() <-chan struct{} {
	ss.mu.Lock()
	if !ss.draining {
		ss.draining, ss.empty = true, make(chan struct{})
	}
	if len(ss.open) == 0 {
		ss.closeEmptyLocked()
	}
	all := make([]*stream, 0, len(ss.open))
	for s := range ss.open {
		all = append(all, s)
	}
	ss.mu.Unlock()
	for _, s := range all {
		s.ask(socket.GoingAway, "the server stops")
	}
	return ss.empty
}

func (ss *streams) drain(ctx context.Context) error {
	select {
	case <-ss.partAll():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const eventStream = "text/event-stream"

// openStream decides about a stream that the request asks for outright: a WebSocket, or
// server-sent events and nothing else. Refused before the handler runs, it costs least.
// It reports false if the request has been answered.
func (v *visit) openStream() bool {
	v.capability = streamOf(v.r, &v.spot)
	return v.capability == "" || v.holdStream()
}

// streamOf returns the capability of the stream that a request asks for outright, or
// nothing.
func streamOf(r *http.Request, p *spot) string {
	switch {
	case isWebSocket(r):
		return "websocket"
	case len(r.Header["Accept"]) == 1 && r.Header["Accept"][0] == eventStream:
		return p.eventCapability()
	}
	return ""
}

// eventCapability is the capability of a stream of server-sent events.
func (p *spot) eventCapability() string {
	if p.mcp != nil {
		return "mcp"
	}
	return "sse"
}

// streamCall returns the call for a stream of the request of call.
func streamCall(call sluice.Call, capability string) sluice.Call {
	call.Kind, call.Capability, call.Cost = "stream", capability, nil
	return call
}

// holdStream asks the controller about a stream and holds it.
func (v *visit) holdStream() bool {
	if !v.gate.outlook().own("stream") {
		v.stream = &stream{}
		return true
	}
	call := streamCall(v.call, v.capability)
	d := v.gate.decide(v.r.Context(), &call, new(sluice.Decision))
	if !d.admitted() {
		v.refuseStream(d)
		return false
	}
	v.stream = &stream{admission: d.admission}
	return true
}

// beginStream looks at the head of an answer: a stream that was held begins, or is
// given back if it is none. It reports false if the answer is a stream and was refused.
func (v *visit) beginStream(h http.Header) bool {
	switch {
	case v.outcome == Bypassed:
		return true
	case v.capability == "websocket", v.stream != nil && v.stream.of != nil:
		return true // it begins when the connection is taken over, or has begun
	}
	switch {
	case !isEventStream(h["Content-Type"]):
		v.giveBackStream()
		return true
	case v.stream == nil:
		v.capability = v.spot.eventCapability()
		if !v.holdStream() {
			return false
		}
	}
	longest := v.set.o.Streams.SSE.MaxDuration
	if v.capability == "mcp" {
		longest = v.set.o.Streams.MCP.MaxDuration
	}
	c := http.NewResponseController(v.w)
	v.stream.part = func(uint16, string) {
		// Deadlines that have passed end the reading and the writing, and with them
		// the request's context, on HTTP/1 and HTTP/2.
		_ = c.SetReadDeadline(time.Unix(1, 0))
		_ = c.SetWriteDeadline(time.Unix(1, 0))
	}
	v.gate.streams.begin(v.stream, longest)
	return true
}

// isEventStream reports whether a Content-Type is that of server-sent events, whatever
// its parameters.
func isEventStream(contentType []string) bool {
	if len(contentType) == 0 || len(contentType[0]) < len(eventStream) {
		return false
	}
	kind, _, _ := strings.Cut(contentType[0], ";")
	return strings.EqualFold(strings.TrimSpace(kind), eventStream)
}

// giveBackStream gives back a stream that has not begun.
func (v *visit) giveBackStream() {
	if v.stream != nil && v.stream.of == nil {
		v.stream.admission.Release()
		v.stream = nil
	}
}

// endStream ends a stream with its request. A WebSocket ends with its connection.
func (v *visit) endStream() {
	v.giveBackStream()
	if v.stream != nil && v.capability != "websocket" {
		v.stream.end()
	}
}

// watch takes over the connection of a WebSocket.
func (v *visit) watch(c net.Conn, rw *bufio.ReadWriter, responded bool) (net.Conn, *bufio.ReadWriter, error) {
	if v.capability != "websocket" || v.stream == nil {
		return c, rw, nil
	}
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	ctx, cancel := context.WithCancel(context.WithoutCancel(v.r.Context()))
	t := &talk{gate: v.gate, ctx: ctx, call: v.call, over: socket.Drop}
	t.call.Kind, t.call.Capability = "frame", "websocket"
	if v.set.o.Streams.CloseOverLimit {
		t.over = socket.Part
	}
	s := v.stream
	conn := socket.New(c, socket.Options{
		Early: early, Responded: responded, Judge: t.judge,
		End: func() { cancel(); s.end() },
	})
	s.part = conn.Expire
	v.gate.streams.begin(s, v.set.o.Streams.WebSocket.MaxDuration)
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), nil
}

// A talk decides about the messages of one WebSocket. One goroutine uses it.
type talk struct {
	gate   *Gate
	ctx    context.Context // ends with the connection
	call   sluice.Call
	cost   [2]sluice.Amount
	memory sluice.Decision
	over   socket.Verdict // for messages over the limit
}

// judge debits a message, and the bytes of its frames. A rule with a queue holds the
// client back instead of losing messages.
func (t *talk) judge(f socket.Frame) socket.Verdict {
	messages := int64(0)
	if f.First() {
		messages = 1
	}
	if !t.gate.outlook().own("frame") {
		return socket.Pass
	}
	t.cost = [2]sluice.Amount{
		{Unit: sluice.Calls, N: messages},
		{Unit: sluice.Bytes, N: int64(min(f.Payload, math.MaxInt64))},
	}
	t.call.Cost = t.cost[:]
	d := t.gate.decide(t.ctx, &t.call, &t.memory)
	d.admission.Release()
	switch {
	case d.err != nil:
		return socket.Part
	case d.refusal != nil:
		return t.over
	}
	return socket.Pass
}

// isWebSocket reports whether a request asks for a WebSocket (RFC 6455, 4.2.1).
func isWebSocket(r *http.Request) bool {
	return r.Header["Upgrade"] != nil && hasToken(r.Header["Upgrade"], "websocket") &&
		hasToken(r.Header["Connection"], "upgrade")
}

func hasToken(lines []string, token string) bool {
	for _, l := range lines {
		for t := range strings.SplitSeq(l, ",") {
			if strings.EqualFold(strings.Trim(t, " \t"), token) {
				return true
			}
		}
	}
	return false
}

// refuseStream refuses a stream, so that a browser shows it to the script that asked if
// the options say so.
func (v *visit) refuseStream(d decision) {
	o := &v.set.o.Streams
	switch {
	case d.refusal == nil:
	case v.capability == "websocket" && o.AcceptThenClose:
		v.closeSocket()
		return
	case o.RetryEvents && streamOf(v.r, &v.spot) == "sse" && v.answers().RefuseEvents(&v.reply, v.r, d.refusal):
		v.outcome = Refused
		return
	}
	v.refuse(d)
}

// closeSocket refuses a WebSocket by a close code. A browser hides the status of a
// handshake that is refused, and its scripts try again at once.
func (v *visit) closeSocket() {
	c, err := websocket.Accept(&v.reply, v.r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		v.conclude(v.reply.status) // Accept has answered
		return
	}
	v.outcome = Refused
	_ = c.Close(websocket.StatusTryAgainLater, "try again later") // the client may have gone
}
