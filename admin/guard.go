package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A Role is what a token may do.
type Role uint8

// The roles. The zero Role may only look.
const (
	Reader   Role = iota // may read everything
	Operator             // may also reset and reload
)

// String returns the role as configuration and the audit log spell it.
func (r Role) String() string {
	if r == Operator {
		return "operator"
	}
	return "reader"
}

// A Token opens the endpoints. Only its digest is kept.
type Token struct {
	Name   string // who holds it, for the audit log
	Digest [sha256.Size]byte
	Role   Role
}

// NewToken returns the Token for a secret. A secret should have 128 bits of chance or
// more: the digest is a plain SHA-256, which slows nobody down who guesses words.
func NewToken(name, secret string, role Role) Token {
	return Token{Name: name, Digest: sha256.Sum256([]byte(secret)), Role: role}
}

// ParseToken is NewToken for a digest in hex, as configuration files keep it.
func ParseToken(name, digest string, role Role) (Token, error) {
	t := Token{Name: name, Role: role}
	b, err := hex.DecodeString(strings.TrimPrefix(digest, "sha256:"))
	if err != nil || len(b) != len(t.Digest) {
		return Token{}, fmt.Errorf("admin: token %q: the digest must be 64 hex digits, the SHA-256 of the token", name)
	}
	copy(t.Digest[:], b)
	return t, nil
}

func checkTokens(tokens []Token) error {
	empty := sha256.Sum256(nil)
	for i, t := range tokens {
		if t.Name == "" {
			return fmt.Errorf("admin: token %d needs a name; the audit log says who did what by it", i+1)
		}
		if t.Digest == empty || t.Digest == [sha256.Size]byte{} {
			return fmt.Errorf("admin: token %q is empty", t.Name)
		}
	}
	return nil
}

// requestHeader must come with changes that a browser asks for. A form on another page
// cannot send it, and a script of another page may not, because there is no CORS here.
const requestHeader = "X-Sluice-Request"

// A guard decides who may ask what. In order: the name by which we are addressed, what
// the browser says about the page that asks, the token or the peer's address, the role.
type guard struct {
	tokens   []Token
	hosts    []string
	failures *failures
	cross    *http.CrossOriginProtection
	log      *slog.Logger
}

func newGuard(o Options) *guard {
	return &guard{
		tokens: o.Tokens, hosts: o.Hosts, log: o.Logger,
		failures: newFailures(), cross: http.NewCrossOriginProtection(),
	}
}

// open serves what holds nothing: the page's files and health.
func (g *guard) open(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.addressed(w, r) {
			next(w, r)
		}
	})
}

// need serves what takes at least role.
func (g *guard) need(role Role, next func(w http.ResponseWriter, r *http.Request, who string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.addressed(w, r) || !g.sameOrigin(w, r) {
			return
		}
		t, ok := g.authenticate(w, r)
		if !ok {
			return
		}
		if t.Role < role {
			problem(w, http.StatusForbidden, "This token may only read.", "Use a token with the role operator.")
			return
		}
		next(w, r, t.Name)
	})
}

// addressed refuses a request for a name that is not ours: a name that an attacker's DNS
// points at this machine makes a browser believe that the attacker's page and this
// listener are one site.
func (g *guard) addressed(w http.ResponseWriter, r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" ||
		slices.Contains(g.hosts, host) || slices.Contains(g.hosts, "*") {
		return true
	}
	problem(w, http.StatusMisdirectedRequest, "This is not the name of this server.",
		"Use localhost or an IP address, or add the name to the admin hosts in the configuration.")
	return false
}

// sameOrigin refuses what another site's page asks for. Browsers say so in
// Sec-Fetch-Site and Origin; curl sends neither and is let through.
func (g *guard) sameOrigin(w http.ResponseWriter, r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case g.cross.Check(r) != nil, read && site != "" && site != "same-origin" && site != "none":
		problem(w, http.StatusForbidden, "Another site's page asked for this.", "Use the page of this server, or a client that is no browser.")
	case !read && (site != "" || origin != "") && r.Header.Get(requestHeader) == "":
		problem(w, http.StatusForbidden, "A browser must send the header "+requestHeader+" with a change.", "")
	default:
		return true
	}
	return false
}

// local is who asks when there are no tokens.
var local = Token{Name: "local", Role: Operator}

func (g *guard) authenticate(w http.ResponseWriter, r *http.Request) (*Token, bool) {
	if len(g.tokens) == 0 {
		if isLocal(r) {
			return &local, true
		}
		problem(w, http.StatusForbidden, "Only this machine may ask.", "Configure an admin token to ask from elsewhere.")
		return nil, false
	}
	peer, secret := peerOf(r), bearer(r)
	var found *Token
	wait := g.failures.judge(peer, func() bool {
		found = g.find(secret)
		return found != nil || secret == "" // to send none is no guess
	})
	if wait > 0 {
		seconds := int(math.Ceil(wait.Seconds()))
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		problem(w, http.StatusTooManyRequests, "Too many wrong tokens came from this address.", fmt.Sprintf("Try again in %d s.", seconds))
		return nil, false
	}
	if found != nil {
		return found, true
	}
	if secret != "" {
		g.log.Warn("admin: a wrong token was refused", "peer", peer.String(), "path", r.URL.Path)
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="sluice admin"`)
	problem(w, http.StatusUnauthorized, "A token is needed.", "Send it as Authorization: Bearer.")
	return nil, false
}

// find returns the token with that secret. All are compared, each in constant time, so
// that the time taken tells nothing.
func (g *guard) find(secret string) *Token {
	digest := sha256.Sum256([]byte(secret))
	var found *Token
	for i := range g.tokens {
		if subtle.ConstantTimeCompare(digest[:], g.tokens[i].Digest[:]) == 1 {
			found = &g.tokens[i]
		}
	}
	return found
}

// bearer returns the bearer token of r, empty if there is none.
func bearer(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

// isLocal reports whether the request comes from this machine itself. One that a proxy
// passed on does not, although the proxy is local: whoever runs a proxy in front of this
// listener has opened it to others and needs tokens.
func isLocal(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	return peerOf(r).IsLoopback()
}

// peerOf returns the address at the other end. A unix socket has none; its file's mode
// decides who gets here, so it counts as loopback.
func peerOf(r *http.Request) netip.Addr {
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	if r.RemoteAddr == "" || r.RemoteAddr == "@" || strings.HasPrefix(r.RemoteAddr, "/") {
		return netip.IPv6Loopback()
	}
	return netip.Addr{}
}
