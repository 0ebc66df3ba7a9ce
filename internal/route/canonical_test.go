package route

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	folded := Options{FoldCase: true}
	tests := []struct {
		name  string
		raw   string
		o     Options
		want  string
		clean bool
		err   error
	}{
		{"7.2 plain", "/login", Options{}, "/login", true, nil},
		{"7.2 trailing slash", "/login/", Options{}, "/login", false, nil},
		{"I-052 double slash", "//login", Options{}, "/login", false, nil},
		{"I-052 double slash inside", "/api//login", Options{}, "/api/login", false, nil},
		{"I-053 dot", "/./login", Options{}, "/login", false, nil},
		{"I-053 dot dot", "/x/../login", Options{}, "/login", false, nil},
		{"I-053 encoded dot dot", "/x/%2e%2e/login", Options{}, "/login", false, nil},
		{"I-053 encoded dot dot, upper case", "/x/%2E%2E/login", Options{}, "/login", false, nil},
		{"I-053 dot dot with a parameter", "/x/..;/login", Options{}, "/login", false, nil},
		{"I-053 ends in dot dot", "/a/b/..", Options{}, "/a", false, nil},
		{"I-053 ends in dot", "/a/.", Options{}, "/a", false, nil},
		{"I-053 above the root", "/../../login", Options{}, "/login", false, nil},
		{"I-054 encoded letter", "/lo%67in", Options{}, "/login", false, nil},
		{"B-W7 encoded first letter", "/api/v1/%61uth/login", Options{}, "/api/v1/auth/login", false, nil},
		{"7.2 parameter", "/login;jsessionid=1", Options{}, "/login", false, nil},
		{"7.2 empty segment with a parameter", "/;x/login", Options{}, "/login", false, nil},
		{"7.2 encoded semicolon", "/login%3bx", Options{}, "/login", false, nil},
		{"7.2 parameter, then a segment", "/login;/x", Options{}, "/login/x", false, nil},
		{"I-050 query", "/login?x=1", Options{}, "/login", true, nil},
		{"I-050 query with a slash", "/login?x=/../y", Options{}, "/login", true, nil},
		{"query after a trailing slash", "/login/?x", Options{}, "/login", false, nil},
		{"fragment", "/login#x", Options{}, "/login", false, nil},
		{"encoded question mark", "/login%3fx", Options{}, "/login?x", false, nil},
		{"7.2 upper case", "/LOGIN", Options{}, "/LOGIN", true, nil},
		{"7.2 upper case folded", "/LOGIN", folded, "/login", false, nil},
		{"7.2 encoded upper case folded", "/%4cOGIN", folded, "/login", false, nil},
		{"7.2 encoded slash", "/api%2flogin", Options{}, "/api/login", false, nil},
		{"7.2 encoded backslash", "/api%5clogin", Options{}, "/api/login", false, nil},
		{"7.2 backslash", `/api\login`, Options{}, "/api/login", false, nil},
		{"backslash dot dot", `/x\..\login`, Options{}, "/login", false, nil},
		{"7.2 NUL", "/login%00", Options{}, "", false, ErrControl},
		{"7.2 newline", "/login%0a", Options{}, "", false, ErrControl},
		{"raw control", "/lo\x01gin", Options{}, "", false, ErrControl},
		{"DEL", "/login%7f", Options{}, "", false, ErrControl},
		{"7.2 encoded twice", "/%252e%252e/login", Options{}, "/%2e%2e/login", false, nil},
		{"7.2 blank", "/login%20", Options{}, "/login ", false, nil},
		{"7.2 Kelvin sign", "/a/%E2%84%AA", Options{}, "/a/\u212a", false, nil},
		{"7.2 Kelvin sign folded", "/a/%E2%84%AA", folded, "/a/\u212a", false, nil},
		{"raw UTF-8", "/a/\u212a", folded, "/a/\u212a", true, nil},
		{"raw invalid UTF-8", "/a/\xff", Options{}, "", false, ErrUTF8},
		{"encoded invalid UTF-8", "/a/%ff", Options{}, "", false, ErrUTF8},
		{"overlong slash", "/a%c0%afb", Options{}, "", false, ErrUTF8},
		{"7.2 root", "/", Options{}, "/", true, nil},
		{"root with a query", "/?x", Options{}, "/", true, nil},
		{"7.2 asterisk", "*", Options{}, "*", true, nil},
		{"empty", "", Options{}, "/", false, nil},
		{"only a query", "?x", Options{}, "/", false, nil},
		{"only slashes", "///", Options{}, "/", false, nil},
		{"relative", "login", Options{}, "", false, ErrRelative},
		{"absolute", "http://example.com/login", Options{}, "", false, ErrRelative},
		{"bad escape", "/a%zz", Options{}, "", false, ErrEscape},
		{"half an escape", "/a%4", Options{}, "", false, ErrEscape},
		{"lone percent", "/100%", Options{}, "", false, ErrEscape},
		{"literal slash", "/a%2fb", Options{EncodedSlash: Literal}, "/a%2Fb", false, nil},
		{"literal slash folded", "/a%2Fb", Options{EncodedSlash: Literal, FoldCase: true}, "/a%2fb", false, nil},
		{"literal slash does not climb", "/a/..%2f..", Options{EncodedSlash: Literal}, "/a/..%2F..", false, nil},
		{"rejected slash", "/a%2fb", Options{EncodedSlash: Reject}, "", false, ErrEncodedSlash},
		{"hidden file", "/.well-known/x", Options{}, "/.well-known/x", true, nil},
		{"three dots", "/.../x", Options{}, "/.../x", true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, clean, err := Canonical(tt.raw, tt.o)
			if path != tt.want || clean != tt.clean || !errors.Is(err, tt.err) {
				t.Errorf("Canonical(%q) = %q, %v, %v; want %q, %v, %v", tt.raw, path, clean, err, tt.want, tt.clean, tt.err)
			}
		})
	}
}

