package policy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/resource"
)

// A ResourceLimit is a limit that the operator puts on the resources of a pattern, beside
// what their provider has declared.
type ResourceLimit struct {
	// ID names it in audit. Required.
	ID string
	// Pattern is a resource pattern in which "{name}" may stand for "*".
	Pattern string
	// Where narrows named segments: each has to match its expression whole. Expressions
	// are Go's, which take linear time.
	Where map[string]string
	// Limits are what holds there; they must limit something.
	Limits Limits
}

// An area is a part of the tree of resources with limits.
type area struct {
	pattern resource.Pattern
	where   []condition
	limits  Limits
	source  string // for audit: who has set it
}

// A condition is about one segment of a path, from 0.
type condition struct {
	segment int
	whole   *regexp.Regexp
}

// Bounds of an expression: its text in bytes, and its program, which {1000} makes long.
const (
	maxExpression = 256
	maxProgram    = 500
)

// newArea compiles a pattern with named segments.
func newArea(text string, where map[string]string, limits Limits, source string) (*area, error) {
	a := &area{limits: limits, source: source}
	segments := strings.Split(text, "/")
	named := map[string]int{}
	for i, seg := range segments {
		name, ok := placeholder(seg)
		switch {
		case !ok && strings.ContainsAny(seg, "{}"):
			return nil, fmt.Errorf("in the pattern %q, {name} must be a whole segment", text)
		case !ok:
			continue
		}
		if _, twice := named[name]; twice || name == "" {
			return nil, fmt.Errorf("in the pattern %q, every {name} must be another and none empty", text)
		}
		named[name], segments[i] = i-1, "*"
	}
	var err error
	if a.pattern, err = resource.Parse(strings.Join(segments, "/")); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "resource: "))
	}
	for _, name := range slices.Sorted(maps.Keys(where)) {
		i, ok := named[name]
		if !ok {
			return nil, fmt.Errorf("where names %q, which is no segment of the pattern %q", name, text)
		}
		whole, err := expression(where[name])
		if err != nil {
			return nil, fmt.Errorf("where %q: %w", name, err)
		}
		a.where = append(a.where, condition{i, whole})
	}
	return a, nil
}

// placeholder returns the name of a {name} segment.
func placeholder(seg string) (string, bool) {
	name, open := strings.CutPrefix(seg, "{")
	name, closed := strings.CutSuffix(name, "}")
	return name, open && closed && !strings.ContainsAny(name, "{}")
}

// expression compiles an expression that has to match a segment whole.
func expression(text string) (*regexp.Regexp, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("an expression of %d bytes is too long; use at most %d", len(text), maxExpression)
	}
	// By itself first: a parenthesis too many would end the group around it.
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, errors.New("the expression cannot be read; it must be one that takes linear time, without backreferences and lookaround")
	}
	if program, err := syntax.Compile(tree.Simplify()); err != nil || len(program.Inst) > maxProgram {
		return nil, errors.New("the expression repeats too much")
	}
	return regexp.Compile(`\A(?:` + text + `)\z`)
}

// covers reports whether a path lies in the area.
func (a *area) covers(path string) bool {
	if matched := a.pattern.Match(path); !matched || len(a.where) == 0 {
		return matched
	}
	segments := strings.Split(path[1:], "/")
	for _, c := range a.where {
		if !c.whole.MatchString(segments[c.segment]) {
			return false
		}
	}
	return true
}

// areas are indexed by the literal segments that their patterns begin with, so that a
// path is compared with those alone that it can lie in.
type areas map[string][]*area

func (s areas) add(a *area) {
	root := a.pattern.Root()
	s[root] = append(s[root], a)
}

// over returns the areas that a path lies in, those with the shortest root first.
func (s areas) over(path string) (found []*area) {
	if len(s) == 0 {
		return nil
	}
	take := func(root string) {
		for _, a := range s[root] {
			if a.covers(path) {
				found = append(found, a)
			}
		}
	}
	take("/")
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			take(path[:i])
		}
	}
	if path != "/" {
		take(path)
	}
	return found
}

func (b *builder) limits(list []ResourceLimit) {
	b.p.limits = areas{}
	ids := map[string]bool{}
	for i := range list {
		o := &list[i]
		a, err := newArea(o.Pattern, o.Where, o.Limits, "security:"+o.ID)
		if b.check(err, "resourceLimits %q", o.ID) {
			b.p.limits.add(a)
		}
		if o.ID == "" || ids[o.ID] {
			b.problem("resourceLimits %q: every limit needs an id of its own", o.ID)
		}
		ids[o.ID] = true
		if o.Limits.empty() {
			b.problem("resourceLimits %q: it limits nothing; give minValue, maxValue, allowedValues or destinations", o.ID)
		}
		o.Limits.check(func(format string, args ...any) {
			b.problem("resourceLimits %q: "+format, append([]any{o.ID}, args...)...)
		})
	}
}
