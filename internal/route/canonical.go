package route

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"
)

// EncodedSlash says what an encoded slash, %2f, means in a path.
type EncodedSlash uint8

const (
	Separator EncodedSlash = iota // it separates segments, like a plain slash
	Literal                       // it is part of its segment and stays "%2F"
	Reject                        // the path is refused with ErrEncodedSlash
)

// Options says how paths are read. The zero Options separates at an encoded slash and
// keeps upper and lower case apart. Patterns and paths must be read with the same Options.
type Options struct {
	EncodedSlash EncodedSlash

	// FoldCase makes the letters A to Z lower case. No other letter changes: Unicode
	// folding would make the Kelvin sign a k.
	FoldCase bool
}

// Errors of [Canonical]. A request with such a path is malformed and deserves a 400.
// They never repeat the path: it is the caller's text.
var (
	ErrRelative     = errors.New(`route: the path does not begin with "/"`)
	ErrEscape       = errors.New("route: the path has a % that two hexadecimal digits do not follow")
	ErrControl      = errors.New("route: the path has a control character")
	ErrUTF8         = errors.New("route: the path is not valid UTF-8")
	ErrEncodedSlash = errors.New("route: the path has an encoded slash, which is not allowed here")
)

// Canonical returns the one form that all spellings of a path share. raw is the path as
// it came over the wire, still escaped; a query or fragment is cut off.
//
// Escapes are decoded once; backslashes become slashes; parameters after ";" are dropped
// from each segment; empty and "." segments vanish and ".." is resolved, never above the
// root; a trailing slash is dropped. An empty path is "/". The target "*" of OPTIONS is
// itself. A "%" that is left in the result was encoded twice, or is a [Literal] slash.
//
// clean is true if the path part of raw, byte for byte, is the result. Then nothing is
// allocated. Canonical(escape(path)) is path again.
func Canonical(raw string, o Options) (path string, clean bool, err error) {
	if end, ok := scan(raw, o.FoldCase); ok {
		return raw[:end], true, nil
	}
	if i := strings.IndexAny(raw, "?#"); i >= 0 {
		raw = raw[:i]
	}
	if raw == "" {
		return "/", false, nil
	}
	if raw[0] != '/' {
		return "", false, ErrRelative
	}
	b, err := decode(raw, o)
	if err != nil {
		return "", false, err
	}
	return string(resolve(b)), false, nil
}

// odd marks the bytes that need more than a look: no canonical path has one of them
// unescaped, except a query's "?" right behind it.
var odd = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	for _, c := range []byte("%?#;\\\x7f") {
		t[c] = true
	}
	return t
}()

// scan reports whether the path at the start of raw is canonical, and where it ends.
// It is what nearly every request pays, so it is one pass without a copy.
func scan(raw string, fold bool) (end int, ok bool) {
	if raw == "*" {
		return 1, true
	}
	if raw == "" || raw[0] != '/' {
		return 0, false
	}
	ascii := byte(0)
	start := 1 // of the current segment
	i := 1
	for ; i < len(raw); i++ {
		c := raw[i]
		switch {
		case odd[c]:
			if c != '?' {
				return 0, false
			}
			return i, closed(raw[:i], start, ascii)
		case c == '/':
			if vanishes(raw[start:i]) {
				return 0, false
			}
			start = i + 1
		case fold && 'A' <= c && c <= 'Z':
			return 0, false
		}
		ascii |= c
	}
	return i, closed(raw, start, ascii)
}

// closed reports whether a path ends well: its last segment stays, unless the path is
// "/", and its text is UTF-8. ascii is the disjunction of its bytes.
func closed(path string, start int, ascii byte) bool {
	if vanishes(path[start:]) && path != "/" {
		return false
	}
	return ascii < utf8.RuneSelf || utf8.ValidString(path)
}

// vanishes reports whether a segment is not part of any canonical path.
func vanishes(segment string) bool {
	return segment == "" || segment == "." || segment == ".."
}

// decode undoes the escapes of raw once and refuses what no path may hold.
func decode(raw string, o Options) ([]byte, error) {
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' {
			if i+2 >= len(raw) || !isHex(raw[i+1]) || !isHex(raw[i+2]) {
				return nil, ErrEscape
			}
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
			if c == '/' && o.EncodedSlash == Reject {
				return nil, ErrEncodedSlash
			}
			if c == '/' && o.EncodedSlash == Literal {
				b = append(b, '%', '2', fold('F', o.FoldCase))
				continue
			}
		}
		switch {
		case c < ' ' || c == 0x7f:
			return nil, ErrControl
		case c == '\\':
			c = '/'
		}
		b = append(b, fold(c, o.FoldCase))
	}
	if !utf8.Valid(b) {
		return nil, ErrUTF8
	}
	return b, nil
}

// resolve drops parameters and the segments that vanish, in place: what is written never
// overtakes what is read, because each segment brings its own slash.
func resolve(b []byte) []byte {
	out := b[:0]
	for rest := b[1:]; ; {
		segment, after, more := bytes.Cut(rest, []byte{'/'})
		segment, _, _ = bytes.Cut(segment, []byte{';'})
		switch string(segment) {
		case "", ".":
		case "..":
			out = out[:max(0, bytes.LastIndexByte(out, '/'))]
		default:
			out = append(append(out, '/'), segment...)
		}
		if !more {
			break
		}
		rest = after
	}
	if len(out) == 0 {
		return append(out, '/')
	}
	return out
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// unhex returns the value of a hexadecimal digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// fold returns c, in lower case if it is an ASCII letter and on is set.
func fold(c byte, on bool) byte {
	if on && 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
