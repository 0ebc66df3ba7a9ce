package jsonrpc

import (
	"bytes"
	"encoding/json"
	"slices"
)

// An Edit changes one value of a frame, or takes it out.
type Edit struct {
	path  []string
	value json.RawMessage // nil takes the member out
	made  bool            // set on the first of a group once the group's member was met
}

// SetID gives a request or a response another id.
func SetID(id ID) Edit { return Set(id.Raw(), "id") }

// Set puts a value, one JSON value as it is to be written, at a path of names from the
// top of the frame. Objects that are missing on the way are made, and other values on the
// way become objects. A member that is there keeps its place; a new one becomes the last.
func Set(raw json.RawMessage, path ...string) Edit { return Edit{path: path, value: raw} }

// Delete takes the member at a path out. It is no mistake if there is none.
func Delete(path ...string) Edit { return Edit{path: path} }

// Edit returns a new message, with the edits made one after the other. Every byte that no
// edit names stays as it is, and so does m. The frame is gone through and copied once,
// however many edits there are. The kind of a message does not change, and its method
// cannot be edited.
func (m *Message) Edit(edits ...Edit) *Message {
	var e editor
	e.edit(m.Raw, edits)
	n := *m
	n.Raw = e.out
	var id json.RawMessage
	if e.read("id", &id) {
		n.ID = RawID(id)
	}
	e.read("params", &n.Params)
	e.read("result", &n.Result)
	e.read("error", &n.Err)
	return &n
}

// SetIn returns an object with value at a path of names, as [Set] has it. It does not
// write to raw.
func SetIn(raw, value json.RawMessage, path ...string) json.RawMessage {
	return editIn(raw, Set(value, path...))
}

// DeleteIn returns an object without the member at a path of names. It does not write to
// raw.
func DeleteIn(raw json.RawMessage, path ...string) json.RawMessage {
	return editIn(raw, Delete(path...))
}

func editIn(raw json.RawMessage, one Edit) json.RawMessage {
	var e editor
	e.edit(raw, []Edit{one})
	return e.out
}

// fields are the members of a frame that a [Message] has too.
var fields = [...]string{"id", "params", "result", "error"}

// An editor writes a value with edits in it.
type editor struct {
	out []byte

	// fields say where in out the edited ones stand: zero if none edited them, and from
	// start to start if they are gone.
	fields [len(fields)]struct{ start, end int }
}

// edit writes raw with edits.
func (e *editor) edit(raw []byte, edits []Edit) {
	size := len(raw)
	for i := range edits {
		size += len(edits[i].value)
		for _, name := range edits[i].path {
			size += len(name) + len(`,"":{}`)
		}
	}
	e.out = make([]byte, 0, size)
	var room [8]Edit
	e.value(raw, append(room[:0], edits...), 0) // its own copy, which it sorts
}

// read gives a field the value that it has now, and reports whether it was edited.
func (e *editor) read(field string, to *json.RawMessage) bool {
	at := e.fields[slices.Index(fields[:], field)]
	if at.start == 0 {
		return false
	}
	*to = nil
	if at.end > at.start {
		*to = e.out[at.start:at.end:at.end]
	}
	return true
}

// value writes old, nil for none, with edits that all reach into it: their paths are the
// same up to depth. It reports whether there is a value then.
func (e *editor) value(old []byte, edits []Edit, depth int) bool {
	for i := len(edits) - 1; i >= 0; i-- {
		if len(edits[i].path) == depth { // what came before it is lost
			old, edits = edits[i].value, edits[i+1:]
			break
		}
	}
	if !isObject(old) && slices.ContainsFunc(edits, func(d Edit) bool { return d.value != nil }) {
		old = []byte("{}")
	}
	if len(edits) == 0 || !isObject(old) {
		e.out = append(e.out, old...)
		return old != nil
	}
	e.object(old, edits, depth)
	return true
}

