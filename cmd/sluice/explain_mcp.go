package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/policy"
)

const toolsCall = "tools/call"

// A callQuestion is a request at a slot of the broker that is asked about.
type callQuestion struct {
	Slot     string   `json:"slot"`
	Method   string   `json:"method"`
	Tool     string   `json:"tool,omitempty"`
	Subjects []string `json:"subjects,omitempty"` // none is an anonymous caller
	From     string   `json:"from,omitempty"`
}

// A callAnswer is what would happen to it, as it is printed and sent.
type callAnswer struct {
	callQuestion
	Unserved   bool        `json:"unserved,omitempty"` // the file has no such slot, and nobody may dial in there
	Identity   string      `json:"identity"`           // what limits by subject hang on
	Resource   string      `json:"resource"`
	Capability string      `json:"capability,omitempty"`
	Permitted  bool        `json:"permitted"`
	Reason     string      `json:"reason"`
	Policy     string      `json:"policy,omitempty"` // the assignment or deny
	Call       *stepAnswer `json:"call,omitempty"`
	// Reservations are what a provider meets that reserves one unit for the call, by unit.
	Reservations []*stepAnswer `json:"reservations,omitempty"`
	// Needs are units that the provider must have declared, or the call is refused.
	Needs []neededUnit `json:"needs,omitempty"`
}

type neededUnit struct {
	Rule string `json:"rule"`
	Unit string `json:"unit"`
}

// explainCall says what a policy and the limits make of a request. Nothing is taken.
func explainCall(ctx context.Context, c *config.Config, p *policy.Policy, ctl *sluice.Controller, q callQuestion) (*callAnswer, error) {
	who := policy.NewCaller(q.Subjects...)
	d := p.May(who, q.Slot, q.Method, q.Tool)
	a := &callAnswer{callQuestion: q, Unserved: !mayServe(c.MCP, p, q.Slot), Identity: who.Identity(), Resource: d.Resource, Capability: d.Capability,
		Permitted: d.Allowed, Reason: string(d.Reason), Policy: d.Policy}
	if !d.Allowed {
		return a, nil
	}
	call := sluice.Call{Kind: config.KindMethod, Method: q.Method, Provider: q.Slot, Subject: who.Identity(), Subjects: who.Subjects,
		Capability: d.Capability, Resource: d.Resource, IP: q.From}
	if q.Method == toolsCall {
		call.Kind = config.KindTool
	}
	e, err := ctl.Check(ctx, call)
	if err != nil {
		return nil, err
	}
	a.Call = newStepAnswer("the call", e)
	if c.MCP == nil || c.MCP.Limits == nil || call.Kind != config.KindTool {
		return a, nil
	}
	call.Kind, call.Method = config.KindOperation, ""
	return a, a.reservations(ctx, c.MCP.Limits.Rules, ctl, call)
}

// mayServe reports whether the file has the slot, or lets a provider dial in there.
func mayServe(m *config.MCP, p *policy.Policy, slot string) bool {
	if slot == mcp.AllSlot || slot == mcp.BrokerSlot {
		return true
	}
	if m == nil {
		return false
	}
	return m.AnonymousProviders || !m.ProviderSecret.IsZero() ||
		slices.ContainsFunc(m.Slots, func(s config.MCPSlot) bool { return s.Slot == slot }) ||
		slices.ContainsFunc(m.Providers, func(o config.MCPProvider) bool {
			who := p.Principal(o.ID)
			return who != nil && p.MayServe(who, slot)
		})
}

