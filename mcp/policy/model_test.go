package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A model decides by the sentences of checklist 4.2, one after the other, with nothing of
// the compiled policy.
type model struct{ Config }

// decide is item 9: a deny beats an allow, and no grant is a deny.
func (m model) decide(subjects []string, capability, path string) (bool, Reason) {
	for _, d := range m.Denies {
		if slices.Contains(subjects, d.Subject) && named(d.Capabilities, capability) && selects(d.Resource, path) {
			return false, ExplicitDeny
		}
	}
	for _, a := range m.Assignments {
		if slices.Contains(subjects, a.Subject) && named(m.role(a.Role), capability) && selects(a.Resource, path) {
			return true, RoleGrant
		}
	}
	return false, NoMatchingGrant
}

func (m model) role(name string) (all []string) {
	for _, r := range m.Roles {
		if r.Name == name {
			all = append(all, r.Capabilities...)
			for _, from := range r.Inherits {
				all = append(all, m.role(from)...)
			}
		}
	}
	return all
}

func named(list []string, capability string) bool {
	return slices.Contains(list, capability) || slices.Contains(list, "*")
}

// selects is item 7.
func selects(pattern, path string) bool {
	if pattern == "**" {
		return true
	}
	var segments func(p, s []string) bool
	segments = func(p, s []string) bool {
		if len(p) == 1 && p[0] == "**" {
			return true
		}
		if len(p) == 0 || len(s) == 0 {
			return len(p) == len(s)
		}
		return (p[0] == "*" || p[0] == s[0]) && segments(p[1:], s[1:])
	}
	split := func(s string) []string {
		return slices.DeleteFunc(strings.Split(s, "/"), func(s string) bool { return s == "" })
	}
	return segments(split(pattern), split(path))
}

// tool is item 8.
func (m model) tool(path, tool string) string {
	score := func(pattern string) (n int) {
		for _, s := range strings.Split(strings.Trim(pattern, "/"), "/") {
			switch n++; s {
			case "**":
			case "*":
				n++
			default:
				n += 4
			}
		}
		return n
	}
	best := ""
	for pattern, tools := range m.ProviderToolCapabilities {
		if tools[tool] == "" || !selects(pattern, path) {
			continue
		}
		if best == "" || score(pattern) > score(best) || score(pattern) == score(best) && pattern < best {
			best = pattern
		}
	}
	switch {
	case best != "":
		return m.ProviderToolCapabilities[best][tool]
	case m.ToolCapabilities[tool] != "":
		return m.ToolCapabilities[tool]
	}
	return "mcp.tools.call"
}

func (m model) resource(slot string) string {
	if path, ok := m.SlotResources[slot]; ok {
		return path
	}
	return "/" + slot
}

// What random policies are about.
var (
	someSubjects     = []string{"user:a", "user:b", "group:g", "group:h", "client:c", "service:s"}
	someCapabilities = []string{"mcp.tools.call", "mcp.tools.list", "x.read", "x.write", "*"}
	someSlots        = []string{"a", "b", "ab", "deep"}
	someTools        = []string{"read", "write", "other"}
	somePatterns     = []string{"**", "/", "/a", "/a/**", "/*", "/*/**", "/b", "/b/*", "/b/c/**", "/b/*/d", "/*/c/*"}
)

// random draws configurations.
type random struct{ *rand.Rand }

func (r random) one(from []string) string { return from[r.IntN(len(from))] }

func (r random) some(from []string, most int) (s []string) {
	for range r.IntN(most + 1) {
		s = append(s, r.one(from))
	}
	return s
}

func (r random) config() Config {
	c := Config{SlotResources: map[string]string{"deep": "/b/c/d"}, ToolCapabilities: map[string]string{}, ProviderToolCapabilities: map[string]map[string]string{}}
	for i := range 1 + r.IntN(4) {
		role := Role{Name: fmt.Sprint("r", i), Capabilities: r.some(someCapabilities, 2)}
		if i > 0 && r.IntN(2) == 0 {
			role.Inherits = []string{c.Roles[r.IntN(i)].Name}
		}
		c.Roles = append(c.Roles, role)
	}
	for range r.IntN(5) {
		c.Assignments = append(c.Assignments, Assignment{Subject: r.one(someSubjects), Role: c.Roles[r.IntN(len(c.Roles))].Name, Resource: r.one(somePatterns)})
	}
	for range r.IntN(3) {
		c.Denies = append(c.Denies, Deny{Subject: r.one(someSubjects), Capabilities: append(r.some(someCapabilities, 1), r.one(someCapabilities)), Resource: r.one(somePatterns)})
	}
	for _, tool := range r.some(someTools, 2) {
		c.ToolCapabilities[tool] = r.one(someCapabilities)
	}
	for range r.IntN(4) {
		c.ProviderToolCapabilities[r.one(somePatterns)] = map[string]string{r.one(someTools): r.one(someCapabilities)}
	}
	return c
}

