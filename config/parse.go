package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of one file. They are far above any real file and stop one that was made to
// exhaust the process: by size, by levels, or by aliases of aliases.
const (
	maxBytes  = 1 << 20
	maxTokens = 100_000 // the YAML parser's time grows faster than the file
	maxDepth  = 64
	maxIndent = 512
	maxNodes  = 100_000 // after aliases are resolved
)

// parse reads one document of YAML or JSON. An empty file is an empty map.
func parse(file string, data []byte, report func(Problem)) (n *node) {
	fail := func(line, column int, code Code, format string, args ...any) *node {
		report(Problem{Pos: Pos{file, line, column}, Code: code, Message: fmt.Sprintf(format, args...)})
		return nil
	}
	if len(data) > maxBytes {
		return fail(1, 1, CodeTooLarge, "the file has %d bytes; at most %d are read", len(data), maxBytes)
	}
	if strings.HasSuffix(file, ".json") {
		// In JSON a tab is white space and nothing else, but it confuses columns.
		data = bytes.ReplaceAll(data, []byte{'\t'}, []byte{' '})
	}
	// The YAML library is fuzzed by its authors and by us; should it panic all the same,
	// a bad file must not take a running server down at reload.
	defer func() {
		if r := recover(); r != nil {
			n = fail(1, 1, CodeSyntax, "the YAML parser gave up on this file: %v", r)
		}
	}()
	f, p := syntax(file, data)
	if p != nil {
		report(*p)
		return nil
	}
	c := converter{file: file, report: report, anchors: map[string]ast.Node{}}
	for i, doc := range f.Docs {
		if i > 0 && doc.Start != nil {
			return fail(doc.Start.Position.Line, doc.Start.Position.Column, CodeSyntax,
				"a second document begins here; write one document a file and give several files")
		}
		n = c.convert(doc.Body, 0)
	}
	switch {
	case c.failed:
		return nil
	case n == nil || n.kind == null:
		return &node{pos: Pos{file, 1, 1}, kind: mapping}
	case n.kind != mapping:
		return fail(n.pos.Line, n.pos.Column, CodeType, "the file must be a map of keys, not %s", n.kind)
	}
	return n
}

// syntax runs the YAML parser, within the bounds.
func syntax(file string, data []byte) (*ast.File, *Problem) {
	tokens := lexer.Tokenize(string(data))
	if t, why := tooLarge(tokens); t != nil {
		return nil, &Problem{Pos: Pos{file, t.Position.Line, t.Position.Column}, Code: CodeTooLarge, Message: why}
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return f, nil
	}
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		p := at.GetToken().Position
		return nil, &Problem{Pos: Pos{file, p.Line, p.Column}, Code: CodeSyntax, Message: at.GetMessage()}
	}
	return nil, &Problem{Pos: Pos{file, 1, 1}, Code: CodeSyntax, Message: err.Error()}
}

// tooLarge returns the token at which a file goes beyond the bounds, and why. It runs
// before the parser, which is recursive and would run out of stack.
func tooLarge(tokens token.Tokens) (*token.Token, string) {
	flow, line, onLine := 0, 0, 0
	for i, t := range tokens {
		if i >= maxTokens {
			return t, fmt.Sprintf("the file has more than %d words and signs", maxTokens)
		}
		if t.Position.Line != line {
			line, onLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			onLine++
		}
		if flow > maxDepth || flow == 0 && onLine > maxDepth {
			return t, fmt.Sprintf("lists and maps are nested more than %d levels deep", maxDepth)
		}
		if flow == 0 && t.Position.IndentNum > maxIndent {
			return t, fmt.Sprintf("the line is indented by more than %d characters", maxIndent)
		}
	}
	return nil, ""
}

// A converter turns the parser's nodes into ours.
type converter struct {
	file    string
	report  func(Problem)
	anchors map[string]ast.Node
	open    map[string]bool // anchors that are being resolved
	count   int
	failed  bool
}

func (c *converter) fail(t *token.Token, code Code, format string, args ...any) *node {
	if !c.failed {
		c.report(Problem{Pos: c.at(t), Code: code, Message: fmt.Sprintf(format, args...)})
	}
	c.failed = true
	return nil
}

func (c *converter) at(t *token.Token) Pos {
	if t == nil || t.Position == nil {
		return Pos{c.file, 1, 1}
	}
	return Pos{c.file, t.Position.Line, t.Position.Column}
}

