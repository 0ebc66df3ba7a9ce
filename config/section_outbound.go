package config

// Source is the manifest of a public data source. Only id and governance are needed.
type Source struct {
	// Its id.
	ID string `key:"id" required:"true" format:"id"`
	// The manifest's schema, "1".
	SchemaVersion string `key:"schemaVersion"`
	// The manifest's own version.
	Version string `key:"version"`
	// Its name for people.
	DisplayName string `key:"displayName"`
	// What it is.
	Description string `key:"description"`
	// Who made the manifest.
	Publisher string `key:"publisher"`
	// What kinds of records it has.
	Kinds []string `key:"kinds"`
	// Whether it is on without being asked for.
	EnabledByDefault bool `key:"enabledByDefault"`
	// How answers are cached.
	Cache *SourceCache `key:"cache"`
	// How it may be used.
	Governance Governance `key:"governance" required:"true"`
	// Words for an agent; kept as they are.
	Prompt Free `key:"prompt"`
	// Its tools; kept as they are.
	Tools Free `key:"tools"`
	// How it is reached; kept as it is.
	Transport Free `key:"transport"`
}

// SourceCache says how answers are cached.
type SourceCache struct {
	// Whether they are.
	Enabled bool `key:"enabled"`
	// Who shares them.
	Scope string `key:"scope"`
	// For how many seconds.
	TTLSeconds int64 `key:"ttlSeconds" min:"0"`
}

// Governance says how a source may be used. A limit that is absent is none.
type Governance struct {
	// Whom to name.
	Attribution string `key:"attribution"`
	// What commerce may not do.
	CommercialUseConstraints string `key:"commercialUseConstraints"`
	// How secret the data is.
	DataClassification string `key:"dataClassification" enum:"controlled|private|public"`
	// The licence.
	License string `key:"license"`
	// The terms.
	TermsURL string `key:"termsUrl"`
	// The hosts it is reached at.
	NetworkHosts []string `key:"networkHosts"`
	// The longest answer.
	MaxResponseBytes *int64 `key:"maxResponseBytes" min:"1"`
	// The name that shares one set of limits. Absent is the first host, else the source's id.
	RateLimitGroup string `key:"rateLimitGroup" format:"selector"`
	// Calls at once.
	MaxConcurrentRequests *int64 `key:"maxConcurrentRequests" min:"1"`
	// The least time between two starts, in milliseconds.
	MinIntervalMs *int64 `key:"minIntervalMs" min:"1"`
	// Starts a second; the longer of the two distances counts.
	RateLimitPerSecond *float64 `key:"rateLimitPerSecond"`
	// How many may wait. Absent is no bound; 0 refuses whoever would have to wait.
	MaxQueueDepth *int64 `key:"maxQueueDepth" min:"0"`
	// The longest wait in milliseconds. Absent or zero is no time-out.
	QueueTimeoutMs *int64 `key:"queueTimeoutMs" min:"0"`
}

// Channels limits chat channels.
type Channels struct {
	// Whether they are limited.
	Enabled bool `key:"enabled" default:"true"`
	// Messages a minute from one sender in one channel.
	InboundUserRPM *int64 `key:"inboundUserRpm" min:"0"`
	// The most that may come at once. Absent is inboundUserRpm.
	InboundUserBurst *int64 `key:"inboundUserBurst" min:"0"`
	// What each platform lets us send, by its name.
	Outbound []Platform `key:"outbound" keyed:"Name"`
}

// Platform is what a chat platform lets us send.
type Platform struct {
	Name string
	// Messages in all.
	Global *Rate `key:"global"`
	// Messages to one chat.
	PerChat *Rate `key:"perChat"`
}

// Connectors limits polling and ingestion.
type Connectors struct {
	// Whether they are limited.
	Enabled bool `key:"enabled" default:"true"`
	Throttle
	// Connectors with limits of their own, by name.
	Routes []Connector `key:"routes" keyed:"Name"`
}

// Throttle is at most so many requests in any period.
type Throttle struct {
	// Requests in a period.
	Requests *int64 `key:"defaultThrottleRequests" alias:"throttleRequests" min:"0"`
	// The period in milliseconds.
	PeriodMs int64 `key:"defaultThrottlePeriodMs" alias:"throttlePeriodMs" default:"60000" min:"1" max:"86400000"`
	// Whether what is too much waits; otherwise it is refused.
	AsyncDelayed bool `key:"throttleAsyncDelayed" default:"true"`
}

// Connector is a connector by name.
type Connector struct {
	Name string
	Throttle
}
