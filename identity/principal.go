// Package identity finds out who sends an HTTP request: by an API key, a JSON Web
// Token, or a tenant header, each believed only as far as something vouches for it.
//
// A [Resolver] is built once from [Options] and never changes; a reload builds a new
// one. What it says about a request is a [Finding]: a verified [Principal], or the
// reason why a credential that was shown is not worth anything. A credential that
// fails makes no state and chooses no tier; what happens to its sender is the
// business of the surface in front of which the request stands.
//
// Secrets go no further than this package: subjects are keyed digests or names, and
// no error carries any part of a credential.
package identity

import "errors"

// A Principal is a caller that something has checked: this package, or the
// application in front of it.
type Principal struct {
	// Subject names the caller and is what its limits hang on: "apikey:" and 32 hex
	// digits of the key's keyed digest, "user:" and the token's subject, "tenant:" and
	// the tenant. One caller has one subject, whichever way its credential is spelt.
	Subject string
	// Tenant is "tenant:" and the account the call is on; empty if there is none.
	Tenant string
	// Tier is the class of the subject; never empty in a Principal from a [Resolver].
	Tier string
	// Groups are further subjects that rules may match and never group by, such as
	// "role:admin".
	Groups []string
	// Subjects are all subjects that a token gives, Subject among them, sorted: "client:",
	// "group:", "service:" and "user:" with a name. nil unless the token's [Issuer] names
	// claims for them.
	Subjects []string
	// Label is a name for people, as the key file gives it. It decides nothing.
	Label string
}

// Errors that say why a credential is worth nothing. They are all there are, so that
// a metric may use them as labels, and none carries what the caller sent.
var (
	ErrUnknownKey = errors.New("identity: no such API key")
	ErrDisabled   = errors.New("identity: the API key is disabled")
	ErrExpired    = errors.New("identity: the credential has expired")
	ErrNotYet     = errors.New("identity: the credential is not valid yet")
	ErrMalformed  = errors.New("identity: the credential is malformed")
	ErrTooLong    = errors.New("identity: the credential is too long")
	ErrAmbiguous  = errors.New("identity: the header was sent twice")
	ErrIssuer     = errors.New("identity: the token's issuer is not configured")
	ErrAlgorithm  = errors.New("identity: the token's algorithm is not allowed for its issuer")
	ErrCritical   = errors.New("identity: the token has a critical header that is not understood")
	ErrAudience   = errors.New("identity: the token is meant for another audience")
	ErrSignature  = errors.New("identity: the token's signature does not verify")
	ErrClaims     = errors.New("identity: a claim that gives subjects is neither a text nor a list of texts, or too long")
	ErrRepeated   = errors.New("identity: the token has failed before")
)

// A Finding is what a [Resolver] says about a request. The zero Finding is a request
// without any credential.
type Finding struct {
	// Principal is the caller; its Subject is empty if nobody was found.
	Principal Principal
	// Source says where the principal came from, for explanations: "X-API-Key".
	Source string
	// Verified is false for a principal that was accepted unchecked, because
	// [Options.Unverified] is [Accept] or [Tenant.From] is [FromAnyone].
	Verified bool
	// Err is why a credential that was shown failed. It may be set beside a verified
	// principal, if a second credential failed.
	Err error
}

// kinds are the errors as metrics spell them.
var kinds = map[error]string{
	ErrUnknownKey: "unknown_key", ErrDisabled: "disabled", ErrExpired: "expired", ErrNotYet: "not_yet", ErrMalformed: "malformed",
	ErrTooLong: "too_long", ErrAmbiguous: "ambiguous", ErrIssuer: "issuer", ErrAlgorithm: "algorithm", ErrCritical: "critical",
	ErrAudience: "audience", ErrSignature: "signature", ErrRepeated: "repeated",
	ErrClaims: "claims",
}

// Failure returns Err as a metric spells it: a word of a small set, empty if nothing
// failed.
func (f *Finding) Failure() string { return kinds[f.Err] }

// Found reports whether there is a principal.
func (f *Finding) Found() bool { return f.Principal.Subject != "" }
