package front

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// origins are the web pages that may use the front, and the names it is called by.
type origins struct {
	list  []string // nil is the default
	all   bool
	hosts []string
}

// newOrigins reads the options. The broker's own public address is one of both.
func newOrigins(list, hosts []string, public string) (origins, error) {
	o := origins{all: slices.Contains(list, "*"), list: slices.Clone(list[:0])} // an empty list stays one: no page at all
	for _, h := range hosts {
		o.hosts = append(o.hosts, strings.ToLower(h))
	}
	for _, origin := range list {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host) {
			return o, fmt.Errorf(`front: origin %q is none; write scheme, host and port alone, such as "https://app.example"`, origin)
		}
		o.list = append(o.list, strings.ToLower(origin))
	}
	if u, err := url.Parse(public); err == nil && u.Host != "" {
		o.hosts = append(o.hosts, strings.ToLower(u.Hostname()))
		if list != nil {
			o.list = append(o.list, strings.ToLower(u.Scheme+"://"+u.Host))
		}
	}
	return o, nil
}

// allows reports whether a page may use the front. Comparing it with Host would be no
// check: a page that has given its name another address sends both alike.
func (o *origins) allows(origin string, loopback bool) bool {
	switch {
	case o.all:
		return true
	case o.list != nil:
		return slices.Contains(o.list, strings.ToLower(origin))
	}
	u, err := url.Parse(origin)
	return loopback && err == nil && (u.Scheme == "http" || u.Scheme == "https") && isLocal(u.Hostname())
}

// named reports whether a client that has connected over a loopback address may call the
// broker so.
func (o *origins) named(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return isLocal(strings.Trim(name, "[]")) || slices.Contains(o.hosts, name)
}

func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// overLoopback reports whether the client has connected to a loopback address. It counts
// what the connection says, not what the server listens on: a page in a browser on this
// machine reaches a server on all addresses by the loopback one.
func overLoopback(r *http.Request) bool {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// guard refuses requests that a web page makes without leave, before anybody looks at
// whose they are: the browser adds what its user may do.
func (v *visit) guard() *fault {
	local := overLoopback(v.r)
	if local && !v.f.origins.named(v.r.Host) {
		return invalid(http.StatusForbidden, jsonrpc.ID{}, "Host is not a name of this broker; its operator can allow it in mcp.allowedHosts")
	}
	sent := v.r.Header["Origin"]
	if len(sent) == 0 {
		return nil
	}
	v.w.Header().Add("Vary", "Origin")
	if len(sent) > 1 || !v.f.origins.allows(sent[0], local) {
		return invalid(http.StatusForbidden, jsonrpc.ID{}, "Origin may not use this broker; its operator can allow it in mcp.allowedOrigins")
	}
	h := v.w.Header()
	h.Set("Access-Control-Allow-Origin", sent[0])
	h.Set("Access-Control-Expose-Headers", exposed)
	return nil
}

// What scripts may read, and send besides what each request may have.
const (
	exposed = "Mcp-Session-Id, WWW-Authenticate, Retry-After"
	usual   = "authorization, content-type, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id, x-correlation-id"
	param   = "mcp-param-"
)

// preflight answers a browser's question whether a page may do what it wants to, and
// reports whether it was one. Who asks has passed the guard.
func (v *visit) preflight() bool {
	if v.r.Method != http.MethodOptions || v.r.Header.Get("Origin") == "" || v.r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	allow := usual
	for _, line := range v.r.Header["Access-Control-Request-Headers"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); strings.HasPrefix(name, param) && isToken(name) {
				allow += ", " + name
			}
		}
	}
	h := v.w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", allow)
	h.Set("Access-Control-Max-Age", "600")
	v.w.WriteHeader(http.StatusNoContent)
	return true
}

// isToken reports whether a lower-case name can be a header field's, as far as ours go.
func isToken(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}
