package route

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// parseRoutes reads routes written "[METHOD,…] [host,…] /pattern".
func parseRoutes(t testing.TB, lines ...string) []Route {
	t.Helper()
	var routes []Route
	for _, line := range lines {
		fields := strings.Fields(line)
		r := Route{Pattern: mustParse(t, fields[len(fields)-1])}
		for _, f := range fields[:len(fields)-1] {
			if 'A' <= f[0] && f[0] <= 'Z' {
				r.Methods = strings.Split(f, ",")
			} else {
				r.Hosts = strings.Split(f, ",")
			}
		}
		routes = append(routes, r)
	}
	return routes
}

func mustTable(t testing.TB, lines ...string) *Table {
	t.Helper()
	table, err := NewTable(parseRoutes(t, lines...))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestLookupTakesTheMostSpecific(t *testing.T) {
	tests := []struct {
		name    string
		routes  []string
		request string // "METHOD host path"
		want    string
	}{
		{"exact before parameter", []string{"/u/{id}", "/u/me"}, "GET h /u/me", "/u/me"},
		{"parameter before star", []string{"/u/*", "/u/{id}"}, "GET h /u/7", "/u/{id}"},
		{"star before deep", []string{"/u/**", "/u/*"}, "GET h /u/7", "/u/*"},
		{"deep where nothing else", []string{"/u/**", "/u/*"}, "GET h /u/7/8", "/u/**"},
		{"longer prefix first", []string{"/api/**", "/api/v1/**", "/**"}, "GET h /api/v1/x", "/api/v1/**"},
		{"longer prefix within a segment", []string{"/f/*", "/f/a*"}, "GET h /f/ab", "/f/a*"},
		{"kind before prefix", []string{"/api/v1/**", "/{a}/v1/x"}, "GET h /api/v1/x", "/{a}/v1/x"},
		{"B-12 whole prefix itself", []string{"/api/v1/auth/**"}, "GET h /api/v1/auth", "/api/v1/auth/**"},
		{"method before any", []string{"/a", "POST /a"}, "POST h /a", "POST /a"},
		{"any where the method differs", []string{"/a", "POST /a"}, "PUT h /a", "/a"},
		{"method before host", []string{"x.org /a", "POST /a"}, "POST x.org /a", "POST /a"},
		{"host before any", []string{"/a", "x.org /a"}, "GET x.org /a", "x.org /a"},
		{"host with a port", []string{"/a", "x.org /a"}, "GET X.ORG:8080 /a", "x.org /a"},
		{"host with a dot", []string{"/a", "x.org /a"}, "GET x.org. /a", "x.org /a"},
		{"host by address", []string{"/a", "[::1] /a"}, "GET [::1]:80 /a", "[::1] /a"},
		{"other host", []string{"/a", "x.org /a"}, "GET y.org /a", "/a"},
		{"no host in Unicode disguise", []string{"/a", "k.org /a"}, "GET \u212a.org /a", "/a"},
		{"whole host before suffix", []string{"*.x.org /a", "w.x.org /a"}, "GET w.x.org /a", "w.x.org /a"},
		{"longest suffix", []string{"*.org /a", "*.x.org /a"}, "GET w.x.org /a", "*.x.org /a"},
		{"suffix is below, not itself", []string{"*.x.org /a", "/a"}, "GET x.org /a", "/a"},
		{"I-058 GET stands for HEAD", []string{"GET /a", "/a"}, "HEAD h /a", "GET /a"},
		{"I-058 HEAD by name", []string{"GET /a", "HEAD /a"}, "HEAD h /a", "HEAD /a"},
		{"HEAD by name before the host", []string{"GET x.org /a", "HEAD /a"}, "HEAD x.org /a", "HEAD /a"},
		{"HEAD stays on a more specific GET", []string{"GET /a/b", "HEAD /a/**"}, "HEAD h /a/b", "GET /a/b"},
		{"more text of its own", []string{"/a/*/**", "/a/*/b/**"}, "GET h /a/x/b/c", "/a/*/b/**"},
		{"asterisk", []string{"/**", "/a"}, "OPTIONS h *", "/**"},
		{"nothing", []string{"/a/**", "POST /b"}, "GET h /b", ""},
		{"query is no part", []string{"/login"}, "GET h /login2", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := strings.Fields(tt.request)
			table := mustTable(t, tt.routes...)
			i, ok := table.Lookup(req[1], req[0], req[2])
			got := ""
			if ok {
				got = tt.routes[i]
			}
			if got != tt.want {
				t.Errorf("%s of %q is %q, want %q", tt.request, tt.routes, got, tt.want)
			}
		})
	}
}

