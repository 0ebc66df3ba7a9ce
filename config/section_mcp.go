package config

// MCP is the broker: its limits, who may do what, and the providers it knows.
type MCP struct {
	// Execution limits.
	Limits *MCPLimits `key:"limits"`
	// Authorization.
	Auth *MCPAuth `key:"auth"`
	// Principals that may serve a slot.
	Providers []MCPProvider `key:"providers"`
	// How long a provider may take, in milliseconds. Zero is no time-out.
	ProviderRequestTimeoutMs int64 `key:"providerRequestTimeoutMs" default:"60000" min:"0"`
}

// MCPLimits is the broker's limits block. It may also stand at the top level of the file.
type MCPLimits struct {
	// The ledger that survives a restart, relative to the configuration file. Absent keeps it in memory.
	StoreFile string `key:"storeFile" format:"path"`
	// The most reservations and unresolved calls.
	MaxRecords int64 `key:"maxRecords" default:"10000" min:"1"`
	// How long finished records are kept, in milliseconds.
	RetentionMs int64 `key:"retentionMs" default:"86400000" min:"1"`
	// What a lock file left by a crash is: taken over once its process is gone, or refused.
	StaleLock string `key:"staleLock" enum:"pid-check|refuse" default:"pid-check"`
	// What happens to counters when rules change.
	OnRulesChange string `key:"onRulesChange" enum:"migrate|refuse" default:"migrate"`
	// How a refusal looks, by protocol revision.
	Errors MCPErrors `key:"errors"`
	// The rules, at most 256.
	Rules []MCPRule `key:"rules" max:"256"`
}

// MCPErrors is how a refusal looks in each era of the protocol.
type MCPErrors struct {
	// Up to revision 2025-11-25.
	Legacy MCPError `key:"legacy"`
	// From revision 2026-07-28 on, which keeps -32020 to -32099 for itself.
	Modern MCPError `key:"modern"`
}

// MCPError is a JSON-RPC error.
type MCPError struct {
	// Its code. Absent is -32029, or 429 for modern.
	Code *int64 `key:"code"`
	// The HTTP status it comes with.
	Status int64 `key:"status" enum:"200|429" default:"200"`
}

// MCPRule is one rule of the limits block. It needs calls, rate, concurrency or budget.
type MCPRule struct {
	// Its id: 1 to 128 of letters, digits and ._-
	ID string `key:"id" required:"true" format:"plain-id"`
	// Which calls. Absent is every call.
	Match MCPMatch `key:"match"`
	// Which dimensions have a counter for each value.
	GroupBy []string `key:"groupBy" enum:"subject|provider|capability|resource"`
	// Calls in any window; survives a crash.
	Calls *Window `key:"calls"`
	// Starts in any window; a crash may forget them.
	Rate *Window `key:"rate"`
	// Calls at once.
	Concurrency *int64 `key:"concurrency" min:"1"`
	// Units of native work, which a provider reserves.
	Budget *Budget `key:"budget"`
	// Whether a provider must have declared the budget's unit.
	RequireReservation bool `key:"requireReservation"`
	// What a deadline does to the slot: it stays taken, or comes back. Needs concurrency.
	OnTimeout string `key:"onTimeout" enum:"hold|release"`
	// When a held slot comes back whatever its holder says, in milliseconds. Absent is never.
	MaxHoldMs *int64 `key:"maxHoldMs" min:"1"`
	// Whether more may be settled than was reserved.
	AllowOverrun bool `key:"allowOverrun"`
	// Decides and reports, and refuses nobody.
	Shadow bool `key:"shadow"`
}

// MCPMatch selects calls. What is absent matches all.
type MCPMatch struct {
	// A subject of the caller: user:, group:, client: or service:.
	Subject string `key:"subject" format:"selector"`
	// The slot's name.
	Provider string `key:"provider" format:"selector"`
	// What the tool is mapped to.
	Capability string `key:"capability" format:"selector"`
	// A resource pattern.
	Resource string `key:"resource" format:"resource"`
}

// Window is at most max in any window.
type Window struct {
	// How many.
	Max int64 `key:"max" required:"true" min:"1"`
	// The window's length in milliseconds, at most a day.
	WindowMs int64 `key:"windowMs" required:"true" min:"1" max:"86400000"`
}

// Budget is a window that counts units of native work.
type Budget struct {
	// The unit's name.
	Unit string `key:"unit" required:"true" format:"unit"`
	Window
}

// MCPAuth says who may do what. A limit never grants a permission.
type MCPAuth struct {
	// The capability of each tool.
	ToolCapabilities []Mapping `key:"toolCapabilities" keyed:"Name"`
	// The capability of each tool, by a pattern of the provider's resource.
	ProviderToolCapabilities []ToolMap `key:"providerToolCapabilities" keyed:"Pattern"`
	// The resource path of each slot. A slot that is not listed is /slot.
	SlotResources []Mapping `key:"slotResources" keyed:"Name"`
	// What each role may do.
	Roles []Role `key:"roles" keyed:"Name"`
	// Who has which role where.
	Assignments []Assignment `key:"assignments"`
	// What is forbidden whatever the roles say.
	Denies []Deny `key:"denies"`
}

// Mapping is a text by name, written as "name: text".
type Mapping struct {
	Name string
	// The text.
	To string `key:"to" required:"true"`
}

// ToolMap maps the tools of some providers to capabilities.
type ToolMap struct {
	Pattern string
	// The capability of each tool.
	Tools []Mapping `key:"tools" keyed:"Name"`
}

// Role is a set of capabilities.
type Role struct {
	Name string
	// What it may do.
	Capabilities []string `key:"capabilities"`
	// Roles whose capabilities it has too.
	Inherits []string `key:"inherits"`
}

// Assignment gives a subject a role on a resource.
type Assignment struct {
	// Its id.
	ID string `key:"id"`
	// Who.
	Subject string `key:"subject" required:"true"`
	// Which role.
	Role string `key:"role" required:"true"`
	// Where.
	Resource string `key:"resource" required:"true" format:"resource"`
}

// Deny forbids a subject capabilities on a resource.
type Deny struct {
	// Its id.
	ID string `key:"id"`
	// Who.
	Subject string `key:"subject" required:"true"`
	// What.
	Capabilities []string `key:"capabilities" required:"true"`
	// Where.
	Resource string `key:"resource" required:"true" format:"resource"`
}

// MCPProvider is a principal that may serve a slot.
type MCPProvider struct {
	// Its id.
	ID string `key:"id" required:"true"`
	// The environment variable that holds its secret.
	SecretEnv string `key:"secretEnv" required:"true" format:"env"`
	// Subjects it acts as.
	Subjects []string `key:"subjects"`
	// Resources it may declare.
	AllowedResources []string `key:"allowedResources" format:"resource"`
}
