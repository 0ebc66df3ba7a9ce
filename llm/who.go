package llm

import (
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm/dialect"
)

// KindFailure is a credential that is not good. The gate makes calls of the same kind, so
// that one rule bounds what an address may try at both.
const KindFailure = "auth-failure"

// How many addresses are remembered that may have used up what they may try, and for how
// long.
const (
	maxSuspects = 1 << 14
	suspectFor  = 10 * time.Minute
)

// identify finds out who asks. An address that has shown too many bad credentials is refused
// whether this one is good or not, so that it does not learn which.
func (x *exchange) identify() *dialect.Fault {
	x.who = Caller{IP: addressOf(x.r)}
	if x.s.Identify == nil {
		x.who.Subject = x.who.IP
		return nil
	}
	credential := credentialOf(x.r)
	who, err := x.s.Identify(x.r, credential)
	if who.IP == "" {
		who.IP = x.who.IP
	}
	x.who = who
	if credential != "" && x.s.suspects.Has(who.IP) {
		e, err := x.s.control.Check(x.r.Context(), x.failure())
		if err == nil && !e.Admitted {
			return x.refusal(e.Refusal)
		}
		x.s.suspects.Remove(who.IP)
	}
	if err != nil {
		x.guessed = credential != ""
		return &dialect.Fault{Status: http.StatusUnauthorized, Code: "unauthorized", Message: err.Error(), Useless: true}
	}
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
