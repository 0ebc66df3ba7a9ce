package jsonrpc

import "encoding/json"

// An Edit changes one member of a frame.
type Edit struct {
	path  []string
	value json.RawMessage // nil takes the member out
}

// SetID gives a request or a response another id.
func SetID(id ID) Edit { return Set(id.Raw(), "id") }

// Set puts a value, one JSON value as it is to be written, at a path from the top of the
// frame. Objects that are missing on the way are made, and other values on the way become
// objects. A member that is there keeps its place; a new one becomes the last.
func Set(raw json.RawMessage, path ...string) Edit { return Edit{path, raw} }

// Delete takes the member at a path out. It is no mistake if there is none.
func Delete(path ...string) Edit { return Edit{path: path} }

// Edit returns a new frame with the edits. Every byte that no edit names stays as it is,
// and so does m. Of two edits of one path the later counts.
func (m *Message) Edit(edits ...Edit) *Message {
	raw := m.Raw
	for _, e := range edits {
		if e.value == nil {
			raw = DeleteIn(raw, e.path...)
		} else {
			raw = SetIn(raw, e.value, e.path...)
		}
	}
	edited := &Message{Kind: m.Kind, Raw: raw, Method: m.Method}
	edited.read()
	return edited
}

// read fills in the members of a frame whose kind is known.
func (m *Message) read() {
	for p := range objectMembers(m.Raw) {
		value := m.Raw[p.start:p.end:p.end]
		switch string(unescape(m.Raw[p.name+1 : p.nameEnd-1])) {
		case "id":
			m.ID = RawID(value)
		case "params":
			m.Params = value
		case "result":
			m.Result = value
		case "error":
			m.Err = value
		}
	}
}

// SetIn returns an object with value at a path of names, as [Set] has it. It does not
// write to raw.
func SetIn(raw, value json.RawMessage, path ...string) json.RawMessage {
	if len(path) == 0 {
		return value
	}
	for p := range objectMembers(raw) {
		if p.is(raw, path[0]) {
			return splice(raw, p.start, p.end, SetIn(raw[p.start:p.end], value, path[1:]...))
		}
	}
	s := scanner{data: raw}
	if s.next() != '{' {
		raw, s = json.RawMessage("{}"), scanner{}
	}
	s.at++
	added := make(json.RawMessage, 0, len(value)+64)
	end := endOf(raw, s.at-1) - 1
	if (&scanner{data: raw, at: s.at}).next() != '}' {
		added = append(added, ',')
	}
	added = appendValue(added, path[0])
	added = append(added, ':')
	added = append(added, SetIn(nil, value, path[1:]...)...)
	return splice(raw, end, end, added)
}

// DeleteIn returns an object without the member at a path of names. It does not write to
// raw, and returns raw if there is no such member.
func DeleteIn(raw json.RawMessage, path ...string) json.RawMessage {
	if len(path) == 0 {
		return raw
	}
	before := -1 // the end of the member before
	for p := range objectMembers(raw) {
		if !p.is(raw, path[0]) {
			before = p.end
			continue
		}
		if len(path) > 1 {
			return splice(raw, p.start, p.end, DeleteIn(raw[p.start:p.end], path[1:]...))
		}
		if before >= 0 { // with the comma before it
			return splice(raw, before, p.end, nil)
		}
		s := scanner{data: raw, at: p.end}
		if s.next() == ',' {
			s.at++
			return splice(raw, p.name, s.at, nil)
		}
		return splice(raw, p.name, p.end, nil)
	}
	return raw
}

func splice(raw []byte, start, end int, with []byte) json.RawMessage {
	out := make(json.RawMessage, 0, len(raw)-(end-start)+len(with))
	out = append(out, raw[:start]...)
	out = append(out, with...)
	return append(out, raw[end:]...)
}
