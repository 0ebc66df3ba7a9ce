// Package audit says what a broker did about each call, and keeps it.
//
// An [Event] names a call by its ids and says how it went. It has no argument of a tool, no
// result and no credential.
package audit

import "time"

// An Action is what was done, or asked for.
type Action string

// The actions.
const (
	Admit    Action = "admit"    // a call asked to start
	Complete Action = "complete" // its work has ended
	Timeout  Action = "timeout"  // its deadline came
	Cancel   Action = "cancel"   // its client cancelled it, or tried to
	Lost     Action = "lost"     // its provider went before it answered
	Release  Action = "release"  // an operator said that its work has stopped
	Reserve  Action = "reserve"  // a provider asked for a budget
	Settle   Action = "settle"   // it said what it has used
	Decide   Action = "decide"   // it asked for a decision
	Result   Action = "result"   // it reported what came of a decision
	Declare  Action = "declare"  // it declared its resources, or was made to withdraw them
	Takeover Action = "takeover" // a provider took a slot, or was refused it
)

// An Outcome is how it went.
type Outcome string

// The outcomes.
const (
	Denied        Outcome = "denied"         // by the policy
	Invalid       Outcome = "invalid"        // not a proper request, or arguments that do not fit the tool
	Refused       Outcome = "refused"        // by a limit
	CacheHit      Outcome = "cache-hit"      // answered without the provider
	Dispatched    Outcome = "dispatched"     // sent to the provider
	NotDispatched Outcome = "not-dispatched" // provably never reached it
	Completed     Outcome = "completed"      // answered
	Failed        Outcome = "failed"         // answered with an error, or the provider is gone
	Cancelled     Outcome = "cancelled"
	TimedOut      Outcome = "timed-out"
	Late          Outcome = "late" // answered when nobody waited any more
	Released      Outcome = "released"
	Dropped       Outcome = "dropped" // a notification that cannot be tracked
	Ignored       Outcome = "ignored" // a cancellation that fits no request, or several
	Granted       Outcome = "granted" // a reservation, a decision, a declaration, a slot
	Replayed      Outcome = "replayed"
	Settled       Outcome = "settled"
)

// An Event is one thing that was done. The zero value of a field is left out.
type Event struct {
	Time          time.Time `json:"timestamp"`
	Action        Action    `json:"action"`
	Outcome       Outcome   `json:"outcome"`
	Allowed       bool      `json:"allowed"`
	Slot          string    `json:"slot,omitempty"`
	RequestID     string    `json:"requestId,omitempty"`
	CorrelationID string    `json:"correlationId,omitempty"`
	DecisionID    string    `json:"decisionId,omitempty"`
	ReservationID string    `json:"reservationId,omitempty"`
	// Identity is the caller's stable subject, from a verified token: "user:alice".
	Identity   string `json:"identity,omitempty"`
	Method     string `json:"method,omitempty"`
	Tool       string `json:"tool,omitempty"` // one that the provider has
	Capability string `json:"capability,omitempty"`
	Unit       string `json:"unit,omitempty"`
	Quantity   int64  `json:"quantity,omitempty"`
	Used       *int64 `json:"used,omitempty"`
	Result     string `json:"result,omitempty"`
	// Reason and Rule say why not.
	Reason string `json:"reason,omitempty"`
	Rule   string `json:"ruleId,omitempty"`
	// RetryAfterMs is when it would pass, if time alone helps.
	RetryAfterMs int64  `json:"retryAfterMs,omitempty"`
	Error        string `json:"error,omitempty"`
	// By is the operator who released a call.
	By            string   `json:"by,omitempty"`
	ReleasedRules []string `json:"releasedRules,omitempty"`
	// DurationMs is how long the call has taken so far.
	DurationMs int64 `json:"durationMs,omitempty"`
}
