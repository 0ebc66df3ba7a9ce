package llm

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/upstream"
)

// observe takes from the provider's limits what the provider says has gone and nobody here
// has taken: others use the same account. What it says is left never gives anything back.
func (a *attempt) observe() {
	if len(a.levels) == 0 || !a.at.provider.lately.due(time.Now()) {
		return
	}
	cost := sluice.Cost{{Unit: sluice.Calls}}
	missing := false
	for _, s := range upstream.Standings(a.answer.Header, time.Now()) {
		unit, ok := unitOf(s.Dimension)
		if !ok || s.Remaining < 0 || s.Limit <= 0 || s.Per > time.Minute {
			continue // a day's figure says nothing about a minute's
		}
		if gone := a.left(unit) - s.Remaining; gone > 0 {
			missing = true
			if unit == sluice.Calls {
				cost[0].N = gone
				continue
			}
			cost = append(cost, sluice.Amount{Unit: unit, N: gone})
		}
	}
	if !missing {
		return
	}
	call := sluice.Call{Kind: KindObserved, Provider: a.at.provider.Name, Model: a.at.model, Credential: a.at.key.ID, Cost: cost}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	var d sluice.Decision
	if _, err := a.x.s.control.Try(ctx, &call, &d); err != nil {
		a.x.s.Logger.Error("llm: a provider's figures could not be taken over", "provider", call.Provider, "error", err)
	}
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

// left is how many units the provider's own limits had left when the attempt was admitted:
// the least of them.
func (a *attempt) left(unit sluice.Unit) int64 {
	least := int64(-1)
	for i := range a.levels {
		l := &a.levels[i]
		if u := l.Unit; l.Shadow || l.Window <= 0 || l.Window > time.Minute || u != unit && !(u == "" && unit == sluice.Calls) {
			continue
		}
		if least < 0 || l.Remaining < least {
			least = l.Remaining
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