func TestCanonicalErrorsDoNotRepeatThePath(t *testing.T) {
	for _, raw := range []string{"/secret%zz", "/secret%00", "/secret%ff", "secret"} {
		if _, _, err := Canonical(raw, Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Canonical(%q): error %v", raw, err)
		}
	}
}

func TestCanonicalOfCleanPathAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _, _, _ = Canonical("/api/v1/auth/login?next=/", Options{FoldCase: true}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCanonical(f *testing.F) {
	for _, raw := range []string{"/", "*", "", "/a/../b;c//d/./e%2f%2e?x", `/\..\a`, "/%252e", "/a%2fb", "/K\u212a", "/%e2%84%aa#"} {
		for slash := range uint8(3) {
			f.Add(raw, slash, slash == 1)
		}
	}
	f.Fuzz(func(t *testing.T, raw string, slash uint8, foldCase bool) {
		o := Options{EncodedSlash: EncodedSlash(slash % 3), FoldCase: foldCase}
		path, clean, err := Canonical(raw, o)
		if err != nil || path == "*" {
			return
		}
		before, _, _ := strings.Cut(raw, "?")
		if want := before == path && !strings.Contains(path, "%"); clean != want {
			t.Errorf("Canonical(%q) = %q: clean is %v", raw, path, clean)
		}
		if path[0] != '/' || strings.Contains(path, "//") || strings.ContainsAny(path, ";\\\x00") ||
			path != "/" && strings.HasSuffix(path, "/") || strings.Contains(path+"/", "/./") || strings.Contains(path+"/", "/../") {
			t.Errorf("Canonical(%q) = %q is not canonical", raw, path)
		}
		escaped := (&url.URL{Path: path}).EscapedPath()
		if again, _, err := Canonical(escaped, o); again != path || err != nil {
			t.Errorf("Canonical(%q) = %q, but of its escape %q it is %q, %v", raw, path, escaped, again, err)
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	for _, bb := range []struct{ name, raw string }{
		{"clean", "/api/v1/memory/consolidate"},
		{"unclean", "/api/v1//m%65mory/../memory/consolidate;x=1/"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = Canonical(bb.raw, Options{})
			}
		})
	}
}
