package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
)

// An Issuer is somebody whose JSON Web Tokens are believed, and how far.
type Issuer struct {
	// Issuer is the exact value of the "iss" claim. Required.
	Issuer string
	// Name scopes the issuer's subjects: "user:corp/alice". Empty is no scope if this is
	// the only issuer, "user:alice", and the host of Issuer if there are several, because
	// alice of one is not alice of the other. Letters, digits and ._- only.
	Name string
	// Audience is who a token must be meant for; one of them must stand in "aud".
	// Empty accepts any audience, also none.
	Audience []string
	// Algorithms are the signature algorithms that are allowed; empty is RS256, ES256 and
	// EdDSA. The token's header never widens this. HMAC algorithms are not offered: with
	// them whoever can verify can also sign, and a public key could serve as the secret.
	Algorithms []string
	// JWKS is where the issuer's keys are: a file, or an address. An address is https, or
	// http on a loopback address; redirects are not followed. Its keys are fetched when
	// the resolver is built and every hour, and when a token names an unknown key, at
	// most every 30 s. While the issuer does not answer the last good keys stay in force.
	JWKS string
	// Leeway is the clock skew that is forgiven for "exp" and "nbf". Zero is 30 s; the
	// most is a minute.
	Leeway time.Duration
	// SubjectClaim names the claim that identifies the caller; empty is "sub". Like the
	// other claims it may be a dotted path: "app.plan".
	SubjectClaim string
	// TierClaim names the claim that holds the tier. Empty is none.
	TierClaim string
	// RolesClaim names the claim that holds the roles: a list, or a text with blanks
	// between them, such as "scope". Each becomes the group "role:…". Empty is none.
	RolesClaim string
	// RoleTiers gives roles a tier; the first whose role the token has counts, so put
	// the highest first. It is asked before TierClaim.
	RoleTiers []RoleTier
	// TenantClaim names the claim that holds the tenant. Empty is none.
	TenantClaim string
	// GroupClaims, ClientClaim and ServiceClaims name claims that give further subjects,
	// "group:…", "client:…" and "service:…", for a surface that permits by subject. Each
	// claim is a text or a list of texts; if one is anything else, the token is worth
	// nothing ([ErrClaims]). If all three are empty there are no further subjects, and
	// SubjectClaim has to be there. Otherwise SubjectClaim may be a list too, and a token
	// without it is known by its first service, or else by its client.
	GroupClaims   []string
	ClientClaim   string
	ServiceClaims []string
}

// A RoleTier says that callers with a role are of a tier.
type RoleTier struct{ Role, Tier string }

// maxLeeway is the most clock skew that is forgiven.
const maxLeeway = time.Minute

// algorithms are those that verify with a public key.
var algorithms = []string{"EdDSA", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}

// An issuer is an Issuer that is ready to verify.
type issuer struct {
	Issuer
	keys  jwt.Keyfunc
	valid *jwt.Validator
}

func newIssuer(ctx context.Context, o Issuer, log *slog.Logger) (*issuer, error) {
	if len(o.Algorithms) == 0 {
		o.Algorithms = []string{"RS256", "ES256", "EdDSA"}
	}
	if o.Leeway == 0 {
		o.Leeway = 30 * time.Second
	}
	if o.SubjectClaim == "" {
		o.SubjectClaim = "sub"
	}
	err := checkIssuer(&o)
	if err != nil {
		return nil, fmt.Errorf("identity: issuer %q: %w", o.Issuer, err)
	}
	i := &issuer{Issuer: o}
	if i.keys, err = openKeySet(ctx, &o, log); err != nil {
		return nil, fmt.Errorf("identity: issuer %q: %w", o.Issuer, err)
	}
	checks := []jwt.ParserOption{jwt.WithIssuer(o.Issuer), jwt.WithExpirationRequired(), jwt.WithLeeway(o.Leeway)}
	if len(o.Audience) > 0 {
		checks = append(checks, jwt.WithAudience(o.Audience...))
	}
	i.valid = jwt.NewValidator(checks...)
	return i, nil
}