// convert returns nil once something has failed.
func (c *converter) convert(n ast.Node, depth int) *node {
	if c.count++; c.count > maxNodes {
		return c.fail(tokenOf(n), CodeTooLarge, "the file has more than %d values once its aliases are resolved", maxNodes)
	}
	if depth > maxDepth {
		return c.fail(tokenOf(n), CodeTooLarge, "lists and maps are nested more than %d levels deep", maxDepth)
	}
	switch n := n.(type) {
	case nil:
		return &node{pos: Pos{c.file, 1, 1}}
	case *ast.AnchorNode:
		c.anchors[n.Name.GetToken().Value] = n.Value
		return c.convert(n.Value, depth+1)
	case *ast.AliasNode:
		return c.alias(n, depth)
	case *ast.TagNode:
		return c.fail(n.GetToken(), CodeSyntax, "the tag %s is not supported; remove it", n.GetToken().Value)
	case *ast.MappingNode:
		return c.mapping(n, depth)
	case *ast.MappingValueNode:
		return c.mapping(&ast.MappingNode{BaseNode: n.BaseNode, Start: n.GetToken(), Values: []*ast.MappingValueNode{n}}, depth)
	case *ast.SequenceNode:
		out := &node{pos: c.at(n.GetToken()), kind: list}
		for _, v := range n.Values {
			out.items = append(out.items, c.convert(v, depth+1))
		}
		return out
	}
	return c.scalar(n)
}

func (c *converter) alias(n *ast.AliasNode, depth int) *node {
	name := n.Value.GetToken().Value
	target, ok := c.anchors[name]
	if !ok {
		return c.fail(n.GetToken(), CodeReference, "*%s names no anchor above; write &%s at the value that is meant", name, name)
	}
	if c.open[name] {
		return c.fail(n.GetToken(), CodeSyntax, "*%s is part of itself", name)
	}
	if c.open == nil {
		c.open = map[string]bool{}
	}
	c.open[name] = true
	defer delete(c.open, name)
	return c.convert(target, depth+1)
}

// mapping converts the fields, in order. What a merge key brings stands behind what the
// map says itself.
func (c *converter) mapping(n *ast.MappingNode, depth int) *node {
	out := &node{pos: c.at(n.GetToken()), kind: mapping}
	if len(n.Values) > 0 && n.Start != nil && n.Start.Type == token.MappingValueType {
		out.pos = c.at(n.Values[0].Key.GetToken()) // the parser points at the colon of the first key
	}
	seen := map[string]Pos{}
	var base *node
	for _, v := range n.Values {
		value := c.convert(v.Value, depth+1)
		if c.failed {
			return nil
		}
		if v.Key.IsMergeKey() {
			if value.kind != mapping {
				return c.fail(v.Key.GetToken(), CodeType, "<< must name a map, not %s", value.kind)
			}
			base = base.merge(value)
			continue
		}
		key, ok := v.Key.(ast.ScalarNode)
		if !ok {
			return c.fail(v.Key.GetToken(), CodeSyntax, "a key must be a word")
		}
		f := field{name: key.GetToken().Value, pos: c.at(key.GetToken()), value: value}
		if at, twice := seen[f.name]; twice {
			c.report(Problem{Pos: f.pos, Code: CodeDuplicate, Key: f.name, Message: "stands twice in one map; the other is at " + at.String()})
			continue
		}
		seen[f.name] = f.pos
		out.fields = append(out.fields, f)
	}
	if base != nil {
		return base.merge(out)
	}
	return out
}

func (c *converter) scalar(n ast.Node) *node {
	out := &node{pos: c.at(tokenOf(n))}
	switch n := n.(type) {
	case *ast.NullNode:
		if n.Token.Type != token.ImplicitNullType {
			out.text = "null"
		}
	case *ast.StringNode:
		out.kind, out.text = text, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = text, n.Value.Value
	case *ast.BoolNode:
		out.kind, out.text = boolean, strings.ToLower(n.Token.Value)
	case *ast.IntegerNode, *ast.FloatNode:
		out.kind, out.text = number, tokenOf(n).Value
	default:
		return c.fail(tokenOf(n), CodeValue, "%q is no value that a configuration can use", tokenOf(n).Value)
	}
	return out
}

func tokenOf(n ast.Node) *token.Token {
	if n == nil {
		return &token.Token{Position: &token.Position{Line: 1, Column: 1}}
	}
	return n.GetToken()
}
