package jsonrpc

import (
	"bytes"
	"encoding/json"
	"iter"
)

// A walk goes over JSON that was checked before, and therefore asks no more than where a
// value ends. On anything else it stops, somewhere, without a panic.

// Lookup returns the value at a path of names in an object; without a path it returns
// raw. Of members of one name the first counts; [Parse] refuses them where it matters.
// It does not check raw.
func Lookup(raw json.RawMessage, path ...string) (json.RawMessage, bool) {
	for _, name := range path {
		found := false
		for m := range objectMembers(raw) {
			if m.is(raw, name) {
				raw, found = raw[m.start:m.end:m.end], true
				break
			}
		}
		if !found {
			return nil, false
		}
	}
	return raw, len(raw) > 0
}

// A place is where a member of an object stands.
type place struct {
	name       int // the quote of its name
	nameEnd    int // behind the quote that ends it
	start, end int // its value
}

// is reports whether the member of object raw has that name.
func (p place) is(raw []byte, name string) bool {
	return string(unescape(raw[p.name+1:p.nameEnd-1])) == name
}

// objectMembers yields the members of an object, and nothing for another value.
func objectMembers(raw []byte) iter.Seq[place] {
	return func(yield func(place) bool) {
		s := scanner{data: raw}
		if s.next() != '{' {
			return
		}
		for c := byte('{'); c == '{' || c == ','; c = s.next() {
			s.at++
			if s.next() != '"' {
				return
			}
			p := place{name: s.at}
			p.nameEnd = endOf(raw, s.at)
			if s.at = p.nameEnd; s.next() != ':' {
				return
			}
			s.at++
			s.space()
			p.start, p.end = s.at, endOf(raw, s.at)
			if s.at = p.end; p.start == p.end || !yield(p) {
				return
			}
		}
	}
}

// elements yields the elements of an array.
func elements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := scanner{data: raw}
		if s.next() != '[' {
			return
		}
		for c := byte('['); c == '[' || c == ','; c = s.next() {
			s.at++
			s.space()
			start := s.at
			if s.at = endOf(raw, start); s.at == start || !yield(raw[start:s.at:s.at]) {
				return
			}
		}
	}
}

// endOf returns where the value ends that starts at i: i itself if none does.
func endOf(raw []byte, i int) int {
	if i >= len(raw) {
		return i
	}
	switch raw[i] {
	case '"':
		return endOfText(raw, i)
	case '{', '[':
		return endOfNest(raw, i)
	}
	for i < len(raw) {
		switch raw[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

// endOfText returns where the string ends whose quote is at i.
func endOfText(raw []byte, i int) int {
	for i++; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return len(raw)
		}
		slash := bytes.IndexByte(raw[i:i+n], '\\')
		if slash < 0 {
			return i + n + 1
		}
		i += slash + 2
	}
	return len(raw)
}

// endOfNest returns where the object or array ends that starts at i.
func endOfNest(raw []byte, i int) int {
	for depth := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			i = endOfText(raw, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(raw)
}

// Text returns the content of a JSON string, and false for another value.
func Text(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	return string(unescape(raw[1 : len(raw)-1])), true
}
