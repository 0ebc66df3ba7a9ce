package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp/audit"
)

// What is here says what holds what, and frees it on an operator's word.

// Held is a call that holds slots, or that is under way.
type Held struct {
	Slot       string        `json:"slot"`
	RequestID  string        `json:"requestId"`
	Capability string        `json:"capability,omitempty"`
	Tool       string        `json:"tool,omitempty"`
	Identity   string        `json:"identity,omitempty"`
	Rules      []string      `json:"rules,omitempty"` // whose slots it holds
	Age        time.Duration `json:"-"`
	AgeMs      int64         `json:"ageMs"`
	State      State         `json:"state"`
}

// A State is how far a call is.
type State string

// The states.
const (
	Waiting   State = "waiting" // in line for a rule, or for its provider
	Running   State = "running"
	Awaiting  State = "awaiting-input"
	Task      State = "task"
	Abandoned State = "abandoned" // its client has been answered, and the provider may still work
	Earlier   State = "earlier"   // of a process that has ended, or of another broker on the same store
)

// A Reserved is native work that a provider has reserved and of which it has not said what
// came of it.
type Reserved struct {
	ReservationID string `json:"reservationId"`
	Slot          string `json:"slot"`
	Provider      string `json:"provider"`
	RequestID     string `json:"requestId"`
	Identity      string `json:"identity"`
	Unit          string `json:"unit"`
	Quantity      int64  `json:"quantity"`
	AgeMs         int64  `json:"ageMs"`
	// Expired is set once its time is over. Its units stay debited for their window.
	Expired bool `json:"expired"`
}

// A survey is what one look at the ledger, and at what this process knows, has found.
type survey struct {
	calls         []Held // oldest first
	open, overdue []Reserved
	err           error // what the ledger did not say
}

// longestLook bounds a survey. It leaves a tool time to say what was found.
const longestLook = 8 * time.Second

// survey looks at everything once. It is for people: it is slow where there is much.
func (b *Broker) survey(ctx context.Context) (s survey) {
	ctx, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	seen := map[string]bool{}
	for _, c := range b.calls.all() {
		if h, ok := c.held(); ok {
			s.calls = append(s.calls, h)
		}
		seen[c.name] = true
	}
	for r, err := range b.ctl.Records(ctx) {
		if err != nil {
			s.err = err
			break
		}
		if h, ok := earlier(&r); ok && !seen[h.RequestID] && b.calls.get(h.RequestID) == nil {
			s.calls = append(s.calls, h)
		}
		if v, ok := reserved(&r); ok && v.Expired {
			s.overdue = append(s.overdue, v)
		} else if ok {
			s.open = append(s.open, v)
		}
	}
	slices.SortStableFunc(s.calls, func(x, y Held) int { return cmp.Compare(y.Age, x.Age) })
	for _, list := range [][]Reserved{s.open, s.overdue} {
		slices.SortStableFunc(list, func(x, y Reserved) int { return cmp.Compare(y.AgeMs, x.AgeMs) })
	}
	return s
}

// label shows identities by a label.
func (s *survey) label(as func(string) string) {
	for i := range s.calls {
		s.calls[i].Identity = as(s.calls[i].Identity)
	}
	for _, list := range [][]Reserved{s.open, s.overdue} {
		for i := range list {
			list[i].Identity = as(list[i].Identity)
		}
	}
}

// earlier reads the record of a call that holds slots. Unless this process knows the call, it
// is one of a process that has ended, or of another broker on the same store.
func earlier(r *sluice.Record) (Held, bool) {
	var n note
	if r.Slots == 0 || json.Unmarshal(r.Note, &n) != nil || n.RequestID == "" {
		return Held{}, false
	}
	return Held{Slot: n.Slot, RequestID: n.RequestID, Capability: n.Capability, Tool: n.Tool, Identity: n.Identity,
		Rules: baseRules(r.Rules), Age: r.Age, AgeMs: r.Age.Milliseconds(), State: Earlier}, true
}

// reserved reads the record of a reservation that is not settled.
func reserved(r *sluice.Record) (Reserved, bool) {
	var n reservationNote
	if r.Settled || r.Released || json.Unmarshal(r.Note, &n) != nil || n.ReservationID == "" {
		return Reserved{}, false
	}
	return Reserved{n.ReservationID, n.Slot, n.Provider, n.RequestID, n.Identity, n.Unit, n.Quantity, r.Age.Milliseconds(), r.Left <= 0}, true
}

// Held lists the calls that are under way or hold slots, oldest first. It asks the ledger
// for those of processes that have ended.
func (b *Broker) Held(ctx context.Context) ([]Held, error) {
	s := b.survey(ctx)
	return s.calls, s.err
}

func (c *call) held() (Held, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rules := baseRules(c.admission.Holds())
	if c.ended || c.listening {
		return Held{}, false
	}
	age := time.Since(c.start)
	h := Held{Slot: c.slot.name, RequestID: c.name, Capability: c.capability(), Tool: c.tool.nameOr(""), Identity: c.caller.Identity(),
		Rules: rules, Age: age, AgeMs: age.Milliseconds(), State: Running}
	switch {
	case c.task != "":
		h.State = Task
	case c.parked:
		h.State = Awaiting
	case c.answered:
		h.State = Abandoned
	case !c.sent && c.slot.builtin == nil:
		h.State = Waiting
	}
	return h, true
}

// Release is an operator's word that the work of a call has stopped: its slots come back,
// and nothing else. It reports false if no such call holds anything. By names the operator
// in the audit.
func (b *Broker) Release(ctx context.Context, slot, request, by string) (bool, error) {
	if c := b.calls.get(request); c != nil {
		return c.slot.name == slot && c.freed(by), nil
	}
	return b.freeEarlier(ctx, slot, request, audit.Event{Action: audit.Release, Allowed: true, By: by})
}

// freeEarlier frees a call that only the ledger knows, and notes it. It reports false if the
// ledger knows none.
func (b *Broker) freeEarlier(ctx context.Context, slot, request string, e audit.Event) (bool, error) {
	adm, err := b.ctl.Resume(ctx, callID(slot, request))
	if errors.Is(err, sluice.ErrUnknown) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var n note
	if json.Unmarshal(adm.Note(), &n) == nil {
		e.Tool, e.Capability, e.Identity = n.Tool, n.Capability, n.Identity
	}
	e.Outcome, e.Slot, e.RequestID, e.ReleasedRules = audit.Released, slot, request, baseRules(adm.Holds())
	adm.Release()
	b.note(e)
	return true, nil
}
