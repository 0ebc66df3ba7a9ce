package gate

import (
	"net/http"
	"strings"
	"sync"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/route"
)

// A visit is one request's way through a gate, and the memory that takes. Visits are
// used again; nothing that the application gets to see points into one, except the
// writer, which forgets it at the end.
type visit struct {
	gate   *Gate
	set    *setup
	w      http.ResponseWriter
	r      *http.Request
	phases phases
	past   *past // what the request has been through outside of here, or nil

	spot   spot
	client client
	found  identity.Finding
	call   sluice.Call
	cost   [1]sluice.Amount
	out    *writer

	reply   reply
	outcome Outcome // empty until it is known, or if it is not this mount point's to tell

	// Each decision has its own memory, because admissions may hold slots in it.
	pre, fail, main      sluice.Decision
	preAdmission, passed sluice.Admission
	siteAdmission        sluice.Admission
	levels               []sluice.Level // of the second phase

	capability string     // of the stream that the answer is; empty is none
	stream     *stream    // held since then
	body       *timedBody // nil if the body may take its time
	cancel     func()     // ends the handler's context; nil if no stream can be refused

	whole bool // the visit ended without a panic, and its memory may serve another
}

var visits = sync.Pool{New: func() any {
	v := &visit{}
	v.pre.WantLevels, v.fail.WantLevels, v.main.WantLevels = true, true, true
	return v
}}

// A client is where a request comes from, and that address's name in the books.
type client struct {
	clientip.Client
	id string
}

// A spot is what a request is for.
type spot struct {
	path     string // canonical
	clean    bool   // the request spells it so
	method   string // the effective one; GET for HEAD
	excluded bool
	endpoint *endpoint          // nil if none matches
	upstream *upstream.Upstream // nil in middleware
	mcp      *mcpPath           // nil elsewhere
}

func (v *visit) begin(g *Gate, s *setup, w http.ResponseWriter, r *http.Request, ph phases, p *past) {
	v.gate, v.set, v.w, v.r, v.phases, v.past = g, s, w, r, ph, p
	v.reply.ResponseWriter = w
}

// end gives back whatever is still held, also when the handler panics.
func (v *visit) end() {
	v.endStream()
	if v.cancel != nil {
		v.cancel()
	}
	v.passed.Release()
	v.preAdmission.Release()
	v.siteAdmission.Release()
	v.report()
	if v.out != nil {
		v.out.forget()
	}
	if !v.whole {
		return // a panic: who knows what still looks at this memory
	}
	v.gate, v.set, v.w, v.r, v.phases, v.past = nil, nil, nil, nil, phases{}, nil
	v.spot, v.client, v.found, v.call, v.out = spot{}, client{}, identity.Finding{}, sluice.Call{}, nil
	v.preAdmission, v.siteAdmission, v.passed = sluice.Admission{}, sluice.Admission{}, sluice.Admission{}
	v.levels, v.whole, v.reply, v.outcome = nil, false, reply{}, ""
	v.capability, v.stream, v.cancel, v.body = "", nil, nil, nil
	visits.Put(v)
}

// run takes the request through the phases and, if all admit it, to its handler.
func (v *visit) run() {
	if err := v.set.locate(&v.spot, v.r, v.phases.next == nil); err != nil {
		v.refuseRequest(http.StatusBadRequest, strings.TrimPrefix(err.Error(), "route: "))
		return
	}
	if v.spot.excluded || v.set.o.Disabled {
		v.forward()
		return
	}
	v.locateClient()
	if v.phases.preAuth && !v.preAuth() || v.past == nil && !v.bound() {
		return
	}
	if v.phases.identity && !(v.identify() && v.admit() && v.openStream()) {
		return
	}
	v.forward()
}

// locateClient finds out where the request comes from, once at a gate.
func (v *visit) locateClient() {
	if v.past != nil {
		v.client = v.past.client
		return
	}
	v.client = v.set.clientOf(v.r)
	if unclear := v.set.o.Observe.ClientUnclear; unclear != nil && v.client.Fallback != "" {
		unclear(string(v.client.Fallback))
	}
}

// clientOf says where a request comes from.
func (s *setup) clientOf(r *http.Request) client {
	c := client{Client: s.clients.Resolve(r.RemoteAddr, r.Header)}
	c.id = s.clients.Identity(c.Addr)
	return c
}

// locate says in p, which is zero, what a request is for. The error is that of a path
// that cannot be read. Here and in callOf memory is filled in place: copies of what has
// many pointers cost more than what is computed.
func (s *setup) locate(p *spot, r *http.Request, proxied bool) (err error) {
	p.path, p.clean, err = route.Canonical(r.URL.EscapedPath(), s.paths)
	if err != nil {
		return err
	}
	if s.o.Paths.RefuseUnclean && !p.clean {
		return errUnclean
	}
	p.method = s.method(r)
	if p.clean { // a path that is spelt otherwise is never excluded: it may mean another
		for i := range s.excluded {
			if p.excluded = s.excluded[i].Match(p.path); p.excluded {
				break
			}
		}
	}
	if i, ok := s.routes.Lookup(r.Host, p.method, p.path); ok {
		p.endpoint = &s.endpoints[i]
	}
	for i := range s.mcp {
		if s.mcp[i].pattern.Match(p.path) {
			p.mcp = &s.mcp[i]
			break
		}
	}
	if proxied {
		p.upstream = s.upstreams.Lookup(r.Host, p.path)
	}
	if p.method == http.MethodHead {
		p.method = http.MethodGet // one bucket for both: a HEAD costs the server as much
	}
	return nil
}

// overrides are the headers by which frameworks let a POST be another method.
var overrides = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// method returns the method that the application will act on. Only a POST can be
// overridden, and only by a method that changes something, as in the frameworks that
// know the header; otherwise it would be a way around a limit on POST.
func (s *setup) method(r *http.Request) string {
	if s.o.MethodOverride == HonourOverride && r.Method == http.MethodPost {
		for _, name := range overrides {
			switch m := strings.ToUpper(r.Header.Get(name)); m {
			case http.MethodPut, http.MethodPatch, http.MethodDelete:
				return m
			}
		}
	}
	return r.Method
}

// preflight reports whether a request is a browser asking for permission by CORS. A
// refused one would look to scripts as if the application allowed nothing.
func preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" &&
		r.Header.Get("Access-Control-Request-Method") != ""
}
