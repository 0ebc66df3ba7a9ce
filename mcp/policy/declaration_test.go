package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// plant is a policy with two providers that may declare, and others that may not.
func plant(t testing.TB) *Policy {
	return compile(t, Config{
		Roles: []Role{{Name: "operator", Capabilities: []string{"scada.control", "scada.observe", "network.active"}}},
		Assignments: []Assignment{
			{"ops", "group:ops", "operator", "/site/**"}, {"self", "service:scada", "operator", "/site/tanks/**"},
		},
		Denies: []Deny{{"furnace", "group:ops", []string{"*"}, "/site/furnace/**"}},
		Providers: []Provider{
			{ID: "scada", Secret: secret("scada"), Subjects: []string{"service:scada"}, AllowedResources: []string{"/site/**"}},
			{ID: "network", Secret: secret("network"), AllowedResources: []string{"/site/network/**"}},
			{ID: "anywhere", Secret: secret("anywhere")},
			{ID: "broker", Secret: secret("broker"), AllowedResources: []string{"/_system/**"}},
			{ID: "stars", Secret: secret("stars"), AllowedResources: []string{"/site/x", "/*/**"}},
		},
		SharedSecret:   secret("shared"),
		ProtectedSlots: map[string]Protection{"raw": {"scada", "network"}, "other": {"network", "network"}, "away": {"scada", "network"}},
		SlotResources:  map[string]string{"raw": "/site/raw", "other": "/site/network/other", "pumps": "/site/pumps"},
		ResourceLimits: []ResourceLimit{{ID: "maintenance", Pattern: "/site/valves/{id}", Where: map[string]string{"id": `V-0\d{2}`}, Limits: Limits{MaxValue: "80"}}},
	})
}

