package config

// MCP is the broker: its limits, who may do what, and the providers it knows.
type MCP struct {
	// Execution limits.
	Limits *MCPLimits `key:"limits"`
	// Authorization. Without roles, assignments and denies everything is permitted to everybody.
	Auth *MCPAuth `key:"auth"`
	// Principals that may serve a slot by dialling in.
	Providers []MCPProvider `key:"providers"`
	// A secret that any provider may show: it may serve every slot, and declare nothing.
	ProviderSecret Secret `key:"providerSecret" secret:"only"`
	// Whether a provider may dial in that shows no secret, where there are no providers and no
	// providerSecret. Otherwise nobody dials in then.
	AnonymousProviders bool `key:"anonymousProviders"`
	// How long a provider may take for a request, in milliseconds. Zero is no time-out.
	ProviderRequestTimeoutMs int64 `key:"providerRequestTimeoutMs" default:"60000" min:"0"`
	// The providers that the broker starts or calls, and what is special about those that dial in.
	Slots []MCPSlot `key:"slots" alias:"servers"`
	// When a second connection gets the slot that a first one holds: never, once the first is
	// found dead, or at once. It is the same principal's in every case.
	Takeover string `key:"takeover" enum:"reject|liveness|always" default:"liveness"`
	// All slots as one server, at /_all/mcp.
	Aggregate MCPAggregate `key:"aggregate"`
	// Pages whose scripts may call the broker, such as "https://app.example.com", or "*" for all.
	// Absent is pages of this machine, for browsers on it, and none otherwise; [] is none.
	AllowedOrigins []string `key:"allowedOrigins" format:"origin"`
	// Names under which the broker is called over a loopback address beside those of loopback, as
	// by a proxy on this machine that passes Host on.
	AllowedHosts []string `key:"allowedHosts" format:"plain-host"`
	// What clients are told of the authorization server whose tokens are good here.
	OAuth *MCPOAuth `key:"oauth"`
	// Which claims of a verified token are subjects of its caller.
	Subjects MCPSubjects `key:"subjects"`
	// Bytes of one message of a client.
	MaxFrameBytes int64 `key:"maxFrameBytes" default:"4194304" min:"1024" max:"268435456"`
	// Bytes of one message of a provider that dials in, in either direction.
	MaxProviderFrameBytes int64 `key:"maxProviderFrameBytes" default:"16777216" min:"1024" max:"268435456"`
	// Bytes of all results that are kept, see cache of a slot.
	CacheBytes int64 `key:"cacheBytes" default:"67108864" min:"1024"`
	// Bounds of clients' sessions.
	Sessions MCPSessions `key:"sessions"`
	// A file that gets one JSON line for each decision about a call.
	Audit *MCPAudit `key:"audit"`
	// How long calls may run on when the broker stops, in milliseconds. What is still held then
	// stays held, and is in the books of the next start.
	ShutdownGraceMs int64 `key:"shutdownGraceMs" default:"10000" min:"1"`
	// How often a provider that dialled in is asked whether it lives, in milliseconds.
	ProviderKeepAliveMs int64 `key:"providerKeepAliveMs" default:"20000" min:"1000"`
}

// MCPProvider is a principal that may serve a slot.
type MCPProvider struct {
	// Its id.
	ID string `key:"id" required:"true" format:"plain-id"`
	// The environment variable that holds its secret.
	SecretEnv string `key:"secretEnv" required:"true" format:"env"`
	// Subjects it acts as.
	Subjects []string `key:"subjects" format:"subject"`
	// Resources it may declare. Without any, or with all, it may declare nothing.
	AllowedResources []string `key:"allowedResources" format:"resource"`
}

// MCPAggregate says how all slots look as one.
type MCPAggregate struct {
	// The longest name of a tool. A longer one is shortened, with a hash of the whole at its end.
	MaxNameLength int64 `key:"maxNameLength" default:"64" min:"24" max:"128"`
	// How long a list waits for each provider, in milliseconds. Then it goes without it.
	ListTimeoutMs int64 `key:"listTimeoutMs" default:"5000" min:"1"`
}

// MCPOAuth is what RFC 9728 lets a client find out. A client that shows no credential is
// then told to get a token. The tokens themselves are checked by identity.jwt.
type MCPOAuth struct {
	// The broker's own address as clients know it, without a path: "https://mcp.example.com". The
	// audience of each issuer must name it, or a slot below it: "https://mcp.example.com/files/mcp".
	Resource string `key:"resource" required:"true" format:"site"`
	// The issuers that give out tokens for it.
	AuthorizationServers []string `key:"authorizationServers" required:"true" format:"base-url"`
	// The scopes that there are.
	Scopes []string `key:"scopes" format:"scope"`
}

// MCPSubjects names claims beside that of the user, which is subjectClaim of identity.jwt. One
// inside another is written with a dot: "realm_access.roles". A claim holds a text or a list of
// texts; a token with anything else there is refused. An API key is "client:apikey:…".
type MCPSubjects struct {
	// The claims of groups, "group:".
	Group []string `key:"group" alias:"groups" default:"groups|roles"`
	// The claim of the client program, "client:".
	Client string `key:"client" default:"client_id"`
	// The claims of a service that is no person, "service:". Absent is none.
	Service []string `key:"service" alias:"services"`
}

// MCPSessions bounds the sessions of clients. Whoever would be one too many is told to come
// back later.
type MCPSessions struct {
	// How many there may be.
	MaxSessions int64 `key:"maxSessions" default:"10000" min:"1"`
	// How many one subject may have, callers without credentials being told apart by address.
	PerSubject int64 `key:"perSubject" default:"256" min:"1"`
	// How many one subject may begin in a minute, as many of them at once; all together may begin
	// 16 times as many. No rule counts it.
	StartsPerMinute int64 `key:"startsPerMinute" default:"600" min:"1"`
	// When one ends that nobody uses, in milliseconds.
	IdleMs int64 `key:"idleMs" default:"1800000" min:"1000"`
	// When one ends in any case, in milliseconds.
	MaxAgeMs int64 `key:"maxAgeMs" default:"86400000" min:"1000"`
}

// MCPAudit is the file of the broker's audit. It holds no arguments and no credentials.
type MCPAudit struct {
	// The file, relative to the configuration file. Its directory must exist.
	File string `key:"file" required:"true" format:"path"`
	// When a new file is begun.
	MaxBytes int64 `key:"maxBytes" default:"67108864" min:"4096"`
	// How many full files are kept beside it: FILE.1 is the newest.
	Keep int64 `key:"keep" default:"5" min:"0" max:"1000"`
}
