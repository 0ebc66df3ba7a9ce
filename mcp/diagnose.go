package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp/audit"
)

// LimitsInfo is the state of the limits.
type LimitsInfo struct {
	// Durable is true if the books outlive the process.
	Durable bool `json:"durable"`
	// StorageFault is what is wrong with the store, null if nothing.
	StorageFault *string `json:"storageFault"`
	Rules        int     `json:"rules"`
	// Records is how many reservations and calls the ledger remembers, -1 if it cannot say.
	Records         int `json:"records"`
	ActiveCallCount int `json:"activeCallCount"`
	// ActiveCalls are the first of them, oldest first.
	ActiveCalls []Held `json:"activeCalls"`
	// ExpiredReservations are those that were neither settled nor used in time.
	ExpiredReservations []ExpiredReservation `json:"expiredReservations"`
	RecentEvents        []audit.Event        `json:"recentEvents"`
}

// An ExpiredReservation is one whose provider has never said what came of it.
type ExpiredReservation struct {
	ReservationID string `json:"reservationId"`
	Slot          string `json:"slot"`
	Provider      string `json:"provider"`
	RequestID     string `json:"requestId"`
	Unit          string `json:"unit"`
	Quantity      int64  `json:"quantity"`
	ExpiredMs     int64  `json:"expiredMs"` // ago
}

const firstCalls = 20

// Limits says how the limits stand. It asks the ledger, and is for people.
func (b *Broker) Limits(ctx context.Context) LimitsInfo {
	held, err := b.Held(ctx)
	info := LimitsInfo{Durable: b.durable, Rules: len(b.settings().Order), Records: -1, ActiveCallCount: len(held), ActiveCalls: held,
		RecentEvents: b.recent.list(), ExpiredReservations: []ExpiredReservation{}}
	if len(held) > firstCalls {
		info.ActiveCalls = held[:firstCalls]
	}
	if n, ok := b.ctl.Recorded(); ok {
		info.Records = n
	}
	for r, rerr := range b.ctl.Records(ctx) {
		if rerr != nil {
			err = rerr
			break
		}
		if x, ok := expired(&r); ok {
			info.ExpiredReservations = append(info.ExpiredReservations, x)
		}
	}
	if err == nil {
		err = b.probe(ctx)
	}
	if err != nil {
		text := err.Error()
		info.StorageFault = &text
	}
	return info
}

// probe asks the store about a call, as an admission would, and takes nothing.
func (b *Broker) probe(ctx context.Context) error {
	e, err := b.ctl.Check(ctx, sluice.Call{Kind: KindTool, Subject: "anonymous", Provider: BrokerSlot, Resource: b.settings().Policy.Resource(BrokerSlot)})
	if err != nil {
		return err
	}
	if e.Refusal != nil && e.Refusal.Reason == sluice.ReasonStore {
		return e.Refusal
	}
	return nil
}

func expired(r *sluice.Record) (ExpiredReservation, bool) {
	var n reservationNote
	if r.Settled || r.Released || r.Left > 0 || json.Unmarshal(r.Note, &n) != nil || n.ReservationID == "" {
		return ExpiredReservation{}, false
	}
	return ExpiredReservation{n.ReservationID, n.Slot, n.Provider, n.RequestID, n.Unit, n.Quantity, -r.Left.Milliseconds()}, true
}

// A Severity says how bad a problem is.
type Severity string

// The severities, the worst first.
const (
	Fault   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// A Problem is something that is wrong, and what to do.
type Problem struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Slot     string   `json:"slot,omitempty"`
	Symptom  string   `json:"symptom"`
	Evidence any      `json:"evidence,omitempty"`
	Fix      string   `json:"fix"`
}

// A Diagnosis is what the broker can say about itself.
type Diagnosis struct {
	Broker        map[string]string `json:"broker"`
	Slots         []ProviderStatus  `json:"slots"`
	Summary       string            `json:"summary"`
	Aggregate     map[string]int    `json:"aggregate,omitempty"`
	Authority     *Authority        `json:"authority,omitempty"`
	Calls         *CallPage         `json:"calls,omitempty"`
	Problems      []Problem         `json:"problems"`
	ChecksSkipped []string          `json:"checksSkipped"`
	Notes         []string          `json:"notes"`
	SeeAlso       []string          `json:"seeAlso"`
}

