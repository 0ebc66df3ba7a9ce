package jsonrpc

import (
	"encoding/json"
	"iter"
)

// What is here goes over JSON that was checked before, and therefore asks no more than
// where a value ends. On anything else it stops somewhere, without a panic.

// Lookup returns the value at a path of names in an object; without a path it returns
// raw. Of members of one name the first counts; [Parse] refuses such names where it
// matters. It does not check raw.
func Lookup(raw json.RawMessage, path ...string) (json.RawMessage, bool) {
	for _, name := range path {
		value, ok := lookup(raw, name)
		if !ok {
			return nil, false
		}
		raw = value
	}
	return raw, len(raw) > 0
}

func lookup(raw []byte, name string) ([]byte, bool) {
	for p := range members(raw) {
		if p.is(raw, name) {
			return p.value(raw), true
		}
	}
	return nil, false
}

// Members yields the members of an object in their order: names without escapes, and
// values as they stand. It yields nothing for another value, and does not check raw.
func Members(raw json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		for p := range members(raw) {
			if !yield(string(p.text(raw)), p.value(raw)) {
				return
			}
		}
	}
}

// Filter returns an object with those members alone whose names keep wants; their bytes
// stay as they are. It returns raw itself if all are kept, and does not check raw.
func Filter(raw json.RawMessage, keep func(name string) bool) json.RawMessage {
	out, all := json.RawMessage{'{'}, true
	for p := range members(raw) {
		if !keep(string(p.text(raw))) {
			all = false
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, raw[p.name:p.end]...)
	}
	if all {
		return raw
	}
	return append(out, '}')
}

// Text returns the content of a JSON string, and false for another value.
func Text(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	return string(unescape(raw[1 : len(raw)-1])), true
}

// A place is where a member of an object stands.
type place struct {
	name       int // the quote of its name
	nameEnd    int // behind the quote that ends it
	start, end int // its value
}

// text returns the name without escapes.
func (p place) text(raw []byte) []byte { return unescape(raw[p.name+1 : p.nameEnd-1]) }

// value returns the value as it stands.
func (p place) value(raw []byte) json.RawMessage { return raw[p.start:p.end:p.end] }

// is reports whether the member of raw has that name.
func (p place) is(raw []byte, name string) bool { return string(p.text(raw)) == name }

// members yields where the members of an object stand, and nothing for another value.
func members(raw []byte) iter.Seq[place] {
	return func(yield func(place) bool) {
		s := scanner{data: raw}
		for more := s.next() == '{'; more; more = s.next() == ',' {
			s.at++
			if s.next() != '"' {
				return
			}
			p := place{name: s.at}
			s.at = endOf(raw, s.at)
			p.nameEnd = s.at
			if s.next() != ':' {
				return
			}
			s.at++
			s.space()
			p.start = s.at
			s.at = endOf(raw, s.at)
			p.end = s.at
			if p.start == p.end || !yield(p) {
				return
			}
		}
	}
}

// elements yields the elements of an array, and nothing for another value.
func elements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := scanner{data: raw}
		for more := s.next() == '['; more; more = s.next() == ',' {
			s.at++
			s.space()
			start := s.at
			s.at = endOf(raw, s.at)
			if start == s.at || !yield(raw[start:s.at:s.at]) {
				return
			}
		}
	}
}

// endOf returns where the value ends that starts at i: i itself if none does.
func endOf(raw []byte, i int) int {
	if i == len(raw) {
		return i
	}
	switch raw[i] {
	case '"':
		return endOfText(raw, i)
	case '{', '[':
		return endOfNest(raw, i)
	}
	for ; i < len(raw); i++ {
		switch raw[i] {
		case ',', ':', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
	}
	return i
}

// endOfText returns where the string ends whose quote is at i.
func endOfText(raw []byte, i int) int {
	for i++; i < len(raw); {
		i += plain(raw[i:])
		switch {
		case i >= len(raw):
		case raw[i] == '"':
			return i + 1
		case raw[i] == '\\':
			i += 2
		default:
			i++ // a control character, which no valid string has
		}
	}
	return len(raw)
}

// endOfNest returns where the object or array ends that starts at i.
func endOfNest(raw []byte, i int) int {
	for depth := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = endOfText(raw, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(raw)
}