func isObject(raw []byte) bool {
	s := scanner{data: raw}
	return s.next() == '{'
}

// object writes an object with edits of its members. It copies what lies between them,
// and stops looking at members when it has met all that edits name.
func (e *editor) object(old []byte, edits []Edit, depth int) {
	left := group(edits, depth)
	copied := 0   // up to where old has been dealt with
	before := 0   // where the member before this one ends
	some := false // whether a member stands before this one in the output
	for p := range members(old) {
		mine := find(edits, depth, old, p)
		if mine == nil {
			some, before = true, p.end
			continue
		}
		begin := len(e.out)
		e.out = append(e.out, old[copied:p.start]...)
		start := len(e.out)
		there := e.value(old[p.start:p.end], mine, depth+1)
		mine[0].made = true
		if there {
			some, copied = true, p.end
		} else {
			e.out = e.out[:begin]
			copied = e.leaveOut(old, p, copied, before, some)
			start = len(e.out)
		}
		before = p.end
		e.note(depth, mine[0].path[0], start)
		if left--; left == 0 {
			e.out = append(e.out, old[copied:]...)
			return
		}
	}
	end := bytes.LastIndexByte(old, '}')
	if end < copied {
		end = len(old) // old is no object that ends
	}
	e.out = append(e.out, old[copied:end]...)
	e.add(edits, depth, some)
	e.out = append(e.out, old[end:]...)
}

// leaveOut writes what stands before a member that goes, without the comma that goes with
// it: the one before it, or behind it if nothing stands before. It returns where to go on.
func (e *editor) leaveOut(old []byte, p place, copied, before int, some bool) int {
	if some {
		e.out = append(e.out, old[copied:before]...)
		return p.end
	}
	e.out = append(e.out, old[copied:p.name]...)
	s := scanner{data: old, at: p.end}
	if s.next() == ',' {
		return s.at + 1
	}
	return p.end
}

// add writes the members that edits make anew.
func (e *editor) add(edits []Edit, depth int, some bool) {
	for len(edits) > 0 {
		mine := edits[:same(edits, depth)]
		edits = edits[len(mine):]
		if mine[0].made {
			continue
		}
		begin := len(e.out)
		if some {
			e.out = append(e.out, ',')
		}
		e.out = append(appendString(e.out, mine[0].path[depth]), ':')
		start := len(e.out)
		if !e.value(nil, mine, depth+1) {
			e.out = e.out[:begin]
			continue
		}
		some = true
		e.note(depth, mine[0].path[0], start)
	}
}

// note keeps where a member of the outermost object stands, if it is a field: from start
// to the end of the output.
func (e *editor) note(depth int, name string, start int) {
	if i := slices.Index(fields[:], name); i >= 0 && depth == 0 {
		e.fields[i].start, e.fields[i].end = start, len(e.out)
	}
}

// group puts edits of the same member side by side, in their order, and returns how many
// members they are.
func group(edits []Edit, depth int) (groups int) {
	for ; len(edits) > 0; groups++ {
		n := 1
		for i := 1; i < len(edits); i++ {
			if edits[i].path[depth] == edits[0].path[depth] {
				one := edits[i]
				copy(edits[n+1:i+1], edits[n:i])
				edits[n] = one
				n++
			}
		}
		edits = edits[n:]
	}
	return groups
}

// same returns how many edits at the front are of the first one's member.
func same(edits []Edit, depth int) int {
	n := 1
	for n < len(edits) && edits[n].path[depth] == edits[0].path[depth] {
		n++
	}
	return n
}

// find returns the edits of a member, nil if there are none or they have been made.
func find(edits []Edit, depth int, raw []byte, p place) []Edit {
	for len(edits) > 0 {
		n := same(edits, depth)
		if !edits[0].made && p.is(raw, edits[0].path[depth]) {
			return edits[:n]
		}
		edits = edits[n:]
	}
	return nil
}
