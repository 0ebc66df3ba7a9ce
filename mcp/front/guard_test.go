package front_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/front"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

func TestOrigin(t *testing.T) {
	std := newRig(t)
	listed := newRig(t, func(s *setting) {
		s.front.Origins, s.front.Hosts = []string{"https://app.example", "http://127.0.0.1:9"}, []string{"broker.example"}
		s.front.Resource = front.Resource{URL: "https://mcp.example", AuthorizationServers: []string{"https://as.example"}}
	})
	all := newRig(t, func(s *setting) { s.front.Origins = []string{"*"} })
	none := newRig(t, func(s *setting) { s.front.Origins = []string{} })
	for _, c := range []struct {
		name   string
		rig    *rig
		header []string
		status int
	}{
		{"M-070 no page", std, nil, 200},
		{"M-070 a page of this machine", std, []string{"Origin: http://localhost:6274"}, 200},
		{"M-070 by its address", std, []string{"Origin: https://127.0.0.1"}, 200},
		{"M-070 by IPv6", std, []string{"Origin: http://[::1]:80"}, 200},
		{"M-070 another page", std, []string{"Origin: https://app.example"}, 403},
		{"M-070 a name that begins so", std, []string{"Origin: http://localhost.evil.example"}, 403},
		{"M-070 null", std, []string{"Origin: null"}, 403},
		{"M-070 a file", std, []string{"Origin: file://localhost"}, 403},
		{"M-070 two origins", std, []string{"Origin: http://localhost", "Origin: https://evil.example"}, 403},
		{"M-070 rebinding: both say the same", std, []string{"Origin: http://evil.example", "Host: evil.example"}, 403},
		{"M-070 rebinding without Origin", std, []string{"Host: evil.example:8082"}, 403},
		{"Host with a port", std, []string{"Host: localhost:1"}, 200},
		{"Host is [::1]", std, []string{"Host: [::1]:8082"}, 200},
		{"M-070 listed", listed, []string{"Origin: https://app.example"}, 200},
		{"M-070 the broker's own", listed, []string{"Origin: https://mcp.example", "Host: mcp.example"}, 200},
		{"M-070 not listed, of this machine", listed, []string{"Origin: http://localhost"}, 403},
		{"a host that is allowed", listed, []string{"Host: broker.example:1"}, 200},
		{"M-070 none at all, not even of this machine", none, []string{"Origin: http://localhost:6274"}, 403},
		{"M-070 which is no page", none, nil, 200},
		{"all", all, []string{"Origin: https://any.example"}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply := c.rig.ask("/p/mcp", mcptest.Ask{Header: append(c.header, "Authorization: Bearer "+map[bool]string{true: "alice", false: "bad"}[c.status == 200]), Body: string(initialize("2025-11-25"))})
			if reply.StatusCode != c.status { // before the token is looked at, which would be 401
				t.Fatalf("got %s, want %d", reply.Status, c.status)
			}
			if c.status == 403 {
				refused(t, reply)
			}
			origin := ""
			if len(c.header) > 0 && strings.HasPrefix(c.header[0], "Origin: ") && c.status == 200 {
				origin = strings.TrimPrefix(c.header[0], "Origin: ")
			}
			if got := reply.Header.Get("Access-Control-Allow-Origin"); got != origin {
				t.Errorf("M-069: got %q", got)
			}
			if exposed := reply.Header.Get("Access-Control-Expose-Headers"); origin != "" && exposed != "Mcp-Session-Id, WWW-Authenticate, Retry-After" {
				t.Error("M-069 on the real response:", exposed)
			}
		})
	}
	t.Run("M-070 RFC 9728 metadata is for the same pages", func(t *testing.T) {
		for origin, status := range map[string]int{"https://app.example": 200, "https://evil.example": 403} {
			reply := listed.ask("/.well-known/oauth-protected-resource/p/mcp", mcptest.Ask{Method: "GET", Bare: true, Header: []string{"Origin: " + origin}})
			if got := reply.Header.Get("Access-Control-Allow-Origin"); reply.StatusCode != status || (got == origin) != (status == 200) {
				t.Errorf("%s: %s, %q", origin, reply.Status, got)
			}
		}
	})
	t.Run("M-069 preflight", func(t *testing.T) {
		reply := listed.ask("/p/mcp", mcptest.Ask{Method: "OPTIONS", Bare: true, Header: []string{"Origin: https://app.example", "Access-Control-Request-Method: POST",
			"Access-Control-Request-Headers: content-type, Mcp-Param-Region,x-other,mcp-param-a%b"}})
		h := reply.Header
		if reply.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "DELETE") {
			t.Error(reply.Status, h)
		}
		allowed := ", " + h.Get("Access-Control-Allow-Headers") + ", "
		for _, name := range []string{"authorization", "content-type", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id", "mcp-param-region"} {
			if !strings.Contains(allowed, ", "+name+", ") {
				t.Error("missing:", name)
			}
		}
		if strings.Contains(allowed, "x-other") || strings.Contains(allowed, "%") {
			t.Error(allowed)
		}
	})
	t.Run("not over loopback", func(t *testing.T) {
		// A recorder has no connection, as one that is not loopback's has no local names.
		w := httptest.NewRecorder()
		q := httptest.NewRequest("POST", "http://anything.example/p/mcp", strings.NewReader(string(initialize("2025-11-25"))))
		q.Header.Set("Content-Type", "application/json")
		std.front.ServeHTTP(w, q)
		if w.Code != 200 {
			t.Error(w.Code, w.Body)
		}
		q.Header.Set("Origin", "http://localhost")
		w = httptest.NewRecorder()
		std.front.ServeHTTP(w, q)
		if w.Code != 403 {
			t.Error("M-070", w.Code)
		}
	})
}

