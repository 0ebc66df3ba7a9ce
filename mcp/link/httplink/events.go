package httplink

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/sluicegate/sluice/mcp/link"
)

const (
	// eventRoom is what a line may have besides the data.
	eventRoom = 64
	// longestID bounds an event's id, which goes back as a header field.
	longestID = 1024
	// longestRetry bounds how long a server can make us wait before we come back.
	longestRetry = time.Hour
)

// An event is one of a stream of server-sent events that has data.
type event struct {
	name string // empty is "message"
	data []byte // whoever gets it may keep it
}

// isMessage reports whether the event carries a message of the protocol.
func (e event) isMessage() bool { return e.name == "" || e.name == "message" }

// A cursor is where a stream of events was when it broke, and what is needed to resume it.
type cursor struct {
	id    string        // of the last event; empty cannot be resumed
	retry time.Duration // how long the server wants us to wait; zero if it did not say
}

// events reads a stream of server-sent events (WHATWG HTML, "Server-sent events", parsing
// an event stream). Comments, events without data and unknown fields are passed over.
type events struct {
	*memory
	limit  int // bytes of an event's data
	cursor *cursor

	started bool // the first line has been read
	cr      bool // the last line ended with a CR, and an LF may belong to it

	// The line that is being read, beside what is in memory.
	skip bool // it is too long to keep
	long bool // and it is data, which goes past the glance

	// The event that is being read.
	name    string
	id      string
	data    []byte
	tooLong *link.TooLong
}

// A memory is what events are read in. Most streams are those of one request and have one event,
// so that each would make one of its own for it.
type memory struct {
	r    *bufio.Reader
	line []byte // the one that is being read
}

var memories = sync.Pool{New: func() any { return &memory{r: bufio.NewReader(nil)} }}

// mostLine is how large a line's memory may be to be kept for another stream.
const mostLine = 64 << 10

// newEvents reads events with data of up to limit bytes, and keeps c at the last of them.
func newEvents(r io.Reader, limit int, c *cursor) *events {
	e := &events{memory: memories.Get().(*memory), limit: limit, cursor: c, id: c.id}
	e.r.Reset(r)
	return e
}

// end is called once nothing more is read.
func (e *events) end() {
	e.r.Reset(nil)
	if cap(e.line) > mostLine {
		e.line = nil
	}
	memories.Put(e.memory)
	e.memory = nil
}

// next returns the next event that has data. An event whose data exceeds the limit is
// skipped and is a [*link.TooLong] error; every other error is the reader's, and final. An
// event that the end of the stream cuts off is none.
func (e *events) next() (event, error) {
	for {
		if err := e.read(); err != nil {
			return event{}, err
		}
		if len(e.line) > 0 || e.skip {
			e.field()
			continue
		}
		e.cursor.id = e.id
		ev, tooLong := event{e.name, e.data}, e.tooLong
		e.name, e.data, e.tooLong = "", nil, nil
		switch {
		case tooLong != nil:
			return event{}, tooLong
		case len(ev.data) > 1:
			ev.data = ev.data[:len(ev.data)-1] // the line feed after the last line
			return ev, nil
		}
	}
}

// read reads a line, which ends with CR, LF, or both. One that ends with CR is complete
// before it is known whether LF follows: the sender may wait for our answer.
func (e *events) read() error {
	e.line, e.skip, e.long = e.line[:0], false, false
	for {
		if _, err := e.r.Peek(1); err != nil {
			return err
		}
		buffered, _ := e.r.Peek(e.r.Buffered())
		if e.cr {
			e.cr = false
			if buffered[0] == '\n' {
				_, _ = e.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(buffered, "\r\n")
		if end < 0 {
			e.add(buffered)
			_, _ = e.r.Discard(len(buffered))
			continue
		}
		e.add(buffered[:end])
		e.cr = buffered[end] == '\r'
		_, _ = e.r.Discard(end + 1)
		if !e.started {
			e.started = true
			e.line = bytes.TrimPrefix(e.line, []byte("\xef\xbb\xbf"))
		}
		return nil
	}
}

// add adds a piece to the line, or passes it by if the line is too long.
func (e *events) add(piece []byte) {
	switch {
	case e.long:
		e.tooLong.Glance.Write(piece)
	case e.skip:
	case len(e.line)+len(piece) <= e.limit+eventRoom:
		e.line = append(e.line, piece...)
	default:
		fits := e.limit + eventRoom - len(e.line)
		e.line = append(e.line, piece[:fits]...)
		e.skip = true
		if name, value := split(e.line); name == "data" {
			e.long = true
			e.spill()
			e.tooLong.Glance.Write(value)
			e.tooLong.Glance.Write(piece[fits:])
		}
	}
}

// spill gives up the data of the event.
func (e *events) spill() {
	if e.tooLong == nil {
		e.tooLong = &link.TooLong{Limit: e.limit}
		e.tooLong.Glance.Write(e.data)
		e.data = nil
	}
}

// field reads what a line says.
func (e *events) field() {
	if e.skip {
		return
	}
	switch name, value := split(e.line); name {
	case "event":
		e.name = string(value)
	case "id":
		if sendable(value) {
			e.id = string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			e.cursor.retry = min(time.Duration(ms)*time.Millisecond, longestRetry)
		}
	case "data":
		if len(e.data)+len(value) > e.limit {
			e.spill()
		}
		if e.tooLong != nil {
			e.tooLong.Glance.Write(value)
			return
		}
		e.data = append(append(e.data, value...), '\n')
	}
}

// split splits a line into the field's name and its value. A comment has no name.
func split(line []byte) (name string, value []byte) {
	before, after, _ := bytes.Cut(line, []byte{':'})
	return string(before), bytes.TrimPrefix(after, []byte{' '})
}

// sendable reports whether an event's id can go back as a header field.
func sendable(id []byte) bool {
	if len(id) > longestID {
		return false
	}
	for _, c := range id {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}
