package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
	ActiveCalls []ActiveCall `json:"activeCalls"`
	// OpenReservations wait for their work, ExpiredReservations were neither settled nor used
	// in time.
	OpenReservations    int           `json:"openReservations"`
	ExpiredReservations int           `json:"expiredReservations"`
	RecentEvents        []audit.Event `json:"recentEvents"`
}

// An ActiveCall is a call that is under way or holds slots, in short; see [Held].
type ActiveCall struct {
	RequestID string `json:"requestId"`
	Provider  string `json:"provider"` // its slot
	AgeMs     int64  `json:"ageMs"`
}

const firstCalls = 20

// limits says how the limits stand.
func (b *Broker) limits(ctx context.Context, s *survey) LimitsInfo {
	info := LimitsInfo{Durable: b.durable, Rules: len(b.settings().Order), Records: -1, ActiveCallCount: len(s.calls), ActiveCalls: []ActiveCall{},
		OpenReservations: len(s.open), ExpiredReservations: len(s.overdue), RecentEvents: b.recent.list()}
	for _, h := range s.calls[:min(len(s.calls), firstCalls)] {
		info.ActiveCalls = append(info.ActiveCalls, ActiveCall{h.RequestID, h.Slot, h.AgeMs})
	}
	if n, ok := b.ctl.Recorded(); ok {
		info.Records = n
	}
	err := s.err
	if err == nil || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, context.DeadlineExceeded) {
		err = b.probe(ctx)
	}
	text := b.fault()
	if err != nil {
		text = err.Error()
	}
	if text != "" {
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

// A Query selects the calls and reservations that a diagnosis lists; what is empty selects
// all. The zero value is the first page.
type Query struct {
	Slot       string `json:"slot"`
	Capability string `json:"capability"`
	Rule       string `json:"rule"`
	Identity   string `json:"identity"`
	State      State  `json:"state"`
	Offset     int    `json:"offset"`
	Limit      int    `json:"limit"` // zero is 50, and 500 the most

	// Label says how identities are shown, and selected. Nil shows them as they are.
	Label func(identity string) string `json:"-"`
}

func (q *Query) selects(h *Held) bool {
	return (q.Slot == "" || h.Slot == q.Slot) && (q.Capability == "" || h.Capability == q.Capability) &&
		(q.Identity == "" || h.Identity == q.Identity) && (q.State == "" || h.State == q.State) &&
		(q.Rule == "" || slices.Contains(h.Rules, q.Rule))
}

// selectsReserved heeds what a reservation has too.
func (q *Query) selectsReserved(r *Reserved) bool {
	return (q.Slot == "" || r.Slot == q.Slot) && (q.Identity == "" || r.Identity == q.Identity)
}

// page returns the part of a list that was asked for, and where it begins.
func page[T any](list []T, q *Query) (part []T, from int) {
	const usual, most = 50, 500
	from = min(max(q.Offset, 0), len(list))
	part = list[from:min(len(list), from+min(cmp.Or(max(q.Limit, 0), usual), most))]
	return append([]T{}, part...), from
}

// A Diagnosis is what the broker can say about itself.
type Diagnosis struct {
	Broker       map[string]string `json:"broker"`
	Slots        []ProviderStatus  `json:"slots"`
	Summary      string            `json:"summary"`
	Aggregate    map[string]int    `json:"aggregate,omitempty"`
	Authority    *Authority        `json:"authority,omitempty"`
	Calls        CallPage          `json:"calls"`
	Reservations ReservationPage   `json:"reservations"`
	// Refusals are the latest, the newest first.
	Refusals      []audit.Event `json:"refusals"`
	Problems      []Problem     `json:"problems"`
	ChecksSkipped []string      `json:"checksSkipped"`
	Notes         []string      `json:"notes"`
	SeeAlso       []string      `json:"seeAlso"`
}

// A CallPage is a part of the calls that are under way or hold slots, oldest first.
type CallPage struct {
	Total  int    `json:"total"` // of those that were asked for
	Offset int    `json:"offset"`
	Calls  []Held `json:"calls"`
}

// A ReservationPage is a part of the reservations that are not settled: those that have
// expired, and then those that are open, each oldest first.
type ReservationPage struct {
	Total        int        `json:"total"`
	Offset       int        `json:"offset"`
	Reservations []Reserved `json:"reservations"`
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

// AuthorityInfo says how policy and limits stand. It asks the ledger, and is for people.
func (b *Broker) AuthorityInfo(ctx context.Context) Authority {
	s := b.survey(ctx)
	return b.authority(ctx, &s)
}

func (b *Broker) authority(ctx context.Context, s *survey) Authority {
	p := b.settings().Policy
	a := Authority{Policy: p.Enforced(), PolicyVersion: b.declarations.Version(p), Declarations: []Declared{}, ResultsAwaited: b.awaited.count(), Limits: b.limits(ctx, s)}
	for _, d := range b.declarations.All() {
		a.Declarations = append(a.Declarations, Declared{d.Principal, d.Slot, d.Domain, d.Version, d.Resources(), d.BudgetUnits})
	}
	return a
}

const shownRefusals = 50

// Diagnose looks at everything, and says what is wrong and what holds what. It asks the
// ledger once, and is for people.
func (b *Broker) Diagnose(ctx context.Context, q Query) Diagnosis {
	s := b.survey(ctx)
	a := b.authority(ctx, &s)
	refusals := b.refusals.list()
	slices.Reverse(refusals)
	if q.Label != nil {
		s.label(q.Label)
		label(refusals, q.Label)
		label(a.Limits.RecentEvents, q.Label)
	}
	list, twice := b.union()
	d := Diagnosis{Broker: b.info, Slots: b.Providers(), Aggregate: map[string]int{"tools": len(list), "hidden": len(twice)}, Authority: &a,
		Refusals: refusals[:min(len(refusals), shownRefusals)], Notes: []string{}, SeeAlso: []string{"broker_guide", "provider_status"}}
	d.Problems = append(b.limitProblems(&s, &a.Limits, refusals), b.providerProblems(d.Slots, twice)...)
	slices.SortStableFunc(d.Problems, func(x, y Problem) int { return cmp.Compare(x.Severity.rank(), y.Severity.rank()) })
	d.ChecksSkipped = skipped(&s, d.Slots)
	if !a.Limits.Durable {
		d.Notes = append(d.Notes, "The books are in memory: they survive reconnects, not a restart, and count this process alone.")
	}
	if !a.Policy {
		d.Notes = append(d.Notes, "There is no authorization policy: everybody may call everything, and nobody is an operator by a tool.")
	}
	d.Summary = fmt.Sprintf("%s, %s, %s under way or holding slots", number(len(d.Problems), "problem"), number(len(d.Slots), "provider"), number(len(s.calls), "call"))
	d.lists(&s, &q)
	return d
}

// number says how many there are.
func number(n int, what string) string {
	return fmt.Sprintf("%d %s%s", n, what, pick(n == 1, "", "s"))
}

// label shows the identities of events by a label.
func label(events []audit.Event, as func(string) string) {
	for i := range events {
		events[i].Identity = as(events[i].Identity)
	}
}

// lists fills in what was asked for.
func (d *Diagnosis) lists(s *survey, q *Query) {
	calls := slices.DeleteFunc(s.calls, func(h Held) bool { return !q.selects(&h) })
	d.Calls.Total = len(calls)
	d.Calls.Calls, d.Calls.Offset = page(calls, q)
	reservations := slices.DeleteFunc(append(s.overdue, s.open...), func(r Reserved) bool { return !q.selectsReserved(&r) })
	d.Reservations.Total = len(reservations)
	d.Reservations.Reservations, d.Reservations.Offset = page(reservations, q)
}

// skipped are the checks that could not be made, and why.
func skipped(s *survey, slots []ProviderStatus) []string {
	list := []string{}
	switch {
	case errors.Is(s.err, errors.ErrUnsupported):
		list = append(list, "reservations, and calls of earlier processes: this store does not list what it remembers")
	case errors.Is(s.err, context.DeadlineExceeded):
		list = append(list, "some reservations, and some calls of earlier processes: the ledger is too large to be looked at in time")
	case s.err != nil:
		list = append(list, "reservations, and calls of earlier processes: the ledger does not answer")
	}
	for i := range slots {
		if !slots[i].Connected {
			list = append(list, fmt.Sprintf("tools of %s: the provider is not connected", slots[i].Slot))
		}
	}
	return list
}

// diagnoseTool shows the diagnosis, and the calls that were asked for.
func (b *Broker) diagnoseTool(ctx context.Context, _ *call, arguments json.RawMessage) any {
	var q Query
	if len(arguments) > 0 && json.Unmarshal(arguments, &q) != nil {
		return toolError("The arguments cannot be read.")
	}
	return b.Diagnose(ctx, q)
}
