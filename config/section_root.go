package config

import "time"

// Root is the file's top level.
type Root struct {
	// Whether limits are enforced at all. False lets every request pass, without headers.
	Enabled bool `key:"enabled" default:"true"`
	// The addresses to listen on. A surface without an address does not listen.
	Listen Listen `key:"listen"`
	// Where the books are kept.
	Store Store `key:"store"`
	// How a caller is recognised.
	Identity Identity `key:"identity"`
	// What each class of callers may do, by the name of the class.
	Tiers []Tier `key:"tiers" keyed:"Name"`
	// The tier of a verified caller whose credential names none, or one that is not configured.
	DefaultTier string `key:"defaultTier" default:"standard"`
	// The tier of callers that are known by their address alone.
	AnonymousTier string `key:"anonymousTier" default:"anonymous"`
	// Limits of single endpoints, beside those of the tier. The most specific pattern counts.
	Endpoints []Endpoint `key:"endpoints"`
	// Paths that are never limited. Setting them replaces the whole list.
	ExcludedPaths []string `key:"excludedPaths" format:"pattern" default:"/actuator/health/**|/actuator/info|/index.html|/assets/**"`
	// The servers behind the gate.
	Upstreams []Upstream `key:"upstreams"`
	// Paths that speak JSON-RPC, so that a refusal is a JSON-RPC error.
	MCPPaths []MCPPath `key:"mcpPaths"`
	// How request paths are read.
	Paths Paths `key:"paths"`
	// What X-HTTP-Method-Override and its like mean: they are removed, or they pass and a POST
	// that names PUT, PATCH or DELETE is limited as that.
	MethodOverride string `key:"methodOverride" enum:"strip|honour" default:"strip"`
	// The most a request may be or take.
	Bounds Bounds `key:"bounds"`
	// What the answers say about limits.
	Headers Headers `key:"headers"`
	// The body of a refusal.
	Problem Body `key:"problem"`
	// What a browser may read of a refusal.
	CORS CORS `key:"cors"`
	// Limits of long answers: server-sent events, WebSockets, MCP streams.
	Streams Streams `key:"streams"`
	// The gate's certificate. Without one it speaks plain HTTP.
	TLS TLS `key:"tls"`
	// Who may administer.
	Admin Admin `key:"admin"`
	// Logs, metrics, audit.
	Observability Observability `key:"observability"`
	// Stopping.
	Shutdown Shutdown `key:"shutdown"`
	// Rules written by hand, for anything else.
	Rules []Rule `key:"rules"`
	// Calls to language models.
	LLM *LLM `key:"llm"`
	// The MCP broker.
	MCP *MCP `key:"mcp"`
	// Manifests of public data sources.
	Sources []Source `key:"sources"`
	// Chat channels.
	Channels *Channels `key:"channels"`
	// Polling and ingestion.
	Connectors *Connectors `key:"connectors"`
}

// Listen says where each surface listens: "127.0.0.1:8080", ":8080" or "unix:/run/sluice.sock".
type Listen struct {
	// The inbound gate.
	Gate string `key:"gate" format:"address"`
	// The gateway to language models.
	LLM string `key:"llm" format:"address"`
	// The MCP broker.
	MCP string `key:"mcp" format:"address"`
	// The decision service.
	Decide string `key:"decide" format:"address"`
	// Administration. Beyond loopback it needs a token, see admin.
	Admin string `key:"admin" format:"address"`
}

// Store says where the books are kept.
type Store struct {
	// The kind of store.
	Backend string `key:"backend" alias:"type" enum:"in-memory|file|redis|hazelcast" default:"in-memory"`
	// Settings of the in-memory store.
	Memory MemoryStore `key:"memory" alias:"inMemory"`
	// Settings of the file store.
	File *FileStore `key:"file"`
	// Settings of the Redis store.
	Redis *RedisStore `key:"redis"`
	// Settings of the Hazelcast store.
	Hazelcast *HazelcastStore `key:"hazelcast"`
}

