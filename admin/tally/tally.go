// Package tally counts decisions: by rule and outcome, by tier and kind of key, and
// second by second for the last five minutes.
//
// [Tally.Count] sits on the path of every decision. It takes no lock and allocates
// nothing: counters are atomic and spread over shards, names are looked up in a table
// that is replaced as a whole when the policy changes. A rule that keeps its ID keeps
// its counters. Names come from the policy alone, so that a caller cannot create one;
// whatever is not in the policy is counted as [Other].
package tally

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
)

// Names of what has no name of its own.
const (
	Other = "other" // a rule, tier, kind of key or provider that the policy does not know
	None  = "none"  // a call without a tier, or without a subject
)

// maxNames bounds the rules and, separately, the tiers and providers that are counted
// by name. A policy with more has the rest counted as Other.
const maxNames = 1024

// An Outcome is what became of a call under one rule, or under all of them together.
// Each decision counts as exactly one.
type Outcome uint8

// The outcomes. Under all rules together RefusedElsewhere does not occur.
const (
	Allowed          Outcome = iota // admitted at once
	Queued                          // admitted after a wait in line
	Degraded                        // admitted without an answer from the store
	ShadowRefused                   // a shadow rule would have refused
	Refused                         // refused by this rule
	RefusedElsewhere                // this rule would have let it pass; another refused
	Cancelled                       // the caller left while it waited
	Outcomes                        // how many there are
)

var outcomeNames = [Outcomes]string{
	"allowed", "queued", "degraded", "shadow_refused", "refused", "refused_elsewhere", "cancelled",
}

// String returns the outcome as metrics and JSON spell it.
func (o Outcome) String() string { return outcomeNames[o] }

// Counts is a number for each outcome.
type Counts [Outcomes]uint64

// Total returns the sum over all outcomes.
func (c *Counts) Total() uint64 {
	var n uint64
	for _, v := range c {
		n += v
	}
	return n
}

// shards spreads counters that every decision writes. Eight is enough: a random shard
// rarely meets another core, and reading means adding up all of them.
const shards = 8

// A Tally counts decisions. Use [New]. All methods are safe for concurrent use.
type Tally struct {
	policy func() *sluice.Policy
	table  atomic.Pointer[table]
	second atomic.Uint32 // how many Samples there were
	all    [shards]struct {
		n [8]atomic.Uint64 // by Outcome; eight fill a cache line
	}
	storeRefused, storeDegraded atomic.Uint64

	mu     sync.Mutex // guards what Sample writes
	series series
}

// New returns a Tally that takes its names from policy, which must be cheap; it is
// called when an unknown name turns up. It may return nil: no policy yet.
func New(policy func() *sluice.Policy) *Tally {
	t := &Tally{policy: policy}
	t.table.Store(newTable(nil, nil))
	return t
}

// Count counts one decision.
func (t *Tally) Count(e *sluice.Event) {
	shard := rand.Uint32() % shards
	if !Aside(e) {
		t.all[shard].n[overall(e)].Add(1)
	}
	if e.Degraded {
		t.storeDegraded.Add(1)
	}
	if e.Refusal != nil && e.Refusal.Reason == sluice.ReasonStore {
		t.storeRefused.Add(1)
	}
	tab, levels := t.table.Load(), e.Levels
	for i := range e.Rules {
		r := &e.Rules[i]
		rule := tab.rules[r.Rule]
		if rule == nil { // perhaps a new policy has it
			tab = t.Refresh()
			rule = tab.rule(r.Rule)
		}
		cell := &rule.cells[shard]
		cell.outcome[under(e, r)].Add(1)
		for len(levels) > 0 && levels[0].Rule == r.Rule {
			cell.use(&levels[0])
			levels = levels[1:]
		}
	}
	if status, ok := requestStatus(e); ok {
		tab.tier(e.Call.Tier).count(shard, t.second.Load(), e, status)
	}
}

