package sluice

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/ledger"
)

// A Store keeps the books ...
type Store interface {
	Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error
	Scan(ctx context.Context, group uint64) iter.Seq2[ledger.Entry, error]
	Close() error
}

type Options struct {
	Observe   func(*Event)
	Logger    *slog.Logger
	KeySecret []byte
}

// Outcome of a decision
type Outcome uint8

const (
	Admitted Outcome = iota
	Refused
	Cancelled
)

func (o Outcome) String() string { panic("stub") }

// RuleOutcome is what one matching rule said.
type RuleOutcome struct {
	Rule            string
	Refused, Shadow bool
}

// Event is one decision; valid only during the call of Observe.
type Event struct {
	Time     time.Time
	Call     *Call
	Outcome  Outcome
	Refusal  *Refusal // nil unless Refused
	Waited   time.Duration
	Queued   bool
	Degraded bool
	Rules    []RuleOutcome // matching rules in configuration order
	Levels   []Level       // of all matching limits, in configuration order
}

type Controller struct{}

func Open(p *Policy, s Store, o Options) (*Controller, error)                 { panic("stub") }
func (c *Controller) Admit(ctx context.Context, call Call) (Admission, error) { panic("stub") }

// Try decides without waiting... false → d.Refusal() says why.
func (c *Controller) Try(ctx context.Context, call *Call, d *Decision) (bool, error) { panic("stub") }
func (c *Controller) Check(ctx context.Context, call Call) (*Explanation, error)     { panic("stub") }
func (c *Controller) SetPolicy(p *Policy) error                                      { panic("stub") }
func (c *Controller) Policy() *Policy                                                { panic("stub") }
func (c *Controller) Resume(ctx context.Context, id string) (Admission, error)       { panic("stub") }
func (c *Controller) Cool(ctx context.Context, call Call, d time.Duration) error     { panic("stub") }

// Reset makes full every time-based limit of the given identity (the value of any grouping dimension, e.g. "ip:203.0.113.9/32", "apikey:…"); returns number of cells.
func (c *Controller) Reset(ctx context.Context, identity string) (int, error) { panic("stub") }
func (c *Controller) ResetAll(ctx context.Context) (int, error)               { panic("stub") }

// Waiting returns how many callers stand in line, by rule ID.
func (c *Controller) Waiting() map[string]int { panic("stub") }

// Held: calls holding slots by rule ID.
func (c *Controller) Close() error { panic("stub") }

// Decision is the reusable memory of Try. Zero value ready.
type Decision struct{ WantLevels bool }

func (d *Decision) Admission() Admission { panic("stub") }
func (d *Decision) Refusal() *Refusal    { panic("stub") } // memory belongs to d
func (d *Decision) Levels() []Level      { panic("stub") }

type Admission struct{}

func (a Admission) Settle(ctx context.Context, used Cost) error     { panic("stub") }
func (a Admission) Cool(ctx context.Context, d time.Duration) error { panic("stub") }
func (a Admission) Release()                                        { panic("stub") }
func (a Admission) Abandon()                                        { panic("stub") }
func (a Admission) Waited() time.Duration                           { panic("stub") }
func (a Admission) Levels() []Level                                 { panic("stub") }
func (a Admission) Degraded() bool                                  { panic("stub") }
func (a Admission) Replayed() bool                                  { panic("stub") }

// Explanation of Check: takes nothing.
type Explanation struct {
	Admitted bool
	Refusal  *Refusal
	Rules    []RuleExplanation
}
type RuleExplanation struct {
	Rule    string
	Source  string
	Matched bool
	Why     string // which selector failed, or what grouped it
	Key     string // the grouping values in words, "subject=ip:203.0.113.9/32"
	Shadow  bool
	Levels  []Level // before the call; Remaining after would be Remaining - Cost
	Costs   []int64 // per level
	Refused bool
}
