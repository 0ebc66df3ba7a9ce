package front

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A Resource is what the broker is to OAuth: a protected resource with metadata of RFC 9728.
// The zero Resource has none, and says so with 404.
type Resource struct {
	// URL is where clients reach the broker, without a path: "https://mcp.example". Empty
	// takes what the request says.
	URL string
	// AuthorizationServers are the issuers of tokens for it; nil serves no metadata.
	AuthorizationServers []string
	// Scopes are those a token needs, as clients ask for them; nil names none.
	Scopes []string
}

func (o *Resource) check() error {
	u, err := url.Parse(o.URL)
	if o.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || o.URL != u.Scheme+"://"+u.Host) {
		return fmt.Errorf(`front: the resource's URL %q must be scheme and host alone, such as "https://mcp.example"`, o.URL)
	}
	return nil
}

// wellKnown is where RFC 9728, 3.1 puts metadata, before the path of the resource.
const wellKnown = ".well-known/oauth-protected-resource"

type metadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
}

// metadata tells how to get a token for the resource at a path, "" or "/slot/mcp". Which pages
// may read it, the guard has decided.
func (v *visit) metadata(path string) *fault {
	o := &v.f.o.Resource
	switch {
	case path != "" && path[0] != '/':
		return notFound("there is nothing here")
	case o.AuthorizationServers == nil:
		return notFound("this broker has no authorization server")
	case v.r.Method != http.MethodGet && v.r.Method != http.MethodHead:
		return notAllowed("GET, HEAD")
	}
	body, err := json.Marshal(metadata{v.base() + strings.TrimSuffix(path, "/"), o.AuthorizationServers, o.Scopes, []string{"header"}})
	if err != nil {
		return notFound("this broker's address is unknown")
	}
	v.w.Header().Set("Content-Type", "application/json")
	v.hurry()
	_, _ = v.w.Write(body) // the client may have gone
	return nil
}

// base is the broker's address as the client knows it.
func (v *visit) base() string {
	switch {
	case v.f.o.Resource.URL != "":
		return v.f.o.Resource.URL
	case v.r.TLS != nil:
		return "https://" + v.r.Host
	}
	return "http://" + v.r.Host
}

// A Failure is an answer that [Options.Identify] gives in place of 401, such as 429 to an
// address that has tried too many credentials.
type Failure struct {
	Status     int           // 400 to 599
	Message    string        // for the client
	RetryAfter time.Duration // zero tells no time
}

// Error returns the message.
func (e *Failure) Error() string { return e.Message }

// identify finds out who sends the request. A token in the URL is refused even if it is
// good: URLs end up in logs and histories.
func (v *visit) identify() *fault {
	if v.r.URL.RawQuery != "" && v.r.URL.Query().Has("access_token") {
		f := invalid(http.StatusBadRequest, jsonrpc.ID{}, "A token in the URL is not accepted; send it in the header Authorization")
		f.authenticate = v.challenge("invalid_request")
		return f
	}
	v.who = &policy.Caller{}
	if v.f.o.Identify != nil {
		who, err := v.f.o.Identify(v.r)
		if err != nil {
			return v.unidentified(err)
		}
		if who != nil {
			v.who = who
		}
	}
	if v.f.o.NeedToken && !v.who.Verified {
		return v.tokenless()
	}
	return nil
}

// tokenless is the answer to a caller that has to say who it is.
func (v *visit) tokenless() *fault {
	f := v.forbidden(http.StatusUnauthorized, "A token is needed here")
	f.authenticate = v.challenge("")
	return f
}

func (v *visit) unidentified(err error) *fault {
	if other, ok := errors.AsType[*Failure](err); ok {
		f := invalid(other.Status, jsonrpc.ID{}, other.Message)
		f.retryAfter = other.RetryAfter
		return f
	}
	f := v.forbidden(http.StatusUnauthorized, err.Error())
	f.authenticate = v.challenge("invalid_token")
	return f
}

// enter asks whether the caller may use the slot at all.
func (v *visit) enter() *fault {
	found, need := v.f.o.Broker.Access(v.slot, v.who)
	switch {
	case !found:
		return notFound("there is no such slot")
	case need == mcp.NeedsToken:
		return v.tokenless()
	case need == mcp.Denied:
		f := v.forbidden(http.StatusForbidden, "Forbidden")
		f.authenticate = v.challenge("insufficient_scope")
		return f
	}
	return nil
}

func (v *visit) forbidden(status int, message string) *fault {
	f := inEra(protocol.Forbidden, v.r.Header.Get(protocol.HeaderVersion), jsonrpc.ID{}, message, nil)
	f.status = status
	return f
}

// challenge says how to get a token that will do (RFC 6750, 3; RFC 9728, 5.1).
func (v *visit) challenge(problem string) string {
	o, params := &v.f.o.Resource, []string{}
	add := func(name, value string) {
		if value != "" {
			params = append(params, name+`="`+value+`"`)
		}
	}
	add("error", problem)
	add("scope", strings.Join(o.Scopes, " "))
	if o.AuthorizationServers != nil {
		add("resource_metadata", v.base()+"/"+wellKnown+v.resource())
	}
	return strings.TrimSuffix("Bearer "+strings.Join(params, ", "), " ")
}

// resource is the path that the client knows the slot by. Clients refuse metadata of another
// one (RFC 9728, 3.3).
func (v *visit) resource() string {
	path := "/" + url.PathEscape(v.slot)
	switch v.door {
	case "":
		return path
	case "messages": // which is the other half of
		return path + "/sse"
	}
	return path + "/" + v.door
}

// correlation is the form of a caller's own id for what it does.
var correlation = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// correlated returns the request's X-Correlation-Id, or nothing if it has none that can be
// used.
func (v *visit) correlated() string {
	if id := v.r.Header.Get("X-Correlation-Id"); correlation.MatchString(id) {
		return id
	}
	return ""
}