// params makes the parameters of a good declaration, with changes. A nil value takes a
// member away.
func params(t testing.TB, changes map[string]any) json.RawMessage {
	t.Helper()
	m := map[string]any{
		"version": "1", "domain": "scada", "namespace": map[string]any{"resource": "/site"},
		"capabilities": []string{"scada.observe", "scada.control"},
	}
	for k, v := range changes {
		if m[k] = v; v == nil {
			delete(m, k)
		}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func resources(list ...map[string]any) map[string]any { return map[string]any{"resources": list} }

func many(n int, each func(i int) any) (list []any) {
	for i := range n {
		list = append(list, each(i))
	}
	return list
}

func TestDeclaration(t *testing.T) {
	p := plant(t)
	var s Declarations
	d, problems := s.Declare(p, p.Principal("scada"), "pumps", params(t, map[string]any{
		"resources": []any{
			map[string]any{"resource": "pump:1", "resourcePath": "/site/pumps/1/", "effect": "physical-action", "limits": map[string]any{"minValue": 0, "maxValue": 1500}},
			map[string]any{"resource": "pump:2", "resourcePath": "/site/pumps/2"},
		},
		"protects": []string{"raw"}, "resultsRequired": []string{"scada.control"}, "budgetUnits": []string{"valve-move", "network-operation", "valve-move"},
	}))
	if problems != nil {
		t.Fatal(problems)
	}
	if d.Principal != "scada" || d.Slot != "pumps" || d.Domain != "scada" || d.Namespace != "/site" || d.Resources() != 2 || !slices.Equal(d.Protects, []string{"raw"}) {
		t.Errorf("4.2.11 got %+v", d)
	}
	if !d.HasUnit("network-operation") || d.HasUnit("network") || len(d.BudgetUnits) != 2 {
		t.Errorf("C-63 units %q", d.BudgetUnits)
	}
	got, err := json.Marshal(d.Acceptance())
	if want := fmt.Sprintf(`{"accepted":true,"version":"1","policyVersion":"%s.1"}`, p.Version()); err != nil || string(got) != want {
		t.Errorf("4.2.11 answer %s, %v; want %s", got, err, want)
	}
	if s.Of(p.Principal("scada"), "pumps") != d || s.Of(p.Principal("scada"), "raw") != nil || s.Of(nil, "pumps") != nil {
		t.Error("4.2.11 a declaration is found by principal and slot")
	}
}

func TestDeclarationProblems(t *testing.T) {
	p := plant(t)
	limits := func(l map[string]any) map[string]any {
		return resources(map[string]any{"resource": "a", "resourcePath": "/site/a", "limits": l})
	}
	pattern := func(m map[string]any) map[string]any {
		m["limits"] = map[string]any{"maxValue": 1}
		return resources(m)
	}
	for _, c := range []struct {
		name    string
		changes map[string]any
		want    string
	}{
		{"4.2.11 no version", map[string]any{"version": nil}, "version must be"},
		{"4.2.11 a version of 129", map[string]any{"version": strings.Repeat("v", 129)}, "version must be a string of 1 to 128"},
		{"4.2.11 no domain", map[string]any{"domain": nil}, "domain must be"},
		{"4.2.11 a domain in upper case", map[string]any{"domain": "Scada"}, `domain "Scada" is none`},
		{"4.2.11 a domain of 64", map[string]any{"domain": strings.Repeat("d", 64)}, "is none"},
		{"4.2.11 mcp", map[string]any{"domain": "mcp", "capabilities": []string{"mcp.x"}}, `domain "mcp" is the broker's own`},
		{"4.2.11 broker", map[string]any{"domain": "broker", "capabilities": []string{"broker.x"}}, `domain "broker" is the broker's own`},
		{"4.2.11 a namespace that is a text", map[string]any{"namespace": "/site"}, "namespace must be an object"},
		{"4.2.11 no namespace", map[string]any{"namespace": nil}, "namespace must be an object"},
		{"4.2.11 everything", map[string]any{"namespace": map[string]any{"resource": "/"}}, `cannot be "/"`},
		{"4.2.11 outside", map[string]any{"namespace": map[string]any{"resource": "/other"}}, "outside the provider's allowedResources"},
		{"4.2.11 no path", map[string]any{"namespace": map[string]any{"resource": "site"}}, "namespace.resource: the path"},
		{"4.2.11 a pattern", map[string]any{"namespace": map[string]any{"resource": "/site/*"}}, "name one resource"},
		{"4.2.11 an escaped slash", map[string]any{"namespace": map[string]any{"resource": "/site%2Fa"}}, "escaped slash"},
		{"4.2.11 another key in it", map[string]any{"namespace": map[string]any{"resource": "/site", "x": 1}}, `namespace: unknown key "x"`},
		{"4.2.11 no capabilities", map[string]any{"capabilities": nil}, "capabilities must be an array"},
		{"4.2.11 none", map[string]any{"capabilities": []string{}}, "at least one"},
		{"4.2.11 65", map[string]any{"capabilities": many(65, func(i int) any { return fmt.Sprint("scada.", i) })}, "capabilities: at most 64"},
		{"4.2.11 of another domain", map[string]any{"capabilities": []string{"mcp.tools.call"}}, `"mcp.tools.call" is outside the domain`},
		{"4.2.11 of a domain that begins alike", map[string]any{"capabilities": []string{"scada2.x"}}, "outside the domain"},
		{"4.2.11 the domain alone", map[string]any{"capabilities": []string{"scada."}}, "outside the domain"},
		{"4.2.11 all of them", map[string]any{"capabilities": []string{"*"}}, "malformed"},
		{"4.2.11 a number", map[string]any{"capabilities": []any{1}}, "capabilities: each must be a string"},
		{"4.2.11 twice", map[string]any{"capabilities": []string{"scada.a", "scada.a"}}, "listed twice"},
		{"4.2.11 roles", map[string]any{"roles": map[string]any{}}, "roles: a declaration describes and grants nothing"},
		{"4.2.11 assignments", map[string]any{"assignments": nil, "Assignments": 1}, `unknown key "Assignments"`},
		{"4.2.11 denies", map[string]any{"denies": []string{}}, "denies: a declaration"},
		{"4.2.11 an unknown key", map[string]any{"budgetUnit": "x"}, `params: unknown key "budgetUnit"`},
		{"4.2.11 another case is another key", map[string]any{"Domain": "x"}, `unknown key "Domain"`},
		{"4.2.11 10 001 resources", map[string]any{"resources": many(10_001, func(i int) any { return 1 })}, "resources: at most 10000"},
		{"4.2.11 a resource that is a number", map[string]any{"resources": []int{1}}, "resources[0] must be an object"},
		{"4.2.11 a resource without a name", resources(map[string]any{"resourcePath": "/site/a"}), "resources[0].resource must be a string"},
		{"4.2.11 without a path", resources(map[string]any{"resource": "a"}), "resources[0].resourcePath must be a string"},
		{"4.2.11 outside the namespace", resources(map[string]any{"resource": "a", "resourcePath": "/sites"}), `resources[0].resourcePath "/sites" is outside the namespace`},
		{"4.2.11 declared twice", resources(map[string]any{"resource": "a", "resourcePath": "/site/a"}, map[string]any{"resource": "a", "resourcePath": "/site/b"}), `resource "a" is declared twice`},
		{"4.2.11 an effect that is no text", resources(map[string]any{"resource": "a", "resourcePath": "/site/a", "effect": 1}), "resources[0].effect"},
		{"4.2.11 an unknown limit", limits(map[string]any{"step": 1}), `resources[0].limits: unknown key "step"`},
		{"4.2.11 a limit that is a text", limits(map[string]any{"minValue": "1"}), "minValue must be a finite number"},
		{"4.2.11 a limit that is null", limits(map[string]any{"maxValue": json.RawMessage("null")}), "maxValue must be a finite number"},
		{"4.2.11 a limit beyond numbers", limits(map[string]any{"maxValue": json.RawMessage("1e999")}), "maxValue must be a finite number"},
		{"4.2.11 a range the wrong way round", limits(map[string]any{"minValue": 2, "maxValue": 1}), "minValue 2 is greater than maxValue 1"},
		{"4.2.11 no allowed value", limits(map[string]any{"allowedValues": []int{}}), "allowedValues must have 1 to 256"},
		{"4.2.11 257 of them", limits(map[string]any{"allowedValues": many(257, func(i int) any { return i })}), "at most 256"},
		{"4.2.11 an object among them", limits(map[string]any{"allowedValues": []any{1, map[string]any{}}}), "may only have strings"},
		{"4.2.11 no destination", limits(map[string]any{"destinations": []string{}}), "destinations must have"},
		{"4.2.11 a destination of 65", limits(map[string]any{"destinations": []string{strings.Repeat("d", 65)}}), "1 to 64 bytes"},
		{"4.2.11 a destination that is a number", limits(map[string]any{"destinations": []int{1}}), "destinations must be an array of strings"},
		{"4.2.11 257 protected slots", map[string]any{"protects": many(257, func(i int) any { return "raw" })}, "protects: at most 256"},
		{"4.2.11 a slot that is not protected", map[string]any{"protects": []string{"pumps"}}, "confirms a protection and makes none"},
		{"4.2.11 protected by another", map[string]any{"protects": []string{"other"}}, "declared by another provider"},
		{"4.2.11 protected elsewhere", map[string]any{"protects": []string{"away"}}, "outside the provider's allowedResources"},
		{"4.2.11 a long name is shown in part", map[string]any{"protects": []string{strings.Repeat("s", 200)}}, strings.Repeat("s", 100) + `"…`},
		{"4.2.11 a slot that is a number", map[string]any{"protects": []int{1}}, "protects: each must be"},
		{"4.2.11 a result that is not declared", map[string]any{"resultsRequired": []string{"scada.x"}}, `resultsRequired: "scada.x"`},
		{"4.2.11 33 units", map[string]any{"budgetUnits": many(33, func(i int) any { return fmt.Sprint("u", i) })}, "budgetUnits: at most 32"},
		{"4.2.11 a unit that is none", map[string]any{"budgetUnits": []string{"Move"}}, `budgetUnits: "Move" is no unit`},
		{"C-W26 a pattern that is a number", pattern(map[string]any{"resourcePattern": 1}), "resourcePattern must be a string"},
		{"C-W26 no pattern", pattern(map[string]any{"resourcePattern": "/site/**/a"}), "must be the last segment"},
		{"C-W26 an expression that is a number", pattern(map[string]any{"resourcePattern": "/site/{a}", "where": map[string]any{"a": 1}}), "must be an object of expressions"},
		{"C-W26 a pattern and a name", pattern(map[string]any{"resource": "a", "resourcePattern": "/site/*"}), "give either resource"},
		{"C-W26 a pattern outside", pattern(map[string]any{"resourcePattern": "/*/a"}), `resourcePattern "/" is outside the namespace`},
		{"C-W26 a pattern without limits", resources(map[string]any{"resourcePattern": "/site/*"}), "is there for its limits"},
		{"C-W26 a segment that is not there", pattern(map[string]any{"resourcePattern": "/site/{id}", "where": map[string]any{"x": "a"}}), `where names "x"`},
		{"C-W26 one name twice", pattern(map[string]any{"resourcePattern": "/site/{id}/{id}"}), "must be another"},
		{"C-W26 lookaround", pattern(map[string]any{"resourcePattern": "/site/{id}", "where": map[string]any{"id": "(?!a)b"}}), "linear time"},
		{"C-W26 out of the group", pattern(map[string]any{"resourcePattern": "/site/{id}", "where": map[string]any{"id": "a)|(b"}}), "cannot be read"},
		{"C-W26 a long expression", pattern(map[string]any{"resourcePattern": "/site/{id}", "where": map[string]any{"id": strings.Repeat("a", 257)}}), "too long"},
		{"C-W26 a hostile expression", pattern(map[string]any{"resourcePattern": "/site/{id}", "where": map[string]any{"id": "(a{100}){10}"}}), "repeats too much"},
		{"C-W26 where of a name", resources(map[string]any{"resource": "a", "resourcePath": "/site/a", "where": map[string]any{}}), "where narrows a resourcePattern"},
		{"C-W26 1001 patterns", map[string]any{"resources": many(1001, func(i int) any {
			return map[string]any{"resourcePattern": "/site/*", "limits": map[string]any{"maxValue": 1}}
		})}, "resources[1000]: at most 1000 patterns"},
		{"C-W26 1001 expressions", map[string]any{"resources": many(501, func(i int) any {
			return map[string]any{"resourcePattern": "/site/{a}/{b}", "where": map[string]any{"a": "x", "b": "y"}, "limits": map[string]any{"maxValue": 1}}
		})}, "at most 1000 expressions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Declarations
			d, problems := s.Declare(p, p.Principal("scada"), "pumps", params(t, c.changes))
			if d != nil || len(problems) != 1 || !strings.Contains(problems[0], c.want) {
				t.Errorf("got %q, want one problem: %s", problems, c.want)
			}
			if s.Version(p) != p.Version()+".0" || s.Of(p.Principal("scada"), "pumps") != nil {
				t.Error("a refused declaration changed something")
			}
		})
	}
	for _, c := range []struct{ name, raw, want string }{
		{"nothing", "", "params must be an object"},
		{"null", "null", "params must be an object"},
		{"a list", "[]", "params must be an object"},
		{"a part", `{"version":`, "params is not JSON"},
		{"C-57 one key twice", `{"version":"1","version":"2"}`, `params: "version" stands twice`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Declarations
			if _, problems := s.Declare(p, p.Principal("scada"), "pumps", json.RawMessage(c.raw)); !slices.Contains(problems, c.want) {
				t.Errorf("got %q, want %s", problems, c.want)
			}
		})
	}
}

