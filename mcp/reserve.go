package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A reservation is an admission of native work on behalf of a caller whose request is
// under way. Its name in the ledger is made of the provider, the slot and a digest of the
// request and the key that the provider chose; so the same question finds the same
// reservation, after a restart too, and nobody else's settles it.

// grantLife is the longest time in which reserved work may begin.
const grantLife = 60 * time.Second

var idempotencyKey = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// maxSafe is the greatest integer that every JSON number can be (RFC 8259, 6).
const maxSafe = 1<<53 - 1

type reservation struct {
	Principal      json.RawMessage `json:"principal"`
	Capability     string          `json:"capability"`
	Resource       string          `json:"resource"`
	ResourcePath   string          `json:"resourcePath"`
	Unit           string          `json:"unit"`
	Quantity       json.RawMessage `json:"quantity"` // a json.Number would take a text too
	IdempotencyKey string          `json:"idempotencyKey"`
}

// caller is on whose behalf is reserved.
type caller struct {
	Type string `json:"type"`
	Ref  string `json:"ref"`
}

type grant struct {
	ReservationID string         `json:"reservationId"`
	DecisionID    string         `json:"decisionId"`
	Quantity      int64          `json:"quantity"`
	ExpiresAt     int64          `json:"expiresAt"`   // Unix milliseconds
	ExpiresInMs   int64          `json:"expiresInMs"` // the same, for clocks that are not in step
	Replayed      bool           `json:"replayed"`
	Effect        string         `json:"effect,omitempty"`
	Obligations   map[string]any `json:"obligations,omitempty"`
}

// reservationNote is what the ledger keeps of a reservation, for whoever lists them.
type reservationNote struct {
	ReservationID string `json:"reservationId"`
	DecisionID    string `json:"decisionId"`
	Slot          string `json:"slot"`
	Provider      string `json:"provider"`
	RequestID     string `json:"requestId"`
	Identity      string `json:"identity"`
	Unit          string `json:"unit"`
	Quantity      int64  `json:"quantity"`
}

// reserve takes a budget for work that a provider is about to do.
func (b *Broker) reserve(k *conn, m *jsonrpc.Message) (any, *jsonrpc.Error) {
	var q reservation
	if e := readParams(m.Params, &q, "principal", "capability", "resource", "resourcePath", "unit", "quantity", "idempotencyKey"); e != nil {
		return nil, e
	}
	var behalf caller
	if e := readParams(q.Principal, &behalf, "type", "ref"); e != nil {
		return nil, e
	}
	quantity, err := strconv.ParseInt(string(q.Quantity), 10, 64)
	switch {
	case behalf.Type != "caller-ref" && !(behalf.Type == "provider" && b.autonomous(k)):
		return nil, invalidParams("A reservation needs a caller reference", nil)
	case err != nil || quantity < 1 || quantity > maxSafe:
		return nil, invalidParams("quantity is a whole number from 1 to 9007199254740991", nil)
	case !idempotencyKey.MatchString(q.IdempotencyKey):
		return nil, invalidParams("idempotencyKey is 1 to 128 of letters, digits and ._:-", nil)
	}
	d := k.declared.Load()
	if d == nil {
		return nil, b.errorOf(k, protocol.NotDeclared, "The provider has not declared what it serves", nil)
	}
	h := holder{who: k.provider.Caller()}
	if behalf.Type == "caller-ref" {
		c, e := b.callOf(k, behalf.Ref)
		if e != nil {
			return nil, e
		}
		h = holder{c.caller, c, c.name, c.correlation}
	}
	a := d.Ask(b.settings().Policy, h.who, policy.Check{Capability: q.Capability, Resource: q.Resource, ResourcePath: q.ResourcePath})
	b.noteDecision(k, h.call, h.correlation, a)
	if a.Effect() == "deny" {
		return nil, b.errorOf(k, protocol.NotDeclared, "Budget authorization refused", a)
	}
	if !d.HasUnit(q.Unit) {
		return nil, invalidParams("The provider has not declared the unit", nil)
	}
	return b.take(k, &h, &q, quantity, a)
}

// A holder is on whose behalf a budget is reserved: a caller whose request is under way, or
// the provider itself, which then has neither call nor request.
type holder struct {
	who         *policy.Caller
	call        *call
	request     string
	correlation string
}

