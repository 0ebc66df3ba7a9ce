package identity

import "log/slog"

// Unverified says what an API key is worth that nothing here can verify.
type Unverified uint8

const (
	Ignore Unverified = iota // its sender is known by its address alone
	Reject                   // its sender is refused
	Accept                   // it names a caller, for a gate before an application that checks keys itself
)

// TenantSource says whose tenant header is believed. Each value believes more senders
// than the one before.
type TenantSource uint8

const (
	// FromVerified lets a verified caller narrow itself to a tenant: "tenant:acme@" and
	// its subject, a bucket of its own, so that it can neither shed its limits nor drain
	// another's. Nobody else's header counts.
	FromVerified TenantSource = iota
	// FromTrusted also believes what a trusted proxy sends. The proxy must drop the
	// header when a client sends it.
	FromTrusted
	// FromAnyone believes every sender. Whoever changes the header starts with full limits.
	FromAnyone
)

// A Tenant says what the tenant header means.
type Tenant struct {
	// Header is its name; empty is X-Tenant-ID.
	Header string
	// From says whom to believe.
	From TenantSource
	// Tier is the class of callers that are known by their tenant alone; empty is
	// [Options.DefaultTier].
	Tier string
}

// Options are what a [Resolver] believes. The zero Options believe nobody, and every
// request is without a principal.
type Options struct {
	// Keys are the API keys; nil is none.
	Keys *Keys
	// KeyHeaders are the headers that carry nothing but a key; nil is X-API-Key. A key in
	// "Authorization: ApiKey" is always found.
	KeyHeaders []string
	// NoBearer says that "Authorization: Bearer" never carries a key, because the
	// application has bearer credentials of its own.
	NoBearer bool
	// Unverified says what a key is worth that is in no key file.
	Unverified Unverified
	// Issuers are whose JSON Web Tokens are believed; nil is nobody.
	Issuers []Issuer
	// Tenant says what the tenant header means.
	Tenant Tenant
	// DefaultTier is the class of a caller whose own is not given or not one of Tiers;
	// empty is "standard".
	DefaultTier string
	// Tiers are the tiers there are; nil accepts any name.
	Tiers []string
	// Secret keys the digests of unverified keys and of long names. Several processes
	// that share a store need the same; nil is a random one.
	Secret []byte
	// Logger is told of key sets that cannot be fetched; nil is [slog.Default].
	Logger *slog.Logger
}
