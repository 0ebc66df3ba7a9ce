package config

import "time"

// Rule is a rule by hand: limits on the calls that match.
type Rule struct {
	// Its id: 1 to 128 of letters, digits and ._:/*-
	ID string `key:"id" required:"true" format:"id"`
	// Which calls. Absent is every call.
	Match Match `key:"match"`
	// Which dimensions have a counter for each value, at most four. Absent is one counter.
	GroupBy []string `key:"groupBy" format:"dimension"`
	// What becomes of a call without a value for groupBy: counted by address, not limited, or refused.
	Missing string `key:"missing" enum:"ip|skip|deny" default:"ip"`
	Measure
	// Several limits, all of which must pass.
	Limits []NamedLimit `key:"limits"`
	// How many calls a capability counts as. One that is not listed counts as one.
	Weights []Share `key:"weights" keyed:"Name"`
	// Lets a caller wait. Absent refuses at once.
	Queue *Queue `key:"queue"`
	// What becomes of units that were taken and not used.
	Settle string `key:"settle" enum:"refund|keep" default:"refund"`
	// Whether more may be settled than was taken, when settle is keep.
	AllowOverrun bool `key:"allowOverrun"`
	// What a caller's leaving does to slots while the work may run on.
	OnTimeout string `key:"onTimeout" enum:"hold|release" default:"hold"`
	// When a held slot comes back whatever its holder says. Absent is never.
	MaxHold time.Duration `key:"maxHold"`
	// The same in milliseconds, instead of maxHold.
	MaxHoldMs *int64 `key:"maxHoldMs" min:"1"`
	// What happens when the store fails.
	OnStoreError string `key:"onStoreError" enum:"closed|open|local" default:"closed"`
	// How much of each limit may be given up, 1% to 50%, so that a store that replicas share need
	// not be asked for each call of a busy counter: units are taken ahead. Absent asks for each.
	Lease string `key:"lease" format:"lease"`
	// Whether a crash may lose the counters, so that no call waits for a disk. Absent keeps
	// budgets, pauses, slots of work that goes on by itself, and what takes an hour or longer to come back.
	Volatile *bool `key:"volatile"`
	// Decides and reports, and refuses nobody.
	Shadow bool `key:"shadow"`
}

// NamedLimit is one of several limits of a rule.
type NamedLimit struct {
	// Its name; needed where two limits are of one kind.
	Name string `key:"name" format:"id"`
	Measure
}

// Measure is one limit: exactly one of its first five keys.
type Measure struct {
	// Units that come back evenly: "100/min burst 20".
	Bucket *Rate `key:"bucket"`
	// Starts that are at least so far apart: 3s.
	Pace *time.Duration `key:"pace"`
	// At most so many in any window of that length: "120/1m".
	Window *Rate `key:"window"`
	// So many at once.
	Slots *int64 `key:"slots" alias:"concurrency" min:"0"`
	// Nothing until an upstream's pause is over; the longest pause that is believed, 0s for any.
	Cooldown *time.Duration `key:"cooldown"`
	// What is counted. Absent is calls.
	Unit string `key:"unit" format:"unit"`
}

// Match selects calls: every selector must match, and within one any of its values.
type Match struct {
	Selectors
	// Calls that any of these selectors matches are not meant.
	Not *Selectors `key:"not"`
}

// Selectors are values of a call's dimensions. A bare text is a list of one.
type Selectors struct {
	// What is asked: http, preauth, auth-failure, stream, frame, llm, tool, method, operation, message, source, poll.
	Kind []string `key:"kind" min:"1"`
	// Who asks: "apikey:…", "user:…", "tenant:…", "ip:…".
	Subject []string `key:"subject" min:"1"`
	// On whose account.
	Tenant []string `key:"tenant" min:"1"`
	// The caller's class.
	Tier []string `key:"tier" min:"1"`
	// The client's address prefix: "ip:203.0.113.9".
	IP []string `key:"ip" min:"1"`
	// Whom the call goes to.
	Provider []string `key:"provider" min:"1"`
	// What it does there.
	Capability []string `key:"capability" min:"1"`
	// On what: absolute patterns, * is one segment, ** last any number.
	Resource []string `key:"resource" min:"1" format:"resource"`
	// How: an HTTP or JSON-RPC method.
	Method []string `key:"method" min:"1"`
	// The endpoint policy chosen for the call.
	Route []string `key:"route" min:"1"`
	// A language model.
	Model []string `key:"model" min:"1"`
	// The upstream credential.
	Credential []string `key:"credential" min:"1"`
	// A chat channel or connector.
	Channel []string `key:"channel" min:"1"`
}
