package jsonrpc

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// repeats reports whether two members have the same name. A few are compared in pairs;
// more are sorted, so that a frame of nothing but names does not cost their square.
func repeats(data []byte, members []place) bool {
	var room [16][]byte
	names := room[:0]
	for _, p := range members {
		names = append(names, p.text(data))
	}
	if len(names) > len(room) {
		slices.SortFunc(names, bytes.Compare)
		for i := range len(names) - 1 {
			if bytes.Equal(names[i], names[i+1]) {
				return true
			}
		}
		return false
	}
	for i, a := range names {
		for _, b := range names[:i] {
			if bytes.Equal(a, b) {
				return true
			}
		}
	}
	return false
}

// unescape returns what a valid string stands for, given without its quotes: the string
// itself if it has no escapes. Half of a surrogate pair becomes U+FFFD, as in encoding/json.
func unescape(s []byte) []byte {
	i := bytes.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	out := append(make([]byte, 0, len(s)), s[:i]...)
	for i < len(s) {
		switch {
		case s[i] != '\\' || i+1 == len(s):
			out = append(out, s[i])
			i++
		case s[i+1] == 'u':
			r, n := character(s[i:])
			out = utf8.AppendRune(out, r)
			i += n
		default:
			out = append(out, short[s[i+1]])
			i += 2
		}
	}
	return out
}

// short are the characters behind a backslash and one letter.
var short = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// character returns the character at the front of s, spelt as \uXXXX or as two of those
// that are a surrogate pair, and its length there.
func character(s []byte) (r rune, n int) {
	r, n = unit(s), 6
	if utf16.IsSurrogate(r) {
		if pair := utf16.DecodeRune(r, unit(s[min(n, len(s)):])); pair != utf8.RuneError {
			return pair, 2 * n
		}
	}
	return r, min(n, len(s))
}

// unit returns the UTF-16 unit that \uXXXX at the front of s stands for, -1 for anything else.
func unit(s []byte) (r rune) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	for _, c := range s[2:6] {
		h := hexValue(c)
		if h > 15 {
			return -1
		}
		r = r<<4 | rune(h)
	}
	return r
}

// hexValue returns the value of a hexadecimal digit, 255 for another byte.
func hexValue(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}
