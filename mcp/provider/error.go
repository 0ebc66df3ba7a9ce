package provider

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// An Error is a broker's answer to what it will not do.
type Error struct {
	// Code is that of JSON-RPC. It depends on the revision that the provider speaks; decide by
	// Reason.
	Code    int64
	Message string
	// Reason is a word such as "limit-exceeded", "no-budget-policy" or "unknown-reservation";
	// the guide lists them. Empty if the broker has given none.
	Reason string
	// Rule is the rule that refused, empty if none did.
	Rule string
	// RetryAfter is when to try again, zero if time alone does not help.
	RetryAfter time.Duration
	// Problems are what is wrong with a declaration, all of them.
	Problems []string
	// Data is the whole of what the broker has added, nil if nothing.
	Data json.RawMessage
}

// Error returns the message and what is wrong.
func (e *Error) Error() string {
	text := fmt.Sprintf("provider: the broker refuses: %s (%d)", e.Message, e.Code)
	for _, p := range e.Problems {
		text += "\n\t" + p
	}
	return text
}

func newError(f *jsonrpc.Error) *Error {
	e := &Error{Code: f.Code, Message: f.Message, Data: f.Data}
	var data struct {
		Reason       string   `json:"reason"`
		RuleID       string   `json:"ruleId"`
		RetryAfterMs int64    `json:"retryAfterMs"`
		Errors       []string `json:"errors"`
	}
	if json.Unmarshal(f.Data, &data) == nil {
		e.Reason, e.Rule, e.Problems = data.Reason, data.RuleID, data.Errors
		e.RetryAfter = time.Duration(data.RetryAfterMs) * time.Millisecond
	}
	return e
}
