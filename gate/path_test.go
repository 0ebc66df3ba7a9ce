package gate_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
)

// route is a rule for one endpoint.
func route(id string, n int64) sluice.Rule {
	return on(perHour(id, n, "http"), sluice.Route, id)
}

func TestEndpointSpellings(t *testing.T) {
	login := gate.Options{Endpoints: []gate.Endpoint{{ID: "login", Pattern: "/login"}, {ID: "x", Pattern: "/api/x"}}}
	for _, c := range []struct {
		name   string
		first  []string // two spellings that use the limit up
		others []string // that are refused then
		free   []string // that are not the endpoint
	}{
		{"I-050 the query is no part of the path", []string{"/login", "/login?x=1"}, []string{"/login?y=2"}, []string{"/log"}},
		{"I-052 extra slashes", []string{"//login", "/login/"}, []string{"///login//"}, nil},
		{"I-053 dot segments", []string{"/./api/x", "/x/../api/x"}, []string{"/x/%2e%2e/api/x", "/x/%2E./api/x", "/api/x"}, nil},
		{"I-054 B-W7 percent-encoded letters", []string{"/lo%67in", "/%6cogin"}, []string{"/login", "/lo%67%69n"}, nil},
		{"B-W7 parameters and backslashes", []string{"/login;jsessionid=1", "/;x/login"}, []string{`/%5clogin`, "/api/../login;a=b"}, []string{"/LOGIN"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newGate(t, open(t, route("login", 2), route("x", 2)), login).Handler(ok)
			for _, path := range c.first {
				expect(t, path, do(h, request("GET", path)).StatusCode, 200)
			}
			for _, path := range c.others {
				expect(t, path, do(h, request("GET", path)).StatusCode, 429)
			}
			for _, path := range c.free {
				expect(t, path, do(h, request("GET", path)).StatusCode, 200)
			}
		})
	}
	t.Run("B-W7 case folds on request", func(t *testing.T) {
		o := login
		o.Paths.FoldCase = true
		h := newGate(t, open(t, route("login", 1)), o).Handler(ok)
		expectList(t, "statuses", statuses(h, request("GET", "/LOGIN"), request("GET", "/Login")), []int{200, 429})
	})
	for _, path := range []string{"/login%00", "/login%0a", "/a%ff"} {
		t.Run("7.2 a path that cannot be read is 400 and debits nothing: "+path, func(t *testing.T) {
			h := newGate(t, open(t, perHour("ip", 1, "http"), perHour("preauth", 1, "preauth")), login).Handler(ok)
			resp := do(h, request("GET", path))
			expect(t, "status", resp.StatusCode, 400)
			expect(t, "type", resp.Header.Get("Content-Type"), "application/problem+json")
			expectList(t, "afterwards", statuses(h, request("GET", "/")), []int{200})
		})
	}
	t.Run("unclean paths are refused on request", func(t *testing.T) {
		o := login
		o.Paths.RefuseUnclean = true
		h := newGate(t, open(t), o).Handler(ok)
		expectList(t, "statuses", statuses(h, request("GET", "/login"), request("GET", "//login")), []int{200, 400})
	})
}

