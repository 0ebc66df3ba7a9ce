package policy

import (
	"strings"
	"testing"
)

func compile(t testing.TB, c Config) *Policy {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func secret(name string) Secret { return Secret("hush, a secret: " + name) }

func TestProblems(t *testing.T) {
	role := Role{Name: "r", Capabilities: []string{"x.read"}}
	for _, c := range []struct {
		name   string
		config Config
		want   string
	}{
		{"4.2.9 a role that inherits itself", Config{Roles: []Role{{Name: "a", Inherits: []string{"a"}}}}, `role "a" inherits itself: a > a`},
		{"4.2.9 a longer cycle", Config{Roles: []Role{{Name: "a", Inherits: []string{"b"}}, {Name: "b", Inherits: []string{"c"}}, {Name: "c", Inherits: []string{"b"}}}},
			`role "b" inherits itself: b > c > b`},
		{"4.2.9 an unknown role inherited", Config{Roles: []Role{{Name: "a", Inherits: []string{"b"}}}}, `inherits the role "b"`},
		{"4.2.9 an unknown role assigned", Config{Assignments: []Assignment{{Subject: "user:a", Role: "x", Resource: "/a"}}}, `assignment "assignment:0": there is no role "x"`},
		{"two roles of a name", Config{Roles: []Role{role, role}}, `role "r": there are two`},
		{"a role without a name", Config{Roles: []Role{{}}}, `role ""`},
		{"a role with a place in it", Config{Roles: []Role{{Name: "/a"}}}, `has no slash`},
		{"4.2.8 a capability that is none", Config{Roles: []Role{{Name: "a", Capabilities: []string{"a b"}}}}, `"a b" is no capability`},
		{"4.2.8 a part of a capability", Config{Roles: []Role{{Name: "a", Capabilities: []string{"mcp.*"}}}}, `"mcp.*" is no capability`},
		{"4.2.9 a deny of nothing", Config{Denies: []Deny{{Subject: "user:a", Resource: "/a"}}}, `deny "deny:0": name the capabilities`},
		{"4.2.9 ids are unique", Config{Roles: []Role{role}, Assignments: []Assignment{{"x", "user:a", "r", "/a"}}, Denies: []Deny{{"x", "user:a", []string{"*"}, "/a"}}},
			`deny "x": another assignment or deny`},
		{"a subject without a kind", Config{Roles: []Role{role}, Assignments: []Assignment{{Subject: "alice", Role: "r", Resource: "/a"}}}, `"alice" is no subject`},
		{"a subject that looks like a pattern", Config{Denies: []Deny{{Subject: "group:*", Capabilities: []string{"*"}, Resource: "/a"}}}, `"group:*" is no subject`},
		{"4.2.7 a pattern that is none", Config{Roles: []Role{role}, Assignments: []Assignment{{Subject: "user:a", Role: "r", Resource: "/a/**/b"}}}, `assignment "assignment:0": resource: in the resource pattern`},
		{"4.2.8 a tool without a name", Config{ToolCapabilities: map[string]string{"": "x"}}, `toolCapabilities: a tool's name`},
		{"4.2.8 a tool's capability that is none", Config{ToolCapabilities: map[string]string{"t": "-"}}, `toolCapabilities "t": "-" is no capability`},
		{"4.2.8 a provider's tool", Config{ProviderToolCapabilities: map[string]map[string]string{"/a": {"t": ""}}}, `providerToolCapabilities /a "t"`},
		{"4.2.8 a provider's pattern", Config{ProviderToolCapabilities: map[string]map[string]string{"a": {"t": "x"}}}, `must begin with "/"`},
		{"4.2.6 a slot in the broker's own part", Config{SlotResources: map[string]string{"a": "/_system/a"}}, `slot "a" must not use /_system/a`},
		{"4.2.6 all of it", Config{SlotResources: map[string]string{"a": "/_system/"}}, `slot "a" must not use /_system;`},
		{"4.2.6 the broker's slot elsewhere", Config{SlotResources: map[string]string{"_broker": "/b"}}, `slot "_broker" is the broker's own`},
		{"4.2.6 the aggregate elsewhere", Config{SlotResources: map[string]string{"_all": "/_system/broker"}}, `slot "_all" is the broker's own`},
		{"4.2.6 a resource that is a pattern", Config{SlotResources: map[string]string{"a": "/a/*"}}, `slot "a"`},
		{"4.2.6 a slot without a name", Config{SlotResources: map[string]string{"": "/a"}}, `a slot's name`},
		{"4.2.10 a short secret", Config{Providers: []Provider{{ID: "p", Secret: Secret("short")}}}, `provider "p": a secret of 5 bytes`},
		{"4.2.10 one secret for two", Config{Providers: []Provider{{ID: "p", Secret: secret("x")}, {ID: "q", Secret: secret("x")}}}, `provider "q" has the secret of provider "p"`},
		{"4.2.10 two providers of an id", Config{Providers: []Provider{{ID: "p", Secret: secret("x")}, {ID: "p", Secret: secret("y")}}}, `provider "p": there are two`},
		{"4.2.10 no id", Config{Providers: []Provider{{Secret: secret("x")}}}, `needs an id`},
		{"4.2.10 a subject", Config{Providers: []Provider{{ID: "p", Secret: secret("x"), Subjects: []string{"anonymous"}}}}, `"anonymous" is no subject`},
		{"4.2.10 a pattern", Config{Providers: []Provider{{ID: "p", Secret: secret("x"), AllowedResources: []string{"a"}}}}, `provider "p": allowedResources: `},
		{"4.2.4 a protection by nobody", Config{ProtectedSlots: map[string]Protection{"s": {"p", "q"}}}, `protectedSlots: slot "s": there is no provider "p"`},
		{"4.2.4 a protected slot without a resource", Config{Providers: []Provider{{ID: "p", Secret: secret("x")}}, ProtectedSlots: map[string]Protection{"a/b": {"p", "p"}}}, `slot "a/b" has no resource`},
		{"C-W26 a limit without an id", Config{ResourceLimits: []ResourceLimit{{Pattern: "/a", Limits: Limits{MinValue: "1"}}}}, `needs an id`},
		{"C-W26 a limit of nothing", Config{ResourceLimits: []ResourceLimit{{ID: "l", Pattern: "/a"}}}, `resourceLimits "l": it limits nothing`},
		{"C-W26 a number that is none", Config{ResourceLimits: []ResourceLimit{{ID: "l", Pattern: "/a", Limits: Limits{MinValue: "0x10"}}}}, `resourceLimits "l": minValue must be a finite number`},
		{"C-W26 an empty range", Config{ResourceLimits: []ResourceLimit{{ID: "l", Pattern: "/a", Limits: Limits{MinValue: "2", MaxValue: "1"}}}}, `minValue 2 is greater than maxValue 1`},
		{"C-W26 a pattern that is none", Config{ResourceLimits: []ResourceLimit{{ID: "l", Pattern: "/a/V-{n}", Limits: Limits{MinValue: "2"}}}}, `{name} must be a whole segment`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(c.config)
			if err == nil || p != nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "policy: ") {
					t.Errorf("a problem that does not say whose it is: %s", line)
				}
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
	t.Run("all problems at once", func(t *testing.T) {
		_, err := New(Config{Roles: []Role{{Name: "a", Inherits: []string{"b"}, Capabilities: []string{"-"}}}, SlotResources: map[string]string{"a": "b"}, SharedSecret: Secret("x")})
		if n := strings.Count(err.Error(), "\n") + 1; n != 4 {
			t.Errorf("%d problems, want 4:\n%v", n, err)
		}
	})
}

func TestReasons(t *testing.T) {
	p := compile(t, Config{
		Roles: []Role{{Name: "viewer", Capabilities: []string{"mcp.tools.list"}}, {Name: "operator", Capabilities: []string{"scada.control"}, Inherits: []string{"viewer"}},
			{Name: "admin", Capabilities: []string{"*"}}, {Name: "guest", Capabilities: []string{"mcp.tools.list"}}},
		Assignments: []Assignment{{"ops", "group:ops", "operator", "/site/**"}, {"", "user:root", "admin", "**"}, {"open", Anonymous, "guest", "/public"}},
		Denies:      []Deny{{"furnace", "group:ops", []string{"scada.control"}, "/site/furnace"}, {"", "user:mallory", []string{"*"}, "**"}},
	})
	ops := NewCaller("user:alice", "group:ops")
	many := make([]string, maxSubjects+1)
	for i := range many {
		many[i] = "user:root"
	}
	for _, c := range []struct {
		name             string
		who              *Caller
		capability, path string
		allowed          bool
		reason           Reason
		policy           string
	}{
		{"4.2.9 a role", ops, "scada.control", "/site/line1", true, RoleGrant, "ops"},
		{"4.2.9 an inherited capability", ops, "mcp.tools.list", "/site", true, RoleGrant, "ops"},
		{"4.2.9 a deny beats it", ops, "scada.control", "/site/furnace/", false, ExplicitDeny, "furnace"},
		{"4.2.9 another capability is not denied", ops, "mcp.tools.list", "/site/furnace", true, RoleGrant, "ops"},
		{"4.2.9 a deny of one subject beats a grant of another", NewCaller("user:root", "user:mallory"), "x", "/a", false, ExplicitDeny, "deny:1"},
		{"4.2.9 nothing granted", ops, "scada.control", "/other", false, NoMatchingGrant, ""},
		{"4.2.9 all capabilities, and an id by place", NewCaller("user:root"), "anything", "/a/b", true, RoleGrant, "assignment:1"},
		{"4.2.9 no path", ops, "scada.control", "site", false, InvalidResource, ""},
		{"4.2.7 a way up", ops, "scada.control", "/site/../other", false, InvalidResource, ""},
		{"4.2.9 no capability", ops, "scada control", "/site", false, InvalidCapability, ""},
		{"4.2.9 an empty capability", ops, "", "/site", false, InvalidCapability, ""},
		{"4.2.9 more subjects than are looked at", &Caller{Subjects: many}, "x", "/a", false, EvaluationError, ""},
		{"nobody", nil, "mcp.tools.list", "/site", false, NoMatchingGrant, ""},
		{"nobody, where that is enough", &Caller{}, "mcp.tools.list", "/public", true, RoleGrant, "open"},
		{"somebody is not nobody", ops, "mcp.tools.list", "/public", false, NoMatchingGrant, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := p.Decide(c.who, c.capability, c.path)
			if d.Allowed != c.allowed || d.Reason != c.reason || d.Policy != c.policy {
				t.Errorf("got %+v", d)
			}
		})
	}
	t.Run("4.2.9 a slot without a resource", func(t *testing.T) {
		if d := p.May(NewCaller("user:root"), "a/b", "tools/list", ""); d.Allowed || d.Reason != UnknownResource {
			t.Errorf("got %+v", d)
		}
	})
	t.Run("4.2.8 a method that needs none", func(t *testing.T) {
		if d := p.May(nil, "site", "initialize", ""); !d.Allowed || d.Reason != Uncontrolled {
			t.Errorf("got %+v", d)
		}
	})
	t.Run("C-52 release needs a capability", func(t *testing.T) {
		if d := p.May(ops, BrokerSlot, "tools/call", "broker_limits_release"); d.Allowed || d.Capability != "broker.limits.admin" || d.Resource != "/_system/broker" {
			t.Errorf("got %+v", d)
		}
		if d := p.May(NewCaller("user:root"), BrokerSlot, "tools/call", "broker_limits_release"); !d.Allowed {
			t.Errorf("got %+v", d)
		}
	})
}

func TestNothingEnforced(t *testing.T) {
	mapped := compile(t, Config{ToolCapabilities: map[string]string{"write": "scada.control"}, SlotResources: map[string]string{"s": "/site"}})
	if d := mapped.May(nil, "s", "tools/call", "write"); !d.Allowed || d.Reason != NoPolicy || d.Capability != "scada.control" || d.Resource != "/site" {
		t.Errorf("a mapping without roles: %+v", d)
	}
	for name, p := range map[string]*Policy{"nil": nil, "zero": compile(t, Config{})} {
		if d := p.May(nil, "a/b", "tools/call", "x"); !d.Allowed || p.Enforced() {
			t.Errorf("C-53 %s: %+v", name, d)
		}
	}
	if !compile(t, Config{Denies: []Deny{{Subject: "user:a", Capabilities: []string{"*"}, Resource: "**"}}}).Enforced() {
		t.Error("denies alone are not enforced")
	}
}

func TestDecisionID(t *testing.T) {
	var p *Policy
	seen := map[string]bool{}
	for range 1000 {
		d := p.Decide(nil, "x", "/a")
		if id := d.ID(); seen[id] || id != d.ID() || len(id) != len("dec_")+32 {
			t.Fatalf("%q", id)
		}
		seen[d.ID()] = true
	}
}

func TestVersion(t *testing.T) {
	c := Config{Roles: []Role{{Name: "r"}}, Providers: []Provider{{ID: "p", Secret: secret("p")}}}
	first := compile(t, c).Version()
	c.Providers[0].Secret = secret("another")
	if got := compile(t, c).Version(); got != first {
		t.Errorf("a new secret is no new policy: %s, %s", first, got)
	}
	c.ResourceLimits = []ResourceLimit{{ID: "l", Pattern: "/a", Limits: Limits{MaxValue: "1"}}}
	if got := compile(t, c).Version(); got == first {
		t.Errorf("C-W26 a limit of the operator is a new policy: %s", got)
	}
	if got := (*Policy)(nil).Version(); got == "" || got == first {
		t.Errorf("nil: %q", got)
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	p := compile(t, Config{
		Roles:         []Role{{Name: "r", Capabilities: []string{"mcp.tools.call"}}},
		Assignments:   []Assignment{{Subject: "group:g", Role: "r", Resource: "/site/**"}},
		Denies:        []Deny{{Subject: "user:a", Capabilities: []string{"*"}, Resource: "/other"}},
		SlotResources: map[string]string{"line": "/site/line"},
	})
	who := NewCaller("user:a", "group:g", "client:c")
	if n := testing.AllocsPerRun(100, func() {
		if d := p.May(who, "line", "tools/call", "x"); !d.Allowed {
			t.Fatal(d)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMay(b *testing.B) {
	r := Role{Name: "r", Capabilities: []string{"mcp.tools.call", "mcp.tools.list"}}
	c := Config{Roles: []Role{r}, SlotResources: map[string]string{"line": "/site/line"}}
	for _, s := range []string{"group:a", "group:b", "group:c", "user:x"} {
		c.Assignments = append(c.Assignments, Assignment{Subject: s, Role: "r", Resource: "/elsewhere/**"}, Assignment{Subject: s, Role: "r", Resource: "/site/**"})
	}
	p, who := compile(b, c), NewCaller("user:x", "group:a", "group:b", "client:c")
	b.ReportAllocs()
	for b.Loop() {
		if d := p.May(who, "line", "tools/call", "x"); !d.Allowed {
			b.Fatal(d)
		}
	}
}
