package policy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/resource"
)

// Bounds of a declaration.
const (
	maxVersion      = 128
	maxCapabilities = 64
	maxResources    = 10_000
	maxPatterns     = 1000
	maxConditions   = 1000
	maxProtects     = 256
	maxBudgetUnits  = 32
	maxName         = 2048
)

var (
	domainForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	unitForm   = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,63}$`)
)

// reserved are the domains of the broker's own capabilities.
var reserved = []string{"mcp", "broker"}

// A Declaration is what a provider says about the things behind a slot: a vocabulary of
// capabilities, a part of the tree of resources, and what limits them. It grants nothing.
// It is never changed, and safe for concurrent use.
type Declaration struct {
	// Principal is the ID of the provider, and Slot where it has declared.
	Principal, Slot string
	// Version is the provider's own name for what it has declared.
	Version string
	// Domain is what its capabilities begin with, and Namespace the resource that all of
	// its resources lie below.
	Domain, Namespace string
	// Capabilities, ResultsRequired (those whose results it promises to report),
	// BudgetUnits and Protects (slots whose protection it confirms) are sorted.
	Capabilities, ResultsRequired, BudgetUnits, Protects []string
	// PolicyVersion is that of the policy and all declarations, this one included.
	PolicyVersion string

	resources map[string]declared
	areas     areas
}

// declared is one resource of a declaration.
type declared struct {
	path   string
	limits Limits
}

// HasUnit reports whether the provider has declared a unit of budgets.
func (d *Declaration) HasUnit(unit string) bool {
	_, ok := slices.BinarySearch(d.BudgetUnits, unit)
	return ok
}

// Resources is how many resources are declared by name.
func (d *Declaration) Resources() int { return len(d.resources) }

// Acceptance is the result that the provider gets.
func (d *Declaration) Acceptance() any {
	return struct {
		Accepted      bool   `json:"accepted"`
		Version       string `json:"version"`
		PolicyVersion string `json:"policyVersion"`
	}{true, d.Version, d.PolicyVersion}
}

// refuse says why a provider must not declare, whatever it declares; empty if it may.
func (w *Principal) refuse() string {
	switch {
	case w == nil:
		return "the provider is anonymous; only one that has shown a secret of its own may declare"
	case w.shared:
		return "the provider has shown the shared secret, which others have too; give it an entry and a secret of its own"
	case w.anywhere || slices.ContainsFunc(w.allowed, func(p resource.Pattern) bool { return p.Everywhere() }):
		return `the provider may serve every resource; one that declares must be confined to its own, for instance by allowedResources ["/production/site1/**"]`
	}
	return ""
}

// A reader reads one declaration.
type reader struct {
	form
	policy *Policy
	who    *Principal
	d      *Declaration

	patterns, conditions int // of the resources so far
}

// read reads the parameters of broker/authorization/declare. The order matters: what is
// inside the domain and the namespace can only be seen when these are known.
func (r *reader) read(params json.RawMessage) {
	m := r.object(params, "params", "version", "domain", "namespace", "capabilities", "resources",
		"protects", "resultsRequired", "budgetUnits", "roles", "assignments", "denies")
	if m == nil {
		return
	}
	for _, right := range []string{"roles", "assignments", "denies"} {
		if _, ok := m[right]; ok {
			r.problem("%s: a declaration describes and grants nothing; rights are in the broker's configuration", right)
		}
	}
	r.d.Version, _ = r.text(m["version"], "version", maxVersion)
	r.domain(m["domain"])
	r.namespace(m["namespace"])
	r.capabilities(m["capabilities"])
	if raw, ok := m["resources"]; ok {
		r.resources(raw)
	}
	r.names(m, "protects", maxProtects, &r.d.Protects, r.protects)
	r.names(m, "resultsRequired", maxCapabilities, &r.d.ResultsRequired, func(name string) {
		if !slices.Contains(r.d.Capabilities, name) {
			r.problem("resultsRequired: %s is not one of the capabilities", quote(name))
		}
	})
	r.names(m, "budgetUnits", maxBudgetUnits, &r.d.BudgetUnits, func(unit string) {
		if !unitForm.MatchString(unit) {
			r.problem("budgetUnits: %s is no unit; write 1 to 64 of a-z, 0-9 and ._-, a letter first", quote(unit))
		}
	})
}

func (r *reader) domain(raw json.RawMessage) {
	domain, ok := r.text(raw, "domain", maxName)
	switch {
	case !ok:
		return
	case !domainForm.MatchString(domain):
		r.problem(`domain %s is none; write up to 63 of a-z, 0-9 and -, a letter first, such as "scada"`, quote(domain))
	case slices.Contains(reserved, domain):
		r.problem("domain %q is the broker's own", domain)
	default:
		r.d.Domain = domain
	}
}

func (r *reader) namespace(raw json.RawMessage) {
	m := r.object(raw, "namespace", "resource")
	if m == nil {
		return
	}
	path, ok := r.path(m["resource"], "namespace.resource")
	switch {
	case !ok:
		return
	case path == "/":
		r.problem(`namespace.resource cannot be "/"; declare the part of the tree that this provider serves`)
	case resource.Within(system, path):
		r.problem("namespace.resource %s is the broker's own", quote(path))
	case !r.who.allows(path):
		r.problem("namespace.resource %s is outside the provider's allowedResources", quote(path))
	default:
		r.d.Namespace = path
	}
}

func (r *reader) path(raw json.RawMessage, what string) (string, bool) {
	s, ok := r.text(raw, what, resource.MaxLength)
	if !ok {
		return "", false
	}
	path, err := resource.Clean(s)
	if err != nil {
		r.problem("%s: %s", what, strings.TrimPrefix(err.Error(), "resource: "))
	}
	return path, err == nil
}

func (r *reader) capabilities(raw json.RawMessage) {
	list := r.list(raw, "capabilities", maxCapabilities)
	if list != nil && len(list) == 0 {
		r.problem("capabilities must have at least one entry")
	}
	for _, raw := range list {
		name, ok := r.text(raw, "capabilities: each", maxName)
		if !ok {
			continue
		}
		rest, inside := strings.CutPrefix(name, r.d.Domain+".")
		switch {
		case name == "*" || !isCapability(name):
			r.problem("capability %s is malformed", quote(name))
		case r.d.Domain != "" && (!inside || rest == ""):
			r.problem(`capability %s is outside the domain; declare "%s.…" alone`, quote(name), r.d.Domain)
		case slices.Contains(r.d.Capabilities, name):
			r.problem("capability %s is listed twice", quote(name))
		}
		r.d.Capabilities = append(r.d.Capabilities, name)
	}
	slices.Sort(r.d.Capabilities)
}

// names reads an optional list of names into a sorted one.
func (r *reader) names(m map[string]json.RawMessage, key string, most int, into *[]string, check func(string)) {
	raw, ok := m[key]
	if !ok {
		return
	}
	for _, raw := range r.list(raw, key, most) {
		if name, ok := r.text(raw, key+": each", maxName); ok {
			check(name)
			*into = append(*into, name)
		}
	}
	slices.Sort(*into)
	*into = slices.Compact(*into)
}

// protects checks a slot whose protection is confirmed. The operator makes a protection;
// one that a provider could make would be gone after each restart until it declares again.
func (r *reader) protects(slot string) {
	protection, ok := r.policy.protection(slot)
	switch {
	case !ok:
		r.problem("protects: slot %s is not one of the broker's protectedSlots; a declaration confirms a protection and makes none", quote(slot))
	case protection.DeclaredBy != r.who.ID:
		r.problem("protects: the protection of slot %s is declared by another provider", quote(slot))
	case len(r.who.Subjects) == 0:
		r.problem("protects: the provider has no subjects, so nobody could call slot %s; configure some", quote(slot))
	case !r.who.allows(r.policy.Resource(slot)):
		r.problem("protects: slot %s is outside the provider's allowedResources", quote(slot))
	}
}
