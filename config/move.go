package config

import (
	"fmt"
	"slices"
	"strings"
)

// A move is a key that older documents write in another place.
type move struct {
	from, to string // dotted; an empty to is the top level
}

// moves are what makes the configuration blocks printed in the three source documents
// load as they stand. A later move sees what an earlier one has put in place.
var moves = []move{
	{"spector.resilience.rateLimiting", ""},
	{"backend", "store.backend"},
	{"redis", "store.redis"},
	{"hazelcast", "store.hazelcast"},
	{"security", "mcp"},
	{"limits", "mcp.limits"},
	{"auth", "mcp.auth"},
	{"providers", "mcp.providers"},
}

// rehome applies the moves to one file. A value that is there in both places is
// reported, and so is a key beside a prefix that nothing else belongs under.
func (n *node) rehome(report func(Problem)) {
	for _, m := range moves {
		value := n.take(strings.Split(m.from, "."), "", report)
		switch {
		case value == nil:
		case m.to != "":
			wrapped := &node{pos: value.pos}
			_ = wrapped.set(strings.Split(m.to, "."), value) // fails on lists only, and there is none
			n.adopt(wrapped, "", report)
		case value.kind == mapping:
			n.adopt(value, "", report)
		default:
			report(Problem{Pos: value.pos, Code: CodeType, Key: m.from, Message: "must be a map, not " + value.kind.String()})
		}
	}
}

// rehomed returns the place of a dotted path after the moves.
func rehomed(path []string) []string {
	for _, m := range moves {
		from := strings.Split(m.from, ".")
		if len(path) < len(from) || !slices.EqualFunc(path[:len(from)], from, spells) {
			continue
		}
		rest := path[len(from):]
		if path = rest; m.to != "" {
			path = append(strings.Split(m.to, "."), rest...)
		}
	}
	return path
}

// movedNames are the keys of the top level that have moved from there.
func movedNames() (names []string) {
	for _, m := range moves {
		if !strings.Contains(m.from, ".") {
			names = append(names, m.from)
		}
	}
	return names
}

// spells reports whether name is a spelling of key.
func spells(name, key string) bool { return slices.Contains(spellings([]string{key}), name) }

// take removes the value at path, and every map that only led there.
func (n *node) take(path []string, at string, report func(Problem)) *node {
	f := n.find(path[0])
	if f == nil {
		return nil
	}
	name, value := f.name, f.value
	if len(path) > 1 {
		inner := value.take(path[1:], at+name+".", report)
		for _, left := range value.fields {
			report(Problem{Pos: left.pos, Code: CodeUnknown, Key: at + name + "." + left.name,
				Message: fmt.Sprintf("unknown key; only %s belongs here", path[1])})
		}
		value = inner
	}
	n.remove(name)
	return value
}

// remove drops the field of that name.
func (n *node) remove(name string) {
	n.fields = slices.DeleteFunc(n.fields, func(f field) bool { return f.name == name })
}

// adopt merges other into n and reports each value that n has already.
func (n *node) adopt(other *node, at string, report func(Problem)) {
	for _, f := range other.fields {
		have := n.find(f.name)
		switch {
		case have == nil:
			n.fields = append(n.fields, f)
		case have.value.kind == mapping && f.value.kind == mapping:
			have.value.adopt(f.value, at+f.name+".", report)
		default:
			report(Problem{Pos: f.value.pos, Code: CodeDuplicate, Key: at + f.name,
				Message: fmt.Sprintf("is given here and at %s; remove one", have.pos)})
		}
	}
}
