package policy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"github.com/sluicegate/sluice/internal/resource"
)

// A Reason is why a decision is what it is. There are no others than those named here,
// so that a metric may use them as labels.
type Reason string

// The reasons. The first three permit; the last four only answer providers' questions.
const (
	RoleGrant            Reason = "role-grant"            // an assignment gives a role that has the capability there
	Uncontrolled         Reason = "uncontrolled"          // the method needs no capability
	NoPolicy             Reason = "no-policy"             // nothing is enforced; a provider's question is denied for it
	ExplicitDeny         Reason = "explicit-deny"         // a deny covers it, whatever the roles say
	NoMatchingGrant      Reason = "no-matching-grant"     // no assignment covers it
	InvalidResource      Reason = "invalid-resource"      // what was asked about is no path of a resource
	InvalidCapability    Reason = "invalid-capability"    // what was asked for is no capability
	UnknownResource      Reason = "unknown-resource"      // the slot has no resource
	EvaluationError      Reason = "evaluation-error"      // the caller has more subjects than are looked at
	UndeclaredCapability Reason = "undeclared-capability" // the provider has not declared the capability
	UndeclaredResource   Reason = "undeclared-resource"   // the path is outside the declaration, or not the one declared for this resource
	EmptyLimits          Reason = "empty-limits"          // no value satisfies all limits of the resource
)

// maxSubjects bounds what one decision may cost. A caller with more is denied: a deny
// might be about those that were left out.
const maxSubjects = 1024

// A Decision is the answer to one question.
type Decision struct {
	Allowed bool
	Reason  Reason
	// Capability and Resource are what was decided about. They are empty if there is none,
	// or what was asked for is none: nothing of it goes into a log.
	Capability, Resource string
	// Policy is the ID of an assignment or deny that the decision rests on; empty if it
	// rests on none.
	Policy string

	number [2]uint64
}

// ID names the decision in audit and answers; no two have the same. It is written down
// when it is asked for, because most decisions are about what a list shows.
func (d *Decision) ID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], d.number[0])
	binary.BigEndian.PutUint64(b[8:], d.number[1])
	return "dec_" + hex.EncodeToString(b[:])
}

// May decides whether a caller's request may reach a slot; tool is the name of the tool
// if method is tools/call. What a list shows is decided by asking for each of its
// elements what a call of it would be asked.
func (p *Policy) May(c *Caller, slot, method, tool string) Decision {
	path := p.Resource(slot)
	capability := p.Capability(path, slot, method, tool)
	if capability == "" {
		d := decision("", path)
		d.Allowed, d.Reason = true, Uncontrolled
		return d
	}
	if path == "" && p.Enforced() {
		d := decision(capability, "")
		d.Reason = UnknownResource
		return d
	}
	return p.Decide(c, capability, path)
}

// Decide says whether a caller has a capability on a resource. It allocates nothing and
// takes time in proportion to what the policy says about the caller's subjects.
func (p *Policy) Decide(c *Caller, capability, path string) Decision {
	d := decision(capability, path)
	if !p.Enforced() {
		d.Allowed, d.Reason = true, NoPolicy
		return d
	}
	clean, err := resource.Clean(path)
	switch {
	case err != nil:
		d.Reason, d.Resource = InvalidResource, ""
	case !isCapability(capability):
		d.Reason, d.Capability = InvalidCapability, ""
	case len(c.subjects()) > maxSubjects:
		d.Reason = EvaluationError
	default:
		d.Resource = clean
		p.evaluate(c.subjects(), &d)
	}
	return d
}

// evaluate finds a deny that covers what d is about, or else a grant.
func (p *Policy) evaluate(subjects []string, d *Decision) {
	d.Reason = NoMatchingGrant
	for _, name := range subjects {
		said := p.subjects[name]
		if said == nil {
			continue
		}
		if id, ok := covering(said.denies, d); ok {
			d.Allowed, d.Reason, d.Policy = false, ExplicitDeny, id
			return
		}
		if d.Allowed {
			continue // only a deny can change it
		}
		if id, ok := covering(said.grants, d); ok {
			d.Allowed, d.Reason, d.Policy = true, RoleGrant, id
		}
	}
}

func covering(list []clause, d *Decision) (id string, ok bool) {
	for i := range list {
		if list[i].covers(d.Capability, d.Resource) {
			return list[i].id, true
		}
	}
	return "", false
}

func decision(capability, path string) Decision {
	return Decision{Capability: capability, Resource: path, number: [2]uint64{rand.Uint64(), rand.Uint64()}}
}
