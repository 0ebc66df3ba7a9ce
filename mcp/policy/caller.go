package policy

import (
	"slices"
	"strings"
)

// Anonymous is the identity of a caller without a verified one. As the subject of an
// assignment or a deny it is every caller that has no subjects.
const Anonymous = "anonymous"

// A Caller is who sends a request, as far as something has verified it. The zero Caller
// is anonymous, and so is nil. A Caller is never changed once it is in use, and then is
// safe for concurrent use.
type Caller struct {
	// Subjects are all that the caller is: "client:", "group:", "service:" and "user:" with
	// a name. They are sorted and each stands once; [NewCaller] sees to that.
	Subjects []string
	// Tenant, Tier and IP are for limits; they permit nothing.
	Tenant, Tier, IP string
	// Verified says that a credential vouches for the subjects.
	Verified bool
}

// NewCaller returns a verified caller with the given subjects, in any order; without
// subjects it is anonymous.
func NewCaller(subjects ...string) *Caller {
	s := slices.Clone(subjects)
	slices.Sort(s)
	return &Caller{Subjects: slices.Compact(s), Verified: len(s) > 0}
}

// identities are the kinds of subject that identify a caller, the first that it has
// counts. Groups do not: their members change.
var identities = [...]string{"user:", "service:", "client:"}

// Identity is what limits that group by subject hang on: the first user, else the first
// service, else the first client, else [Anonymous]. More groups do not change it.
func (c *Caller) Identity() string {
	if c == nil {
		return Anonymous
	}
	for _, kind := range identities {
		if i, _ := slices.BinarySearch(c.Subjects, kind); i < len(c.Subjects) && strings.HasPrefix(c.Subjects[i], kind) {
			return c.Subjects[i]
		}
	}
	return Anonymous
}

// anonymous is whom rules about [Anonymous] are about.
var anonymous = []string{Anonymous}

// subjects are those that rules are looked up by.
func (c *Caller) subjects() []string {
	if c == nil || len(c.Subjects) == 0 {
		return anonymous
	}
	return c.Subjects
}
