package llm

import (
	"net"
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/internal/knock"
	"github.com/sluicegate/sluice/llm/dialect"
)

// The kinds of calls that are made for an address, whatever credential it shows. The gate
// makes the same, so that one rule bounds what an address may do at both.
const (
	KindPreAuth     = knock.KindPreAuth
	KindPreAuthSite = knock.KindPreAuthSite
	KindFailure     = knock.KindFailure
)

// knock takes what an address may do before anything is verified, or a junk credential would
// be a way around it. What is held is to be released at the end of the request.
func (x *exchange) knock() (knock.Held, *dialect.Fault) {
	held, err := x.s.door.Knock(x.r.Context(), knock.Visitor{IP: x.who.IP, Site: x.site, Method: x.r.Method, Path: x.path})
	if err != nil {
		return nil, x.refusal(err)
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
	if credential != "" {
		if refusal := x.s.door.Barred(x.r.Context(), x.who.IP); refusal != nil {
			return x.refusal(refusal)
		}
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

// guess debits a bad credential to the address that showed it, and returns what it is told:
// f, or that it has tried too often.
func (x *exchange) guess(f *dialect.Fault) *dialect.Fault {
	if refusal := x.s.door.Guessed(x.r.Context(), x.who.IP); refusal != nil {
		return x.refusal(refusal)
	}
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
