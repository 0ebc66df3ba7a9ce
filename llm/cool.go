package llm

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/upstream"
)

// The capabilities of a call of [KindCooldown]: whose cooldown it starts.
const (
	CoolModel      = "model"      // one model under one credential
	CoolCredential = "credential" // all models under one credential
	CoolProvider   = "provider"   // the provider
)

// exhaustedFor is how long a credential is left alone that is not accepted or has nothing
// left, if the provider does not say for how long.
const exhaustedFor = 5 * time.Minute

// cool starts the cooldown that an answer asks for, for all who share the store. Of several
// the latest end counts.
func (a *attempt) cool() {
	v := &a.verdict
	scope := map[upstream.Scope]string{upstream.OfModel: CoolModel, upstream.OfCredential: CoolCredential, upstream.OfProvider: CoolProvider}[v.Scope]
	if scope == "" || a.at.key.ID == "" && scope != CoolProvider {
		return // a client's own credential is nobody else's concern
	}
	d := time.Duration(-1) // not said
	switch {
	case v.HasAfter && v.After > 0:
		d = v.After + rand.N(v.After/10+1)
	case v.Class == upstream.Exhausted || v.Class == upstream.Denied:
		d = exhaustedFor
	}
	call := sluice.Call{Kind: KindCooldown, Capability: scope, Provider: a.at.provider.Name, Model: a.at.model, Credential: a.at.key.ID}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	if err := a.x.s.control.Cool(ctx, call, d); err != nil {
		a.x.s.Logger.Error("llm: a cooldown could not be kept", "provider", call.Provider, "error", err)
	}
}
