package resource

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		pattern string
		want    string // in the error; empty if there is none
	}{
		{"/", ""}, {"**", ""}, {"/**", ""}, {"/**/", ""}, {"/a/*/b/", ""}, {"/a/**", ""},
		{"/" + strings.Repeat("a", MaxLength-1), ""},
		{"/" + strings.Repeat("a", MaxLength), "too long"},
		{"", "must begin"}, {"a", "must begin"}, {"*", "must begin"},
		{"//", "empty"}, {"/a//", "empty"}, {"/a//b", "empty"}, {"/./a", "empty"}, {"/a/..", "empty"},
		{"/a/**/b", "last segment"}, {"/a*", "whole segment"}, {"/***", "whole segment"},
	} {
		if _, err := Parse(c.pattern); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("4.2.7 Parse(%q): %v, want %q", c.pattern, err, c.want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern   string
		yes, no   []string
		specific  int
		unbounded bool
	}{
		{"/", []string{"/"}, []string{"", "/a", "a"}, 0, false},
		{"**", []string{"/", "/a", "/a/b"}, []string{"", "a"}, 1, true},
		{"/a", []string{"/a", "/a/"}, []string{"/A", "/a/b", "/", "/ab"}, 5, false},
		{"/a/**", []string{"/a", "/a/", "/a/b", "/a/b/c"}, []string{"/ab", "/"}, 6, false},
		{"/a/*", []string{"/a/b"}, []string{"/a", "/a/b/c", "/a//"}, 7, false},
		{"/*", []string{"/a"}, []string{"/", "/a/b"}, 2, true},
		{"/*/**", []string{"/a", "/a/b"}, []string{"/"}, 3, true},
		{"/*/b/**", []string{"/a/b", "/a/b/c/d"}, []string{"/a", "/b/a"}, 8, false},
	} {
		p, err := Parse(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range c.yes {
			if !p.Match(path) {
				t.Errorf("4.2.7 %s does not match %q", c.pattern, path)
			}
		}
		for _, path := range c.no {
			if p.Match(path) {
				t.Errorf("4.2.7 %s matches %q", c.pattern, path)
			}
		}
		if got := p.Specificity(); got != c.specific {
			t.Errorf("4.2.7 specificity of %s: %d, want %d", c.pattern, got, c.specific)
		}
		if got := p.Everywhere(); got != c.unbounded {
			t.Errorf("4.2.11 Everywhere of %s: %v", c.pattern, got)
		}
	}
}

func TestClean(t *testing.T) {
	for path, want := range map[string]string{"/": "/", "/a": "/a", "/a/": "/a", "/a/b.c/": "/a/b.c", "/é/…": "/é/…", "/a%2": "/a%2"} {
		if got, err := Clean(path); got != want || err != nil {
			t.Errorf("Clean(%q): %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"", "a", "//", "/a//b", "/a/./b", "/..", "/a*", "/*", "/a%2Fb", "/a%2fb", "/a\x00", "/a\x7f", "/" + strings.Repeat("a", MaxLength)} {
		if got, err := Clean(path); err == nil {
			t.Errorf("Clean(%q): %q, want an error", path, got)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		root, path string
		want       bool
	}{{"/a", "/a", true}, {"/a", "/a/b", true}, {"/a", "/ab", false}, {"/a/b", "/a", false}, {"/", "/a", true}, {"/", "/", true}} {
		if got := Within(c.root, c.path); got != c.want {
			t.Errorf("Within(%q, %q): %v", c.root, c.path, got)
		}
	}
}

// model says what 4.2.7 says of a pattern and a path, with no word of the code above.
func model(pattern, path []string) bool {
	switch {
	case len(pattern) == 1 && pattern[0] == "**":
		return true
	case len(pattern) == 0 || len(path) == 0:
		return len(pattern) == len(path)
	}
	return (pattern[0] == "*" || pattern[0] == path[0]) && model(pattern[1:], path[1:])
}

func TestMatchIsTheModel(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(from []string, most int) (s []string) {
		for range r.IntN(most + 1) {
			s = append(s, from[r.IntN(len(from))])
		}
		return s
	}
	matched := 0
	for range 20_000 {
		pattern := pick([]string{"a", "b", "*"}, 4)
		if r.IntN(2) == 0 {
			pattern = append(pattern, "**")
		}
		path := pick([]string{"a", "b", "c"}, 5)
		p, err := Parse("/" + strings.Join(pattern, "/"))
		if err != nil {
			t.Fatal(err)
		}
		want := model(pattern, path)
		if got := p.Match("/" + strings.Join(path, "/")); got != want {
			t.Fatalf("4.2.7 seed %d: pattern %q, path %q: %v", seed, pattern, path, got)
		}
		if want {
			matched++
		}
	}
	if matched < 1000 {
		t.Errorf("seed %d: %d pairs of 20000 matched: the test shows little", seed, matched)
	}
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"/", "**", "/a/*/**", "/a//b", "/%2f", "/a*"} {
		f.Add(s, "/a/b")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if clean, err := Clean(path); err == nil {
			again, err := Clean(clean)
			if err != nil || again != clean {
				t.Errorf("Clean(%q) = %q is not clean: %q, %v", path, clean, again, err)
			}
		}
		p, err := Parse(pattern)
		if err != nil {
			return
		}
		clean, err := Clean(path)
		if err != nil {
			p.Match(path)
			return
		}
		split := func(s string) []string {
			return slices.DeleteFunc(strings.Split(s, "/"), func(seg string) bool { return seg == "" })
		}
		if got, want := p.Match(clean), model(split(pattern), split(clean)); got != want {
			t.Errorf("4.2.7 pattern %q, path %q: %v, want %v", pattern, clean, got, want)
		}
	})
}
