package link

import "github.com/sluicegate/sluice/mcp/jsonrpc"

// A Glance finds out what a frame seems to be that is too long to keep, or wrong, so that
// whoever waits for it can be told. It reads the members of the outermost object as the
// bytes pass and keeps only an id. Servers write the id before the result or after it, so
// the whole frame has to pass.
//
// What it says of a frame that is no JSON means nothing; nothing is decided by it but whose
// request has failed.
type Glance struct {
	Answer bool // it has a result or an error
	Asks   bool // it has a method

	depth   int
	quoted  bool   // in a string
	escaped bool   // after a backslash
	value   bool   // after the colon of a member of the outermost object
	name    []byte // of that member, as far as it can matter
	id      []byte
}

// longestName is the longest name of a member that matters: method, result.
const longestName = len("method")

// ID returns the id, or the zero ID if none was seen that a request may have.
func (g *Glance) ID() jsonrpc.ID {
	id := jsonrpc.RawID(g.id)
	if !id.Valid() {
		return jsonrpc.ID{}
	}
	return id
}

// Write reads the next bytes of the frame. It never fails.
func (g *Glance) Write(p []byte) (int, error) {
	for _, c := range p {
		g.next(c)
	}
	return len(p), nil
}

// next reads a byte.
func (g *Glance) next(c byte) {
	if g.quoted {
		g.text(c)
		return
	}
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		g.quoted = true
		if g.depth == 1 && !g.value {
			g.name = g.name[:0]
		}
	case '{', '[':
		g.depth++
	case '}', ']':
		g.depth--
	}
	g.mark(c)
}

// text reads a byte of a string.
func (g *Glance) text(c byte) {
	switch {
	case g.escaped:
		g.escaped = false
	case c == '\\':
		g.escaped = true
	case c == '"':
		g.quoted = false
	}
	switch {
	case g.depth != 1:
	case g.value:
		g.keep(c)
	case g.quoted && len(g.name) <= longestName:
		g.name = append(g.name, c)
	}
}

// mark follows the members of the outermost object outside of strings.
func (g *Glance) mark(c byte) {
	if g.depth != 1 {
		return
	}
	switch {
	case c == ',':
		g.value = false
	case g.value:
		g.keep(c)
	case c == ':':
		g.value = true
		g.member()
	}
}

// member notes which member's value begins.
func (g *Glance) member() {
	switch string(g.name) {
	case "id":
		g.id = g.id[:0]
	case "method":
		g.Asks = true
	case "result", "error":
		g.Answer = true
	}
}

// keep keeps a byte of the outermost object's values, if it is the id's.
func (g *Glance) keep(c byte) {
	if string(g.name) == "id" && len(g.id) <= jsonrpc.MaxIDBytes {
		g.id = append(g.id, c)
	}
}
