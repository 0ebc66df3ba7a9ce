package route

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Pattern selects canonical paths, in the style of Ant:
//
//	?        one character of a segment
//	*        any characters of a segment, also none; alone it is exactly one segment
//	{name}   exactly one segment, and more specific than *
//	**       any number of segments, also none: "/a/**" matches "/a"
//
// The zero Pattern matches nothing.
type Pattern struct {
	text     string
	segments []segment
	class    class
	prefix   int    // bytes before the first wildcard
	literals int    // bytes that stand for themselves, slashes included
	suffix   string // what every match ends with; all of a pattern without wildcards
}

// class orders patterns by their vaguest wildcard, most specific first.
type class uint8

const (
	exact class = iota
	parameter
	wildcard // "?", "*"
	deep     // "**"
)

// A segment is one piece of a pattern between slashes.
type segment struct {
	text  string
	class class
	any   bool // a parameter, or "*" alone: every segment matches
}

// Parse reads a pattern. With o.FoldCase its letters A to Z become lower case, as those
// of paths do. A pattern that no canonical path could ever match is an error that says
// what to write instead.
func Parse(pattern string, o Options) (Pattern, error) {
	p := Pattern{text: pattern}
	if err := p.parse(pattern, o); err != nil {
		return Pattern{}, fmt.Errorf("route: pattern %q: %w", pattern, err)
	}
	return p, nil
}

func (p *Pattern) parse(text string, o Options) error {
	switch {
	case text == "":
		return errors.New(`it is empty; "/**" is every path`)
	case text[0] != '/':
		return fmt.Errorf("it matches nothing, because paths begin with a slash; write %q", "/"+text)
	case text == "/":
		p.prefix, p.literals, p.suffix = 1, 1, "/"
		return nil
	case text[len(text)-1] == '/':
		return fmt.Errorf("it matches nothing, because paths are compared without a trailing slash; write %q",
			"/"+strings.Trim(text, "/"))
	case !utf8.ValidString(text):
		return errors.New("it is not valid UTF-8")
	}
	for part := range strings.SplitSeq(text[1:], "/") {
		s, err := parseSegment(part, o)
		if err != nil {
			return err
		}
		p.add(s)
	}
	return nil
}

// add appends a segment and brings the figures that order patterns up to date.
func (p *Pattern) add(s segment) {
	literals, first, last := len(s.text), len(s.text), -1 // first and last wildcard
	switch s.class {
	case parameter, deep:
		literals, first, last = 0, 0, len(s.text)-1
	case wildcard:
		first, last = strings.IndexAny(s.text, "?*"), strings.LastIndexAny(s.text, "?*")
		literals -= strings.Count(s.text, "?") + strings.Count(s.text, "*")
	}
	if p.class == exact && s.class != deep {
		p.prefix += 1 + first
	}
	if s.class == exact {
		p.suffix += "/" + s.text
	} else {
		p.suffix = s.text[last+1:]
	}
	p.literals += 1 + literals
	p.class = max(p.class, s.class)
	p.segments = append(p.segments, s)
}

func parseSegment(text string, o Options) (segment, error) {
	if err := checkSegment(text, o); err != nil {
		return segment{}, err
	}
	text = strings.ReplaceAll(text, "%2f", "%2F") // as Canonical spells a Literal slash
	if o.FoldCase {
		text = lower(text)
	}
	switch {
	case text == "**":
		return segment{text: text, class: deep}, nil
	case strings.Contains(text, "**"):
		return segment{}, errors.New(`"**" must be a whole segment; within one, write "*"`)
	case strings.ContainsAny(text, "{}"):
		name := strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
		if len(name) != len(text)-2 || strings.Trim(name, nameRunes) != "" || name == "" {
			return segment{}, fmt.Errorf(
				"%q: a parameter is a whole segment with a name of letters, digits, \"_\" and \"-\", as in {id}", text)
		}
		return segment{text: text, class: parameter, any: true}, nil
	case strings.ContainsAny(text, "?*"):
		return segment{text: text, class: wildcard, any: text == "*"}, nil
	}
	return segment{text: text}, nil
}

