package policy

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/resource"
)

// Errors of [Policy.Authenticate]. None carries what the provider has sent.
var (
	ErrNoSecret        = errors.New("policy: the provider has shown no secret; send it as X-Provider-Token or Authorization: Bearer")
	ErrWrongSecret     = errors.New("policy: the provider's secret is nobody's")
	ErrAmbiguousSecret = errors.New("policy: the provider has shown two different secrets; send one")
)

// MinSecret is the least length of a provider's secret in bytes.
const MinSecret = 16

// sharedID is the principal that everybody is who has the shared secret.
const sharedID = "shared-secret"

// A Secret is what somebody shows to be believed. It prints itself as a word, so that no
// log and no error shows it.
type Secret []byte

// String returns "(secret)".
func (Secret) String() string { return "(secret)" }

// MarshalText returns "(secret)".
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Provider is the configuration of a principal that may serve slots.
type Provider struct {
	// ID names it, in rules and in audit. Required.
	ID string
	// Secret is what it shows; at least [MinSecret] bytes, and nobody else's. Only its
	// digest is kept.
	Secret Secret
	// Subjects are those of the caller that the provider is when it asks for itself, or
	// calls another slot.
	Subjects []string
	// AllowedResources are patterns of the resources that it may serve; nil is anywhere.
	// Who may be anywhere may not declare.
	AllowedResources []string
}

// A Principal is a provider that has shown its secret. It is never changed, and safe for
// concurrent use. nil is a provider that has not said who it is.
type Principal struct {
	// ID is the provider's.
	ID string
	// Subjects are those of the provider as a caller, sorted.
	Subjects []string

	allowed  []resource.Pattern
	anywhere bool
	shared   bool
	secret   [sha256.Size]byte
}

// Caller is the provider when it asks for itself.
func (w *Principal) Caller() *Caller { return NewCaller(w.Subjects...) }

// allows reports whether w may serve a resource.
func (w *Principal) allows(path string) bool {
	return w == nil || w.anywhere || slices.ContainsFunc(w.allowed, func(p resource.Pattern) bool { return p.Match(path) })
}

// providers are the principals there are.
type providers struct{ list []*Principal }

func (b *builder) providers(list []Provider, shared Secret) {
	if shared != nil {
		list = append(slices.Clip(list), Provider{ID: sharedID, Secret: shared})
	}
	seen := map[[sha256.Size]byte]string{}
	for i := range list {
		o := &list[i]
		w := b.principal(o)
		w.shared = shared != nil && i == len(list)-1
		if other, twice := seen[w.secret]; twice {
			b.problem("provider %q has the secret of provider %q; whoever shows it would be both", w.ID, other)
		}
		if seen[w.secret] = w.ID; b.p.Principal(w.ID) != nil {
			b.problem("provider %q: there are two of this id", w.ID)
		}
		b.p.providers.list = append(b.p.providers.list, w)
	}
}

func (b *builder) principal(o *Provider) *Principal {
	w := &Principal{ID: o.ID, Subjects: NewCaller(o.Subjects...).Subjects, secret: sha256.Sum256(o.Secret), anywhere: o.AllowedResources == nil}
	if o.ID == "" {
		b.problem("a provider needs an id")
	}
	if len(o.Secret) < MinSecret {
		b.problem("provider %q: a secret of %d bytes can be guessed; use at least %d random ones", o.ID, len(o.Secret), MinSecret)
	}
	for _, s := range o.Subjects {
		if !subjectForm.MatchString(s) {
			b.problem(`provider %q: %q is no subject; write a kind and a name, such as "service:historian"`, o.ID, s)
		}
	}
	for _, text := range o.AllowedResources {
		pattern, err := resource.Parse(text)
		if b.check(err, "provider %q: allowedResources", o.ID) {
			w.allowed = append(w.allowed, pattern)
		}
	}
	return w
}

// Principal returns the provider of an ID, or nil.
func (p *Policy) Principal(id string) *Principal {
	if p == nil {
		return nil
	}
	for _, w := range p.providers.list {
		if w.ID == id {
			return w
		}
	}
	return nil
}

// Now returns who a provider that an earlier policy has let in is under this one, and whether
// it would be let in: a provider that is not configured any more, or has another secret, is
// not. who is nil for one that has not said who it is.
func (p *Policy) Now(who *Principal) (*Principal, bool) {
	if who == nil || p == nil {
		return who, p == nil || len(p.providers.list) == 0
	}
	now := p.Principal(who.ID)
	return now, now != nil && now.secret == who.secret
}

// Authenticate finds out which provider a request with the given headers is from; their
// names are canonical, as in an http.Header. If no provider is configured every one is
// welcome and nobody: nil without an error. Otherwise the error is one of this package's
// three. It takes the same time whichever provider it is, and if it is none.
func (p *Policy) Authenticate(header map[string][]string) (*Principal, error) {
	if p == nil || len(p.providers.list) == 0 {
		return nil, nil
	}
	shown := shownSecrets(header)
	if len(shown) == 0 {
		return nil, ErrNoSecret
	}
	digest := sha256.Sum256([]byte(shown[0]))
	for _, other := range shown[1:] {
		if d := sha256.Sum256([]byte(other)); subtle.ConstantTimeCompare(d[:], digest[:]) == 0 {
			return nil, ErrAmbiguousSecret
		}
	}
	found := -1
	for i, w := range p.providers.list {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(w.secret[:], digest[:]), i, found)
	}
	if found < 0 {
		return nil, ErrWrongSecret
	}
	return p.providers.list[found], nil
}

// shownSecrets are those of both headers. An empty one is none.
func shownSecrets(header map[string][]string) (shown []string) {
	for _, v := range header["X-Provider-Token"] {
		if v = strings.TrimSpace(v); v != "" {
			shown = append(shown, v)
		}
	}
	for _, v := range header["Authorization"] {
		scheme, secret, _ := strings.Cut(v, " ")
		if secret = strings.TrimSpace(secret); secret != "" && strings.EqualFold(scheme, "Bearer") {
			shown = append(shown, secret)
		}
	}
	return shown
}
