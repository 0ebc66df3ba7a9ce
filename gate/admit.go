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

// outlook is what a gate needs to know of a policy before it asks: which kinds of calls
// have rules of their own, and which may have to wait.
type outlook struct {
	policy      *sluice.Policy
	asks, waits []string
	anyWaits    bool // a rule for every kind lets callers wait
}

// own reports whether there are rules for calls of a kind by name. Without them the gate
// does not make such calls beside the request's own: a rule for all kinds would count
// each request twice.
func (o *outlook) own(kind string) bool { return len(o.asks) > 0 && slices.Contains(o.asks, kind) }

// mayWait reports whether a call of a kind may have to stand in line.
func (o *outlook) mayWait(kind string) bool {
	return o.anyWaits || len(o.waits) > 0 && slices.Contains(o.waits, kind)
}

// outlook returns what there is to know of the policy in force.
func (g *Gate) outlook() *outlook {
	p, o := g.ctl.Policy(), g.ahead.Load()
	if o != nil && o.policy == p {
		return o
	}
	o = &outlook{policy: p}
	for i := range p.Rules {
		r := &p.Rules[i]
		kinds := r.Match.Is[sluice.Kind]
		o.asks = append(o.asks, kinds...)
		if r.Queue != nil {
			o.waits = append(o.waits, kinds...)
			o.anyWaits = o.anyWaits || len(kinds) == 0
		}
	}
	o.asks, o.waits = distinct(o.asks), distinct(o.waits)
	g.ahead.Store(o)
	return o
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
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

// ask asks the controller about call: in the memory of m if nobody has to wait for
// such calls, else in a line, for as long as the rule and ctx allow.
func (g *Gate) ask(ctx context.Context, call *sluice.Call, m *sluice.Decision) decision {
	if g.outlook().mayWait(call.Kind) {
		a, err := g.ctl.Admit(ctx, *call)
		if refusal, ok := errors.AsType[*sluice.Refusal](err); ok {
			return decision{refusal: refusal, levels: refusal.Levels}
		}
		return decision{admission: a, levels: a.Levels(), err: err}
	}
	ok, err := g.ctl.Try(ctx, call, m)
	switch {
	case err != nil:
		return decision{err: err} // what m holds is about an earlier call
	case !ok:
		return decision{refusal: m.Refusal(), levels: m.Levels()}
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
