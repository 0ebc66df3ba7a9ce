package route

import (
	"strings"
	"testing"
)

func mustParse(t testing.TB, pattern string) Pattern {
	t.Helper()
	p, err := Parse(pattern, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern string
		yes, no []string
	}{
		{"/", []string{"/"}, []string{"/a", "*"}},
		{"/login", []string{"/login"}, []string{"/", "/login2", "/log", "/a/login", "/LOGIN"}},
		{"/api/v1/auth/**", // B-12
			[]string{"/api/v1/auth/login", "/api/v1/auth", "/api/v1/auth/a/b/c"},
			[]string{"/api/v1/authx", "/api/v1", "/api/v1/aut"}},
		{"/**", []string{"/", "/a", "/a/b", "*"}, nil},
		{"/*", []string{"/a", "*"}, []string{"/", "/a/b"}},
		{"/a?c", []string{"/abc", "/a\u212ac"}, []string{"/ac", "/abbc", "/a/c"}},
		{"/a*c", []string{"/ac", "/abc", "/abcc"}, []string{"/ab", "/a/c"}},
		{"/static/*.css", []string{"/static/.css", "/static/a.css"}, []string{"/static/a.css/b", "/static/a/b.css"}},
		{"/*a*b", []string{"/ab", "/xaxb", "/aabab"}, []string{"/ba", "/xa"}},
		{"/users/{id}", []string{"/users/7"}, []string{"/users", "/users/7/x"}},
		{"/users/{id}/posts", []string{"/users/7/posts"}, []string{"/users/posts", "/users/7/8/posts"}},
		{"/**/admin", []string{"/admin", "/a/admin", "/a/b/admin", "/admin/admin"}, []string{"/admin/x", "/aadmin"}},
		{"/a/**/b/**/c", []string{"/a/b/c", "/a/x/b/y/z/c", "/a/b/b/c/c"}, []string{"/a/c/b", "/a/b", "/x/a/b/c"}},
		{"/**/a/*/b", []string{"/a/x/b", "/a/a/a/x/b"}, []string{"/a/b", "/a/x/y/b"}},
		{"/a b", []string{"/a b"}, []string{"/a%20b"}},
	}
	for _, tt := range tests {
		p := mustParse(t, tt.pattern)
		for _, path := range tt.yes {
			if !p.Match(path) {
				t.Errorf("B-12 %q does not match %q", tt.pattern, path)
			}
		}
		for _, path := range tt.no {
			if p.Match(path) {
				t.Errorf("B-12 %q matches %q", tt.pattern, path)
			}
		}
	}
	if zero := (Pattern{}); zero.Match("/") || zero.Match("") {
		t.Error("the zero Pattern matches")
	}
}

func TestMatchFoldsPatterns(t *testing.T) {
	o := Options{FoldCase: true, EncodedSlash: Literal}
	p, err := Parse("/API/a%2fb/\u212a", o)
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]bool{"/api/A%2FB/%E2%84%AA": true, "/api/a/b/%E2%84%AA": false, "/api/a%2fb/k": false} {
		path, _, err := Canonical(raw, o)
		if got := p.Match(path); got != want || err != nil {
			t.Errorf("%q, canonical %q, %v: match is %v", raw, path, err, got)
		}
	}
}

func TestParseRefusesWhatCannotMatch(t *testing.T) {
	tests := []struct{ pattern, want string }{
		{"", `"/**" is every path`},
		{"actuator", `write "/actuator"`},
		{"/actuator/", `write "/actuator"`},
		{"//", `write "/"`},
		{"/a//b", `"//"`},
		{"/a/./b", `"." resolved`},
		{"/a/../b", `".." resolved`},
		{`/a\b`, `"\"`},
		{"/a;v=1", `";"`},
		{"/a#b", "fragment"},
		{"/login?user=1", "query"},
		{"/a%20b", `"%20"`},
		{"/a%2fb", `"%2f"`},
		{"/a\x01", "control character"},
		{"/a\xff", "UTF-8"},
		{"/a**", "whole segment"},
		{"/***", "whole segment"},
		{"/a{id}", "whole segment"},
		{"/{}", "whole segment"},
		{"/{a:[0-9]+}", "whole segment"},
		{"/{*rest}", "whole segment"},
		{"/{a", "whole segment"},
	}
	for _, tt := range tests {
		_, err := Parse(tt.pattern, Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "route: pattern ") {
			t.Errorf("Parse(%q): %v; want it to say %q", tt.pattern, err, tt.want)
		}
	}
	for _, pattern := range []string{"/100%", "/a?", "/a=b", "/what?"} {
		mustParse(t, pattern)
	}
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"/a/**/b?/*c*", "/{id}/x", "/**/**", "/*/*"} {
		f.Add(s, "/a/x/bc/c")
	}
	f.Fuzz(func(t *testing.T, pattern, raw string) {
		p, err := Parse(pattern, Options{})
		path, _, errPath := Canonical(raw, Options{})
		if err != nil || errPath != nil {
			return
		}
		if got, want := p.Match(path), naiveMatch(pattern, path); got != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, path, got, want)
		}
	})
}
