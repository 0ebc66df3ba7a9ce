package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicegate/sluice/internal/lately"
)

// A Resolver finds out who sends a request. It is safe for concurrent use.
type Resolver struct {
	keys       *Keys
	keyHeaders []string // canonical
	noBearer   bool
	unverified Unverified
	issuers    map[string]*issuer
	parser     *jwt.Parser
	tenant     Tenant
	fallback   string
	tiers      []string
	hash       *hasher
	bad        *lately.Set[digest]
}

// How much a resolver remembers of bad tokens, and for how long.
const (
	badTokens  = 4096
	badTokenIs = 30 * time.Second
)

// New builds a resolver. ctx bounds the fetching of key sets in the background; end it
// when the resolver is no longer used. An issuer that does not answer yet is no error.
func New(ctx context.Context, o Options) (*Resolver, error) {
	r := &Resolver{
		keys:       o.Keys,
		noBearer:   o.NoBearer,
		unverified: o.Unverified,
		issuers:    map[string]*issuer{},
		// Claims are validated by issuer, after the signature.
		parser:   jwt.NewParser(jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding()),
		tenant:   o.Tenant,
		fallback: o.DefaultTier,
		tiers:    o.Tiers,
		bad:      lately.New[digest](badTokens, badTokenIs),
	}
	if r.fallback == "" {
		r.fallback = "standard"
	}
	if r.tenant.Header == "" {
		r.tenant.Header = "X-Tenant-ID"
	}
	r.tenant.Header = http.CanonicalHeaderKey(r.tenant.Header)
	if o.KeyHeaders == nil {
		o.KeyHeaders = []string{"X-API-Key"}
	}
	for _, h := range o.KeyHeaders {
		r.keyHeaders = append(r.keyHeaders, http.CanonicalHeaderKey(h))
	}
	if o.Secret == nil {
		o.Secret = []byte(rand.Text())
	}
	if err := CheckSecret(o.Secret); err != nil {
		return nil, err
	}
	r.hash = newHasher(o.Secret)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := r.addIssuers(ctx, o.Issuers, o.Logger); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Resolver) addIssuers(ctx context.Context, issuers []Issuer, log *slog.Logger) error {
	names := map[string]bool{}
	for _, o := range issuers {
		if u, err := url.Parse(o.Issuer); err == nil && o.Name == "" && len(issuers) > 1 {
			o.Name = u.Hostname()
		}
		switch {
		case r.issuers[o.Issuer] != nil:
			return fmt.Errorf("identity: issuer %q is configured twice", o.Issuer)
		case len(issuers) > 1 && (o.Name == "" || names[o.Name]):
			return fmt.Errorf("identity: issuer %q needs a name that no other issuer has", o.Issuer)
		}
		i, err := newIssuer(ctx, o, log)
		if err != nil {
			return err
		}
		names[o.Name] = true
		r.issuers[o.Issuer] = i
	}
	return nil
}

// TenantHeader returns the canonical name of the tenant header.
func (r *Resolver) TenantHeader() string { return r.tenant.Header }

// BelievesTenant reports whether the tenant header counts as it stands, from a peer that
// is a trusted proxy or not.
func (r *Resolver) BelievesTenant(trusted bool) bool {
	return trusted && r.tenant.From == FromTrusted || r.tenant.From == FromAnyone
}

// RejectsUnverified reports whether a request whose credential fails is to be refused.
func (r *Resolver) RejectsUnverified() bool { return r.unverified == Reject }

// Looks reports whether a request has any header that Resolve would look at.
func (r *Resolver) Looks(h http.Header) bool {
	for _, name := range r.keyHeaders {
		if h[name] != nil {
			return true
		}
	}
	return h["Authorization"] != nil || h[r.tenant.Header] != nil
}

// Presents reports whether a request shows a credential that Resolve would judge. It is
// cheap: nothing is computed.
func (r *Resolver) Presents(h http.Header) bool {
	if r.keys != nil {
		for _, name := range r.keyHeaders {
			if len(h[name]) > 0 {
				return true
			}
		}
	}
	_, kind := r.authorization(h)
	return kind == bearerKey && r.keys != nil || kind == bearerToken || kind == twice
}

// Mark is a keyed digest of the credentials that a request with headers h shows, in
// whichever header, and of who shows them: it tells the same from another, and nothing
// can be read from it.
func (r *Resolver) Mark(who string, h http.Header) [sha256.Size]byte {
	shown := []string{"shown", who}
	for _, name := range r.keyHeaders {
		for _, v := range h[name] {
			shown = append(shown, strings.TrimSpace(v))
		}
	}
	if credential, kind := r.authorization(h); kind != nothing {
		shown = append(shown, credential)
	}
	return r.hash.sum(shown...)
}