func TestZeroTable(t *testing.T) {
	if _, ok := new(Table).Lookup("h", "GET", "/"); ok {
		t.Error("the zero Table has a route")
	}
}

func TestTies(t *testing.T) {
	tests := []struct {
		name   string
		routes []string
		want   []Tie
	}{
		{"I-049 the same twice", []string{"/actuator", "/b", "/actuator"}, []Tie{{0, 2}}},
		{"names do not matter", []string{"/a/{x}", "/a/{y}"}, []Tie{{0, 1}}},
		{"no path in common", []string{"/a/{x}/b", "/a/{x}/c"}, nil},
		{"stars in common", []string{"/a/*x*", "/a/*y*"}, []Tie{{0, 1}}},
		{"stars not in common", []string{"/a/*x", "/a/*y"}, nil},
		{"question marks", []string{"/a/?b", "/a/?c", "/a/?b?"}, nil},
		{"question mark and letter", []string{"/?b", "/?b"}, []Tie{{0, 1}}},
		{"deep in common", []string{"/**/a/**", "/**/b/**"}, []Tie{{0, 1}}},
		{"deep with different ends", []string{"/**/a", "/**/b"}, nil},
		{"different methods", []string{"GET /a", "POST /a"}, nil},
		{"a method in common", []string{"GET,PUT /a", "POST,PUT /a"}, []Tie{{0, 1}}},
		{"HEAD by name does not tie with GET", []string{"GET /a", "HEAD /a"}, nil},
		{"different hosts", []string{"x.org /a", "y.org /a"}, nil},
		{"a host in common", []string{"x.org,y.org /a", "y.org,z.org /a"}, []Tie{{0, 1}}},
		{"different suffixes", []string{"*.x.org /a", "*.y.org /a"}, nil},
		{"three", []string{"/a", "/a", "/a"}, []Tie{{0, 1}, {0, 2}, {1, 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			routes := parseRoutes(t, tt.routes...)
			if got := Ties(routes); !slices.Equal(got, tt.want) {
				t.Errorf("ties of %q: %v, want %v", tt.routes, got, tt.want)
			}
			_, err := NewTable(routes)
			tie, ok := errors.AsType[*TieError](err)
			if ok != (tt.want != nil) || ok && tie.Tie != tt.want[0] {
				t.Errorf("table of %q: %v", tt.routes, err)
			}
		})
	}
}

func TestTieErrorNamesBoth(t *testing.T) {
	_, err := NewTable(parseRoutes(t, "/a/{x}", "/a/{y}"))
	if err == nil || !strings.Contains(err.Error(), `"/a/{x}" and "/a/{y}"`) {
		t.Errorf("I-049: %v", err)
	}
}

// randomRoutes draws routes over a small alphabet, so that they often overlap.
func randomRoutes(t testing.TB, rng *rand.Rand) []Route {
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	lines := make([]string, 1+rng.IntN(8))
	for i := range lines {
		line := pick("", "", "GET ", "HEAD ", "GET,HEAD ", "POST ") + pick("", "", "x.y ", "*.y ", "w.x.y,*.x.y ")
		for range 1 + rng.IntN(4) {
			line += "/" + pick("a", "b", "ab", "{p}", "*", "a*", "*b", "?", "?b", "**")
		}
		lines[i] = line
	}
	return parseRoutes(t, lines...)
}

func randomPath(rng *rand.Rand) string {
	path := ""
	for range rng.IntN(5) {
		path += "/" + []string{"a", "b", "ab", "c", "bab"}[rng.IntN(5)]
	}
	if path == "" {
		return "/"
	}
	return path
}

// checkLookup compares one random table with the reference. A table refused for a tie
// must really have one; a table that is built must never meet one.
func checkLookup(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	routes := randomRoutes(t, rng)
	table, err := NewTable(routes)
	if err != nil {
		return
	}
	for range 20 {
		host := []string{"x.y", "w.x.y", "z"}[rng.IntN(3)]
		method := []string{"GET", "HEAD", "POST", "PUT"}[rng.IntN(4)]
		path := randomPath(rng)
		want := naiveLookup(routes, host, method, path)
		got, ok := table.Lookup(host, method, path)
		if len(want) > 1 || ok != (len(want) == 1) || ok && got != want[0] {
			t.Fatalf("seed %d: %s %s %s: route %d, %v; want %v of %v", seed, method, host, path, got, ok, want, routes)
		}
	}
}

func TestLookupEqualsTheReference(t *testing.T) {
	for seed := range uint64(1000) {
		checkLookup(t, seed)
	}
}

func FuzzLookup(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkLookup)
}

