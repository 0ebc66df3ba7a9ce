package gate

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate/identity"
	"github.com/sluicegate/sluice/gate/lately"
)

// preAuth is the first phase: the limit of the client's address. It runs whatever
// credentials the request shows, or a junk token would be a way around it.
func (v *visit) preAuth() bool {
	if !v.gate.outlook().asks.has("preauth") {
		return true
	}
	v.call = preAuthCall(&v.spot, &v.client)
	d := v.gate.decide(v.r.Context(), &v.call, &v.pre)
	if !d.admitted() {
		v.refuse(d)
		return false
	}
	v.preAdmission = d.admission
	return true
}

func preAuthCall(p *spot, c *client) sluice.Call {
	return sluice.Call{
		Kind: "preauth", Subject: c.id, IP: c.id,
		Method: p.method, Resource: p.path, Route: p.routeID(),
	}
}

// identify finds out who calls and makes the call of the second phase.
func (v *visit) identify() bool {
	f, ok := v.finding()
	if !ok {
		return false
	}
	v.call = v.set.callOf(&v.spot, &v.client, &f)
	if f.Found() {
		v.principal = &f.Principal
	}
	return true
}

// finding says who calls: whom the application says, or whom the credentials prove.
// It reports false if the request has been answered.
func (v *visit) finding() (f identity.Finding, ok bool) {
	ctx := v.r.Context()
	if p, ok := ctx.Value(principalKey{}).(*identity.Principal); ok {
		return v.set.callers.Vouched(*p), true
	}
	g, h := v.gate, v.r.Header
	shown := v.set.callers.Presents(h)
	if shown && g.guesses.suspect(v.client.id) {
		if refusal := g.exhausted(ctx, v.client.id); refusal != nil {
			v.refuse(decision{refusal: refusal})
			return f, false
		}
	}
	f = v.set.callers.Resolve(ctx, h, v.client.Trusted)
	if f.Err == nil {
		return f, true
	}
	d := g.guessed(ctx, v.client.id, &v.fail)
	switch {
	case f.Verified:
		return f, true // another credential is good; the failure is on the books
	case !d.admitted():
		v.refuse(d)
		return f, false
	case v.set.callers.RejectsUnverified():
		v.refuseCredential()
		return f, false
	}
	return f, true
}

// callOf makes the call of the second phase. A caller that nobody vouches for is its
// address.
func (s *setup) callOf(p *spot, c *client, f *identity.Finding) sluice.Call {
	call := sluice.Call{
		Kind: "http", Subject: c.id, Tier: s.o.anonymous(), IP: c.id,
		Method: p.method, Resource: p.path, Route: p.routeID(),
	}
	if f.Found() {
		who := &f.Principal
		call.Subject, call.Tenant, call.Tier, call.Subjects = who.Subject, who.Tenant, who.Tier, who.Groups
	}
	if p.upstream != nil {
		call.Provider = p.upstream.Name()
	}
	return call
}

func (p *spot) routeID() string {
	if p.endpoint == nil {
		return ""
	}
	return p.endpoint.id
}

// guesses remembers addresses whose limit on failed credentials may be used up. Only
// those are asked about before a credential is looked at, so that the others pay
// nothing and a guesser learns nothing more, not even that a guess was right.
type guesses struct{ suspects *lately.Set[string] }

func newGuesses() guesses { return guesses{lately.New[string](1<<14, 10*time.Minute)} }

func (g *guesses) suspect(id string) bool { return g.suspects.Has(id) }

func failure(id string) sluice.Call {
	return sluice.Call{Kind: "auth-failure", Subject: id, IP: id}
}

// exhausted returns why an address may show no more credentials, or nil if it may.
func (g *Gate) exhausted(ctx context.Context, id string) *sluice.Refusal {
	e, err := g.ctl.Check(ctx, failure(id))
	if err == nil && !e.Admitted {
		return e.Refusal
	}
	g.guesses.suspects.Remove(id)
	return nil
}

// guessed debits a failed credential to the address that sent it.
func (g *Gate) guessed(ctx context.Context, id string, m *sluice.Decision) decision {
	call := failure(id)
	d := g.decide(ctx, &call, m)
	d.admission.Release()
	spent := d.refusal != nil
	for i := range d.levels {
		spent = spent || d.levels[i].Remaining == 0 && !d.levels[i].Shadow
	}
	if spent {
		g.guesses.suspects.Add(id)
	}
	return d
}

// refuseCredential answers 401. It does not say what was wrong: whether a key exists
// is nobody's business.
func (v *visit) refuseCredential() {
	v.w.Header().Set("WWW-Authenticate", `Bearer realm="api"`)
	v.refuseRequest(http.StatusUnauthorized, "the credential is not valid")
}