// reservations asks about one unit of each budget that is about the call.
func (a *callAnswer) reservations(ctx context.Context, rules []config.MCPRule, ctl *sluice.Controller, call sluice.Call) error {
	for i := range rules {
		r := &rules[i]
		if r.Budget == nil {
			continue
		}
		call.Cost = sluice.Cost{{Unit: sluice.Unit(r.Budget.Unit), N: 1}}
		e, err := ctl.Check(ctx, call)
		if err != nil {
			return err
		}
		about := slices.ContainsFunc(e.Rules, func(x sluice.RuleExplanation) bool { return x.Matched && x.Rule == r.ID+":budget" })
		if !about {
			continue
		}
		if r.RequireReservation {
			a.Needs = append(a.Needs, neededUnit{r.ID, r.Budget.Unit})
		}
		name := "one " + r.Budget.Unit
		if !slices.ContainsFunc(a.Reservations, func(s *stepAnswer) bool { return s.Name == name }) {
			a.Reservations = append(a.Reservations, newStepAnswer(name, e))
		}
	}
	return nil
}

// write prints the answer for people.
func (a *callAnswer) write(w io.Writer) error {
	fmt.Fprintf(w, "%s at %s\n\n", strings.TrimSpace(a.Method+" "+a.Tool), a.Slot)
	var t table
	others := slices.DeleteFunc(slices.Clone(a.Subjects), func(s string) bool { return s == a.Identity })
	t.row("caller", a.Identity, strings.Join(others, ", "))
	t.row("resource", a.Resource, "")
	t.row("capability", a.Capability, "")
	t.row("policy", strings.TrimSpace(a.Reason+" "+a.Policy), "")
	if err := t.write(w, ""); err != nil {
		return err
	}
	if a.Unserved {
		fmt.Fprintln(w, "\nThere is no such slot: the file has none of this name, and lets no provider dial in there.")
	}
	if !a.Permitted {
		_, err := fmt.Fprintln(w, "\nForbidden. Nothing is taken.")
		return err
	}
	for _, n := range a.Needs {
		fmt.Fprintf(w, "\nRule %s refuses the call unless the provider has declared that it reserves %s.\n", n.Rule, n.Unit)
	}
	for _, s := range append([]*stepAnswer{a.Call}, a.Reservations...) {
		if err := s.write(w); err != nil {
			return err
		}
	}
	return nil
}

// explainCallPath is where a running sluice is asked.
const explainCallPath = "/api/v1/mcp/explain"

// runCall asks about a request at the broker.
func (x *explainer) runCall(ctx context.Context, s streams, slot string) (err error) {
	q := x.call
	q.Slot, q.From = slot, "ip:"+x.From
	if q.Slot == "" {
		return usageError{errors.New("which slot? Write it as in: sluice explain --mcp scada --tool scada.write")}
	}
	if (q.Method == toolsCall) != (q.Tool != "") {
		return usageError{errors.New("a tools/call names its tool with --tool, and no other method does")}
	}
	for _, subject := range q.Subjects {
		if kind, name, ok := strings.Cut(subject, ":"); subject != policy.Anonymous && (!ok || kind == "" || name == "") {
			return usageError{fmt.Errorf("%q is no subject; write a kind and a name, such as user:alice or group:operators", subject)}
		}
	}
	var a *callAnswer
	if x.addr != "" {
		err = x.ask(ctx, http.MethodPost, explainCallPath, &q, &a)
	} else {
		a, err = x.offlineCall(ctx, s.err, q)
	}
	switch {
	case err != nil:
		return err
	case x.asJSON:
		return writeJSON(s.out, a)
	}
	return a.write(s.out)
}

// offlineCall asks the file, with limits that are full.
func (x *explainer) offlineCall(ctx context.Context, warn io.Writer, q callQuestion) (*callAnswer, error) {
	c, controller, err := x.full(warn)
	if err != nil {
		return nil, err
	}
	p, err := mcpPolicy(c, noSecret)
	if err != nil {
		return nil, err
	}
	return explainCall(ctx, c, p, controller, q)
}

// explainCallLive answers explain --mcp at the administration.
func explainCallLive(p *program) http.Handler {
	return answering(func(ctx context.Context, q *callQuestion) (any, error) {
		return explainCall(ctx, p.config.Load(), p.broker.policy(), p.controller, *q)
	})
}
