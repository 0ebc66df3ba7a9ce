package llm

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm/dialect"
)

// The kinds of calls that are made for an address, whatever credential it shows. The gate
// makes the same, so that one rule bounds what an address may do at both.
const (
	// KindPreAuth and KindPreAuthSite are a request, before anything of it is verified: of the
	// address, and of the whole site of an IPv6 client. They are made if rules name them.
	KindPreAuth     = "preauth"
	KindPreAuthSite = "preauth-site"
	// KindFailure is a credential that is not good.
	KindFailure = "auth-failure"
)

// How many addresses are remembered that may have used up what they may try, and for how
// long.
const (
	maxSuspects = 1 << 14
	suspectFor  = 10 * time.Minute
)

// An outlook is what a gateway needs to know of a policy before it asks: the kinds of calls
// that rules name.
type outlook struct {
	policy *sluice.Policy
	kinds  []string
}

// names reports whether rules of the policy in force name a kind of calls. A rule for all
// kinds is none of them: it would count each request twice.
func (s *settings) names(kind string) bool {
	p, o := s.control.Policy(), s.ahead.Load()
	if o == nil || o.policy != p {
		o = &outlook{policy: p}
		for i := range p.Rules {
			o.kinds = append(o.kinds, p.Rules[i].Match.Is[sluice.Kind]...)
		}
		s.ahead.Store(o)
	}
	return slices.Contains(o.kinds, kind)
}

// knock takes what an address may do before anything is verified, or a junk credential would
// be a way around it. What is held is to be released at the end of the request.
func (x *exchange) knock() (held []sluice.Admission, f *dialect.Fault) {
	for _, c := range []struct{ kind, id string }{{KindPreAuth, x.who.IP}, {KindPreAuthSite, x.site}} {
		if c.id == "" || !x.s.names(c.kind) {
			continue
		}
		call, d := sluice.Call{Kind: c.kind, Subject: c.id, IP: c.id, Method: x.r.Method, Resource: x.path}, &sluice.Decision{}
		ok, err := x.s.control.Try(x.r.Context(), &call, d)
		if err == nil && !ok {
			err = d.Refusal().Clone()
		}
		if err != nil {
			return held, x.refusal(err)
		}
		held = append(held, d.Admission())
	}
	return held, nil
}

// identify finds out who asks. An address that has shown too many bad credentials is refused
// whether this one is good or not, so that it does not learn which.
func (x *exchange) identify() *dialect.Fault {
	if x.s.Identify == nil {
		x.who.Subject = x.who.IP
		return nil
	}
	credential := credentialOf(x.r)
	if credential != "" && x.s.suspects.Has(x.who.IP) {
		e, err := x.s.control.Check(x.r.Context(), x.failure())
		if err == nil && !e.Admitted {
			return x.refusal(e.Refusal)
		}
		x.s.suspects.Remove(x.who.IP)
	}
	who, err := x.s.Identify(x.r, credential)
	if err != nil {
		x.guessed = credential != ""
		return &dialect.Fault{Status: http.StatusUnauthorized, Code: "unauthorized", Message: err.Error(), Useless: true}
	}
	who.IP = x.who.IP
	x.who = who
	return nil
}

func (x *exchange) failure() sluice.Call {
	return sluice.Call{Kind: KindFailure, Subject: x.who.IP, IP: x.who.IP}
}

// guess debits a bad credential to the address that showed it, and returns what it is told:
// f, or that it has tried too often.
func (x *exchange) guess(f *dialect.Fault) *dialect.Fault {
	call, d := x.failure(), &sluice.Decision{WantLevels: true}
	ok, err := x.s.control.Try(x.r.Context(), &call, d)
	if err != nil {
		return f
	}
	if !ok {
		x.s.suspects.Add(x.who.IP)
		return x.refusal(d.Refusal().Clone())
	}
	for _, l := range d.Levels() {
		if l.Remaining == 0 && !l.Shadow {
			x.s.suspects.Add(x.who.IP)
		}
	}
	d.Admission().Release()
	return f
}

// credentialOf returns the credential that a request shows, in any dialect's place.
func credentialOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(token)
	}
	for _, name := range credentialHeaders[1:] {
		if v := r.Header.Get(name); v != "" {
			return v
		}
	}
	return r.URL.Query().Get("key")
}

// credentialHeaders carry credentials in some dialect.
var credentialHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}

// address is the client's address and site, as rules know them.
func (s *settings) address(r *http.Request) (ip, site string) {
	if s.Address != nil {
		return s.Address(r)
	}
	return addressOf(r), ""
}

// addressOf is the client's address, without its port.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if host == "" || strings.HasPrefix(host, "@") {
		host = "unix"
	}
	return "ip:" + host
}
