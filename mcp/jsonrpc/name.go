package jsonrpc

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// repeats reports whether two members have the same name. Up to a few are compared in
// pairs; more are sorted, so that a frame of nothing but names costs no square of them.
func repeats(members []member) bool {
	if len(members) > 16 {
		return repeatsMany(members)
	}
	for i := range members {
		for j := range i {
			if string(members[i].name) == string(members[j].name) {
				return true
			}
		}
	}
	return false
}

func repeatsMany(members []member) bool {
	names := make([][]byte, len(members))
	for i := range members {
		names[i] = members[i].name
	}
	slices.SortFunc(names, bytes.Compare)
	for i := 1; i < len(names); i++ {
		if bytes.Equal(names[i-1], names[i]) {
			return true
		}
	}
	return false
}

// unescape returns what a valid string between its quotes stands for. A string without
// escapes is returned as it is. Half of a surrogate pair becomes U+FFFD, as in
// encoding/json.
func unescape(s []byte) []byte {
	i := bytes.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	out := append(make([]byte, 0, len(s)), s[:i]...)
	for i < len(s) {
		if s[i] != '\\' {
			out = append(out, s[i])
			i++
			continue
		}
		if i+1 == len(s) {
			break
		}
		c := s[i+1]
		i += 2
		switch c {
		case 'u':
			r := unit(s[i:])
			i = min(i+4, len(s))
			if utf16.IsSurrogate(r) {
				r2 := rune(-1)
				if i+1 < len(s) && s[i] == '\\' && s[i+1] == 'u' {
					r2 = unit(s[i+2:])
				}
				if r = utf16.DecodeRune(r, r2); r != utf8.RuneError {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		default:
			out = append(out, c)
		}
	}
	return out
}

// unit returns the UTF-16 unit that four hexadecimal digits stand for, -1 without them.
func unit(s []byte) rune {
	if len(s) < 4 {
		return -1
	}
	var r rune
	for _, c := range s[:4] {
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
