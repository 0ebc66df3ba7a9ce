// Package resource reads the names of resources, which are absolute, case-sensitive
// paths, and the hierarchical patterns that select them.
//
// The engine's rules and the broker's permissions are written in the same patterns; they
// must mean the same in both.
package resource

import (
	"fmt"
	"slices"
	"strings"
)

// MaxLength is the most bytes of a path or a pattern.
const MaxLength = 2048

// A Pattern selects resources: "*" is exactly one segment, "**" stands only last and is
// any number of segments, none included, everything else is literal. The zero Pattern is
// "/" and selects that alone. A Pattern is never changed, and safe for concurrent use.
type Pattern struct {
	segments []string
	open     bool // ends in **
}

// Parse reads a pattern. "**" alone is everything; a slash at the end means nothing.
func Parse(s string) (Pattern, error) {
	var p Pattern
	switch {
	case len(s) > MaxLength:
		return p, fmt.Errorf("resource: a resource pattern of %d bytes is too long; use at most %d", len(s), MaxLength)
	case s == "**":
		s = "/**"
	case !strings.HasPrefix(s, "/"):
		return p, fmt.Errorf(`resource: the resource pattern %q must begin with "/"`, s)
	case s == "/":
		return p, nil
	}
	parts := strings.Split(strings.TrimSuffix(s[1:], "/"), "/")
	for i, seg := range parts {
		switch {
		case dead(seg):
			return Pattern{}, fmt.Errorf("resource: the resource pattern %q has an empty, . or .. segment, which no resource has; it can never match", s)
		case seg == "**" && i == len(parts)-1:
			p.open = true
			return p, nil
		case seg == "**":
			return Pattern{}, fmt.Errorf("resource: in the resource pattern %q, ** must be the last segment", s)
		case seg != "*" && strings.Contains(seg, "*"):
			return Pattern{}, fmt.Errorf("resource: in the resource pattern %q, * must be a whole segment", s)
		}
		p.segments = append(p.segments, seg)
	}
	return p, nil
}

// dead reports whether no resource has such a segment.
func dead(seg string) bool { return seg == "" || seg == "." || seg == ".." }

// Match reports whether path is selected. A path that is not absolute never is. Whether
// the rest of it is well-formed is the business of [Clean]: a limit on "/a/**" is not
// evaded by "/a/../b".
func (p *Pattern) Match(path string) bool {
	if !strings.HasPrefix(path, "/") {
		return false
	}
	rest := strings.TrimSuffix(path[1:], "/")
	for _, want := range p.segments {
		if rest == "" {
			return false
		}
		seg, after, _ := strings.Cut(rest, "/")
		if seg == "" || want != "*" && want != seg {
			return false
		}
		rest = after
	}
	return rest == "" || p.open
}

// Specificity orders patterns, the more specific the higher: one for each segment, four
// more for a literal one, one more for "*".
func (p *Pattern) Specificity() (score int) {
	score = len(p.segments)
	if p.open {
		score++
	}
	for _, seg := range p.segments {
		if seg == "*" {
			score++
		} else {
			score += 4
		}
	}
	return score
}

// Root returns the path that all selected resources are or lie below: the literal
// segments that the pattern begins with.
func (p *Pattern) Root() string {
	n := slices.Index(p.segments, "*")
	if n < 0 {
		n = len(p.segments)
	}
	return "/" + strings.Join(p.segments[:n], "/")
}

// Everywhere reports whether the pattern has wildcards alone, and so confines nobody to
// a part of the tree.
func (p *Pattern) Everywhere() bool {
	for _, seg := range p.segments {
		if seg != "*" {
			return false
		}
	}
	return p.open || len(p.segments) > 0
}

// Clean checks that path names one resource and returns it without the slash at its end.
// Wildcards name none, and neither do control characters, which a log could not show, or
// an escaped slash, which somebody further on might take for a segment's end.
func Clean(path string) (string, error) {
	switch {
	case len(path) > MaxLength:
		return "", fmt.Errorf("resource: a path of %d bytes is too long; use at most %d", len(path), MaxLength)
	case !strings.HasPrefix(path, "/"):
		return "", fmt.Errorf(`resource: the path %q must begin with "/"`, path)
	case path == "/":
		return path, nil
	}
	path = strings.TrimSuffix(path, "/")
	for rest, more := path[1:], true; more; {
		var seg string
		seg, rest, more = strings.Cut(rest, "/")
		if dead(seg) {
			return "", fmt.Errorf("resource: the path %q has an empty, . or .. segment", path)
		}
	}
	return path, checkText(path)
}

func checkText(path string) error {
	for i := range len(path) {
		switch c := path[i]; {
		case c < ' ' || c == 0x7f:
			return fmt.Errorf("resource: the path %q has a control character", path)
		case c == '*':
			return fmt.Errorf("resource: the path %q has a *; name one resource", path)
		case c == '%' && len(path) > i+2 && path[i+1] == '2' && path[i+2]|0x20 == 'f':
			return fmt.Errorf("resource: the path %q has an escaped slash", path)
		}
	}
	return nil
}

// Within reports whether path is root or lies below it; both are as [Clean] returns them.
func Within(root, path string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
