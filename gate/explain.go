package gate

import (
	"context"
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
	// PreAuth and Identity are what the controller would say in each phase; nil is a
	// phase that the request would not reach.
	PreAuth  *sluice.Explanation `json:"preAuth,omitempty"`
	Identity *sluice.Explanation `json:"identity,omitempty"`
	// Status is the HTTP status of the refusal, or zero if the request would pass, and
	// Headers are what the answer would tell about limits.
	Status  int         `json:"status,omitempty"`
	Headers http.Header `json:"headers,omitempty"`
}

// Admitted reports whether the request would reach its handler.
func (e *Explanation) Admitted() bool { return e.Status == 0 }

// Explain says what would happen to r now, and takes nothing. It goes the same way as a
// request: a credential is verified, but a failed one is not debited, and a body is read
// if its cost is asked for.
// r.RemoteAddr is the peer of the connection.
func (g *Gate) Explain(ctx context.Context, r *http.Request) (*Explanation, error) {
	s := g.current.Load()
	e := &Explanation{}
	var p spot
	err := s.locate(&p, r, len(s.o.Upstreams) > 0)
	if err != nil {
		e.malformed(http.StatusBadRequest, err)
		return e, nil
	}
	e.place(&p)
	if p.excluded || s.o.Disabled {
		return e, nil
	}
	c := e.client(s.clients.Explain(r.RemoteAddr, r.Header))
	var call sluice.Call
	preAuthCall(&call, &p, &c)
	if e.PreAuth, err = g.ctl.Check(ctx, call); err != nil {
		return nil, err
	}
	if !e.PreAuth.Admitted {
		e.answer(s, r, &p, e.PreAuth)
		return e, nil
	}
	if !e.caller(&call, s, r, &p, &c) || !e.count(r, &p, &call) {
		return e, nil
	}
	if e.Identity, err = g.ctl.Check(ctx, call); err != nil {
		return nil, err
	}
	e.answer(s, r, &p, e.Identity)
	return e, nil
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

// caller notes who calls. It reports false if the request would be answered with that.
func (e *Explanation) caller(call *sluice.Call, s *setup, r *http.Request, p *spot, c *client) bool {
	f := s.callers.Resolve(r.Context(), r.Header, c.Trusted)
	s.callOf(call, p, c, &f)
	e.Subject, e.Tenant, e.Tier, e.Groups = call.Subject, call.Tenant, call.Tier, call.Subjects
	e.Label, e.CallerWhy = f.Principal.Label, why(f.Source, f.Verified, f.Err)
	if f.Err != nil && !f.Verified && s.callers.RejectsUnverified() {
		e.malformed(http.StatusUnauthorized, f.Err)
		return false
	}
	if preflight(r) {
		e.RouteWhy = "a CORS preflight does not ask the limits of its caller"
		return false
	}
	return true
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

// answer notes the head of the answer, by the code that would write it.
func (e *Explanation) answer(s *setup, r *http.Request, p *spot, x *sluice.Explanation) {
	w := &record{header: http.Header{}}
	v := &visit{set: s, w: w, r: r, spot: *p}
	e.Headers = w.header
	if x.Admitted {
		v.levels = after(x)
		v.tell(w.header, http.StatusOK)
		return
	}
	v.refuse(decision{refusal: x.Refusal})
	e.Status = w.status
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

// A record is an answer of which only the head is kept.
type record struct {
	header http.Header
	status int
}

func (w *record) Header() http.Header         { return w.header }
func (w *record) WriteHeader(status int)      { w.status = status }
func (w *record) Write(b []byte) (int, error) { return len(b), nil }