func checkIssuer(o *Issuer) error {
	for _, alg := range o.Algorithms {
		if !slices.Contains(algorithms, alg) {
			return fmt.Errorf("algorithm %q is not allowed; possible are %s", alg, strings.Join(algorithms, ", "))
		}
	}
	switch {
	case o.Issuer == "":
		return errors.New("the exact value of the iss claim is missing")
	case o.JWKS == "":
		return errors.New("the key set is missing: an https address or a file")
	case o.Leeway < 0 || o.Leeway > maxLeeway:
		return fmt.Errorf("leeway %v is not between 0 and %v", o.Leeway, maxLeeway)
	case strings.Trim(o.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "":
		return fmt.Errorf("name %q has other characters than letters, digits and ._-", o.Name)
	}
	return nil
}

// jwtShaped reports whether a bearer credential has the shape of a signed token: three
// parts, of which the first is a JSON object in base64url. An API key of this package
// never has.
func jwtShaped(s string) bool {
	return strings.HasPrefix(s, "eyJ") && strings.Count(s, ".") == 2
}

// verify returns the principal that a token vouches for, or one of the package's
// errors. No claim is used before the signature holds, but the one that chooses whose
// keys to verify with.
func (r *Resolver) verify(ctx context.Context, raw string) (Principal, error) {
	if len(raw) > maxCredential {
		return Principal{}, ErrTooLong
	}
	mark := r.hash.sum("jwt", raw)
	if r.bad.Has(mark) {
		return Principal{}, ErrRepeated
	}
	var from *issuer
	claims := jwt.MapClaims{}
	_, err := r.parser.ParseWithClaims(raw, claims, func(t *jwt.Token) (any, error) {
		var err error
		if from, err = r.issuerOf(t, claims); err != nil {
			return nil, err
		}
		return from.keys(t)
	})
	if err == nil {
		err = from.valid.Validate(claims)
	}
	if err == nil {
		return from.principal(r, claims)
	}
	err, lasting := classify(err)
	if lasting {
		r.bad.Add(mark)
	}
	return Principal{}, err
}

// issuerOf chooses the issuer by the claim and refuses what its configuration does not
// allow. "crit" (RFC 7515, 4.1.11) lists headers that must be understood; none is.
func (r *Resolver) issuerOf(t *jwt.Token, claims jwt.MapClaims) (*issuer, error) {
	iss, _ := claims["iss"].(string)
	from, ok := r.issuers[iss]
	switch {
	case !ok:
		return nil, ErrIssuer
	case !slices.Contains(from.Algorithms, t.Method.Alg()):
		return nil, ErrAlgorithm
	}
	if _, critical := t.Header["crit"]; critical {
		return nil, ErrCritical
	}
	return from, nil
}

// classify turns an error of the JWT library into one of ours, and says whether the
// same token is sure to fail again. A token whose key is unknown, or whose time has
// not come, may be good a moment later.
func classify(err error) (as error, lasting bool) {
	for _, own := range []error{ErrIssuer, ErrAlgorithm, ErrCritical} {
		if errors.Is(err, own) {
			return own, true
		}
	}
	switch {
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return ErrNotYet, false
	case errors.Is(err, jwt.ErrTokenExpired):
		return ErrExpired, true
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return ErrAudience, true
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return ErrSignature, true
	case errors.Is(err, keyfunc.ErrKeyfunc):
		return ErrSignature, false
	}
	return ErrMalformed, true
}

// principal reads a caller from verified claims.
func (i *issuer) principal(r *Resolver, claims jwt.MapClaims) (Principal, error) {
	p, err := i.caller(r, claims)
	if err != nil {
		return Principal{}, err
	}
	if i.TenantClaim != "" {
		p.Tenant = tenantText(claimText(claims, i.TenantClaim))
	}
	if i.TierClaim != "" {
		p.Tier = claimText(claims, i.TierClaim)
	}
	roles := claimList(claims, i.RolesClaim)
	for _, role := range roles {
		p.Groups = append(p.Groups, "role:"+role)
	}
	for _, rt := range i.RoleTiers {
		if slices.Contains(roles, rt.Role) {
			p.Tier = rt.Tier
			break
		}
	}
	return p, nil
}

// maxSubject is the most bytes of a subject as a token has it.
const maxSubject = 1024

// caller reads who a token is about.
func (i *issuer) caller(r *Resolver, claims jwt.MapClaims) (p Principal, err error) {
	if i.mapsSubjects() {
		p.Subject, p.Subjects, err = i.subjects(r, claims)
		return p, err
	}
	sub := claimText(claims, i.SubjectClaim)
	if sub == "" || len(sub) > maxSubject {
		return p, ErrMalformed
	}
	return Principal{Subject: i.subject(r, sub)}, nil
}

// subject is stable over token refreshes: it hangs on issuer and "sub" alone. A sub
// that cannot stand in a log as it is becomes a digest.
func (i *issuer) subject(r *Resolver, sub string) string {
	if !plain(sub, 128) {
		d := r.hash.sum("sub", i.Issuer.Issuer, sub)
		sub = "~" + d.text()
	}
	if i.Name == "" {
		return "user:" + sub
	}
	return "user:" + i.Name + "/" + sub
}
