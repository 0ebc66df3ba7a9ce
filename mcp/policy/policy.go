// Package policy says who may do what on which resource of the broker, and what
// providers that declare a vocabulary of their own may ask about.
//
// A [Policy] is compiled once from a [Config] and never changes; a reload compiles a new
// one. Roles hold capabilities and assignments give a role to a subject on a part of the
// tree of resources. A deny beats every grant, and what nothing grants is denied. Listing
// and calling are decided by one function, [Policy.May], so that what is hidden cannot be
// called.
//
// [Declarations] outlive policies: they are what providers have declared while the broker
// runs. A declaration describes and grants nothing.
package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluicegate/sluice/internal/resource"
)

// A Config is the operator's part of authorization. The zero Config permits everything to
// everybody and knows no provider.
type Config struct {
	// Roles, Assignments and Denies are in force if there is any of them. Then everything
	// that is not granted is denied.
	Roles       []Role
	Assignments []Assignment
	Denies      []Deny
	// SlotResources are the resources of slots that are not "/" and their name.
	SlotResources map[string]string
	// ToolCapabilities are the capabilities of tools by name, ProviderToolCapabilities the
	// same by a pattern of the slot's resource, which come first.
	ToolCapabilities         map[string]string
	ProviderToolCapabilities map[string]map[string]string
	// ResourceLimits narrow what providers are answered, whatever they have declared.
	ResourceLimits []ResourceLimit
	// Providers are the principals that may serve slots.
	Providers []Provider
	// SharedSecret, if not nil, is a secret that any provider may show. Its bearer may serve
	// every slot and declare nothing.
	SharedSecret Secret
	// ProtectedSlots are slots that one provider alone may call and one alone may serve.
	ProtectedSlots map[string]Protection
}

// A Role is a set of capabilities with a name. The capability "*" is all of them.
type Role struct {
	Name         string
	Capabilities []string
	// Inherits are roles whose capabilities this one has too.
	Inherits []string
}

// An Assignment gives a subject a role on the resources of a pattern. An empty ID becomes
// "assignment:" and its place in the list, from 0.
type Assignment struct{ ID, Subject, Role, Resource string }

// A Deny forbids a subject capabilities on the resources of a pattern, whatever its roles
// are. An empty ID becomes "deny:" and its place in the list, from 0.
type Deny struct {
	ID, Subject  string
	Capabilities []string
	Resource     string
}

// A Policy answers who may do what. nil permits everything to everybody, and knows no
// provider. Its methods are safe for concurrent use.
type Policy struct {
	enforced  bool
	subjects  map[string]*clauses
	slots     map[string]string
	tools     map[string]string
	mappings  []mapping
	limits    areas
	providers providers
	protected map[string]Protection
	version   string
}

// clauses are what the policy says about one subject.
type clauses struct{ denies, grants []clause }

// A clause is one assignment or deny, with the role's inheritance resolved.
type clause struct {
	id           string
	pattern      resource.Pattern
	capabilities map[string]bool
	every        bool // capability
}

// covers reports whether c is about a capability on a resource.
func (c *clause) covers(capability, path string) bool {
	return (c.every || c.capabilities[capability]) && c.pattern.Match(path)
}

// New compiles a policy. The error names everything that is wrong.
func New(c Config) (*Policy, error) {
	b := builder{p: &Policy{
		enforced: len(c.Roles)+len(c.Assignments)+len(c.Denies) > 0,
		subjects: map[string]*clauses{},
		version:  c.version(),
	}, ids: map[string]bool{}}
	b.slots(c.SlotResources)
	b.tools(c.ToolCapabilities, c.ProviderToolCapabilities)
	b.rules(&c)
	b.limits(c.ResourceLimits)
	b.providers(c.Providers, c.SharedSecret)
	b.protections(c.ProtectedSlots)
	if len(b.problems) > 0 {
		return nil, errors.Join(b.problems...)
	}
	return b.p, nil
}

// Enforced reports whether there is anything to enforce. If not, [Policy.May] permits
// everything, and providers' questions are denied for [NoPolicy].
func (p *Policy) Enforced() bool { return p != nil && p.enforced }

// Version names what the policy says: two policies of one configuration have the same.
func (p *Policy) Version() string {
	if p == nil {
		return "none"
	}
	return p.version
}

// version is a digest of all but the secrets, which write themselves as a word.
func (c *Config) version() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "invalid" // a limit that is no JSON; New refuses it with its place
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// A builder compiles a Config and collects what is wrong with it.
type builder struct {
	p        *Policy
	ids      map[string]bool
	problems []error
}

func (b *builder) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Errorf("policy: "+format, args...))
}

// check collects err, if there is one, and reports whether there was none.
func (b *builder) check(err error, format string, args ...any) bool {
	if err != nil {
		b.problem("%s: %w", fmt.Sprintf(format, args...), err)
	}
	return err == nil
}
