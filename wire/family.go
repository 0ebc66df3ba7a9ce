package wire

import (
	"fmt"
	"strings"
)

// A Family is a set of header fields in one of the forms that are in use. None is a
// standard: the last form of the IETF draft has no RFC yet, and the older ones live on.
type Family uint8

// The families. The legacy ones tell the tightest limit alone, the others all limits
// where they have a form for it.
const (
	// LegacyEpoch is X-RateLimit-Limit, -Remaining and -Reset, the last in seconds since
	// 1970 as GitHub sends it.
	LegacyEpoch Family = iota
	// LegacyDelta is the same with seconds from now.
	LegacyDelta
	// Draft6 is RateLimit-Limit, -Remaining and -Reset, seconds from now, and
	// RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-06).
	Draft6
	// Draft7 is RateLimit as a dictionary, and RateLimit-Policy (revision 07).
	Draft7
	// Draft10 is RateLimit and RateLimit-Policy as lists of named policies (revisions 08
	// to 10).
	Draft10

	families
)

var familyNames = [families]string{"legacy-epoch", "legacy-delta", "draft-6", "draft-7", "draft-10"}

// String returns the family as configuration spells it.
func (f Family) String() string {
	if f >= families {
		return fmt.Sprintf("family(%d)", uint8(f))
	}
	return familyNames[f]
}

// ParseFamily returns the family with that name. The error lists the names.
func ParseFamily(name string) (Family, error) {
	for i, n := range familyNames {
		if n == name {
			return Family(i), nil
		}
	}
	return 0, fmt.Errorf("wire: there is no header family %q; there are %s", name, strings.Join(familyNames[:], ", "))
}

// A field is one of the header fields that are written here.
type field uint8

const (
	xLimit field = iota
	xRemaining
	xReset
	limit
	remaining
	reset
	rateLimit
	policy
	retryAfter

	fieldCount
)

// names are those of fields in the canonical form of net/http.
var names = [fieldCount]string{
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
	"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
	"Ratelimit", "Ratelimit-Policy", "Retry-After",
}

func (f Family) fields() []field {
	switch f {
	case LegacyEpoch, LegacyDelta:
		return []field{xLimit, xRemaining, xReset}
	case Draft6:
		return []field{limit, remaining, reset, policy}
	}
	return []field{rateLimit, policy}
}

// checkFamilies refuses families that do not exist or would write one field twice.
func checkFamilies(all []Family) error {
	owners := map[field]Family{}
	for _, f := range all {
		if f >= families {
			return fmt.Errorf("wire: there is no header %v", f)
		}
		for _, own := range f.fields() {
			if owner, taken := owners[own]; taken {
				return fmt.Errorf("wire: header families %v and %v both send %s; keep one of them", owner, f, names[own])
			}
			owners[own] = f
		}
	}
	return nil
}
