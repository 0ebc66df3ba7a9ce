package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/resource"
)

// subjectForm has no *: who writes "group:*" takes it for a pattern, and a deny that
// never matches forbids nothing.
var subjectForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*:[^*\x00-\x1f\x7f]+$`)

// isSubject reports whether rules can be about s.
func isSubject(s string) bool { return s == Anonymous || subjectForm.MatchString(s) }

// rules compiles roles, assignments and denies into clauses by subject.
func (b *builder) rules(c *Config) {
	roles := b.roles(c.Roles)
	for i := range c.Assignments {
		a := &c.Assignments[i]
		id := b.id(a.ID, "assignment", i)
		capabilities, known := roles[a.Role]
		if !known {
			b.problem("assignment %q: there is no role %q", id, a.Role)
		}
		if cl, ok := b.clause("assignment", id, a.Subject, a.Resource, capabilities); ok {
			s := b.subject(a.Subject)
			s.grants = append(s.grants, cl)
		}
	}
	for i := range c.Denies {
		d := &c.Denies[i]
		id := b.id(d.ID, "deny", i)
		if len(d.Capabilities) == 0 {
			b.problem("deny %q: name the capabilities that it forbids, or * for all", id)
		}
		capabilities := b.capabilities(d.Capabilities, "deny", id)
		if cl, ok := b.clause("deny", id, d.Subject, d.Resource, capabilities); ok {
			s := b.subject(d.Subject)
			s.denies = append(s.denies, cl)
		}
	}
}

// id gives a clause without an id one, and refuses one that is taken.
func (b *builder) id(id, kind string, i int) string {
	if id == "" {
		id = fmt.Sprintf("%s:%d", kind, i)
	}
	if b.ids[id] {
		b.problem("%s %q: another assignment or deny has this id", kind, id)
	}
	b.ids[id] = true
	return id
}

func (b *builder) clause(kind, id, subject, where string, capabilities map[string]bool) (clause, bool) {
	form := isSubject(subject)
	if !form {
		b.problem(`%s %q: %q is no subject; write a kind and a name, such as "user:alice" or "group:operators"`, kind, id, subject)
	}
	pattern, err := resource.Parse(where)
	ok := b.check(err, "%s %q", kind, id)
	return clause{id, pattern, capabilities, capabilities["*"]}, ok && form
}

func (b *builder) subject(name string) *clauses {
	s := b.p.subjects[name]
	if s == nil {
		s = &clauses{}
		b.p.subjects[name] = s
	}
	return s
}

// capabilities makes a set of a list.
func (b *builder) capabilities(list []string, kind, name string) map[string]bool {
	set := map[string]bool{}
	for _, c := range list {
		if !isCapability(c) {
			b.problem(`%s %q: %q is no capability; write letters, digits and ._:-, such as "mcp.tools.call", or * for all`, kind, name, c)
		}
		set[c] = true
	}
	return set
}

// roles returns the capabilities of each role, inherited ones included.
func (b *builder) roles(list []Role) map[string]map[string]bool {
	byName := map[string]*Role{}
	for i := range list {
		r := &list[i]
		switch {
		case r.Name == "" || strings.TrimSpace(r.Name) != r.Name || strings.Contains(r.Name, "/"):
			b.problem("role %q: a role's name is not empty and has no slash and no blank at its ends", r.Name)
		case byName[r.Name] != nil:
			b.problem("role %q: there are two of this name", r.Name)
		}
		byName[r.Name] = r
	}
	e := expansion{b, byName, map[string]map[string]bool{}, nil}
	for i := range list {
		e.role(list[i].Name)
	}
	return e.done
}

// An expansion resolves inheritance, each role once.
type expansion struct {
	*builder
	roles map[string]*Role
	done  map[string]map[string]bool
	path  []string // the roles whose expansion has begun and not ended
}

func (e *expansion) role(name string) map[string]bool {
	if set := e.done[name]; set != nil {
		return set
	}
	if i := slices.Index(e.path, name); i >= 0 {
		e.problem("role %q inherits itself: %s", name, strings.Join(append(e.path[i:len(e.path):len(e.path)], name), " > "))
		return nil
	}
	r := e.roles[name]
	set := e.capabilities(r.Capabilities, "role", name)
	e.path = append(e.path, name)
	for _, from := range r.Inherits {
		if e.roles[from] == nil {
			e.problem("role %q inherits the role %q, which is not there", name, from)
			continue
		}
		for c := range e.role(from) {
			set[c] = true
		}
	}
	e.path = e.path[:len(e.path)-1]
	e.done[name] = set
	return set
}
