package gate

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate/cost"
	"github.com/sluicegate/sluice/gate/upstream"
)

// queues says for which kinds of calls a policy has a rule that lets callers wait.
type queues struct {
	policy *sluice.Policy
	all    bool
	kinds  []string
}

// waits reports whether a call of a kind may have to stand in line.
func (g *Gate) waits(kind string) bool {
	p, q := g.ctl.Policy(), g.queues.Load()
	if q == nil || q.policy != p {
		q = queuesOf(p)
		g.queues.Store(q)
	}
	return q.all || len(q.kinds) > 0 && slices.Contains(q.kinds, kind)
}

func queuesOf(p *sluice.Policy) *queues {
	q := &queues{policy: p}
	for i := range p.Rules {
		switch r := &p.Rules[i]; {
		case r.Queue == nil:
		case len(r.Match.Is[sluice.Kind]) == 0:
			q.all = true
		default:
			q.kinds = append(q.kinds, r.Match.Is[sluice.Kind]...)
		}
	}
	return q
}

// A decision is what the controller says about a call. Refusal and levels may be
// memory that the next decision overwrites.
type decision struct {
	admission sluice.Admission
	levels    []sluice.Level
	refusal   *sluice.Refusal
	err       error
}

// admitted reports whether the call may go ahead.
func (d *decision) admitted() bool { return d.refusal == nil && d.err == nil }

// decide asks the controller about call: in the memory of m if nobody has to wait for
// such calls, else in a line, for as long as the rule and ctx allow.
func (g *Gate) decide(ctx context.Context, call *sluice.Call, m *sluice.Decision) decision {
	if g.waits(call.Kind) {
		a, err := g.ctl.Admit(ctx, *call)
		if refusal, ok := errors.AsType[*sluice.Refusal](err); ok {
			return decision{refusal: refusal, levels: refusal.Levels}
		}
		return decision{admission: a, levels: a.Levels(), err: err}
	}
	ok, err := g.ctl.Try(ctx, call, m)
	if err != nil || !ok {
		return decision{refusal: m.Refusal(), levels: m.Levels(), err: err}
	}
	return decision{admission: m.Admission(), levels: m.Levels()}
}

// admit is the second phase: the policy's rules for the caller, all or nothing.
func (v *visit) admit() bool {
	if preflight(v.r) {
		return true
	}
	if e := v.spot.endpoint; e != nil {
		c, err := e.cost.Count(v.r)
		if err != nil {
			v.refuseBody(err)
			return false
		}
		if c.Calls != 1 {
			v.cost[0] = sluice.Amount{Unit: sluice.Calls, N: c.Calls}
			v.call.Cost = v.cost[:]
		}
		v.call.Capability = c.Capability
	}
	d := v.gate.decide(v.r.Context(), &v.call, &v.main)
	if !d.admitted() {
		v.refuse(d)
		return false
	}
	v.passed, v.levels = d.admission, d.levels
	return true
}

// refuseBody answers a request whose cost could not be found. Nothing was debited.
func (v *visit) refuseBody(err error) { v.refuseRequest(bodyProblem(err)) }

// bodyProblem says what is wrong with a body that could not be counted.
func bodyProblem(err error) (status int, detail string) {
	_, cut := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, cost.ErrTooLarge), cut:
		return http.StatusRequestEntityTooLarge, "the body is too large"
	case errors.Is(err, cost.ErrMalformed):
		return http.StatusBadRequest, "the body is malformed"
	case errors.Is(err, cost.ErrBatch):
		return http.StatusBadRequest, "this revision of MCP has no batches"
	case errors.Is(err, upstream.ErrBodyTimeout):
		return http.StatusRequestTimeout, "the body took too long"
	}
	// The client has gone, or sent something that HTTP does not allow.
	return http.StatusBadRequest, "the body could not be read"
}
