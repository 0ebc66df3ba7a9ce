package sluice

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice/limit"
)

// A Reason is why a call may not go ahead, for machines.
type Reason uint8

// The reasons. The zero Reason is no refusal.
const (
	ReasonNone         Reason = iota
	ReasonRate                // a bucket, pace or window is used up; time helps
	ReasonConcurrency         // all slots are held; a release helps
	ReasonBudget              // a window or bucket of another unit than calls is used up; time helps
	ReasonCooldown            // an upstream asked to be left alone until a time
	ReasonQueueFull           // as many callers wait as the rule allows
	ReasonQueueTimeout        // the call waited, or would have to wait, longer than the rule allows
	ReasonTooLarge            // the call takes more than the limit can ever admit
	ReasonDenied              // the limit is zero
	ReasonMissing             // the call lacks a dimension that the rule insists on
	ReasonInvalid             // a cost is negative, an ID was used for another call, or Expires or Note cannot be
	ReasonStore               // the store failed and the rule fails closed
	ReasonFull                // a bound of the store itself is reached
)

var reasonNames = [...]string{
	"none", "rate", "concurrency", "budget", "cooldown", "queue_full", "queue_timeout",
	"too_large", "denied", "missing", "invalid", "store_unavailable", "store_full",
}

// String returns the reason as logs, metrics and wire formats spell it.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// A Refusal is why a call may not go ahead. Nothing was taken. It is an error: use
// errors.As, or [errors.AsType].
type Refusal struct {
	Reason Reason
	// Rule is the first refusing rule in configuration order, or the first that makes the
	// refusal permanent; empty when none is at fault, as for a reused ID.
	Rule string
	// Violated names every refusing rule, in configuration order.
	Violated []string
	// RetryAfter is the least time after which the same call alone would pass: the
	// largest over the refusing limits, in whole microseconds. Zero when time alone
	// does not help, as for slots or a permanent refusal.
	RetryAfter time.Duration
	// Permanent is true if this call can never pass under this policy.
	Permanent bool
	// Degraded is true if the store did not answer and the rule's OnStoreError decided.
	Degraded bool
	// Waited is how long the call stood in line before it was refused.
	Waited time.Duration
	// Levels are the levels of all matching limits at the time of the refusal.
	Levels []Level
	// Err is the store's error for ReasonStore.
	Err error
}

// Error says which rule refused, why, and when to come back.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString("sluice: refused")
	if r.Rule != "" {
		fmt.Fprintf(&b, " by rule %q", r.Rule)
	}
	fmt.Fprintf(&b, ": %s", r.Reason)
	switch {
	case r.Permanent:
		b.WriteString("; this call can never pass")
	case r.RetryAfter > 0:
		fmt.Fprintf(&b, "; retry after %v", r.RetryAfter)
	}
	if r.Err != nil {
		fmt.Fprintf(&b, ": %v", r.Err)
	}
	return b.String()
}

// Unwrap returns the store's error, if that was the reason.
func (r *Refusal) Unwrap() error { return r.Err }

// A Level is where one limit of one rule stands for the call's key.
type Level struct {
	Rule   string     // the rule's ID
	Name   string     // the limit's name in the rule
	Kind   limit.Kind // its algorithm
	Unit   Unit
	Shadow bool
	// Limit is the capacity in units: burst, max, or slots.
	Limit int64
	// Window is the span in which the whole capacity comes back; zero for slots.
	Window time.Duration
	// Remaining is how many units a call could take now, never below zero.
	Remaining int64
	// Next is the time until at least one more unit is there; zero if the limit is
	// full, or if time does not bring it.
	Next time.Duration
	// Full is the time until the limit is full again; zero if it is, or if time does
	// not bring it.
	Full time.Duration
	// Refused is true if this limit refused the call.
	Refused bool
}

// Errors that are not refusals.
var (
	// ErrClosed is returned by a Controller after Close.
	ErrClosed = errors.New("sluice: the controller is closed")
	// ErrReleased is returned by Settle and Cool on an admission that was released long
	// ago and whose memory serves another call, and on the zero Admission.
	ErrReleased = errors.New("sluice: the admission has been released")
	// ErrSettled is returned by a second Settle that says something else than the first.
	ErrSettled = errors.New("sluice: the admission was settled with other figures")
	// ErrOverrun is returned by Settle when more was used than taken and the rule keeps
	// reservations without AllowOverrun.
	ErrOverrun = errors.New("sluice: more was used than was taken, and the rule does not allow an overrun")
	// ErrUnknown is returned by Resume, and by Settle, if the store does not remember the ID.
	ErrUnknown = errors.New("sluice: no such admission")
)