// autonomous reports whether the provider may reserve for work of its own, which no request
// has asked for. Nobody may but whom the policy names.
func (b *Broker) autonomous(k *conn) bool {
	p := b.settings().Policy
	d := p.Decide(k.provider.Caller(), policy.BudgetAutonomous, p.Resource(k.slot.name))
	return p.Enforced() && d.Allowed
}

// take asks the ledger.
func (b *Broker) take(k *conn, h *holder, q *reservation, quantity int64, a *policy.Answer) (any, *jsonrpc.Error) {
	id := b.reservationID(k, h.request, q.IdempotencyKey)
	n := reservationNote{id, a.ID(), k.slot.name, k.provider.ID, h.request, h.who.Identity(), q.Unit, quantity}
	text, _ := json.Marshal(n)
	call := sluice.Call{Kind: KindOperation, Provider: k.slot.name, Capability: q.Capability, Resource: a.Resource,
		Subject: h.who.Identity(), Subjects: h.who.Subjects, Tenant: h.who.Tenant, Tier: h.who.Tier, IP: h.who.IP,
		Cost: sluice.Cost{{Unit: sluice.Calls, N: 0}, {Unit: sluice.Unit(q.Unit), N: quantity}},
		ID:   ledgerName(k, id), Note: text}
	var counted bool
	if call.Expires, counted = b.budgets(&call, q.Unit); !counted {
		return nil, b.refuseBudget(k, h, n, reason{Reason: "no-budget-policy"})
	}
	adm, err := b.ctl.Admit(b.ctx, call)
	if err != nil {
		return nil, b.refuseBudget(k, h, n, budgetReason(err))
	}
	if adm.Replayed() {
		_, settled := adm.Settlement()
		if settled || adm.Left() <= 0 {
			return nil, b.refuseBudget(k, h, n, reason{Reason: "reservation-expired-or-settled"})
		}
		var first reservationNote
		if json.Unmarshal(adm.Note(), &first) == nil {
			n.DecisionID = first.DecisionID
		}
	}
	b.note(n.event(audit.Reserve, pick(adm.Replayed(), audit.Replayed, audit.Granted), h.correlation))
	left := adm.Left()
	g := grant{ReservationID: id, DecisionID: n.DecisionID, Quantity: quantity, ExpiresAt: time.Now().Add(left).UnixMilli(), ExpiresInMs: left.Milliseconds(), Replayed: adm.Replayed()}
	if a.Constraints != nil {
		g.Effect, g.Obligations = a.Effect(), map[string]any{"constraints": a.Constraints}
	}
	return g, nil
}

func (n *reservationNote) event(action audit.Action, outcome audit.Outcome, correlation string) audit.Event {
	return audit.Event{Action: action, Outcome: outcome, Allowed: true, Slot: n.Slot, RequestID: n.RequestID, CorrelationID: correlation, DecisionID: n.DecisionID,
		ReservationID: n.ReservationID, Identity: n.Identity, Unit: n.Unit, Quantity: n.Quantity}
}

// refuseBudget says why no budget was taken.
func (b *Broker) refuseBudget(k *conn, h *holder, n reservationNote, r reason) *jsonrpc.Error {
	e := n.event(audit.Reserve, audit.Refused, h.correlation)
	e.Allowed, e.ReservationID, e.Reason, e.Rule, e.RetryAfterMs = false, "", r.Reason, r.RuleID, r.RetryAfterMs
	b.note(e)
	return b.errorOf(k, protocol.Refused, r.text("Budget reservation refused"), r)
}

// budgetReason is why the engine did not admit a reservation.
func budgetReason(err error) reason {
	ref, ok := errors.AsType[*sluice.Refusal](err)
	switch {
	case !ok:
		return reason{Reason: "admission-error"}
	case ref.Reason == sluice.ReasonInvalid:
		return reason{Reason: "idempotency-conflict"}
	}
	return refused(ref)
}