// Refresh takes over the names of a policy that has changed. Count does so itself when
// it meets an unknown rule; readers call it to show a new policy before its first call.
func (t *Tally) Refresh() *table {
	tab := t.table.Load()
	p := t.policy()
	for p != tab.policy {
		next := newTable(p, tab)
		if t.table.CompareAndSwap(tab, next) {
			return next
		}
		tab, p = t.table.Load(), t.policy()
	}
	return tab
}

// Aside reports whether e only lets a request go on to the decision that counts: the
// gate also asks whether the address may try, notes a wrong credential, and holds a
// stream's slot. If that refuses, it is the end of the request and does count.
func Aside(e *sluice.Event) bool {
	switch e.Call.Kind {
	case "preauth", "preauth-site", "auth-failure", "stream":
		return e.Outcome == sluice.Admitted
	}
	return false
}

// overall returns the outcome of the decision as a whole.
func overall(e *sluice.Event) Outcome {
	switch {
	case e.Outcome == sluice.Refused:
		return Refused
	case e.Outcome == sluice.Cancelled:
		return Cancelled
	case ShadowRefusal(e):
		return ShadowRefused
	case e.Degraded:
		return Degraded
	case e.Waited > 0:
		return Queued
	}
	return Allowed
}

// under returns the outcome under rule r. A refused call never counts as allowed, not
// even under the rules that would have let it pass.
func under(e *sluice.Event, r *sluice.RuleOutcome) Outcome {
	switch {
	case r.Refused && r.Shadow:
		return ShadowRefused
	case r.Refused:
		return Refused
	case e.Outcome == sluice.Refused:
		return RefusedElsewhere
	case e.Outcome == sluice.Cancelled:
		return Cancelled
	case e.Degraded:
		return Degraded
	case e.Waited > 0:
		return Queued
	}
	return Allowed
}

// ShadowRefusal reports whether a shadow rule would have refused the call.
func ShadowRefusal(e *sluice.Event) bool {
	for i := range e.Rules {
		if e.Rules[i].Refused && e.Rules[i].Shadow {
			return true
		}
	}
	return false
}

// Overall returns how many decisions had each outcome, those [Aside] left out.
func (t *Tally) Overall() Counts {
	var c Counts
	for s := range t.all {
		for o := range c {
			c[o] += t.all[s].n[o].Load()
		}
	}
	return c
}

// StoreErrors returns how many decisions the store's failure refused, and how many were
// made without it.
func (t *Tally) StoreErrors() (refused, degraded uint64) {
	return t.storeRefused.Load(), t.storeDegraded.Load()
}

// Status is what became of a request.
type Status uint8

// The statuses, in the words of the metric.
const (
	StatusAllowed Status = iota
	StatusRejected
	StatusCancelled
	Statuses // how many there are
)

// String returns the status as metrics spell it.
func (s Status) String() string { return [Statuses]string{"allowed", "rejected", "cancelled"}[s] }

// requestStatus returns what e means for the request it belongs to. A request makes up
// to three decisions, "preauth", "preauth-site" and then "http"; it counts once: by the
// last, or by the one that refused it.
func requestStatus(e *sluice.Event) (Status, bool) {
	switch e.Call.Kind {
	case "http", "preauth", "preauth-site":
		if Aside(e) {
			return 0, false
		}
	default:
		return 0, false
	}
	switch e.Outcome {
	case sluice.Refused:
		return StatusRejected, true
	case sluice.Cancelled:
		return StatusCancelled, true
	}
	return StatusAllowed, true
}

// KeyTypes are the kinds of identity that requests are counted by.
var KeyTypes = [...]string{"apikey", "user", "tenant", "ip", Other, None}

// keyType returns the index in KeyTypes of a subject such as "apikey:…".
func keyType(subject string) int {
	if subject == "" {
		return len(KeyTypes) - 1
	}
	for i, name := range KeyTypes[:4] {
		if len(subject) > len(name) && subject[len(name)] == ':' && strings.HasPrefix(subject, name) {
			return i
		}
	}
	return len(KeyTypes) - 2
}
