package upstream

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// around are surroundings that change nothing.
var around = Surroundings{
	Scrub: func(http.Header, string) bool { return false },
	Admit: func(context.Context, http.Header) bool { return true },
	Fail: func(w http.ResponseWriter, _ *http.Request, status int, _ string) {
		w.WriteHeader(status)
	},
}

func TestLookup(t *testing.T) {
	none := http.NotFoundHandler()
	table, err := New([]Options{
		{Name: "all", Handler: none},
		{Name: "docs", Handler: none, Hosts: []string{"docs.example"}},
		{Name: "api", Handler: none, Paths: []string{"/api/**", "/v1"}},
		{Name: "v2", Handler: none, Paths: []string{"/api/v2/**"}},
	}, around)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ host, path, want string }{
		{"a.example", "/", "all"}, {"docs.example:443", "/x", "docs"}, {"a.example", "/api/x", "api"},
		{"a.example", "/v1", "api"}, {"a.example", "/api/v2/x", "v2"}, {"docs.example", "/api/v2/x", "v2"},
	} {
		u := table.Lookup(c.host, c.path)
		if u == nil || u.Name() != c.want {
			t.Errorf("%s%s: got %v, want %s", c.host, c.path, u, c.want)
		}
	}
	empty, err := New(nil, around)
	if err != nil || empty.Lookup("a", "/") != nil {
		t.Errorf("a table of nothing: %v", err)
	}
}

func TestBadUpstreams(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []Options
		want string
	}{
		{"no name", []Options{{URL: "http://a"}}, "is no name"},
		{"one name twice", []Options{{Name: "a", URL: "http://a"}, {Name: "a", URL: "http://b"}}, "the name of two"},
		{"no address", []Options{{Name: "a"}}, "begins with none"},
		{"no host", []Options{{Name: "a", URL: "http:///x"}}, "has no host"},
		{"no authorities", []Options{{Name: "a", URL: "https://a", CAFile: "/none"}}, "reading the authorities"},
		{"a bad pattern", []Options{{Name: "a", URL: "http://a", Paths: []string{"x"}}}, `write "/x"`},
		{"a tie", []Options{{Name: "a", URL: "http://a"}, {Name: "b", URL: "http://b"}}, "neither is more specific"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := New(c.all, around); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something with %q", err, c.want)
			}
		})
	}
}

func TestHost(t *testing.T) {
	var seen string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Host }))
	defer s.Close()
	for _, keep := range []bool{true, false} {
		table, err := New([]Options{{Name: "a", URL: s.URL, PreserveHost: keep}}, around)
		if err != nil {
			t.Fatal(err)
		}
		table.Lookup("", "/").ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://public.example/", nil))
		want := strings.TrimPrefix(s.URL, "http://")
		if keep {
			want = "public.example"
		}
		if seen != want {
			t.Errorf("PreserveHost %v: the upstream saw %q, want %q", keep, seen, want)
		}
		table.Close()
	}
}
