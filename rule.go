package sluice

import (
	"strings"
	"time"

	"github.com/sluicegate/sluice/limit"
)

// A Policy is all rules in force. The zero Policy has none and admits everything.
// A Policy must not be changed once a [Controller] has it.
type Policy struct {
	// Rules in configuration order: of several refusing rules the first is *the* rule.
	Rules []Rule
}

// A Rule puts limits on the calls that match it and says what a caller may do when
// one of them says "not now". All limits of all matching rules are taken together,
// or none.
type Rule struct {
	// ID names the rule: 1 to 128 of letters, digits and ._:/*- in ASCII, unique in
	// the policy. State hangs on it: a rule that keeps its ID keeps its counters.
	ID string

	// Match selects the calls. The zero Match is every call.
	Match Match

	// GroupBy gives each combination of values its own state. Nil is one state for all
	// matching calls. Order does not matter. At most four.
	GroupBy []Dimension

	// Missing says what to do with a call that has no value for a dimension of
	// GroupBy. The zero value groups it by IP instead.
	Missing Missing

	// Limits, at least one. Two of one kind need names.
	Limits []Limit

	// Calendar, if it is set, makes the limits those of days, weeks or months.
	Calendar *Calendar

	// Weights multiply the [Calls] cost of a call by its capability. A capability that
	// is not listed weighs 1. Nil weighs everything 1.
	Weights map[string]int64

	// Queue lets a caller wait. Nil refuses at once.
	Queue *Queue

	// Settle says what becomes of units that were taken and not used.
	Settle SettleMode

	// AllowOverrun lets a Settle of more than was taken debit the excess although
	// Settle is [Keep]. With [Refund] an overrun is always debited.
	AllowOverrun bool

	// OnTimeout says what [Admission.Abandon] does with slots.
	OnTimeout AbandonMode

	// MaxHold frees a slot that has been held for so long, whatever its holder says.
	// Zero is never.
	MaxHold time.Duration

	// OnStoreError says what happens to a call when the store does not answer.
	OnStoreError FailMode

	// Lease is how many percent of the rule's limits may be given up, at most
	// [limit.MaxLease], so that most calls need not ask the store: see [limit.Lease], and
	// store/lease, without which it is not heeded. Zero asks for every call. So do rules
	// with Shadow, and those with a limit that cannot be leased.
	Lease int

	// Volatile state may be lost in a crash; a durable store need not wait for its disk.
	Volatile bool

	// Shadow decides and reports and refuses nobody. It keeps its own state, and that
	// state never touches an enforced rule.
	Shadow bool

	// Source is where the rule was written, such as "sluice.yaml:12:5". For messages
	// and explanations only.
	Source string
}

// A Limit is one limit of a rule.
type Limit struct {
	limit.Limit

	// Name tells limits of one rule apart and is part of the state's key. Empty is the
	// name of the limit's kind.
	Name string

	// Unit is what is counted. Empty is [Calls].
	Unit Unit
}

// Match selects calls. Each selector that is present must match; within one, any of
// the values may. The zero Match matches every call.
type Match struct {
	// Is maps a dimension to the values it may have. Resource values are hierarchical
	// patterns: absolute, case-sensitive, "*" is exactly one segment, "**" only last
	// and any number of segments, so "/a/**" matches "/a". A Subject value matches the
	// caller's subject or any of its further subjects. All others match exactly.
	Is map[Dimension][]string

	// Not excludes calls that any of its selectors matches.
	Not map[Dimension][]string
}

// String says in words which calls m selects, such as "kind http, tier not system".
func (m *Match) String() string {
	var parts []string
	for i, name := range dimensionNames {
		if v := m.Is[Dimension(i)]; len(v) > 0 {
			parts = append(parts, name+" "+strings.Join(v, " or "))
		}
		if v := m.Not[Dimension(i)]; len(v) > 0 {
			parts = append(parts, name+" not "+strings.Join(v, " nor "))
		}
	}
	if len(parts) == 0 {
		return "every call"
	}
	return strings.Join(parts, ", ")
}

// A Queue says how callers wait for a rule's limits: in order of arrival, nobody
// overtakes. The zero Queue waits without bound.
type Queue struct {
	// Depth is the most callers that may wait for one key, and with FairBy for one value
	// of it, so that nobody fills the others' places. Nil is no bound; 0 refuses whoever
	// would have to wait.
	Depth *int
	// Timeout is the longest wait, counted from the call's arrival. Zero is no time-out;
	// the caller's context still bounds it.
	Timeout time.Duration
	// FairBy shares the line between callers with different values of this dimension:
	// each gets its turn, and inside one value order of arrival rules. Nil is one line.
	FairBy *Dimension
	// Shares gives a value of FairBy more than one turn. Absent values have one.
	Shares map[string]int64
}

// SettleMode says what a settlement does with units that were not used.
type SettleMode uint8

const (
	Refund SettleMode = iota // they come back, and an overrun is debited
	Keep                     // they stay debited; an overrun is an error
)

// AbandonMode says what becomes of the slots of a call whose caller has gone while
// its work may still run.
type AbandonMode uint8

const (
	Hold AbandonMode = iota // they stay taken until Release, an operator, or MaxHold
	Free                    // they come back at once
)

// FailMode says what happens to a call when the store fails.
type FailMode uint8

const (
	FailClosed FailMode = iota // refuse with ReasonStore
	FailOpen                   // admit, marked degraded
	FailLocal                  // decide by this process's own share, marked degraded
)

// Missing says how a call without a value for a grouping dimension is grouped.
type Missing uint8

const (
	MissingIP   Missing = iota // by the client's address, or all together if it has none
	MissingSkip                // the rule does not apply
	MissingDeny                // the call is refused for good, with ReasonMissing
)