const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// checkSegment finds what no segment of a canonical path can be or have.
func checkSegment(text string, o Options) error {
	switch {
	case text == "":
		return errors.New(`it matches nothing, because paths are compared without "//"`)
	case text == "." || text == "..":
		return fmt.Errorf("it matches nothing, because paths are compared with %q resolved", text)
	case strings.ContainsRune(text, '\\'):
		return errors.New(`it matches nothing, because "\" in paths becomes "/"`)
	case strings.ContainsRune(text, ';'):
		return errors.New(`it matches nothing, because what follows ";" in a segment is dropped`)
	case strings.ContainsRune(text, '#'):
		return errors.New("it has a fragment, which is never sent")
	}
	if _, after, ok := strings.Cut(text, "?"); ok && strings.Contains(after, "=") {
		return errors.New(`it has a query, which patterns do not see; "?" is one character of the path`)
	}
	return checkBytes(text, o)
}

func checkBytes(text string, o Options) error {
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c == 0x7f {
			return errors.New("it has a control character")
		}
		if c != '%' || i+2 >= len(text) || !isHex(text[i+1]) || !isHex(text[i+2]) {
			continue
		}
		escape := text[i : i+3]
		if o.EncodedSlash == Literal && strings.EqualFold(escape, "%2F") {
			continue
		}
		return fmt.Errorf("it matches nothing, because paths are compared decoded; write the character for %q", escape)
	}
	return nil
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Match reports whether the pattern matches a path in canonical form. It allocates
// nothing, and its time is at most the product of the two lengths.
func (p *Pattern) Match(path string) bool {
	if p.text == "" || !strings.HasSuffix(path, p.suffix) {
		return false
	}
	return matchSegments(p.segments, strings.TrimPrefix(path, "/"))
}

// matchSegments goes back only to the last "**": a longer reach of an earlier one
// cannot help, because the last can skip the same segments.
func matchSegments(segments []segment, rest string) bool {
	var back []segment // what follows the last "**"
	var from string    // where the last try began
	tried := false
	for {
		switch {
		case len(segments) > 0 && segments[0].class == deep:
			segments = segments[1:]
			if len(segments) == 0 {
				return true
			}
			back, from, tried = segments, rest, true
			continue
		case rest == "":
			return len(segments) == 0
		case len(segments) > 0:
			head, tail, _ := strings.Cut(rest, "/")
			if segments[0].match(head) {
				segments, rest = segments[1:], tail
				continue
			}
		}
		if !tried {
			return false
		}
		_, from, _ = strings.Cut(from, "/")
		segments, rest = back, from
	}
}

func (s *segment) match(text string) bool {
	switch {
	case s.any:
		return true
	case s.class == exact:
		return s.text == text
	}
	return matchGlob(s.text, text)
}

// matchGlob matches "?" and "*" within one segment, going back only to the last "*".
func matchGlob(glob, text string) bool {
	back, from := "", ""
	tried := false
	for {
		switch {
		case glob != "" && glob[0] == '*':
			glob = glob[1:]
			back, from, tried = glob, text, true
			continue
		case text == "":
			return glob == ""
		case glob != "" && glob[0] == '?':
			_, n := utf8.DecodeRuneInString(text)
			glob, text = glob[1:], text[n:]
			continue
		case glob != "" && glob[0] == text[0]:
			glob, text = glob[1:], text[1:]
			continue
		}
		if !tried {
			return false
		}
		_, n := utf8.DecodeRuneInString(from)
		from = from[n:]
		glob, text = back, from
	}
}

// compare orders patterns, most specific first: by the vaguest wildcard, then the longer
// literal prefix. Zero leaves the choice to what else a route says.
func (p *Pattern) compare(q *Pattern) int {
	return cmp.Or(cmp.Compare(p.class, q.class), cmp.Compare(q.prefix, p.prefix))
}

// refine orders patterns that compare equal: the one with more text of its own first,
// then the one with more segments.
func (p *Pattern) refine(q *Pattern) int {
	return cmp.Or(cmp.Compare(q.literals, p.literals), cmp.Compare(len(q.segments), len(p.segments)))
}

// lower makes the letters A to Z lower case.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
