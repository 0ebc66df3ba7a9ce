package config

// MCPLimits is the broker's limits block. It may also stand at the top level of the file. That
// it is there, even without rules, lets no call pass that could not be counted: batches of
// calls are refused, and calls without an id dropped.
type MCPLimits struct {
	// The ledger that survives a restart, relative to the configuration file; its directory must
	// exist. It is the store of everything, unless store says another. Absent keeps it in memory.
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
	// The methods that are counted. Absent is tools/call alone.
	Methods []string `key:"methods" min:"1" enum:"tools/call|resources/read|prompts/get|completion/complete"`
	// Which dimensions have a counter for each value, at most four.
	GroupBy []string `key:"groupBy" enum:"subject|provider|capability|resource|ip"`
	// Calls in any window; survives a crash.
	Calls *Window `key:"calls"`
	// Starts in any window; a crash may forget them.
	Rate *Window `key:"rate"`
	// Calls at once.
	Concurrency *int64 `key:"concurrency" min:"1"`
	// How many calls one of a capability counts as. One that is not listed counts as one.
	Weights []Share `key:"weights" keyed:"Name"`
	// Lets a call wait its turn. Absent refuses it at once.
	Queue *Queue `key:"queue"`
	// Units of native work, which a provider reserves.
	Budget *Budget `key:"budget"`
	// Whether a provider must have declared the budget's unit.
	RequireReservation bool `key:"requireReservation"`
	// What a deadline does to the slot: it stays taken, or comes back. Needs concurrency.
	OnTimeout string `key:"onTimeout" enum:"hold|release"`
	// What a client's cancel does while the slot stays taken: the provider is not told, so that its
	// answer frees the slot, or it is, and may never answer.
	OnCancel string `key:"onCancel" enum:"hold|forward-and-hold"`
	// When a held slot comes back whatever its holder says, in milliseconds. Absent is never.
	MaxHoldMs *int64 `key:"maxHoldMs" min:"1"`
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
	// How long after its reservation work may begin, in milliseconds, at most a minute. Units come
	// back so much later, so that by the provider's clock at most max begin in any window, too.
	// Absent is the window, or a minute if that is shorter, and max are reserved in any window.
	StartWithinMs *int64 `key:"startWithinMs" min:"1" max:"60000"`
	// What becomes of units that were reserved and not used: they stay taken until the window
	// gives them back, or come back when the provider settles.
	Settle string `key:"settle" enum:"keep|refund" default:"keep"`
	// Whether more may be settled than was reserved; the excess is taken then.
	AllowOverrun bool `key:"allowOverrun"`
}
