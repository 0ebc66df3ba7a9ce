package dialect

import "bytes"

// A Framing is how a stream is cut into events.
type Framing uint8

const (
	Events Framing = iota // text/event-stream: an empty line ends an event
	Lines                 // one JSON value a line: Ollama
	Array                 // one JSON array: Gemini without alt=sse
	Whole                 // no stream: the body is one event
)

// Framing returns how an answer to a request on this route is framed.
func (r Route) Framing(stream bool) Framing {
	switch {
	case !stream:
		return Whole
	case r.Dialect == Ollama:
		return Lines
	case r.Array:
		return Array
	}
	return Events
}

// An Event is one piece of a stream. Its bytes are valid until the next call of the
// Splitter.
type Event struct {
	// Raw are the event's bytes as they came, with what ends it.
	Raw []byte
	// Name and Data are its event field and its data without the field names; of a line or
	// an element Data alone is set.
	Name string
	Data []byte
	// Part says that more of the event comes: it is larger than what is kept. Raw is what
	// has come since the last part; Data is empty until the last part, and has the end of
	// the event then.
	Part bool
	// Cut says that the stream ended in the middle of the event.
	Cut bool
}

// maxEvent is how much of an event is kept, unless more is asked for. What uses more than that
// is content: no frame, no usage and no error is so large.
const maxEvent = 256 << 10

// tail is how much of the end of a large event is kept, where its usage stands.
const tail = 16 << 10

// A Splitter cuts a stream into events. Every byte that it is given comes out in the Raw of
// exactly one event, in order. It holds at most maxEvent bytes, however long a line is, or what
// [Splitter.Hold] says.
type Splitter struct {
	framing Framing
	most    int // of an event that is kept
	buf     []byte
	scanned int // of buf, where no event ends
	large   bool
	depth   int // of brackets, for Array
	quoted  bool
	escaped bool
	begun   bool
}

// NewSplitter returns a Splitter for a stream that is framed so.
func NewSplitter(f Framing) *Splitter { return &Splitter{framing: f, most: maxEvent} }

// Hold keeps events of up to n bytes in one piece, for a reader that needs all of them. It has
// to be called before the first Feed.
func (s *Splitter) Hold(n int) { s.most = max(n, maxEvent) }

// Feed takes the next bytes of the stream and calls emit for each event that is complete, or
// too large to be kept.
func (s *Splitter) Feed(p []byte, emit func(Event)) {
	for len(p) > 0 {
		n := min(len(p), maxEvent)
		s.buf = append(s.buf, p[:n]...)
		p = p[n:]
		from := 0
		for {
			end := s.end()
			if end < 0 {
				break
			}
			s.emit(emit, s.buf[from:end], false)
			from, s.large = end, false
		}
		if from > 0 {
			s.buf = s.buf[:copy(s.buf, s.buf[from:])]
			s.scanned -= from
		}
		if len(s.buf) >= s.most {
			s.overflow(emit)
		}
	}
}

// overflow lets go of what of a large event is not its end.
func (s *Splitter) overflow(emit func(Event)) {
	n := len(s.buf) - tail
	emit(Event{Raw: s.buf[:n], Part: true})
	s.large = true
	s.buf = s.buf[:copy(s.buf, s.buf[n:])]
	s.scanned = max(0, s.scanned-n)
}

// Close emits what is left when the stream has ended.
func (s *Splitter) Close(emit func(Event)) {
	if len(s.buf) > 0 {
		s.emit(emit, s.buf, s.framing != Whole)
		s.buf, s.scanned, s.large = s.buf[:0], 0, false
	}
}

func (s *Splitter) emit(emit func(Event), raw []byte, cut bool) {
	e := Event{Raw: raw, Cut: cut, Data: raw}
	switch {
	case s.large: // the beginning has gone
	case s.framing == Events:
		e.Name, e.Data = fields(raw)
	case s.framing == Array:
		e.Data = bytes.Trim(raw, " \t\r\n,[]")
	default:
		e.Data = bytes.TrimSpace(raw)
	}
	emit(e)
}

// end returns where in buf the next event ends, -1 if it is not there yet. Bytes are looked
// at once.
func (s *Splitter) end() int {
	switch s.framing {
	case Events:
		return s.blankLine()
	case Lines:
		if i := bytes.IndexByte(s.buf[s.scanned:], '\n'); i >= 0 {
			s.scanned += i + 1
			return s.scanned
		}
		s.scanned = len(s.buf)
	case Array:
		return s.element()
	case Whole:
		s.scanned = len(s.buf)
	}
	return -1
}

// blankLine finds the end of an event: an empty line, whichever of CR LF, LF and CR ends
// lines.
func (s *Splitter) blankLine() int {
	for i := s.scanned; i < len(s.buf); {
		n := lineEnd(s.buf[i:])
		if n < 0 {
			s.scanned = len(s.buf)
			return -1
		}
		first, ok := lineBreak(s.buf, i+n)
		if !ok {
			s.scanned = i + n
			return -1
		}
		second, ok := lineBreak(s.buf, first)
		if !ok {
			s.scanned = i + n
			return -1
		}
		if second > first {
			s.scanned = second
			return second
		}
		i = first
	}
	return -1
}

// lineEnd returns where the first line of b ends, -1 if it does not.
func lineEnd(b []byte) int {
	feed := bytes.IndexByte(b, '\n')
	if feed >= 0 {
		b = b[:feed]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return feed
}

// lineBreak returns where the line break at i ends, i if there is none; false if that
// depends on what comes.
func lineBreak(b []byte, i int) (end int, known bool) {
	switch {
	case i >= len(b), b[i] == '\r' && i+1 >= len(b):
		return i, false
	case b[i] == '\n':
		return i + 1, true
	case b[i] == '\r' && b[i+1] == '\n':
		return i + 2, true
	case b[i] == '\r':
		return i + 1, true
	}
	return i, true
}

// element finds the end of an array's next element.
func (s *Splitter) element() int {
	for ; s.scanned < len(s.buf); s.scanned++ {
		c := s.buf[s.scanned]
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted:
			s.escaped, s.quoted = c == '\\', c != '"'
		case c == '"':
			s.quoted = true
		case c == '{', c == '[' && s.begun:
			s.depth++
			s.begun = true
		case c == '[':
			s.begun = true
		case c == '}', c == ']':
			if s.depth--; s.depth == 0 {
				s.scanned++
				return s.scanned
			}
		}
	}
	return -1
}

// fields returns the event and data fields of an event. Several data lines are joined by
// line feeds, as the specification of server-sent events says; comments are left out.
func fields(raw []byte) (name string, data []byte) {
	several := false
	for len(raw) > 0 {
		line := raw
		if n := lineEnd(raw); n >= 0 {
			line, raw = raw[:n], raw[n+1:]
		} else {
			raw = nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if data == nil {
				data = value
				continue
			}
			if !several {
				data, several = bytes.Clone(data), true
			}
			data = append(append(data, '\n'), value...)
		}
	}
	return name, data
}
