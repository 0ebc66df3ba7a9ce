package socket

import "encoding/binary"

// A Frame is the header of a WebSocket frame (RFC 6455, 5.2) that carries a message or
// a part of one. Payloads are never decoded: the header says all that counting needs.
type Frame struct {
	opcode     byte
	compressed bool // RSV1: the payload is part of a compressed message (RFC 7692, 6)

	// Payload is the payload's length in bytes.
	Payload uint64
}

// Opcodes.
const (
	opText   = 0x1
	opBinary = 0x2
	opClose  = 0x8
)

// First reports whether the frame is the first of its message.
func (f *Frame) First() bool { return f.opcode == opText || f.opcode == opBinary }

// control reports whether the frame stands between the frames of messages.
func (f *Frame) control() bool { return f.opcode&0x8 != 0 }

// maxFrameHeader is the longest header: 2 bytes, 8 of length, 4 of mask.
const maxFrameHeader = 14

// A scanner finds the frame headers in a stream of bytes that comes in pieces of any
// length. The zero scanner stands at the start of a frame.
type scanner struct {
	head [maxFrameHeader]byte
	have int    // bytes of head that are there
	rest uint64 // bytes of payload that are still to come
}

// boundary reports whether the next byte starts a frame.
func (s *scanner) boundary() bool { return s.have == 0 && s.rest == 0 }

// payload consumes up to len(b) bytes of the current payload and returns how many.
func (s *scanner) payload(b []byte) int {
	n := min(uint64(len(b)), s.rest)
	s.rest -= n
	return int(n)
}

// header consumes bytes of a frame header. When the header is complete it returns the
// frame, and the scanner stands before the payload.
func (s *scanner) header(b []byte) (n int, f Frame, complete bool) {
	for n < len(b) {
		s.head[s.have] = b[n]
		s.have++
		n++
		if s.have == s.length() {
			f = s.parse()
			s.have, s.rest = 0, f.Payload
			return n, f, true
		}
	}
	return n, Frame{}, false
}

// length returns how long the header is, as far as that is known.
func (s *scanner) length() int {
	if s.have < 2 {
		return 2
	}
	n := 2
	switch s.head[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if s.head[1]&0x80 != 0 {
		n += 4
	}
	return n
}

func (s *scanner) parse() Frame {
	f := Frame{
		opcode:     s.head[0] & 0x0f,
		compressed: s.head[0]&0x40 != 0,
		Payload:    uint64(s.head[1] & 0x7f),
	}
	switch f.Payload {
	case 126:
		f.Payload = uint64(binary.BigEndian.Uint16(s.head[2:]))
	case 127:
		f.Payload = binary.BigEndian.Uint64(s.head[2:])
	}
	return f
}

// closeFrame returns a close frame with a status code and a reason of at most 123
// bytes. Frames to a server are masked, with zeros: what they hold is no secret.
func closeFrame(code uint16, reason string, toServer bool) []byte {
	reason = reason[:min(len(reason), 123)]
	b := []byte{0x80 | opClose, byte(2 + len(reason))}
	if toServer {
		b[1] |= 0x80
		b = append(b, 0, 0, 0, 0)
	}
	b = binary.BigEndian.AppendUint16(b, code)
	return append(b, reason...)
}