func TestEndpointChoice(t *testing.T) {
	endpoints := []gate.Endpoint{
		{ID: "all", Pattern: "/api/**"}, {ID: "one", Pattern: "/api/*/x"}, {ID: "named", Pattern: "/api/{id}/y"},
		{ID: "exact", Pattern: "/api/a/x"}, {ID: "auth", Pattern: "/api/v1/auth/**"},
		{ID: "write", Pattern: "/api/v1/auth/**", Methods: []string{"POST"}},
		{ID: "host", Pattern: "/api/**", Hosts: []string{"other.example"}},
	}
	ids := []string{"all", "one", "named", "exact", "auth", "write", "host"}
	var rules []sluice.Rule
	for i, id := range ids {
		rules = append(rules, route(id, int64(100+i)))
	}
	h := newGate(t, open(t, rules...), gate.Options{Endpoints: endpoints}).Handler(ok)
	for _, c := range []struct{ method, target, id string }{
		{"GET", "/api/z", "all"}, {"GET", "/api/b/x", "one"}, {"GET", "/api/b/y", "named"}, {"GET", "/api/a/x", "exact"},
		{"GET", "/api/v1/auth/login", "auth"}, {"GET", "/api/v1/auth", "auth"}, {"POST", "/api/v1/auth/login", "write"},
		{"GET", "http://other.example:80/api/z", "host"}, {"GET", "/", ""},
	} {
		t.Run("B-11 B-12 most specific: "+c.method+" "+c.target, func(t *testing.T) {
			policy := do(h, request(c.method, c.target)).Header.Get("RateLimit-Policy")
			if c.id == "" {
				expect(t, "policy", policy, "")
			} else if !strings.HasPrefix(policy, `"`+c.id+`";`) {
				t.Errorf("policy: got %s, want %s", policy, c.id)
			}
		})
	}
	t.Run("I-049 two patterns that are the same are an error", func(t *testing.T) {
		_, err := gate.New(open(t), gate.Options{Endpoints: []gate.Endpoint{{ID: "a", Pattern: "/x/*"}, {ID: "b", Pattern: "/x/*"}}})
		if err == nil || !strings.Contains(err.Error(), `"/x/*"`) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("D7 B-W28 I-041 I-042 B-13 tier and endpoint both apply, and only the chosen endpoint moves", func(t *testing.T) {
		h := newGate(t, open(t, perHour("tier", 5, "http"), route("a", 2), route("b", 4)),
			gate.Options{Endpoints: []gate.Endpoint{{ID: "a", Pattern: "/a"}, {ID: "b", Pattern: "/b"}}}).Handler(ok)
		got := statuses(h, request("GET", "/a"), request("GET", "/a"), request("GET", "/a"),
			request("GET", "/b"), request("GET", "/b"), request("GET", "/b"), request("GET", "/b"))
		expectList(t, "statuses", got, []int{200, 200, 429, 200, 200, 200, 429})
	})
	t.Run("I-046 long paths with one prefix are two", func(t *testing.T) {
		h := newGate(t, open(t, perHour("path", 1, "http", sluice.Resource)), gate.Options{}).Handler(ok)
		expectList(t, "statuses", statuses(h, request("GET", "/ann/use1"), request("GET", "/ann/use2"), request("GET", "/ann/use1")), []int{200, 200, 429})
	})
	t.Run("I-036 parts of a key do not run together", func(t *testing.T) {
		h := newGate(t, open(t, perHour("pair", 1, "http", sluice.IP, sluice.Resource)), gate.Options{}).Handler(ok)
		got := statuses(h, from("1.1.1.1:1", request("GET", "/2x")), from("1.1.1.12:1", request("GET", "/x")))
		expectList(t, "statuses", got, []int{200, 200})
	})
	t.Run("I-038 two rules on one key have two states", func(t *testing.T) {
		a, b := on(perHour("a", 1, "http"), sluice.Method, "GET"), on(perHour("b", 1, "http"), sluice.Method, "POST")
		h := newGate(t, open(t, a, b), gate.Options{}).Handler(ok)
		expectList(t, "statuses", statuses(h, request("GET", "/"), request("POST", "/"), request("GET", "/")), []int{200, 200, 429})
	})
}

func TestMethods(t *testing.T) {
	t.Run("I-058 HEAD counts once, in GET's bucket", func(t *testing.T) {
		h := newGate(t, open(t, on(perHour("get", 2, "http"), sluice.Method, "GET")), gate.Options{}).Handler(ok)
		expectList(t, "statuses", statuses(h, request("HEAD", "/"), request("GET", "/"), request("HEAD", "/")), []int{200, 200, 429})
	})
	t.Run("I-058 an endpoint for GET is for HEAD", func(t *testing.T) {
		o := gate.Options{Endpoints: []gate.Endpoint{{ID: "r", Pattern: "/r", Methods: []string{"GET"}}}}
		h := newGate(t, open(t, route("r", 1)), o).Handler(ok)
		expectList(t, "statuses", statuses(h, request("HEAD", "/r"), request("GET", "/r")), []int{200, 429})
	})
	t.Run("2.4 a refused HEAD has no body", func(t *testing.T) {
		h := newGate(t, open(t, perHour("none", 0, "http")), gate.Options{}).Handler(ok)
		resp := do(h, request("HEAD", "/"))
		b := make([]byte, 1)
		n, _ := resp.Body.Read(b)
		expect(t, "body bytes", n, 0)
	})
	override := func(name string) *http.Request { return request("POST", "/", name, "DELETE") }
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		t.Run("I-056 an override is stripped: "+name, func(t *testing.T) {
			var seen string
			g := newGate(t, open(t, on(perHour("post", 1, "http"), sluice.Method, "POST")), gate.Options{})
			h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Method + r.Header.Get(name) }))
			expectList(t, "statuses", statuses(h, override(name), override(name)), []int{200, 429})
			expect(t, "the handler saw", seen, "POST")
		})
		t.Run("I-056 or honoured, and then limited as what it names: "+name, func(t *testing.T) {
			h := newGate(t, open(t, on(perHour("delete", 1, "http"), sluice.Method, "DELETE")),
				gate.Options{MethodOverride: gate.HonourOverride}).Handler(ok)
			expectList(t, "statuses", statuses(h, override(name), override(name), request("POST", "/")), []int{200, 429, 200})
		})
	}
	t.Run("an honoured override cannot become a cheaper method", func(t *testing.T) {
		h := newGate(t, open(t, on(perHour("post", 1, "http"), sluice.Method, "POST")),
			gate.Options{MethodOverride: gate.HonourOverride}).Handler(ok)
		r := func() *http.Request { return request("POST", "/", "X-HTTP-Method-Override", "GET") }
		expectList(t, "statuses", statuses(h, r(), r()), []int{200, 429})
	})
}

func TestPreflight(t *testing.T) {
	h := newGate(t, open(t, perHour("ip", 1, "http"), perHour("preauth", 4, "preauth")), gate.Options{}).Handler(ok)
	preflight := func() *http.Request {
		return request("OPTIONS", "/", "Origin", "https://a.example", "Access-Control-Request-Method", "POST")
	}
	t.Run("I-081 a preflight does not ask the caller's limits", func(t *testing.T) {
		expectList(t, "statuses", statuses(h, request("GET", "/"), preflight(), request("OPTIONS", "/")), []int{200, 200, 429})
	})
	t.Run("2.5 but the address's limit", func(t *testing.T) {
		expectList(t, "statuses", statuses(h, preflight(), preflight()), []int{200, 429})
	})
}