// MemoryStore bounds the in-memory store.
type MemoryStore struct {
	// The most keys that are counted one by one; newer ones share counters. Absent is the store's own bound.
	MaxKeys *int64 `key:"maxKeys" min:"1024"`
	// The most calls with an ID that are remembered. Absent is the store's own bound.
	MaxRecords *int64 `key:"maxRecords" min:"1"`
	// How long a call with an ID is remembered after its end.
	Retention time.Duration `key:"retention" default:"1h" min:"1s"`
}

// FileStore is the store that survives a crash.
type FileStore struct {
	// The ledger, relative to the configuration file. Its directory must exist, on a disk of this machine.
	Path string `key:"path" required:"true" format:"path"`
	// The most keys that are counted one by one; newer ones share counters. Absent is the store's own bound.
	MaxKeys *int64 `key:"maxKeys" min:"1024"`
	// The most calls with an ID that may be open. It bounds reservations and work in hand, not traffic.
	MaxRecords int64 `key:"maxRecords" default:"10000" min:"1"`
	// How long a call with an ID is remembered after its end.
	Retention time.Duration `key:"retention" default:"24h" min:"1s"`
	// The same in milliseconds, instead of retention.
	RetentionMs *int64 `key:"retentionMs" min:"1000"`
	// What happens to the lock of a process that has crashed: it is taken over if that process
	// is gone for certain, or the start is refused.
	StaleLock string `key:"staleLock" enum:"pid-check|refuse" default:"pid-check"`
	// What happens to counters that were written under other rules: those of rules that are
	// still there stay and the rest is dropped, or the rules are refused.
	OnRulesChange string `key:"onRulesChange" enum:"migrate|refuse" default:"migrate"`
	// What keys of counters are made with, at least 16 random bytes. Absent lets the ledger have one of its own.
	KeySecret Secret `key:"keySecret" secret:"only"`
}

// TLS is a certificate for a listener.
type TLS struct {
	// The certificate chain, PEM.
	CertFile string `key:"certFile" alias:"cert" format:"path"`
	// The private key, PEM.
	KeyFile string `key:"keyFile" format:"path"`
	// Authorities whose client certificates are demanded. Absent demands none.
	ClientCAFile string `key:"clientCaFile" format:"path"`
	// The oldest protocol version.
	MinVersion string `key:"minVersion" enum:"1.2|1.3" default:"1.2"`
}

// Admin says who may administer. Without a token only a loopback listener is allowed.
type Admin struct {
	// The bearer token.
	Token Secret `key:"token" secret:"only"`
	// Instead of the token: its SHA-256, 64 hexadecimal digits, as `sluice key new --admin` prints it.
	TokenSHA256 string `key:"tokenSha256" format:"sha256"`
	// A bearer token that may read and change nothing.
	ReaderToken Secret `key:"readerToken" secret:"only"`
	// Instead of the reader's token: its SHA-256.
	ReaderTokenSHA256 string `key:"readerTokenSha256" format:"sha256"`
	// Whether the page hides most of each address and name.
	Mask bool `key:"mask"`
	// Further values of the Host header that are answered, beside loopback names and the listen address.
	AllowedHosts []string `key:"allowedHosts"`
}

// Observability says what is written down.
type Observability struct {
	// The least severe level that is logged.
	LogLevel string `key:"logLevel" enum:"debug|info|warn|error" default:"info"`
	// The form of the log.
	LogFormat string `key:"logFormat" enum:"text|json" default:"text"`
	// A file that gets one JSON line for each administrative change. Absent writes them to the log.
	AuditFile string `key:"auditFile" format:"path"`
	// How many recent refusals the page shows.
	RecentEvents int64 `key:"recentEvents" default:"256" min:"0" max:"65536"`
}

// Shutdown says how a stop goes.
type Shutdown struct {
	// How long the listener stays open, answering readiness with 503, before it closes.
	Delay time.Duration `key:"delay" default:"0s"`
	// How long running requests may take after that.
	Grace time.Duration `key:"grace" default:"20s"`
}