// TestOverlapEqualsSearch compares overlap with a search of all paths up to six of the
// segments that tell the random patterns apart. Patterns have at most three segments
// besides "**", so if two have a path in common, they have one of at most six.
func TestOverlapEqualsSearch(t *testing.T) {
	var paths []string
	level := []string{""}
	for range 6 {
		var next []string
		for _, p := range level {
			next = append(next, p+"/a", p+"/b", p+"/ab")
		}
		paths = append(paths, next...)
		level = next
	}
	rng := rand.New(rand.NewPCG(1, 2))
	both := map[bool]int{}
	for range 400 {
		a, b := randomRoutes(t, rng)[0].Pattern, randomRoutes(t, rng)[0].Pattern
		if strings.Count(a.text, "/") > 3 || strings.Count(b.text, "/") > 3 {
			continue
		}
		got := overlap(a.segments, b.segments)
		want := slices.ContainsFunc(paths, func(p string) bool { return a.Match(p) && b.Match(p) })
		if got != want && !(a.Match("/") && b.Match("/")) {
			t.Errorf("%q and %q overlap: %v, want %v", a.text, b.text, got, want)
		}
		both[want]++
	}
	if both[true] < 50 || both[false] < 50 {
		t.Errorf("pairs that overlap and do not: %v; too few to tell", both)
	}
}

func hundreds(t testing.TB) *Table {
	lines := []string{"/**", "/static/**", "/api/v1/auth/**"}
	for i := range 100 {
		lines = append(lines,
			fmt.Sprintf("/api/v1/res%d", i),
			fmt.Sprintf("/api/v1/res%d/{id}", i),
			fmt.Sprintf("POST /api/v1/res%d/{id}/item/*", i))
	}
	return mustTable(t, lines...)
}

var lookups = []struct{ name, path string }{
	{"exact", "/api/v1/res77"},
	{"parameter", "/api/v1/res77/12"},
	{"deep", "/api/v1/auth/login/form"},
	{"fallback", "/some/other/path/of/an/application"},
}

func TestLookupAllocatesNothing(t *testing.T) {
	table := hundreds(t)
	for _, l := range lookups {
		if n := testing.AllocsPerRun(100, func() { table.Lookup("example.com:443", "GET", l.path) }); n != 0 {
			t.Errorf("%s: %v allocations", l.name, n)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	table := hundreds(b)
	for _, l := range lookups {
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Lookup("example.com:443", "GET", l.path)
			}
		})
	}
}