// Authority is what the policy and the limits stand at.
type Authority struct {
	Policy        bool       `json:"policy"`
	PolicyVersion string     `json:"policyVersion"`
	Declarations  []Declared `json:"declarations"`
	// ResultsAwaited is how many results providers have promised and not reported.
	ResultsAwaited int        `json:"resultsAwaited"`
	Limits         LimitsInfo `json:"limits"`
}

// Declared is what a provider has declared.
type Declared struct {
	Provider    string   `json:"provider"`
	Slot        string   `json:"slot"`
	Domain      string   `json:"domain"`
	Version     string   `json:"version"`
	Resources   int      `json:"resources"`
	BudgetUnits []string `json:"budgetUnits,omitempty"`
}

// A CallPage is a part of the calls that are under way or hold slots.
type CallPage struct {
	Total  int    `json:"total"`
	Offset int    `json:"offset"`
	Calls  []Held `json:"calls"`
}

// AuthorityInfo says how policy and limits stand.
func (b *Broker) AuthorityInfo(ctx context.Context) Authority {
	p := b.settings().Policy
	a := Authority{Policy: p.Enforced(), PolicyVersion: b.declarations.Version(p), Declarations: []Declared{}, ResultsAwaited: b.awaited.count(), Limits: b.Limits(ctx)}
	for _, d := range b.declarations.All() {
		a.Declarations = append(a.Declarations, Declared{d.Principal, d.Slot, d.Domain, d.Version, d.Resources(), d.BudgetUnits})
	}
	return a
}

// longHeld is the age from which a call that holds slots is worth a look.
const longHeld = time.Minute

// Diagnose looks at everything and says what is wrong.
func (b *Broker) Diagnose(ctx context.Context) Diagnosis {
	a := b.AuthorityInfo(ctx)
	list, twice := b.union()
	d := Diagnosis{Broker: b.info, Slots: b.Providers(), Aggregate: map[string]int{"tools": len(list), "hidden": len(twice)}, Authority: &a,
		ChecksSkipped: []string{}, Notes: []string{}, SeeAlso: []string{"broker_guide", "provider_status"}}
	d.Problems = append(b.limitProblems(ctx, &a.Limits), b.providerProblems(d.Slots, twice)...)
	if !a.Limits.Durable {
		d.Notes = append(d.Notes, "The books are in memory: they survive reconnects, not a restart, and count this process alone.")
	}
	rank := map[Severity]int{Fault: 0, Warning: 1, Info: 2}
	slices.SortStableFunc(d.Problems, func(x, y Problem) int { return cmp.Compare(rank[x.Severity], rank[y.Severity]) })
	d.Summary = fmt.Sprintf("%d problems, %d providers, %d calls under way", len(d.Problems), len(d.Slots), a.Limits.ActiveCallCount)
	return d
}

func (b *Broker) limitProblems(ctx context.Context, l *LimitsInfo) []Problem {
	list := []Problem{}
	if l.StorageFault != nil {
		list = append(list, Problem{ID: "limits-storage-fault", Severity: Fault, Symptom: "The ledger does not work; calls that it controls are refused",
			Evidence: *l.StorageFault, Fix: "Look at the disk or the server of the store. Service resumes by itself when it works again."})
	}
	if n := len(l.ExpiredReservations); n > 0 {
		list = append(list, Problem{ID: "limits-reservations-expired", Severity: Warning, Symptom: fmt.Sprintf("%d reservations have expired without a settlement", n),
			Evidence: map[string]any{"count": n, "first": l.ExpiredReservations[:min(n, 10)]}, Fix: "Look whether the provider crashed, or does not settle. The units stay debited for their window."})
	}
	var refusals []audit.Event
	for _, e := range l.RecentEvents {
		if e.Outcome == audit.Refused {
			refusals = append(refusals, e)
		}
	}
	if n := len(refusals); n > 0 {
		list = append(list, Problem{ID: "limits-admission-refused", Severity: Info, Symptom: fmt.Sprintf("%d of the last %d events are refusals", n, len(l.RecentEvents)),
			Evidence: refusals[max(0, n-10):], Fix: "Expected if a rule is doing its work; otherwise raise the rule named, or call less often."})
	}
	if held := longHolds(ctx, b); len(held) > 0 {
		list = append(list, Problem{ID: "limits-calls-held", Severity: Warning, Symptom: fmt.Sprintf("%d calls have held slots for over a minute", len(held)),
			Evidence: held[:min(len(held), firstCalls)], Fix: "Make sure that a call's work has stopped, then free it: broker_limits_release, sluice release, or the admin page."})
	}
	return list
}