func TestDeclarationProblemsAtOnce(t *testing.T) {
	p := plant(t)
	var s Declarations
	_, problems := s.Declare(p, p.Principal("scada"), "pumps", params(t, map[string]any{
		"version": 1, "domain": "Scada", "namespace": map[string]any{"resource": "/"}, "capabilities": []string{"-"},
		"protects": []string{"x"}, "budgetUnits": []string{"-"}, "resultsRequired": []string{"y"}, "assignments": 1, "x": 1,
	}))
	if len(problems) != 9 {
		t.Errorf("4.2.11 %d problems, want 9: %q", len(problems), problems)
	}
	_, problems = s.Declare(p, p.Principal("scada"), "pumps", params(t, map[string]any{"resources": many(10_000, func(int) any { return 1 })}))
	if len(problems) != maxProblems+1 || problems[maxProblems] != "and 9900 more" {
		t.Errorf("4.2.11 ten thousand problems: %d, the last is %q", len(problems), problems[len(problems)-1])
	}
}

func TestWhoMayDeclare(t *testing.T) {
	p := plant(t)
	for who, want := range map[string]string{"": "anonymous", "shared-secret": "shared secret", "anywhere": "every resource", "stars": "every resource"} {
		var s Declarations
		if _, problems := s.Declare(p, p.Principal(who), "pumps", params(t, nil)); len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("4.2.11 %q: %q, want %s", who, problems, want)
		}
	}
}