// TestPolicyIsTheModel compares every decision about random policies with the model's.
func TestPolicyIsTheModel(t *testing.T) {
	seed := rand.Uint64()
	r := random{rand.New(rand.NewPCG(seed, 0))}
	reasons := map[Reason]int{}
	for n := range 1500 {
		c := r.config()
		p, err := New(c)
		if err != nil {
			t.Fatalf("seed %d, policy %d: %v", seed, n, err)
		}
		m := model{c}
		subjects := r.some(someSubjects, 4)
		who := NewCaller(subjects...)
		for _, capability := range someCapabilities[:4] {
			for _, path := range []string{"/", "/a", "/a/x", "/b", "/b/c", "/b/c/d", "/ab"} {
				want, why := m.decide(subjects, capability, path)
				got := p.Decide(who, capability, path)
				if got.Allowed != want || got.Reason != why {
					t.Fatalf("4.2.9 seed %d, policy %d: %q may %s on %s: %v %s, want %v %s\n%+v", seed, n, subjects, capability, path, got.Allowed, got.Reason, want, why, c)
				}
				reasons[got.Reason]++
			}
		}
	}
	for _, why := range []Reason{RoleGrant, ExplicitDeny, NoMatchingGrant} {
		if reasons[why] < 500 {
			t.Errorf("seed %d: %v: the test shows little of %s", seed, reasons, why)
		}
	}
}

// TestListsShowWhatCanBeCalled filters lists of tools as the broker does, element by
// element, and compares what is left with the calls that the model permits.
func TestListsShowWhatCanBeCalled(t *testing.T) {
	seed := rand.Uint64()
	r := random{rand.New(rand.NewPCG(seed, 1))}
	shown, hidden := 0, 0
	for n := range 3000 {
		c := r.config()
		p, err := New(c)
		if err != nil {
			t.Fatalf("seed %d, policy %d: %v", seed, n, err)
		}
		m := model{c}
		subjects := r.some(someSubjects, 4)
		who := NewCaller(subjects...)
		for _, slot := range someSlots {
			for _, tool := range someTools {
				d := p.May(who, slot, "tools/call", tool)
				want, _ := m.decide(subjects, m.tool(m.resource(slot), tool), m.resource(slot))
				if d.Allowed != want {
					t.Fatalf("M-084 seed %d, policy %d: %q, %s on %s: %+v, want %v\n%+v", seed, n, subjects, tool, slot, d, want, c)
				}
				if d.Capability != m.tool(m.resource(slot), tool) || d.Resource != m.resource(slot) {
					t.Fatalf("4.2.8 seed %d, policy %d: %s on %s is %+v\n%+v", seed, n, tool, slot, d, c)
				}
				if want {
					shown++
				} else {
					hidden++
				}
			}
		}
	}
	if min(shown, hidden) < 1000 {
		t.Errorf("seed %d: %d shown, %d hidden: the test shows little", seed, shown, hidden)
	}
}

// FuzzDecide looks for texts that make a decision fail, or permit what nobody has granted.
func FuzzDecide(f *testing.F) {
	p, err := New(Config{
		Roles:       []Role{{Name: "r", Capabilities: []string{"x.read"}}},
		Assignments: []Assignment{{Subject: "user:a", Role: "r", Resource: "/a/**"}},
		Denies:      []Deny{{Subject: "user:a", Capabilities: []string{"*"}, Resource: "/a/b/**"}},
	})
	if err != nil {
		f.Fatal(err)
	}
	who := NewCaller("user:a")
	for _, s := range []string{"/a", "/a/b", "/a/../b", "/a//b", "/a/%2e%2e/b", "/a/b/", "/A"} {
		f.Add("x.read", s)
	}
	f.Fuzz(func(t *testing.T, capability, path string) {
		d := p.Decide(who, capability, path)
		inside := path == "/a" || strings.HasPrefix(path, "/a/")
		below := path == "/a/b" || strings.HasPrefix(path, "/a/b/")
		if d.Allowed && (capability != "x.read" || !inside || below) {
			t.Errorf("4.2.9 %q on %q: %+v", capability, path, d)
		}
		if (d.Reason == InvalidCapability && d.Capability != "") || (d.Reason == InvalidResource && d.Resource != "") {
			t.Errorf("what is invalid is kept: %+v", d)
		}
	})
}
