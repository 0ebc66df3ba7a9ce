package gate

import (
	"context"
	"errors"
	"net/http"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clientip"
)

// An Explanation says what a gate would do with a request and why. It may hold text that
// the caller sent; it holds no credential.
type Explanation struct {
	// Path is the canonical path, and Clean whether the request spells it so.
	Path  string `json:"path,omitempty"`
	Clean bool   `json:"clean"`
	// Problem is what is wrong with the request itself; then no more is known.
	Problem string `json:"problem,omitempty"`
	// Excluded says that the path is never limited; then nothing is asked.
	Excluded bool `json:"excluded"`
	// Client is the client's name in the books. Why says how it was found, Hops what was
	// made of each element of the header, from the right, and Ignored which other headers
	// claim an address.
	Client        string   `json:"client,omitempty"`
	ClientWhy     string   `json:"clientWhy,omitempty"`
	ClientHops    []string `json:"clientHops,omitempty"`
	ClientIgnored []string `json:"clientIgnored,omitempty"`
	// Subject, Tenant, Tier and Groups are the caller's, Label its name for people, and
	// CallerWhy says how it was found.
	Subject   string   `json:"subject,omitempty"`
	Tenant    string   `json:"tenant,omitempty"`
	Tier      string   `json:"tier,omitempty"`
	Groups    []string `json:"groups,omitempty"`
	Label     string   `json:"label,omitempty"`
	CallerWhy string   `json:"callerWhy,omitempty"`
	// Route is the endpoint policy that was chosen, and RouteWhy says why.
	Route    string `json:"route,omitempty"`
	RouteWhy string `json:"routeWhy,omitempty"`
	// Upstream is where the proxy would send the request.
	Upstream string `json:"upstream,omitempty"`
	// Cost is how many calls the request counts as, and Capability what it calls.
	Cost       int64  `json:"cost,omitempty"`
	Capability string `json:"capability,omitempty"`
	// Asked is what the controller would say, in the order in which it is asked. A request
	// that is refused comes no further.
	Asked []Asked `json:"asked,omitempty"`
	// Status is the HTTP status of the refusal, or zero if the request would pass, and
	// Headers are what the answer would tell about limits.
	Status  int         `json:"status,omitempty"`
	Headers http.Header `json:"headers,omitempty"`
}

// Asked is one decision of an [Explanation].
type Asked struct {
	// Kind is the call's: "preauth", "preauth-site", "auth-failure", "http" or "stream".
	Kind string `json:"kind"`
	*sluice.Explanation
}

// Admitted reports whether the request would reach its handler.
func (e *Explanation) Admitted() bool { return e.Status == 0 }

// Explain says what would happen to r now, and takes nothing. It goes the same way as a
// request: a credential is verified, but a failed one is not debited, and a body is read
// if its cost is asked for.
// r.RemoteAddr is the peer of the connection.
func (g *Gate) Explain(ctx context.Context, r *http.Request) (*Explanation, error) {
	x := explorer{Explanation: &Explanation{}, gate: g, set: g.current.Load(), ahead: g.outlook(), r: r}
	if err := x.set.locate(&x.spot, r, len(x.set.o.Upstreams) > 0); err != nil {
		x.malformed(http.StatusBadRequest, err)
		return x.Explanation, nil
	}
	x.place(&x.spot)
	if x.spot.excluded || x.set.o.Disabled {
		return x.Explanation, nil
	}
	if x.address(ctx) && x.caller(ctx) && x.limits(ctx) && x.stream(ctx) {
		x.tell()
	}
	return x.Explanation, x.err
}

// An explorer goes the way of a [visit] and takes nothing.
type explorer struct {
	*Explanation
	gate   *Gate
	set    *setup
	ahead  *outlook
	r      *http.Request
	spot   spot
	from   client
	call   sluice.Call    // of the second phase
	levels []sluice.Level // after it
	err    error          // of the store
}

// ask notes what the controller says about call, and reports whether it would admit it.
func (x *explorer) ask(ctx context.Context, call sluice.Call) bool {
	e, err := x.gate.ctl.Check(ctx, call)
	if err != nil {
		x.err = err
		return false
	}
	x.Asked = append(x.Asked, Asked{call.Kind, e})
	if !e.Admitted {
		x.refuse(e.Refusal)
	}
	return e.Admitted
}

// address is the first phase, and what a body may be.
func (x *explorer) address(ctx context.Context) bool {
	x.from = x.client(x.set.clients.Explain(x.r.RemoteAddr, x.r.Header))
	if x.ahead.own("preauth") {
		var call sluice.Call
		preAuthCall(&call, &x.spot, &x.from)
		if !x.ask(ctx, call) {
			return false
		}
	}
	if x.ahead.own("preauth-site") && x.from.Addr.Is6() && !x.ask(ctx, siteCall(&x.spot, &x.from)) {
		return false
	}
	if most := x.set.o.Bounds.BodyBytes; most != nil && x.r.ContentLength > *most {
		x.malformed(http.StatusRequestEntityTooLarge, errors.New("the body is too large"))
		return false
	}
	return true
}

