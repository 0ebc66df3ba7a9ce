package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/resource"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// The kinds of calls that rules match.
const (
	KindTool      = "tool"      // a tools/call
	KindMethod    = "method"    // another request, where a rule names methods
	KindOperation = "operation" // a reservation of native work
)

// A Requirement is a rule that lets calls through only to providers that reserve their
// budget: ones that have declared its unit.
type Requirement struct {
	Rule string
	Unit string
	// Subject, Provider, Capability and Resource select calls; empty is every call.
	Subject, Provider, Capability, Resource string

	pattern resource.Pattern
}

// A reason is what a refusal says to programs.
type reason struct {
	Reason       string `json:"reason"`
	RuleID       string `json:"ruleId,omitempty"`
	RetryAfterMs int64  `json:"retryAfterMs,omitempty"`
}

// note is what the ledger keeps of a call that holds slots, so that an operator finds it
// after a crash.
type note struct {
	Slot       string    `json:"slot"`
	RequestID  string    `json:"requestId"`
	Capability string    `json:"capability,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	Identity   string    `json:"identity,omitempty"`
	Started    time.Time `json:"started"`
}

// allowed asks the policy. It answers the call and returns false if it is denied.
func (c *call) allowed(tool string) bool {
	d := c.decide(tool)
	if d.Allowed {
		return true
	}
	if c.session.o.Transport == "internal" && !c.caller.Verified {
		c.failWith(protocol.Refused, audit.Event{Action: audit.Admit, Outcome: audit.Denied, Reason: string(d.Reason), DecisionID: d.ID()},
			"Tool admission refused: the policy does not allow it", reason{Reason: "authorization-denied"})
		return false
	}
	c.failWith(protocol.Forbidden, audit.Event{Action: audit.Admit, Outcome: audit.Denied, Reason: string(d.Reason), DecisionID: d.ID()},
		"Forbidden", reason{Reason: "forbidden"})
	return false
}

// decide asks the policy about the request, or about a call of one tool. What it is about
// is what rules are matched against too.
func (c *call) decide(tool string) policy.Decision {
	d := c.b.settings().Policy.May(c.caller, c.slot.name, c.request.Method, tool)
	c.learn(func() { c.who.Resource, c.who.Capability = d.Resource, d.Capability })
	return d
}

// identify says whose call it is.
func (c *call) identify(kind string) {
	who := c.caller
	c.who.Kind, c.who.Provider, c.who.Method = kind, c.slot.name, c.request.Method
	c.who.Subject, c.who.Subjects = who.Identity(), who.Subjects
	c.who.Tenant, c.who.Tier, c.who.IP = who.Tenant, who.Tier, who.IP
}

// admitTool asks for admission of a call of a tool. It answers the call and returns false
// if it is refused.
func (c *call) admitTool(k *conn, tool string) bool {
	c.identify(KindTool)
	text, _ := json.Marshal(note{c.slot.name, c.name, c.who.Capability, tool, c.who.Subject, c.start})
	c.who.ID, c.who.WhileHeld, c.who.Note = callID(c.slot.name, c.name), true, text
	if missing := c.unreserved(k); missing != nil {
		if ref := c.refusedEarlier(missing); ref != nil {
			c.refusedBy(ref)
		} else {
			c.unsupported(missing)
		}
		return false
	}
	return c.admit()
}

// unsupported refuses the call because the provider does not reserve what a rule wants.
func (c *call) unsupported(missing *Requirement) {
	c.failWith(protocol.Refused, audit.Event{Action: audit.Admit, Outcome: audit.Refused, Reason: "reservation-unsupported", Rule: missing.Rule},
		fmt.Sprintf("Tool admission refused by rule %s: the provider has not declared that it reserves %q", missing.Rule, missing.Unit),
		reason{Reason: "reservation-unsupported", RuleID: missing.Rule})
}

// admitMethod asks for admission of a request that is no call of a tool, if any rule names
// methods.
func (c *call) admitMethod() bool {
	if !c.b.settings().Methods {
		return true
	}
	c.identify(KindMethod)
	return c.admit()
}

func (c *call) admit() bool {
	adm, err := c.b.ctl.Admit(c.ctx, c.who)
	c.mu.Lock()
	gone := c.ended
	if err == nil && !gone {
		c.admission, c.admitted, c.since = adm, true, time.Now()
		c.watchHolds()
	}
	c.mu.Unlock()
	if err == nil && gone { // cancelled meanwhile
		adm.Release()
		return false
	}
	if err == nil {
		return true
	}
	ref, ok := errors.AsType[*sluice.Refusal](err)
	if (!ok || ref.Reason == sluice.ReasonStore) && c.who.ID != "" {
		go c.b.takeBack(c.who.ID, lateTakes)
	}
	if !ok {
		c.failWith(protocol.Refused, audit.Event{Action: audit.Admit, Outcome: audit.Refused, Reason: "admission-error", Error: err.Error()},
			"Tool admission refused: admission failed", reason{Reason: "admission-error"})
		return false
	}
	c.refusedBy(ref)
	return false
}

// lateTakes is when it is looked again whether a take has arrived that a store did not answer.
// Stores give up much sooner.
var lateTakes = []time.Duration{2 * time.Second, 20 * time.Second}

// takeBack gives back what a store may have taken for a call though it has not said so, because
// it failed or the client left: with an ID that stands (see [sluice.Store]), and nobody else
// knows of it. It looks now, and again after each of some times.
func (b *Broker) takeBack(id string, again []time.Duration) {
	ctx, cancel := context.WithTimeout(b.ctx, defaultConnect)
	defer cancel()
	adm, err := b.ctl.Resume(ctx, id)
	switch {
	case err == nil:
		adm.Release()
	case len(again) > 0 && b.ctx.Err() == nil:
		time.AfterFunc(again[0], func() { b.takeBack(id, again[1:]) })
	}
}

// refusedBy answers the call with the engine's refusal.
func (c *call) refusedBy(ref *sluice.Refusal) {
	r := refused(ref)
	c.failWith(protocol.Refused, audit.Event{Action: audit.Admit, Outcome: audit.Refused, Reason: r.Reason, Rule: r.RuleID, RetryAfterMs: r.RetryAfterMs},
		r.text("Tool admission refused"), r)
}

// callID is the ledger's name of a call.
func callID(slot, request string) string { return "call\x00" + slot + "\x00" + request }

// unreserved returns the first rule in configuration order that wants a reservation from a
// provider that does not reserve.
func (c *call) unreserved(k *conn) *Requirement {
	s := c.b.settings()
	for i := range s.Requirements {
		r := &s.Requirements[i]
		if r.matches(&c.who) && !k.reserves(r.Unit) {
			return r
		}
	}
	return nil
}

// refusedEarlier returns the refusal of a rule that stands before r in the configuration:
// of several refusing rules the first is reported.
func (c *call) refusedEarlier(r *Requirement) *sluice.Refusal {
	e, err := c.b.ctl.Check(c.ctx, c.who)
	if err != nil || e.Refusal == nil {
		return nil
	}
	order := c.b.settings().Order
	if slices.Index(order, baseRule(e.Refusal.Rule)) < slices.Index(order, r.Rule) {
		e.Refusal.RetryAfter = 0 // by then it is r that refuses
		return e.Refusal
	}
	return nil
}

func (r *Requirement) matches(c *sluice.Call) bool {
	return (r.Subject == "" || r.Subject == c.Subject || slices.Contains(c.Subjects, r.Subject)) &&
		(r.Provider == "" || r.Provider == c.Provider) &&
		(r.Capability == "" || r.Capability == c.Capability) &&
		(r.Resource == "" || r.pattern.Match(c.Resource))
}

// reserves reports whether the provider has declared a unit.
func (k *conn) reserves(unit string) bool {
	if k == nil {
		return false
	}
	d := k.declared.Load()
	return d != nil && slices.Contains(d.BudgetUnits, unit)
}

// reasons are the engine's in the words of the protocol. Those that are missing are spelt
// as the engine does.
var reasons = map[sluice.Reason]string{
	sluice.ReasonRate:        "limit-exceeded",
	sluice.ReasonBudget:      "limit-exceeded",
	sluice.ReasonCooldown:    "limit-exceeded",
	sluice.ReasonConcurrency: "concurrency-exceeded",
	sluice.ReasonTooLarge:    "quantity-exceeds-limit",
	sluice.ReasonStore:       "storage-unavailable",
	sluice.ReasonFull:        "ledger-full",
}

// refused says why the engine refused. Inside one rule of the file, which is several of the
// engine's, the order is calls, rate, concurrency.
func refused(ref *sluice.Refusal) reason {
	r := reason{RuleID: baseRule(ref.Rule), Reason: reasons[ref.Reason]}
	if r.Reason == "" {
		r.Reason = strings.ReplaceAll(ref.Reason.String(), "_", "-")
	}
	if r.Reason == "concurrency-exceeded" && slices.ContainsFunc(ref.Levels, func(l sluice.Level) bool {
		return l.Refused && !l.Shadow && l.Kind != limit.KindSlots && baseRule(l.Rule) == r.RuleID
	}) {
		r.Reason = "limit-exceeded"
	}
	if ref.RetryAfter > 0 {
		r.RetryAfterMs = int64((ref.RetryAfter + time.Millisecond - 1) / time.Millisecond)
	}
	return r
}

// text says it to people, and to models: most clients show them nothing else.
func (r reason) text(what string) string {
	if r.RuleID != "" {
		what += " by rule " + r.RuleID
	}
	what += ": " + r.Reason
	if r.RetryAfterMs > 0 {
		what += fmt.Sprintf("; retry in %d ms", r.RetryAfterMs)
	}
	return what
}

// baseRule is the rule of the limits block that a rule of the engine was made of.
func baseRule(id string) string {
	base, _, _ := strings.Cut(id, ":")
	return base
}

func baseRules(ids []string) []string {
	var base []string
	for _, id := range ids {
		if b := baseRule(id); !slices.Contains(base, b) {
			base = append(base, b)
		}
	}
	return base
}