func TestAuthorization(t *testing.T) {
	r := newRig(t, openToAlice, func(s *setting) {
		s.front.Resource = front.Resource{URL: "https://mcp.example", AuthorizationServers: []string{"https://as.example"}, Scopes: []string{"mcp", "tools"}}
	})
	body := string(initialize("2025-11-25"))
	const meta = `resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/p/mcp"`
	for _, c := range []struct {
		name      string
		path      string
		header    string
		status    int
		challenge string
	}{
		{"no token", "/p/mcp", "X: 1", 401, `Bearer scope="mcp tools", ` + meta},
		{"a bad token", "/p/mcp", "Authorization: Bearer bad", 401, `Bearer error="invalid_token", scope="mcp tools", ` + meta},
		{"too little", "/p/mcp", "Authorization: Bearer mallory", 403, `Bearer error="insufficient_scope", scope="mcp tools", ` + meta},
		{"a token in the URL", "/p/mcp?access_token=alice", "Authorization: Bearer alice", 400, `Bearer error="invalid_request", scope="mcp tools", ` + meta},
		{"a token in the URL, spelt otherwise", "/p/mcp?a=1&access%5Ftoken=alice", "Authorization: Bearer alice", 400, `Bearer error="invalid_request", scope="mcp tools", ` + meta},
		{"enough", "/p/mcp", "Authorization: Bearer alice", 200, ""},
	} {
		t.Run("2.9 "+c.name, func(t *testing.T) {
			reply := r.ask(c.path, mcptest.Ask{Header: []string{c.header}, Body: body})
			if got := reply.Header.Get("WWW-Authenticate"); reply.StatusCode != c.status || got != c.challenge {
				t.Errorf("got %s, %s", reply.Status, got)
			}
			if c.status != 200 {
				refused(t, reply)
			}
		})
	}
	t.Run("RFC 9728, 3.3 the metadata is that of the address that the client has", func(t *testing.T) {
		for path, own := range map[string]string{"/p/sse": "/p/sse", "/p/messages": "/p/sse", "/p": "/p", "/_all/mcp": "/_all/mcp"} {
			at := "https://mcp.example/.well-known/oauth-protected-resource" + own
			reply := r.ask(path, mcptest.Ask{Method: "GET", Header: []string{"Authorization: Bearer bad"}})
			if got := reply.Header.Get("WWW-Authenticate"); !strings.HasSuffix(got, ` resource_metadata="`+at+`"`) {
				t.Errorf("%s: %s", path, got)
			}
			if _, got, err := r.ask(strings.TrimPrefix(at, "https://mcp.example"), mcptest.Ask{Method: "GET", Bare: true}).NextEvent(); err != nil || !strings.HasPrefix(got, `{"resource":"https://mcp.example`+own+`",`) {
				t.Errorf("%s: %s, %v", path, got, err)
			}
		}
	})
	t.Run("2.9 a token is needed everywhere", func(t *testing.T) {
		r := newRig(t, func(s *setting) { s.front.NeedToken = true })
		for path, method := range map[string]string{"/p/mcp": "POST", "/p/sse": "GET", "/p/messages": "POST", "/p": "GET"} {
			reply := r.ask(path, mcptest.Ask{Method: method, Body: body})
			if f := refused(t, reply); f.status != 401 || reply.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Error(path, f, reply.Header)
			}
		}
		r.session("2025-11-25", "Authorization: Bearer anybody")
	})
	t.Run("another answer of Identify", func(t *testing.T) {
		reply := r.ask("/p/mcp", mcptest.Ask{Header: []string{"Authorization: Bearer guess"}, Body: body})
		if f := refused(t, reply); f.status != 429 || reply.Header.Get("Retry-After") != "90" {
			t.Error(f, reply.Header)
		}
	})
	t.Run("M-049 a session vouches for nobody", func(t *testing.T) {
		s := r.session("2025-11-25", "Authorization: Bearer alice")
		if f := refused(t, r.ask("/p/mcp", mcptest.Ask{Header: []string{s}, Body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`})); f.status != 401 {
			t.Error(f)
		}
	})
	t.Run("RFC 9728 metadata", func(t *testing.T) {
		for path, resource := range map[string]string{"": "https://mcp.example", "/p/mcp": "https://mcp.example/p/mcp"} {
			reply := r.ask("/.well-known/oauth-protected-resource"+path, mcptest.Ask{Method: "GET", Bare: true})
			_, got, err := reply.NextEvent()
			want := `{"resource":"` + resource + `","authorization_servers":["https://as.example"],"scopes_supported":["mcp","tools"],"bearer_methods_supported":["header"]}`
			if err != nil || got != want {
				t.Errorf("got %s, %v", got, err)
			}
		}
		if f := refused(t, r.ask("/.well-known/oauth-protected-resource", mcptest.Ask{})); f.status != 405 {
			t.Error(f)
		}
		if f := refused(t, r.ask("/.well-known/oauth-protected-resources", mcptest.Ask{Method: "GET"})); f.status != 404 {
			t.Error(f)
		}
	})
	t.Run("providers dial in elsewhere", func(t *testing.T) {
		got := ""
		r := newRig(t, func(s *setting) {
			s.front.Providers = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.Path })
		})
		for _, path := range []string{"/provider/x", "/providers"} {
			if reply := r.ask(path, mcptest.Ask{Method: "GET"}); reply.StatusCode != 200 || got != path {
				t.Error(reply.Status, got)
			}
		}
	})
}

func TestOptions(t *testing.T) {
	if _, err := front.New(front.Options{}); err == nil {
		t.Error("without a broker")
	}
	for _, o := range []front.Options{
		{Origins: []string{"app.example"}},
		{Origins: []string{"https://app.example/"}},
		{Resource: front.Resource{URL: "mcp.example"}},
		{Resource: front.Resource{URL: "https://mcp.example/path"}},
	} {
		o.Broker = &mcp.Broker{}
		if _, err := front.New(o); err == nil || !strings.HasPrefix(err.Error(), "front: ") || !strings.Contains(err.Error(), `such as "https://`) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
