package llm

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/upstream"
)

// observe takes from the provider's limits what the provider says has gone and nobody here
// has taken: others use the same account. It is taken when the attempt is settled. What it
// says is left never gives anything back.
func (a *attempt) observe() {
	if !a.at.provider.lately.due(time.Now()) {
		return
	}
	standings := upstream.Standings(a.answer.Header, time.Now())
	if len(standings) == 0 {
		return
	}
	p := a.at.provider
	p.discovered.note(Discovered{p.Name, a.at.model, a.at.key.ID, time.Now(), standings})
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	var err error
	if a.others, err = a.missing(ctx, standings); err != nil {
		a.x.s.Logger.Error("llm: a provider's figures could not be taken over", "provider", p.Name, "error", err)
	}
}

// missing is what is left here and not there. What is left here is asked for now: the
// attempts that were admitted while this one was under way are in the provider's figures too.
func (a *attempt) missing(ctx context.Context, standings []upstream.Standing) (cost sluice.Cost, err error) {
	call := a.x.call(KindAttempt, sluice.Cost{{Unit: sluice.Calls}})
	call.Provider, call.Model, call.Credential = a.at.provider.Name, a.at.model, a.at.key.ID
	e, err := a.x.s.control.Check(ctx, call)
	if err != nil {
		return nil, err
	}
	for _, s := range standings {
		unit, ok := unitOf(s.Dimension)
		if !ok || s.Remaining < 0 || s.Limit <= 0 || s.Per > time.Minute {
			continue // a day's figure says nothing about a minute's
		}
		gone := left(e, unit) - s.Remaining
		if gone <= 0 {
			continue
		}
		if i := slices.IndexFunc(cost, func(m sluice.Amount) bool { return m.Unit == unit }); i >= 0 {
			cost[i].N = max(cost[i].N, gone) // one limit in two spellings
			continue
		}
		cost = append(cost, sluice.Amount{Unit: unit, N: gone})
	}
	return cost, nil
}

// withOthers adds what others have used to what the attempt comes to: it is taken in one with
// it, as an overrun, because a call of its own would need a slot that nobody uses.
func (a *attempt) withOthers(cost sluice.Cost) sluice.Cost {
	for _, gone := range a.others {
		i := slices.IndexFunc(cost, func(m sluice.Amount) bool { return m.Unit == gone.Unit })
		if i < 0 { // the attempt's own call
			cost = append(cost, sluice.Amount{Unit: gone.Unit, N: 1})
			i = len(cost) - 1
		}
		cost[i].N = sum(cost[i].N, gone.N)
	}
	return cost
}

// unitOf is what a provider's dimension counts here.
func unitOf(d upstream.Dimension) (sluice.Unit, bool) {
	switch d {
	case upstream.Requests:
		return sluice.Calls, true
	case upstream.Tokens:
		return sluice.Tokens, true
	case upstream.InputTokens:
		return InputTokens, true
	case upstream.OutputTokens:
		return OutputTokens, true
	}
	return "", false
}

// left is how many units the limits that an explanation is about have left: the least of
// them, -1 if there is none.
func left(e *sluice.Explanation, unit sluice.Unit) int64 {
	least := int64(-1)
	for i := range e.Rules {
		for _, x := range e.Rules[i].Limits {
			l := &x.Level
			if u := l.Unit; l.Shadow || l.Window <= 0 || l.Window > time.Minute || u != unit && !(u == "" && unit == sluice.Calls) {
				continue
			}
			if least < 0 || l.Remaining < least {
				least = l.Remaining
			}
		}
	}
	return least
}

// observed remembers when a provider's own figures were last taken over.
type observed struct{ at atomic.Int64 }

// observeEvery bounds how often one provider's figures are taken over: they are rounded, and
// those of several answers at once tell the same.
const observeEvery = time.Second

// due reports whether it is time to take over figures again.
func (o *observed) due(now time.Time) bool {
	last := o.at.Load()
	return now.UnixNano()-last >= int64(observeEvery) && o.at.CompareAndSwap(last, now.UnixNano())
}