// Resolve says who sends a request with headers h. trusted is whether the peer is a
// trusted proxy. An API key comes before a token, a token before a tenant.
func (r *Resolver) Resolve(ctx context.Context, h http.Header, trusted bool) Finding {
	var f Finding
	r.resolveKey(h, &f)
	credential, kind := r.authorization(h)
	switch kind {
	case bearerKey:
		r.judgeKey(credential, "Authorization (API key)", &f)
	case bearerToken:
		r.judgeToken(ctx, credential, &f)
	case twice:
		f.fail(ErrAmbiguous)
	}
	r.resolveTenant(h, trusted, &f)
	if f.Found() {
		f.Principal.Tier = r.tier(f.Principal.Tier)
	}
	return f
}

func (r *Resolver) resolveKey(h http.Header, f *Finding) {
	for _, name := range r.keyHeaders {
		switch v := h[name]; {
		case len(v) == 0 || !r.judgesKeys():
		case len(v) > 1:
			f.fail(ErrAmbiguous)
		case strings.TrimSpace(v[0]) != "":
			r.judgeKey(strings.TrimSpace(v[0]), name, f)
		}
	}
}

// judgesKeys reports whether API keys are looked at. Without a key file nobody here can
// tell a good one: keys are the application's affair.
func (r *Resolver) judgesKeys() bool { return r.keys != nil || r.unverified == Accept }

// judgeKey adds what an API key is worth to f. A caller that was found already stays.
func (r *Resolver) judgeKey(raw, source string, f *Finding) {
	err := ErrUnknownKey
	if r.keys != nil {
		var p Principal
		if p, err = r.keys.Lookup(raw); err == nil {
			f.found(p, source, true)
			return
		}
	}
	switch {
	case r.unverified == Accept && len(raw) <= maxCredential && errors.Is(err, ErrUnknownKey):
		d := r.hash.sum("key", raw)
		f.found(Principal{Subject: "apikey:" + d.text()}, source, false)
	case r.keys != nil:
		f.fail(err)
	}
}

func (r *Resolver) judgeToken(ctx context.Context, raw string, f *Finding) {
	p, err := r.verify(ctx, raw)
	if err != nil {
		f.fail(err)
		return
	}
	f.found(p, "Authorization (JWT)", true)
}

// resolveTenant reads the tenant header. The tenant of a principal's own record or
// token always wins; a verified caller without one is narrowed to a bucket that is its
// own, so that it can neither shed its limits nor drain another's.
func (r *Resolver) resolveTenant(h http.Header, trusted bool, f *Finding) {
	v := h[r.tenant.Header]
	if len(v) != 1 || f.Principal.Tenant != "" {
		return
	}
	tenant := tenantText(v[0])
	believed := r.BelievesTenant(trusted)
	switch {
	case tenant == "":
	case believed && f.Found():
		f.Principal.Tenant = tenant
	case believed:
		f.found(Principal{Subject: tenant, Tenant: tenant, Tier: r.tenant.Tier}, r.tenant.Header, trusted)
	case f.Verified:
		f.Principal.Tenant = tenant + "@" + f.Principal.Subject
	}
}

// Vouched returns the finding for a principal that the application has verified. The
// zero Principal is nobody.
func (r *Resolver) Vouched(p Principal) Finding {
	if p.Subject == "" {
		return Finding{}
	}
	p.Tier = r.tier(p.Tier)
	return Finding{Principal: p, Source: "the application", Verified: true}
}

// tier returns the caller's tier if there is such a tier, or the default.
func (r *Resolver) tier(name string) string {
	if name == "" || r.tiers != nil && !slices.Contains(r.tiers, name) {
		return r.fallback
	}
	return name
}

// found takes p for the caller, unless a verified one is known or p is worth no more.
func (f *Finding) found(p Principal, source string, verified bool) {
	if f.Verified || f.Found() && !verified {
		return
	}
	f.Principal, f.Source, f.Verified = p, source, verified
}

func (f *Finding) fail(err error) {
	if f.Err == nil {
		f.Err = err
	}
}

// What an Authorization header carries.
type carried uint8

const (
	nothing carried = iota // no header, another scheme, or nobody here can judge it
	bearerKey
	bearerToken
	twice
)

// authorization classifies the Authorization header by scheme and shape. "Bearer"
// carries a token or a key; a token is only judged if there are issuers.
func (r *Resolver) authorization(h http.Header) (string, carried) {
	v := h["Authorization"]
	switch {
	case len(v) == 0:
		return "", nothing
	case len(v) > 1 && (r.judgesKeys() || len(r.issuers) > 0):
		return "", twice
	}
	scheme, credential, ok := strings.Cut(v[0], " ")
	credential = strings.Trim(credential, " ")
	if !ok || credential == "" {
		return "", nothing
	}
	switch {
	case strings.EqualFold(scheme, "ApiKey"):
		return credential, bearerKey
	case !strings.EqualFold(scheme, "Bearer"):
		return "", nothing
	case jwtShaped(credential) && len(r.issuers) > 0:
		return credential, bearerToken
	case !jwtShaped(credential) && !r.noBearer:
		return credential, bearerKey
	}
	return "", nothing
}
