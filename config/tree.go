package config

import (
	"fmt"
	"strconv"
)

// A node is a part of a file with its place: what is left of YAML and JSON once aliases
// and merge keys are resolved. Files are merged as nodes, so that a value keeps the
// place of the file that it comes from.
type node struct {
	pos    Pos
	kind   kind
	fields []field // of a mapping, in the order of the file
	items  []*node // of a list
	text   string  // of a scalar, unquoted; of null, whether it is written out
}

// A field is one entry of a mapping.
type field struct {
	name  string // as the file spells it
	pos   Pos
	value *node
}

type kind uint8

const (
	null kind = iota
	mapping
	list
	text
	number
	boolean
	loose // of --set and of defaults: what it is depends on the key
)

// String returns the kind in words for messages.
func (k kind) String() string {
	return [...]string{"nothing", "a map", "a list", "text", "a number", "true or false", "a value"}[k]
}

// bare reports whether n is a single value.
func (n *node) bare() bool { return n.kind != mapping && n.kind != list && n.kind != null }

// get returns the field with that name, or nil.
func (n *node) get(name string) *field {
	for i := range n.fields {
		if n.fields[i].name == name {
			return &n.fields[i]
		}
	}
	return nil
}

// find returns the field that is written in any spelling of a key, or nil.
func (n *node) find(key string) *field {
	for _, name := range spellings([]string{key}) {
		if f := n.get(name); f != nil {
			return f
		}
	}
	return nil
}

// merge puts over on top of n and returns the result: maps are merged deep, everything
// else is replaced. Keys must have their canonical names; names that the user chose,
// such as a tier's, are compared as they are.
func (n *node) merge(over *node) *node {
	if n == nil || n.kind != mapping || over.kind != mapping {
		return over
	}
	for _, f := range over.fields {
		if have := n.get(f.name); have != nil {
			have.value, have.pos = have.value.merge(f.value), f.pos
			continue
		}
		n.fields = append(n.fields, f)
	}
	return n
}

// set puts value at the path, making maps on the way. A part that is a number chooses an
// element of a list that is there.
func (n *node) set(path []string, value *node) error {
	if len(path) == 0 {
		*n = *value
		return nil
	}
	switch n.kind {
	case list:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(n.items) {
			return fmt.Errorf("%q is no element of the list, which has %d; the first is 0", path[0], len(n.items))
		}
		return n.items[i].set(path[1:], value)
	case mapping:
	default:
		*n = node{pos: value.pos, kind: mapping}
	}
	f := n.get(path[0])
	if f == nil {
		n.fields = append(n.fields, field{name: path[0], pos: value.pos, value: &node{pos: value.pos}})
		f = &n.fields[len(n.fields)-1]
	}
	return f.value.set(path[1:], value)
}