// caller finds out who calls.
func (x *explorer) caller(ctx context.Context) bool {
	callers, h := x.set.callers, x.r.Header
	if callers.Presents(h) && x.gate.suspects.Has(x.from.id) && !x.mayFail(ctx) {
		x.CallerWhy = "its address has used up its failed credentials, and no other is looked at"
		return false
	}
	f := callers.Resolve(ctx, h, x.from.Trusted)
	x.set.callOf(&x.call, &x.spot, &x.from, &f)
	x.Subject, x.Tenant, x.Tier, x.Groups = x.call.Subject, x.call.Tenant, x.call.Tier, x.call.Subjects
	x.Label, x.CallerWhy = f.Principal.Label, why(f.Source, f.Verified, f.Err)
	if f.Err == nil || f.Verified {
		return true
	}
	if !x.mayFail(ctx) {
		return false
	}
	if callers.RejectsUnverified() {
		x.malformed(http.StatusUnauthorized, f.Err)
		return false
	}
	return true
}

// mayFail asks whether the address may show another credential that fails.
func (x *explorer) mayFail(ctx context.Context) bool { return x.ask(ctx, failure(x.from.id)) }

// limits is the second phase.
func (x *explorer) limits(ctx context.Context) bool {
	if preflight(x.r) {
		x.RouteWhy = "a CORS preflight does not ask the limits of its caller"
		return true
	}
	if !x.count(x.r, &x.spot, &x.call) || !x.ask(ctx, x.call) {
		return false
	}
	x.levels = after(x.Asked[len(x.Asked)-1].Explanation)
	return true
}

// stream is what a request is asked that wants a stream and nothing else.
func (x *explorer) stream(ctx context.Context) bool {
	capability := streamOf(x.r, &x.spot)
	return capability == "" || !x.ahead.own("stream") || x.ask(ctx, streamCall(x.call, capability))
}

func (e *Explanation) malformed(status int, err error) {
	e.Status, e.Problem = status, err.Error()
}

func (e *Explanation) place(p *spot) {
	e.Path, e.Clean, e.Excluded = p.path, p.clean, p.excluded
	e.Route, e.RouteWhy, e.Cost = p.routeID(), "no endpoint policy matches", 1
	if p.endpoint != nil {
		e.RouteWhy = "the most specific pattern that matches is " + p.endpoint.pattern
	}
	if p.upstream != nil {
		e.Upstream = p.upstream.Name()
	}
}

func (e *Explanation) client(t clientip.Trace) client {
	e.Client, e.ClientWhy, e.ClientIgnored = t.Identity, t.Why, t.Ignored
	for _, h := range t.Hops {
		e.ClientHops = append(e.ClientHops, h.Element+": "+h.Verdict)
	}
	return client{Client: t.Client, id: t.Identity}
}

// count notes what the request costs. It reports false if that cannot be found.
func (e *Explanation) count(r *http.Request, p *spot, call *sluice.Call) bool {
	if p.endpoint == nil {
		return true
	}
	n, err := p.endpoint.cost.Count(r)
	if err != nil {
		status, _ := bodyProblem(err)
		e.malformed(status, err)
		return false
	}
	call.Cost, call.Capability = sluice.Cost{{Unit: sluice.Calls, N: n.Calls}}, n.Capability
	e.Cost, e.Capability = n.Calls, n.Capability
	return true
}

// why says how a caller was found.
func why(source string, verified bool, err error) string {
	text := "no credential that counts: the caller is its address"
	switch {
	case source != "" && verified:
		text = "verified by " + source
	case source != "":
		text = "taken unverified from " + source
	}
	if err != nil {
		text += "; a credential failed: " + err.Error()
	}
	return text
}

// tell notes what the answer tells about limits, by the code that would write it.
func (x *explorer) tell() {
	v := x.visit()
	v.levels = x.levels
	v.tell(x.Headers, http.StatusOK)
}

// refuse notes the head of a refusal.
func (x *explorer) refuse(refusal *sluice.Refusal) {
	v := x.visit()
	v.refuse(decision{refusal: refusal})
	x.Status = v.reply.status
}

// visit returns a visit whose answer goes nowhere but into Headers.
func (x *explorer) visit() *visit {
	x.Headers = http.Header{}
	return &visit{set: x.set, r: x.r, spot: x.spot, reply: reply{ResponseWriter: record(x.Headers)}}
}

// after returns the levels as they would be once the call was admitted.
func after(x *sluice.Explanation) []sluice.Level {
	var levels []sluice.Level
	for i := range x.Rules {
		for _, l := range x.Rules[i].Limits {
			l.Level.Remaining = max(0, l.Level.Remaining-l.Cost)
			levels = append(levels, l.Level)
		}
	}
	return levels
}

// A record is an answer of which only the header is kept.
type record http.Header

func (w record) Header() http.Header         { return http.Header(w) }
func (w record) WriteHeader(int)             {}
func (w record) Write(b []byte) (int, error) { return len(b), nil }