// reservationID names the reservation of a request's key. It tells nothing of either.
func (b *Broker) reservationID(k *conn, request, key string) string {
	h := hmac.New(sha256.New, b.secret)
	for _, s := range []string{"reservation", k.provider.ID, k.slot.name, request, key} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return "rsv_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// ledgerName is the ledger's name of a reservation: of one provider in one slot.
func ledgerName(k *conn, id string) string {
	return "reservation\x00" + k.provider.ID + "\x00" + k.slot.name + "\x00" + id
}

// budgets reports whether any rule counts a unit for the call, and returns how long its work may
// be waited for: as long as the shortest window of these rules or what they say themselves, and
// a minute at most.
func (b *Broker) budgets(call *sluice.Call, unit string) (life time.Duration, counted bool) {
	life = grantLife
	o := b.settings()
	for _, r := range b.ctl.Matching(call) {
		for _, l := range r.Limits {
			if string(l.Unit) != unit || r.Shadow {
				continue
			}
			counted = true
			if per := l.Per.Duration(); per > 0 { // slots have none
				life = min(life, per)
			}
			if within := o.StartWithin[baseRule(r.ID)]; within > 0 {
				life = min(life, within)
			}
		}
	}
	return life, counted
}

type settlement struct {
	ReservationID string          `json:"reservationId"`
	Used          json.RawMessage `json:"used"`
	Result        string          `json:"result"`
}

// results are how native work can have ended, as the ledger keeps them.
var results = map[string]uint8{"success": 1, "failure": 2, "refused": 3}

// settle notes what was really used. Nothing comes back unless the rule says so.
func (b *Broker) settle(k *conn, m *jsonrpc.Message) (any, *jsonrpc.Error) {
	var q settlement
	if e := readParams(m.Params, &q, "reservationId", "used", "result"); e != nil {
		return nil, e
	}
	outcome, ok := results[q.Result]
	if !ok || q.ReservationID == "" || q.Used == nil {
		return nil, invalidParams(`settle needs reservationId, used and a result: "success", "failure" or "refused"`, nil)
	}
	ctx, cancel := context.WithTimeout(b.ctx, defaultConnect)
	defer cancel()
	adm, err := b.ctl.Resume(ctx, ledgerName(k, q.ReservationID))
	if err != nil {
		return nil, b.refuseSettle(k, pick(errors.Is(err, sluice.ErrUnknown), "unknown-reservation", "storage-unavailable"))
	}
	var n reservationNote
	if json.Unmarshal(adm.Note(), &n) != nil {
		return nil, b.refuseSettle(k, "unknown-reservation")
	}
	used, err := strconv.ParseInt(string(q.Used), 10, 64)
	if err != nil || used < 0 || used > maxSafe || used > n.Quantity && !b.mayOverrun(n.Unit) {
		return nil, b.refuseSettle(k, "invalid-usage")
	}
	err = adm.SettleAs(ctx, sluice.Cost{{Unit: sluice.Unit(n.Unit), N: used}}, outcome)
	switch {
	case errors.Is(err, sluice.ErrSettled):
		return nil, b.refuseSettle(k, "settlement-conflict")
	case errors.Is(err, sluice.ErrOverrun):
		return nil, b.refuseSettle(k, "invalid-usage")
	case err != nil:
		return nil, b.refuseSettle(k, "storage-unavailable")
	}
	e := n.event(audit.Settle, audit.Settled, "")
	e.Used, e.Result = &used, q.Result
	b.note(e)
	return map[string]bool{"settled": true}, nil
}

// mayOverrun reports whether all rules that count a unit let more be settled than was
// reserved. The engine itself debits it wherever unused units come back.
func (b *Broker) mayOverrun(unit string) bool {
	rules := b.ctl.Policy().Rules
	for i := range rules {
		counts := slices.ContainsFunc(rules[i].Limits, func(l sluice.Limit) bool { return string(l.Unit) == unit })
		if counts && !rules[i].Shadow && !rules[i].AllowOverrun {
			return false
		}
	}
	return true
}

func (b *Broker) refuseSettle(k *conn, why string) *jsonrpc.Error {
	b.note(audit.Event{Action: audit.Settle, Outcome: audit.Refused, Slot: k.slot.name, Identity: k.providerName(), Reason: why})
	return b.errorOf(k, protocol.Refused, "Settlement refused: "+why, reason{Reason: why})
}