// longHolds are the calls that have held slots for long.
func longHolds(ctx context.Context, b *Broker) []Held {
	held, _ := b.Held(ctx) // an error is shown as the storage's fault
	return slices.DeleteFunc(held, func(h Held) bool { return h.Age < longHeld || len(h.Rules) == 0 })
}

func (b *Broker) providerProblems(slots []ProviderStatus, twice []listed) (list []Problem) {
	for _, s := range slots {
		switch {
		case !s.Connected && s.Kind == "dialled":
			list = append(list, Problem{ID: "provider-absent", Severity: Fault, Slot: s.Slot, Symptom: "The provider is not connected", Evidence: s.Error,
				Fix: "Look at its command or address, and at the broker's log."})
		case !s.Connected:
			list = append(list, Problem{ID: "provider-absent", Severity: Warning, Slot: s.Slot, Symptom: "No provider has dialled in", Fix: "Start the provider, and look at its secret."})
		case s.ToolsError != "":
			list = append(list, Problem{ID: "provider-tools-unknown", Severity: Warning, Slot: s.Slot, Symptom: "The provider does not list its tools; arguments are not checked", Evidence: s.ToolsError, Fix: "Look at the provider."})
		}
		if s.BadFrames > 0 {
			list = append(list, Problem{ID: "provider-bad-frames", Severity: Info, Slot: s.Slot, Symptom: "The provider sends what is no message", Evidence: s.BadFrames,
				Fix: "A program that prints to its standard output does that; its words belong on standard error."})
		}
		if p := b.slotNamed(s.Slot); p != nil {
			if bad := p.tools.Load().problems(); len(bad) > 0 {
				list = append(list, Problem{ID: "provider-tools", Severity: Info, Slot: s.Slot, Symptom: fmt.Sprintf("%d tools have schemas that cannot be used as they are", len(bad)),
					Evidence: bad[:min(len(bad), 20)], Fix: "Mend the schemas in the provider."})
			}
		}
	}
	for _, l := range twice {
		list = append(list, Problem{ID: "aggregate-name-taken", Severity: Warning, Slot: l.slot.name, Symptom: "Another provider's tool has this one's name in _all, and counts", Evidence: l.name, Fix: "Give one of the slots another prefix."})
	}
	return list
}

// diagnoseTool shows the diagnosis, and the calls that were asked for.
func (b *Broker) diagnoseTool(ctx context.Context, _ *call, arguments json.RawMessage) any {
	var q struct {
		Slot, Capability, Rule, Identity string
		Offset, Limit                    int
	}
	if len(arguments) > 0 && json.Unmarshal(arguments, &q) != nil {
		return toolError("The arguments cannot be read.")
	}
	d := b.Diagnose(ctx)
	held, _ := b.Held(ctx)
	held = slices.DeleteFunc(held, func(h Held) bool {
		return q.Slot != "" && h.Slot != q.Slot || q.Capability != "" && h.Capability != q.Capability ||
			q.Identity != "" && h.Identity != q.Identity || q.Rule != "" && !slices.Contains(h.Rules, q.Rule)
	})
	from := min(q.Offset, len(held))
	d.Calls = &CallPage{len(held), from, held[from:min(len(held), from+cmp.Or(q.Limit, 50))]}
	return d
}