func TestDeclarationsOfOthers(t *testing.T) {
	p := plant(t)
	for _, c := range []struct {
		name, who string
		changes   map[string]any
		want      string
	}{
		{"4.2.6 the broker's own part", "broker", map[string]any{"namespace": map[string]any{"resource": "/_system/broker"}}, "is the broker's own"},
		{"4.2.11 protected by a provider that nobody is", "network",
			map[string]any{"namespace": map[string]any{"resource": "/site/network"}, "protects": []string{"other"}}, "the provider has no subjects"},
	} {
		var s Declarations
		if _, problems := s.Declare(p, p.Principal(c.who), "other", params(t, c.changes)); len(problems) != 1 || !strings.Contains(problems[0], c.want) {
			t.Errorf("%s: %q", c.name, problems)
		}
	}
}

func TestDomainsHaveOneOwner(t *testing.T) {
	p := plant(t)
	scada, network := p.Principal("scada"), p.Principal("network")
	var s Declarations
	declare := func(who *Principal, slot, domain string) []string {
		_, problems := s.Declare(p, who, slot, params(t, map[string]any{
			"domain": domain, "namespace": map[string]any{"resource": "/site/network"}, "capabilities": []string{domain + ".x"},
		}))
		return problems
	}
	must := func(step string, problems []string, want string) {
		t.Helper()
		if want == "" && problems != nil || want != "" && (len(problems) != 1 || !strings.Contains(problems[0], want)) {
			t.Fatalf("%s: %q, want %q", step, problems, want)
		}
	}
	must("4.2.11 the first owns it", declare(scada, "a", "valves"), "")
	must("4.2.11 another cannot", declare(network, "b", "valves"), "belongs to another provider")
	must("4.2.11 the owner may again", declare(scada, "a", "valves"), "")
	must("C-W26 a domain for each slot", declare(scada, "c", "pumps"), "")
	if s.Of(scada, "a").Domain != "valves" || s.Of(scada, "c").Domain != "pumps" || len(s.All()) != 2 {
		t.Fatalf("C-W26 one declaration replaced the other: %+v", s.All())
	}
	must("C-W26 one domain on two slots of one owner", declare(scada, "d", "valves"), "")
	must("4.2.11 a domain given up", declare(scada, "a", "tanks"), "")
	must("4.2.11 stays its owner's while the broker runs", declare(network, "b", "tanks"), "belongs to another")

	if _, ok := s.Withdraw(p, "network", "a"); ok {
		t.Error("C-W27 what another has declared")
	}
	before := s.Version(p)
	w, ok := s.Withdraw(p, "scada", "a")
	if !ok || !slices.Equal(w.Domains, []string{"tanks"}) || w.PolicyVersion == before || w.PolicyVersion != s.Version(p) || s.Of(scada, "a") != nil {
		t.Errorf("C-W27 got %+v", w)
	}
	must("C-W27 a domain that is free again", declare(network, "b", "tanks"), "")
	must("C-W27 one that another slot still has", declare(network, "e", "valves"), "belongs to another")
	if _, ok := s.Withdraw(p, "scada", "a"); ok {
		t.Error("C-W27 twice")
	}
	s.Withdraw(p, "scada", "d")
	must("C-W27 and when it has not", declare(network, "e", "valves"), "")
}

