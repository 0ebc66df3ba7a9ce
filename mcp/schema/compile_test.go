package schema

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp/syntax"
	"strings"
	"testing"
)

func TestSchemasThatCannotBeUsed(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"not":`, n) + `{}` + strings.Repeat(`}`, n) }
	for _, x := range []struct{ name, schema, want string }{
		{"no JSON", `{`, "text that is no JSON"},
		{"nothing", ``, "text that is no JSON"},
		{"no object", `true`, "it is no object"},
		{"M-028 a member twice", `{"properties":{"a":{"type":"string","type":"null"}}}`, "the same member twice"},
		{"not valid", `{"properties":{"a":{"type":"strnig"}}}`, `at /properties/a/type: is none of "array"`},
		{"a draft that nobody knows", `{"$schema":"https://x.test/draft-99"}`, "none is fetched"},
		{"M-087 itself", `{"$ref":"#"}`, "back to itself"},
		{"M-087 itself, by alternatives", `{"anyOf":[{"type":"null"},{"not":{"$ref":"#"}}]}`, "back to itself"},
		{"M-087 in a ring", `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"if":{"$ref":"#/$defs/a"}}}}`, "back to itself"},
		{"M-087 in a ring below", `{"properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "back to itself"},
		{"M-087 by a chain", chain(70), "more than 64 of its parts"},
		{"M-088 exponential", exponential(22), "more than 10000 parts"},
		{"M-088 bytes", `{"title":"` + strings.Repeat("x", 256<<10) + `"}`, "more than 262144 bytes"},
		{"M-088 levels", deep(64), "more than 64 levels"},
		{"M-088 values", `{"enum":[` + repeat(20_000, ",", func(i int) string { return fmt.Sprint(i) }) + `]}`, "more than 20000 values"},
		{"a number like a bomb", `{"minimum":1e999999}`, "an exponent beyond 400"},
		{"references all over", `{"properties":{` + repeat(2300, ",", func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/x"}`, i) }) + `}}`, "too many together"},
		{"M-090 the network", `{"$ref":"http://169.254.169.254/latest/meta-data"}`, "none is fetched"},
		{"M-090 a file", `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "none is fetched"},
		{"M-090 a neighbour", `{"properties":{"a":{"$ref":"other.json#/a"}}}`, "none is fetched"},
		{"M-090 by its own id", `{"$id":"file:///etc/","$ref":"passwd"}`, "none is fetched"},
		{"nowhere", `{"$ref":"#/$defs/nothing"}`, "not found"},
		{"$dynamicRef", `{"properties":{"a":{"$dynamicRef":"#x"}},"$dynamicAnchor":"x"}`, "not followed"},
		{"$recursiveRef", `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"$recursiveRef":"#"}}}`, "not followed"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, p := Compile(json.RawMessage(x.schema))
			if p == nil {
				t.Fatalf("it can be used: %v", s.Validate(json.RawMessage(`{}`)))
			}
			if !strings.Contains(p.String(), x.want) || len(p.String()) > mostText {
				t.Errorf("got %q, want %q in at most %d bytes", p, x.want, mostText)
			}
		})
	}
}

func TestM090AFileThatIsThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"file://" + file, "file://" + file + "#/type"} {
		if _, p := Compile(json.RawMessage(`{"properties":{"a":{"$ref":"` + ref + `"}}}`)); p == nil || !strings.Contains(p.String(), "none is fetched") {
			t.Errorf("%s: got %v", ref, p)
		}
	}
}

func TestM087RecursionThatEnds(t *testing.T) {
	for _, schema := range []string{
		tree,
		`{"properties":{"child":{"allOf":[{"$ref":"#"}]}},"additionalProperties":false}`,
		`{"$ref":"#/$defs/node","$defs":{"node":{"properties":{"child":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/node"}]}},"additionalProperties":false}}}`,
	} {
		s := compiled(t, schema)
		if m := s.Validate(json.RawMessage(`{"child":{"child":{}}}`)); m != nil {
			t.Errorf("%s: %v", schema, m)
		}
	}
	s := compiled(t, `{"properties":{"child":{"$ref":"#"},"n":{"type":"integer"}}}`)
	if m := s.Validate(json.RawMessage(`{"child":{"child":{"n":"x"}}}`)); m == nil || m.Pointer != "/child/child/n" {
		t.Errorf("a fault two levels down: %v", m)
	}
}

// TestM088Edges has schemas that are just as large as is allowed.
func TestM088Edges(t *testing.T) {
	for name, schema := range map[string]string{
		"M-088 levels": strings.Repeat(`{"not":`, 63) + `{}` + strings.Repeat(`}`, 63),
		"M-088 parts":  `{"properties":{` + repeat(mostParts-1, ",", func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) }) + `}}`,
		"M-087 chain":  `{"$ref":"#/$defs/c0","$defs":{` + repeat(62, ",", func(i int) string { return fmt.Sprintf(`"c%d":{"$ref":"#/$defs/c%d"}`, i, i+1) }) + `,"c62":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if m := compiled(t, schema).Validate(json.RawMessage(`{}`)); m != nil && name != "M-088 levels" {
				t.Error(m)
			}
		})
	}
}

// TestProgramSize shows that patterns are not larger than they are taken for.
func TestProgramSize(t *testing.T) {
	for _, source := range []string{"", "a", "(a?){200}a{200}", "(a|b|[cd])*x+?", "((a{3,}){4}b{2,7}){5}", `^(?i)\pL\b.$`, "(?:ab|cd|ef){9}", "(((((x)))))"} {
		_, size, why := compilePattern(source, mostPatternSize)
		tree, err := syntax.Parse(source, syntax.Perl)
		if err != nil || why != "" {
			t.Fatal(source, err, why)
		}
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		const frame = 3 // fail, match, and the capture of all
		if n := len(program.Inst); n > size+frame || size > 2*n {
			t.Errorf("%s: %d instructions, taken for %d", source, n, size)
		}
	}
}

func TestM089PatternsThatCannotBeChecked(t *testing.T) {
	for _, x := range []struct {
		name, schema string
		fits         []string
		fails        []string
		notes        []string
	}{
		{"M-089 only that keyword", `{"properties":{"a":{"type":"string","pattern":"^(?!foo)","maxLength":3}}}`,
			[]string{`{"a":"foo"}`}, []string{`{"a":1}`, `{"a":"long"}`}, []string{"RE2"}},
		{"M-089 the same pattern twice is noted once", `{"properties":{"a":{"pattern":"(?=x)"},"b":{"pattern":"(?=x)"}}}`,
			[]string{`{"a":"y"}`}, nil, []string{"RE2"}},
		{"M-089 in patternProperties, any name may be meant", `{"properties":{"b":{"type":"null"}},"patternProperties":{"^(?!x)":{"type":"integer"},"^x$":{"type":"string"}},"additionalProperties":false}`,
			[]string{`{"a":"y"}`, `{"x":"y"}`}, []string{`{"b":1}`, `{"x":1}`}, []string{"RE2"}},
		{"M-089 and unevaluatedProperties", `{"allOf":[{"patternProperties":{"(?!x)":{}}}],"unevaluatedProperties":false}`,
			[]string{`{"a":1}`}, nil, []string{"RE2"}},
		{"M-089 under not", `{"properties":{"a":{"not":{"pattern":"(?!x)"},"type":"string"}}}`,
			[]string{`{"a":"x"}`}, []string{`{"a":1}`}, []string{"RE2", "not at #/properties/a"}},
		{"M-089 under if, by a reference", `{"properties":{"a":{"if":{"$ref":"#/$defs/p"},"then":{"type":"null"}}},"$defs":{"p":{"items":{"pattern":"(?!x)"}}}}`,
			[]string{`{"a":["x"]}`}, nil, []string{"RE2", "if at #/properties/a"}},
		{"M-089 under oneOf", `{"properties":{"a":{"oneOf":[{"pattern":"(?!x)"},{"type":"string"}]}}}`,
			[]string{`{"a":"x"}`, `{"a":1}`}, nil, []string{"RE2", "oneOf at #/properties/a"}},
		{"M-089 under maxContains", `{"properties":{"a":{"contains":{"pattern":"(?!x)"},"maxContains":1}}}`,
			[]string{`{"a":["x","y"]}`}, []string{`{"a":[]}`}, []string{"RE2", "maxContains at #/properties/a"}},
		{"a pattern that is too long", `{"properties":{"a":{"pattern":"` + strings.Repeat("x", 1025) + `"}}}`,
			[]string{`{"a":"y"}`}, nil, []string{"more than 1024 bytes"}},
		{"a pattern whose program is too large", `{"properties":{"a":{"pattern":"a{1000}b{1000}c{1000}d{1000}e{1000}f{1000}"}}}`,
			[]string{`{"a":"y"}`}, nil, []string{"too large"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := compiled(t, x.schema)
			for _, arguments := range x.fits {
				if m := s.Validate(json.RawMessage(arguments)); m != nil {
					t.Errorf("%s: %v", arguments, m)
				}
			}
			for _, arguments := range x.fails {
				if s.Validate(json.RawMessage(arguments)) == nil {
					t.Errorf("%s fits", arguments)
				}
			}
			notes := strings.Join(s.Notes(), "\n")
			if len(s.Notes()) != len(x.notes) {
				t.Errorf("notes: %q", notes)
			}
			for _, want := range x.notes {
				if !strings.Contains(notes, want) {
					t.Errorf("notes: %q, want %q", notes, want)
				}
			}
		})
	}
	t.Run("all patterns together are bounded", func(t *testing.T) {
		s := compiled(t, `{"allOf":[`+repeat(15, ",", func(i int) string { return fmt.Sprintf(`{"pattern":"(a{990}|b{991}|c{992}|d{993}|%d)"}`, i) })+`]}`)
		if n := len(s.Notes()); n == 0 || n == 15 {
			t.Errorf("%d of 15 patterns of 4000 instructions are not checked, want some", n)
		}
	})
	t.Run("patterns that can be checked have no notes", func(t *testing.T) {
		if s := compiled(t, `{"not":{"pattern":"^x"},"patternProperties":{"^y":{}},"oneOf":[{"pattern":"z"}]}`); len(s.Notes()) > 0 {
			t.Errorf("notes: %q", s.Notes())
		}
	})
}
