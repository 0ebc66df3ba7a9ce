package front

import (
	"bytes"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A talk is one POST of Streamable HTTP: a message, and the stream that its response is made
// of.
type talk struct {
	core    *mcp.Session
	x       *exchange
	session *session // nil in the modern era
	starts  bool     // the message is the session's first
}

// converse gives a message to the broker and answers the request with what comes back.
func (v *visit) converse(t *talk, m *jsonrpc.Message) *fault {
	o := t.x.out.open()
	defer o.close()
	var cancel func()
	if m.Kind == jsonrpc.Batch {
		v.f.batch(t.core, m, &t.x.sender, t.x)
	} else {
		cancel = t.core.Receive(m, t.x)
	}
	ended, f := v.answer(o, t)
	switch {
	case ended:
	case t.starts:
		t.session.close() // nobody knows its id
	case t.session == nil && cancel != nil:
		cancel()
	}
	return f
}

// answer writes the response, and reports whether all of it has been.
func (v *visit) answer(o *outlet, t *talk) (ended bool, f *fault) {
	patience := time.NewTimer(v.f.o.Bounds.Patience)
	defer patience.Stop()
	select {
	case <-o.ready:
	case <-patience.C:
	case <-v.r.Context().Done():
		return false, nil
	case <-v.f.stop: // the answer may have come by now
	}
	if end, ok := o.alone(); ok {
		return true, v.whole(end, t)
	}
	if v.f.stopped() && !o.waits() {
		return false, busy("the broker is stopping")
	}
	if t.starts {
		v.w.Header().Set(protocol.HeaderSession, t.session.id)
	}
	return v.stream(o, prime(o, t.core.Version()), nil), nil
}

// whole writes a response that is nothing but an answer, or that nothing is to be said.
func (v *visit) whole(end taking, t *talk) *fault {
	var frame []byte
	if len(end.events) > 0 {
		frame = end.events[0].frame
	}
	_, failed := jsonrpc.Lookup(frame, "error")
	h := v.w.Header()
	switch {
	case t.starts && (failed || frame == nil):
		t.session.close()
	case t.starts:
		h.Set(protocol.HeaderSession, t.session.id)
	}
	v.hurry()
	if frame == nil {
		v.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	h.Set("Content-Type", jsonType)
	h.Set("Cache-Control", "no-store")
	v.w.WriteHeader(end.status)
	_, _ = v.w.Write(frame) // the client may have gone
	return nil
}

// retry is when a client whose stream broke should ask again, in milliseconds.
const retry = "1000"

// comment is what keeps a stream alive, and flushes the head of one that has nothing to say
// yet: some proxies hold it back until something follows.
const comment = ": ka\n\n"

// prime makes a stream resumable, and returns what goes out first. From 2025-11-25 on a client
// is told at once where to resume; older ones take an event without data for a mistake.
func prime(o *outlet, version string) []byte {
	before, waits := o.begin()
	switch {
	case o.s.kept != nil && version >= protocol.V20251125:
		return []byte("id: " + eventID(o.s.id, before) + "\nretry: " + retry + "\ndata: \n\n")
	case !waits:
		return []byte(comment)
	}
	return nil
}

// stream writes what comes out of an outlet as server-sent events, until the stream has ended,
// which it reports, or until the client or the session has gone, or the front closes.
func (v *visit) stream(o *outlet, first []byte, gone <-chan struct{}) (ended bool) {
	h := v.w.Header()
	h.Set("Content-Type", eventsType)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	v.hurry()
	v.w.WriteHeader(http.StatusOK)
	if v.write(first) != nil {
		return false
	}
	every := v.f.o.Bounds.KeepAlive
	beat := time.NewTimer(every)
	defer beat.Stop()
	for last := false; ; {
		t := o.take()
		if t.lost || len(t.events) > 0 && v.writeEvents(o.s, t.events) != nil {
			return false
		}
		if t.ended || last {
			return t.ended
		}
		beat.Reset(every)
		select { // what has come by the end is still written
		case <-o.ready:
		case <-beat.C:
			if v.write([]byte(comment)) != nil {
				return false
			}
		case <-v.r.Context().Done():
			return false
		case <-gone:
			last = true
		case <-v.f.stop:
			last = true
		}
	}
}

// write writes and flushes.
func (v *visit) write(b []byte) error {
	v.hurry()
	if _, err := v.w.Write(b); err != nil {
		return err
	}
	return v.deadl.Flush()
}

func (v *visit) writeEvents(s *stream, events []event) error {
	var b []byte
	for _, e := range events {
		if s.kept != nil {
			b = append(append(append(b, "id: "...), eventID(s.id, e.n)...), '\n')
		}
		b = append(append(append(b, "event: message\ndata: "...), oneLine(e.frame)...), "\n\n"...)
		if err := v.write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	return nil
}

// oneLine returns a frame without line breaks, which in JSON are nothing but space between
// tokens.
func oneLine(frame []byte) []byte {
	if !bytes.ContainsAny(frame, "\r\n") {
		return frame
	}
	return bytes.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, frame)
}