func TestDeclarationsAreBounded(t *testing.T) {
	p := plant(t)
	scada := p.Principal("scada")
	var s Declarations
	declare := func(slot, domain string) []string {
		_, problems := s.Declare(p, scada, slot, params(t, map[string]any{"domain": domain, "capabilities": []string{domain + ".x"}}))
		return problems
	}
	for i := range maxDomains {
		if problems := declare("a", fmt.Sprint("d", i)); problems != nil {
			t.Fatal(problems)
		}
	}
	if problems := declare("a", "more"); len(problems) != 1 || !strings.Contains(problems[0], "64 domains") {
		t.Errorf("domains: %q", problems)
	}
	for i := range maxDeclarations - 1 {
		if problems := declare(fmt.Sprint("s", i), "d0"); problems != nil {
			t.Fatal(problems)
		}
	}
	if problems := declare("more", "d0"); len(problems) != 1 || !strings.Contains(problems[0], "on 64 slots") {
		t.Errorf("slots: %q", problems)
	}
	if problems := declare("a", "d1"); problems != nil {
		t.Errorf("a slot that has one already: %q", problems)
	}
}

// FuzzDeclare looks for parameters that are accepted and break what a declaration
// promises.
func FuzzDeclare(f *testing.F) {
	p := plant(f)
	f.Add([]byte(params(f, nil)))
	f.Add([]byte(params(f, resources(map[string]any{"resourcePattern": "/site/{id}", "where": map[string]any{"id": "V.*"}, "limits": map[string]any{"minValue": 0, "allowedValues": []any{nil, 1.0, "a"}}}))))
	f.Add([]byte(`{"version":"1","domain":"a","namespace":{"resource":"/site"},"capabilities":["a.b"],"resources":[{"resource":"x","resourcePath":"/site/x","limits":{}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s Declarations
		d, problems := s.Declare(p, p.Principal("scada"), "pumps", raw)
		if (d == nil) == (problems == nil) {
			t.Fatalf("%v and %q", d, problems)
		}
		if d == nil {
			return
		}
		for _, c := range d.Capabilities {
			if !strings.HasPrefix(c, d.Domain+".") {
				t.Errorf("capability %q of domain %q", c, d.Domain)
			}
		}
		for name, r := range d.resources {
			if !selects("/site/**", r.path) {
				t.Errorf("resource %q at %q", name, r.path)
			}
			a := d.Ask(p, NewCaller("group:ops"), Check{d.Capabilities[0], name, r.path})
			if _, err := json.Marshal(a); err != nil {
				t.Errorf("the answer about %q: %v", name, err)
			}
		}
	})
}
