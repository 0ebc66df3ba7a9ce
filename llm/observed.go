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
// has taken: others use the same account. What it says is left never gives anything back.
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
	call := sluice.Call{Kind: KindObserved, Provider: a.at.provider.Name, Model: a.at.model, Credential: a.at.key.ID, Cost: sluice.Cost{{Unit: sluice.Calls}}}
	err := a.missing(ctx, &call, standings)
	if err == nil && slices.ContainsFunc(call.Cost, func(m sluice.Amount) bool { return m.N > 0 }) {
		_, err = a.x.s.control.Try(ctx, &call, &sluice.Decision{})
	}
	if err != nil {
		a.x.s.Logger.Error("llm: a provider's figures could not be taken over", "provider", call.Provider, "error", err)
	}
}

// missing sets the cost of call to what is left here and not there. What is left here is
// asked for now: the attempts that were admitted while this one was under way are in the
// provider's figures too.
func (a *attempt) missing(ctx context.Context, call *sluice.Call, standings []upstream.Standing) error {
	e, err := a.x.s.control.Check(ctx, *call)
	if err != nil {
		return err
	}
	for _, s := range standings {
		unit, ok := unitOf(s.Dimension)
		if !ok || s.Remaining < 0 || s.Limit <= 0 || s.Per > time.Minute {
			continue // a day's figure says nothing about a minute's
		}
		switch gone := left(e, unit) - s.Remaining; {
		case gone <= 0:
		case unit == sluice.Calls:
			call.Cost[0].N = max(call.Cost[0].N, gone)
		case call.Cost.Of(unit) == 0:
			call.Cost = append(call.Cost, sluice.Amount{Unit: unit, N: gone})
		}
	}
	return nil
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
