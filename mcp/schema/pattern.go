package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on patterns. A pattern's size is about the number of instructions of its
// program; a{1000} has as many as it says.
const (
	mostPatternText  = 1 << 10
	mostPatternSize  = 5_000
	mostPatternSizes = 50_000 // of all patterns of one schema
)

// A pattern is a regular expression of a schema. Go's are RE2's: they take time linear
// in the text, whatever they are, and know no look-around. One that cannot be compiled,
// or is too large, is undecided: it matches everything.
type pattern struct {
	source string
	re     *regexp.Regexp // nil: undecided
	size   int
}

// MatchString implements [jsonschema.Regexp].
func (p *pattern) MatchString(s string) bool { return p.re == nil || p.re.MatchString(s) }

func (p *pattern) String() string { return p.source }

// patterns compiles the patterns of one schema, each once.
type patterns struct {
	known map[string]*pattern
	left  int
	notes []string
}

// compile implements [jsonschema.RegexpEngine]. It never fails, see [pattern].
func (ps *patterns) compile(source string) (jsonschema.Regexp, error) {
	if p, ok := ps.known[source]; ok {
		return p, nil
	}
	p := &pattern{source: source}
	var why string
	if p.re, p.size, why = compilePattern(source, min(ps.left, mostPatternSize)); why != "" {
		ps.notes = append(ps.notes, cut(fmt.Sprintf("pattern %q is not checked: %s", cutTo(source, 100), why)))
	}
	ps.left -= p.size
	ps.known[source] = p
	return p, nil
}

func compilePattern(source string, most int) (re *regexp.Regexp, size int, why string) {
	if len(source) > mostPatternText {
		return nil, 0, fmt.Sprintf("it has more than %d bytes", mostPatternText)
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, 0, "RE2 cannot compile it"
	}
	if size = programSize(tree); size > most {
		return nil, 0, "it is too large"
	}
	if re, err = regexp.Compile(source); err != nil {
		return nil, 0, "RE2 cannot compile it"
	}
	return re, size, ""
}

// programSize returns about how many instructions a regular expression becomes. It is
// computed before they are made. The parser allows a repetition of 1000, also nested.
func programSize(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += programSize(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCapture:
		return n + 2
	case syntax.OpAlternate:
		return n + len(re.Sub)
	case syntax.OpRepeat: // what may be there or not is x? in the end
		return n*max(re.Min, re.Max) + max(0, re.Max-re.Min) + 1
	}
	return n + 1
}
