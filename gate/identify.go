package gate

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/internal/clientip"
)

// preAuth is the first phase: the limits of the client's address. It runs whatever
// credentials the request shows, or a junk token would be a way around it.
func (v *visit) preAuth() bool {
	o := v.gate.outlook()
	if o.own("preauth") {
		preAuthCall(&v.call, &v.spot, &v.client)
		d := v.gate.decide(v.r.Context(), &v.call, &v.pre)
		if !d.admitted() {
			v.refuse(d)
			return false
		}
		v.preAdmission = d.admission
	}
	return !o.own("preauth-site") || v.preAuthSite()
}

// siteBits is the prefix of IPv6 that one customer of a provider may hold.
const siteBits = 48

// preAuthSite asks for the whole site of an IPv6 client, who may have as many networks
// there as a limit on one network has room for. An IPv4 client has no site.
func (v *visit) preAuthSite() bool {
	if !v.client.Addr.Is6() {
		return true
	}
	call := siteCall(&v.spot, &v.client)
	d := v.gate.decide(v.r.Context(), &call, new(sluice.Decision))
	if !d.admitted() {
		v.refuse(d)
		return false
	}
	v.siteAdmission = d.admission
	return true
}

// siteCall returns the call for the whole site of an IPv6 client.
func siteCall(p *spot, c *client) sluice.Call {
	site := clientip.Identity(c.Addr, 32, siteBits)
	return sluice.Call{
		Kind: "preauth-site", Subject: site, IP: site,
		Method: p.method, Resource: p.path, Route: p.routeID(),
	}
}

// preAuthCall makes, in call, which is zero, the call of the first phase.
func preAuthCall(call *sluice.Call, p *spot, c *client) {
	call.Kind, call.Subject, call.IP = "preauth", c.id, c.id
	call.Method, call.Resource, call.Route = p.method, p.path, p.routeID()
}

// identify finds out who calls and makes the call of the second phase.
func (v *visit) identify() bool {
	if !v.find() {
		return false
	}
	v.set.callOf(&v.call, &v.spot, &v.client, &v.found)
	return true
}

// find says who calls: whom the application says, or whom the credentials prove. It
// reports false if the request has been answered.
func (v *visit) find() bool {
	ctx, g, h := v.r.Context(), v.gate, v.r.Header
	if p, ok := ctx.Value(principalKey{}).(*identity.Principal); ok {
		v.found = v.set.callers.Vouched(*p)
		return true
	}
	if !v.set.callers.Looks(h) {
		return true // the usual anonymous request
	}
	if v.set.callers.Presents(h) && g.suspects.Has(v.client.id) {
		if refusal := g.exhausted(ctx, v.client.id); refusal != nil {
			v.refuse(decision{refusal: refusal})
			return false
		}
	}
	v.found = v.set.callers.Resolve(ctx, h, v.client.Trusted)
	if v.found.Err == nil {
		return true
	}
	if failed := v.set.o.Observe.CredentialFailed; failed != nil {
		failed(v.found.Failure())
	}
	d := v.guess()
	switch {
	case v.found.Verified:
		return true // another credential is good; the failure is on the books
	case !d.admitted():
		v.refuse(d)
		return false
	case v.set.callers.RejectsUnverified():
		v.refuseCredential()
		return false
	}
	return true
}

// callOf makes, in call, the call of the second phase. A caller that nobody vouches for
// is its address. It sets every field but Capability and Cost.
func (s *setup) callOf(call *sluice.Call, p *spot, c *client, f *identity.Finding) {
	call.Kind, call.IP, call.Method, call.Resource, call.Route = "http", c.id, p.method, p.path, p.routeID()
	call.Subject, call.Tenant, call.Tier, call.Subjects = c.id, "", s.o.anonymous(), nil
	if who := &f.Principal; f.Found() {
		call.Subject, call.Tenant, call.Tier, call.Subjects = who.Subject, who.Tenant, who.Tier, who.Groups
	}
	if p.upstream != nil {
		call.Provider = p.upstream.Name()
	}
}

func (p *spot) routeID() string {
	if p.endpoint == nil {
		return ""
	}
	return p.endpoint.id
}

// How many addresses are remembered whose limit on failed credentials may be used up,
// and how many failures, and for how long. Only those addresses are asked about before a
// credential is looked at, so that the others pay nothing, and a guesser does not learn
// that a guess was right.
const (
	maxSuspects = 1 << 14
	suspectFor  = 10 * time.Minute
)

func failure(id string) sluice.Call {
	return sluice.Call{Kind: "auth-failure", Subject: id, IP: id}
}

// exhausted returns why an address may show no more credentials, or nil if it may.
func (g *Gate) exhausted(ctx context.Context, id string) *sluice.Refusal {
	e, err := g.ctl.Check(ctx, failure(id))
	if err == nil && !e.Admitted {
		return e.Refusal
	}
	g.suspects.Remove(id)
	return nil
}

// guess debits the request's failed credential, unless it has been already and counts
// once.
func (v *visit) guess() decision {
	g, ctx := v.gate, v.r.Context()
	if !v.set.o.DistinctFailures {
		return g.guessed(ctx, v.client.id, &v.fail)
	}
	mark := v.set.callers.Mark(v.client.id, v.r.Header)
	if g.failures.Has(mark) {
		return decision{}
	}
	d := g.guessed(ctx, v.client.id, &v.fail)
	if d.admitted() {
		g.failures.Add(mark)
	}
	return d
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
		g.suspects.Add(id)
	}
	return d
}

// refuseCredential answers 401. It does not say what was wrong: whether a key exists
// is nobody's business.
func (v *visit) refuseCredential() {
	v.w.Header().Set("WWW-Authenticate", `Bearer realm="api"`)
	v.refuseRequest(http.StatusUnauthorized, "the credential is not valid")
}
