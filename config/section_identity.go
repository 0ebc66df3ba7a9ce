package config

import "time"

// Identity says how a caller is recognised: by a verified API key, else a JWT, else a
// tenant, else its address.
type Identity struct {
	// How the client's address is found.
	ClientIP ClientIP `key:"clientIp"`
	// API keys. Absent looks at none.
	APIKeys *APIKeys `key:"apiKeys"`
	// Issuers whose JSON Web Tokens are accepted.
	JWT []JWT `key:"jwt"`
	// Tenants.
	Tenant Tenant `key:"tenant"`
	// The limit of an address before anything is verified.
	PreAuth PreAuth `key:"preAuth"`
	// How many failed credentials an address may present.
	AuthFailures AuthFailures `key:"authFailures"`
}

// ClientIP says how the client's address is found: from the right of one header, past
// the trusted proxies, and never from a header of an untrusted peer.
type ClientIP struct {
	// The one header that trusted proxies write.
	Header string `key:"header" format:"header" default:"X-Forwarded-For"`
	// Addresses and prefixes of proxies whose header is believed.
	TrustedProxies []Prefix `key:"trustedProxies"`
	// How many bits of an IPv4 address make a client.
	IPv4Prefix int64 `key:"ipv4Prefix" default:"32" min:"8" max:"32"`
	// How many bits of an IPv6 address make a client.
	IPv6Prefix int64 `key:"ipv6Prefix" default:"64" min:"32" max:"128"`
	// Prefixes of NAT64, whose embedded IPv4 address is the client.
	NAT64Prefixes []Prefix `key:"nat64Prefixes"`
	// Instead of trustedProxies: how many proxies stand in front. Zero trusts by address.
	Hops int64 `key:"hops" min:"0" max:"16"`
	// Whether a peer on a unix socket is a trusted proxy.
	TrustUnix bool `key:"trustUnix"`
}

// APIKeys says where keys come from and which are good.
type APIKeys struct {
	// Headers that carry a key, first one wins.
	Headers []string `key:"headers" min:"1" format:"header" default:"X-API-Key"`
	// Whether "Authorization: Bearer" may carry a key too. A token with two dots is a JWT.
	Bearer bool `key:"bearer" default:"true"`
	// The key file, as `sluice key new` writes it, relative to the configuration file.
	File string `key:"file" format:"path"`
	// The secret that the digests of the key file were made with. A key file needs it.
	Secret Secret `key:"secret" secret:"only"`
	// What an unverified key is: nothing (ignore), an error (reject), or an identity of the default tier (accept).
	Unverified string `key:"unverified" enum:"ignore|reject|accept" default:"ignore"`
}

// JWT is one issuer of tokens.
type JWT struct {
	// The issuer, as the "iss" claim spells it.
	Issuer string `key:"issuer" required:"true"`
	// A short name that scopes its subjects. Absent is none for a single issuer, and its host for one of several.
	Name string `key:"name" format:"plain-id"`
	// Audiences of which the token must have one. Absent accepts any.
	Audience []string `key:"audience" min:"1"`
	// Signature algorithms.
	Algorithms []string `key:"algorithms" min:"1" enum:"RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA" default:"RS256|ES256|EdDSA"`
	// The key set: an https URL, or a file relative to the configuration file.
	JWKS string `key:"jwks" required:"true" format:"jwks"`
	// The claim that names the subject.
	SubjectClaim string `key:"subjectClaim" default:"sub"`
	// The claim that names the tenant. Absent takes none.
	TenantClaim string `key:"tenantClaim"`
	// The claim that names the tier, if no role gives one. Absent takes none.
	TierClaim string `key:"tierClaim"`
	// The claim that lists roles.
	RolesClaim string `key:"rolesClaim" default:"roles"`
	// The tier that each role gives; of several the first in this list.
	Roles []RoleTier `key:"roles" keyed:"Role"`
	// How far clocks may differ.
	Leeway time.Duration `key:"leeway" default:"30s" max:"1m"`
}

// RoleTier gives a role a tier.
type RoleTier struct {
	Role string
	// The tier's name.
	Tier string `key:"tier" required:"true"`
}

// Tenant says when a tenant is believed.
type Tenant struct {
	// The header that names a tenant.
	Header string `key:"header" format:"header" default:"X-Tenant-ID"`
	// Whose header counts: a verified caller's, also a trusted proxy's, or anyone's.
	From string `key:"from" enum:"verified|trusted-proxy|anyone" default:"verified"`
	// The tier of a caller that is known by its tenant alone. Absent is defaultTier.
	Tier string `key:"tier"`
}

// PreAuth is the limit of an address before anything is verified. It always runs, so
// that a flood of bad credentials is cheap to refuse.
type PreAuth struct {
	// Whether it runs.
	Enabled bool `key:"enabled" default:"true"`
	Allowance
	// The limit of a whole IPv6 site, a /48, which holds 65536 networks that have the limit
	// above each: "20000/s burst 40000". Absent is unlimited.
	Site *Rate `key:"site"`
	// What happens when the store fails.
	OnStoreError string `key:"onStoreError" enum:"closed|open|local" default:"open"`
	// How much of each limit may be given up, 1% to 50%, so that a store that replicas share need
	// not be asked for each call of a busy counter: units are taken ahead. Absent asks for each.
	Lease string `key:"lease" format:"lease"`
}

// AuthFailures is how many failed credentials an address may present.
type AuthFailures struct {
	// Whether they are counted.
	Enabled bool `key:"enabled" default:"true"`
	Allowance
	// Whether the same credential counts once if an address shows it again within ten minutes.
	Distinct bool `key:"distinct"`
}
