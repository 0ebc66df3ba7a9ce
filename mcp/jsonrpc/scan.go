package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// A scanner reads JSON strictly as RFC 8259 has it, once, from the first byte to the
// last. It decodes nothing: what it finds are slices of the frame.
type scanner struct {
	data  []byte
	at    int
	depth int // objects and arrays that may still be entered
	fault fault

	// members are those of the objects that are being read now and whose names have to
	// differ, the innermost last. The envelope's stay when the scan is over. They are
	// offsets, and no slices of data, so that the scanner can stay on the stack.
	members  []place
	repeated bool // an object that may not have one name twice does
}

// A fault is why a scan ended early.
type fault uint8

const (
	sound fault = iota
	malformed
	tooDeep
	tooMany
	notUTF8
)

// A shape names the objects inside an object whose members have to have different names.
type shape struct {
	name   string
	inside []shape
}

// envelope is what the broker, its policy and a provider all read of a frame. Each has to
// read the same there, whichever of two members of one name its parser prefers.
var envelope = shape{inside: []shape{
	{"params", []shape{{name: "_meta"}, {name: "arguments"}}},
	{"result", []shape{{name: "_meta"}}},
	{name: "error"},
}}

// within returns the shape of a member, nil if its names do not matter.
func (sh *shape) within(name []byte) *shape {
	for i := range sh.inside {
		if string(name) == sh.inside[i].name {
			return &sh.inside[i]
		}
	}
	return nil
}

// fail ends the scan. It returns false, so that "return s.fail(…)" reads well.
func (s *scanner) fail(f fault) bool {
	s.fault = f
	return false
}

// space skips white space.
func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// next skips white space and returns the byte after it, zero at the end.
func (s *scanner) next() byte {
	s.space()
	if s.at == len(s.data) {
		return 0
	}
	return s.data[s.at]
}

// whole reads the one value that the data are, and returns where it stands.
func (s *scanner) whole() (start, end int) {
	s.space()
	start = s.at
	if !s.value(&envelope) {
		return 0, 0
	}
	end = s.at
	if s.space(); s.at < len(s.data) {
		s.fail(malformed)
	}
	return start, end
}

// value reads one value, which begins at the next byte. An object whose names have to
// differ has a shape.
func (s *scanner) value(sh *shape) bool {
	if s.at == len(s.data) {
		return s.fail(malformed)
	}
	switch c := s.data[s.at]; c {
	case '{':
		return s.object(sh)
	case '[':
		return s.array()
	case '"':
		return s.text()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

func (s *scanner) object(sh *shape) bool {
	if s.depth--; s.depth < 0 {
		return s.fail(tooDeep)
	}
	s.at++
	first := len(s.members)
	for c := s.next(); c != '}'; {
		if c != '"' {
			return s.fail(malformed)
		}
		if !s.member(sh) {
			return false
		}
		if sh != nil && len(s.members)-first > maxMembers {
			return s.fail(tooMany)
		}
		switch c = s.next(); c {
		case ',':
			s.at++
			if c = s.next(); c == '}' {
				return s.fail(malformed)
			}
		case '}':
		default:
			return s.fail(malformed)
		}
	}
	s.at++
	s.depth++
	if sh != nil {
		s.repeated = s.repeated || repeats(s.data, s.members[first:])
		if sh != &envelope {
			s.members = s.members[:first]
		}
	}
	return true
}

// member reads a name, a colon and a value.
func (s *scanner) member(sh *shape) bool {
	p := place{name: s.at}
	if !s.text() {
		return false
	}
	p.nameEnd = s.at
	if s.next() != ':' {
		return s.fail(malformed)
	}
	s.at++
	s.space()
	if sh == nil {
		return s.value(nil)
	}
	p.start = s.at
	i := len(s.members)
	s.members = append(s.members, p)
	if !s.value(sh.within(p.text(s.data))) {
		return false
	}
	s.members[i].end = s.at
	return true
}

func (s *scanner) array() bool {
	if s.depth--; s.depth < 0 {
		return s.fail(tooDeep)
	}
	s.at++
	for c := s.next(); c != ']'; {
		if !s.value(nil) {
			return false
		}
		switch c = s.next(); c {
		case ',':
			s.at++
			if c = s.next(); c == ']' {
				return s.fail(malformed)
			}
		case ']':
		default:
			return s.fail(malformed)
		}
	}
	s.at++
	s.depth++
	return true
}

func (s *scanner) word(w string) bool {
	if len(s.data)-s.at < len(w) || string(s.data[s.at:s.at+len(w)]) != w {
		return s.fail(malformed)
	}
	s.at += len(w)
	return true
}

// number reads a number of any size and precision: it is bytes, and stays bytes.
func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if !s.digits() {
		return s.fail(malformed)
	}
	if s.peek() == '.' {
		s.at++
		if !s.digits() {
			return s.fail(malformed)
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return s.fail(malformed)
		}
	}
	return true
}

// peek returns the byte that comes, zero at the end.
func (s *scanner) peek() byte {
	if s.at == len(s.data) {
		return 0
	}
	return s.data[s.at]
}

// digits reads decimal digits and reports whether there was one.
func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.data) && s.data[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at > start
}

// text reads a string, from its quote to the next that is not escaped.
func (s *scanner) text() bool {
	start := s.at + 1
	s.at = start
	for {
		s.at += plain(s.data[s.at:])
		switch c := s.peek(); {
		case c == '"':
			s.at++
			if !utf8.Valid(s.data[start : s.at-1]) {
				return s.fail(notUTF8)
			}
			return true
		case c != '\\':
			return s.fail(malformed) // a control character, or the end
		case !s.escape():
			return s.fail(malformed)
		}
	}
}

// escape reads a backslash and what belongs to it. Half of a surrogate pair is let pass:
// it is six bytes of ASCII, and to repair or refuse it is up to who decodes it.
func (s *scanner) escape() bool {
	s.at++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return true
	case 'u':
		if len(s.data)-s.at < 5 {
			return false
		}
		for _, c := range s.data[s.at+1 : s.at+5] {
			if hexValue(c) > 15 {
				return false
			}
		}
		s.at += 5
		return true
	}
	return false
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain returns how many bytes at the start of b are neither a quote, nor a backslash,
// nor a control character. It looks at eight at a time: x-ones has the high bit of a
// byte set where x had a zero byte, and, as the lowest such byte is always a true one,
// the first hit is exact.
func plain(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^ones*'"', w^ones*'\\'
		hit := (quote - ones) &^ quote
		hit |= (slash - ones) &^ slash
		hit |= (w - ones*' ') &^ w
		if hit &= highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return i
}
