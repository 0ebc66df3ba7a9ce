package sluice

import "time"

// An Outcome is how a decision ended.
type Outcome uint8

const (
	Admitted  Outcome = iota // the call may go ahead
	Refused                  // it may not; Event.Refusal says why
	Cancelled                // its caller left, or the controller was closed
)

// String returns the outcome as metrics and logs spell it.
func (o Outcome) String() string {
	switch o {
	case Admitted:
		return "admitted"
	case Refused:
		return "refused"
	}
	return "cancelled"
}

// An Event is one decision, for an observer. It and everything in it are valid only
// during the call of Options.Observe.
type Event struct {
	Call    *Call
	Outcome Outcome
	// Refusal is why, if Outcome is Refused.
	Refusal *Refusal
	// Err is the error that Admit returns, if Outcome is Cancelled.
	Err error
	// Waited is how long the call stood in line.
	Waited time.Duration
	// Degraded is true if the store did not answer.
	Degraded bool
	// Rules are the matching rules in configuration order. For a caller that left a line
	// it is the rule it waited for.
	Rules []RuleOutcome
	// Levels are those of all matching limits, in configuration order; none for a caller
	// that left, or when the store was not asked.
	Levels []Level
}

// A RuleOutcome is what one matching rule said.
type RuleOutcome struct {
	Rule   string
	Shadow bool
	// Refused is true if the rule refused; a shadow rule would have.
	Refused bool
}

// report tells the observer about a decision.
func (c *Controller) report(call *Call, d *Decision, ok bool, err error) {
	if c.observe == nil {
		return
	}
	refusal, e := d.Refusal(), &d.event
	*e = Event{
		Call: call, Waited: d.waited, Degraded: d.degraded, Err: err,
		Levels: d.levels, Rules: e.Rules[:0],
	}
	switch {
	case err != nil:
		e.Outcome = Cancelled
	case !ok:
		e.Outcome, e.Refusal = Refused, refusal
	}
	outs := d.res[0].Outcomes
	step := 0
	for i := range d.matched {
		r := d.matched[i].rule
		out := RuleOutcome{Rule: r.ID, Shadow: r.Shadow}
		for range r.limits {
			if !d.local && step < len(outs) && step < len(d.steps) && !outs[step].OK {
				out.Refused = true
			}
			step++
		}
		if !r.Shadow {
			out.Refused = !ok && err == nil && d.refusedBy(r)
		}
		e.Rules = append(e.Rules, out)
	}
	c.observe(e)
	e.Call, e.Refusal, e.Err = nil, nil, nil
}
