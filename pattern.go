package sluice

import (
	"fmt"
	"strings"
)

// A pattern selects resources, which are absolute paths: "*" is exactly one segment,
// "**" stands only last and is any number of segments, everything else is literal.
type pattern struct {
	segments []string
	open     bool // ends in **
}

func parsePattern(s string) (pattern, error) {
	if s == "**" {
		s = "/**"
	}
	if !strings.HasPrefix(s, "/") {
		return pattern{}, fmt.Errorf("pattern %q is not absolute; it must begin with /", s)
	}
	var p pattern
	if s == "/" {
		return p, nil
	}
	parts := strings.Split(strings.TrimSuffix(s[1:], "/"), "/")
	for i, seg := range parts {
		switch {
		case seg == "" || seg == "." || seg == "..":
			return pattern{}, fmt.Errorf("pattern %q has an empty, . or .. segment", s)
		case seg == "**" && i == len(parts)-1:
			p.open = true
			return p, nil
		case seg == "**":
			return pattern{}, fmt.Errorf("pattern %q has ** before its last segment", s)
		case seg != "*" && strings.Contains(seg, "*"):
			return pattern{}, fmt.Errorf("pattern %q has * inside a segment; * stands for a whole one", s)
		}
		p.segments = append(p.segments, seg)
	}
	return p, nil
}

// match reports whether path is selected. A path that is not absolute never is.
func (p *pattern) match(path string) bool {
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
