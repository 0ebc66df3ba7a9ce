package llm

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/upstream"
)

// The kinds of calls that start a cooldown: of one model under one credential, of all models
// under one credential, of a provider.
const (
	KindCoolModel      = "llm-cooldown-model"
	KindCoolCredential = "llm-cooldown-credential"
	KindCoolProvider   = "llm-cooldown-provider"
)

// longestCooldown is the longest time for which anything is left alone: a day's quota comes
// back within it, and a hostile answer does no harm for longer.
const longestCooldown = 25 * limit.Hour

// Cooldowns returns the rules by which attempts are kept from what a provider has asked to be
// left alone. A policy that has them shares cooldowns between all processes on one store, and
// keeps them over a reload.
func Cooldowns() []sluice.Rule {
	by := []struct {
		id, kind string
		group    []sluice.Dimension
	}{
		{"llm-cooldown-model", KindCoolModel, []sluice.Dimension{sluice.Provider, sluice.Model, sluice.Credential}},
		{"llm-cooldown-credential", KindCoolCredential, []sluice.Dimension{sluice.Provider, sluice.Credential}},
		{"llm-cooldown-provider", KindCoolProvider, []sluice.Dimension{sluice.Provider}},
	}
	var rules []sluice.Rule
	for _, r := range by {
		rules = append(rules, sluice.Rule{ID: r.id, GroupBy: r.group, Limits: []sluice.Limit{{Limit: limit.Cooldown(longestCooldown)}}, Queue: &sluice.Queue{},
			Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {KindAttempt, r.kind}}}})
	}
	return rules
}

// exhaustedFor is how long a credential is left alone that is not accepted or has nothing
// left, if the provider does not say for how long.
const exhaustedFor = 5 * time.Minute

// cool starts the cooldown that an answer asks for, for all who share the store. Of several
// the latest end counts.
func (a *attempt) cool() {
	v := &a.verdict
	kind := map[upstream.Scope]string{upstream.OfModel: KindCoolModel, upstream.OfCredential: KindCoolCredential, upstream.OfProvider: KindCoolProvider}[v.Scope]
	if kind == "" || a.at.key.ID == "" && kind != KindCoolProvider {
		return // a client's own credential is nobody else's concern
	}
	d := time.Duration(-1) // not said
	switch {
	case v.HasAfter && v.After > 0:
		d = v.After + rand.N(v.After/10+1)
	case v.Class == upstream.Exhausted || v.Class == upstream.Denied:
		d = exhaustedFor
	}
	call := sluice.Call{Kind: kind, Provider: a.at.provider.Name, Model: a.at.model, Credential: a.at.key.ID}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	if err := a.x.s.control.Cool(ctx, call, d); err != nil {
		a.x.s.Logger.Error("llm: a cooldown could not be kept", "provider", call.Provider, "error", err)
	}
}
