package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// repeat returns the texts of f for 0 to n-1, joined.
func repeat(n int, separator string, f func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = f(i)
	}
	return strings.Join(all, separator)
}

// same returns text n times.
func same(n int, text string) string {
	return repeat(n, ",", func(int) string { return text })
}

// A pair is a schema that passes the first look, and arguments to check with it.
type pair struct{ name, schema, arguments string }

// pairs are the most expensive checks that were found for each keyword, at about the
// whole work that is allowed, or a part of it.
func pairs(part int) []pair {
	var all []pair
	add := func(name, items, element string, n int) {
		all = append(all, pair{name, `{"properties":{"a":{"items":` + items + `}}}`, `{"a":[` + same(max(1, n/part), element) + `]}`})
	}
	object := `{` + repeat(20, ",", func(i int) string { return fmt.Sprintf(`"p%d":1`, i) }) + `}`
	names := repeat(1000, ",", func(i int) string { return fmt.Sprintf(`"q%d"`, i) })
	add("plain", `{"type":"integer"}`, `1`, 60_000)
	add("type fails", `{"type":"string"}`, `1`, 90_000)
	add("minimum fails", `{"minimum":5}`, `1`, 60_000)
	add("large numbers", `{"minimum":1e-399,"maximum":1e399}`, `1e-398`, 30_000)
	add("multipleOf", `{"multipleOf":1e-399}`, `1e399`, 15_000)
	add("anyOf fails", `{"anyOf":[`+same(100, `{"type":"string"}`)+`]}`, `1`, 1700)
	add("oneOf fails", `{"oneOf":[`+same(100, `{"required":["x"]}`)+`]}`, `{}`, 1500)
	add("required fails", `{"required":[`+names+`]}`, `{}`, 1800)
	add("enum of numbers", `{"enum":[`+repeat(1000, ",", func(i int) string { return fmt.Sprint(i) })+`]}`, `-1`, 48)
	add("enum of texts", `{"enum":[`+names+`]}`, `"x9"`, 3500)
	add("enum of objects", `{"enum":[`+repeat(100, ",", func(i int) string { return fmt.Sprintf(`{"a":{"b":[1,2,%d]}}`, i+3) })+`]}`, `{"a":{"b":[1,2,3.5]}}`, 100)
	add("const object", `{"const":`+object+`}`, object, 1000)
	add("pattern, many threads", `{"pattern":"(a?){200}(a?){200}a{200}$"}`, `"`+strings.Repeat("a", 500)+`"`, 14)
	add("pattern, one long text", `{"pattern":"^(a|b|ab)*(c|d)*$"}`, `"`+strings.Repeat("ab", 100_000)+`"`, 3)
	add("patternProperties", `{"patternProperties":{`+repeat(50, ",", func(i int) string { return fmt.Sprintf(`"x%d$":{}`, i) })+`}}`, object, 180)
	add("additionalProperties fail", `{"additionalProperties":false}`, object, 4000)
	add("propertyNames fail", `{"propertyNames":{"maxLength":1}}`, object, 4000)
	add("maxLength", `{"allOf":[`+same(60, `{"maxLength":9999999}`)+`]}`, `"`+strings.Repeat("ä", 100_000)+`"`, 3)
	add("uniqueItems, few", `{"uniqueItems":true}`, `[`+repeat(20, ",", func(i int) string { return fmt.Sprint(i) })+`]`, 120)
	add("uniqueItems, few nests", `{"uniqueItems":true}`, `[`+repeat(20, ",", func(i int) string { return fmt.Sprintf(`[[%s%d]]`, strings.Repeat("1,", 20), i) })+`]`, 10)
	add("uniqueItems, many", `{"uniqueItems":true}`, `[`+repeat(1000, ",", func(i int) string { return fmt.Sprint(i) })+`]`, 22)
	add("contains", `{"contains":{"type":"string"}}`, `[`+same(100, "1")+`]`, 900)
	all = append(all,
		pair{"M-088 exponential", exponential(9), `{}`},
		pair{"M-087 a tree", tree, strings.Repeat(`{"child":`, 100) + `{}` + strings.Repeat(`}`, 100)},
		pair{"recursion doubled at each level", doubled, strings.Repeat(`{"a":`, 12) + `{}` + strings.Repeat(`}`, 12)},
		pair{"unevaluatedProperties", `{"allOf":[` + same(60, `{"anyOf":[{"minProperties":1},{"minProperties":2}]}`) + `],"unevaluatedProperties":false}`,
			`{` + repeat(2000, ",", func(i int) string { return fmt.Sprintf(`"p%d":1`, i) }) + `}`},
		pair{"unevaluatedItems", `{"properties":{"a":{"allOf":[` + same(60, `{"anyOf":[{"minItems":1},{"minItems":2}]}`) + `],"unevaluatedItems":false}}}`,
			`{"a":[` + same(4000, "1") + `]}`},
		pair{"unevaluated in nests", nest(30, `"unevaluatedProperties":false,`), `{` + repeat(3000, ",", func(i int) string { return fmt.Sprintf(`"p%d":1`, i) }) + `}`},
		pair{"a long chain, deep", chain(60), `{"a":` + strings.Repeat(`[`, 120) + strings.Repeat(`]`, 120) + `}`},
		pair{"dependentSchemas", `{"properties":{"a":{"items":{"dependentSchemas":{"x":{"required":["y"]},"z":{}}}}}}`, `{"a":[` + same(20_000, `{"x":1}`) + `]}`},
	)
	return all
}

const (
	tree    = `{"properties":{"child":{"$ref":"#"}}}`
	doubled = `{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["b"]},{"properties":{"a":{"$ref":"#"}},"required":["c"]}]}`
)

// exponential doubles with each of n definitions, in a few hundred bytes.
func exponential(n int) string {
	return `{"$ref":"#/$defs/n0","$defs":{` + repeat(n, ",", func(i int) string {
		return fmt.Sprintf(`"n%d":{"anyOf":[{"$ref":"#/$defs/n%d"},{"$ref":"#/$defs/n%d"}]}`, i, i+1, i+1)
	}) + fmt.Sprintf(`,"n%d":{"required":["never"]}}}`, n)
}

// chain is n references in a row for a value, and again for its elements.
func chain(n int) string {
	return `{"properties":{"a":{"$ref":"#/$defs/c0"}},"$defs":{` + repeat(n, ",", func(i int) string {
		return fmt.Sprintf(`"c%d":{"$ref":"#/$defs/c%d"}`, i, i+1)
	}) + fmt.Sprintf(`,"c%d":{"items":{"$ref":"#/$defs/c0"}}}}`, n)
}

// nest is n allOf, one in the other.
func nest(n int, keywords string) string {
	return strings.Repeat(`{`+keywords+`"allOf":[`, n) + `{}` + strings.Repeat(`]}`, n)
}

// A tally counts how often the library comes to the end of a part that has not failed
// before.
type tally int

// Validate implements jsonschema.SchemaExt.
func (n *tally) Validate(*jsonschema.ValidatorContext, any) { *n++ }

// count has every part of s counted, and returns the sum. Then s is for one goroutine.
func (s *Schema) count() *tally {
	n := new(tally)
	for _, p := range s.parts {
		p.of.Extensions = append(p.of.Extensions, n)
	}
	return n
}

// known returns how many visits the meter knows of. Then s cannot be used for more.
func (s *Schema) known(v any) int {
	const one = 1 << 32 // more than everything else adds up to
	for _, p := range s.parts {
		p.own = one
	}
	m := meter{left: math.MaxInt}
	if !m.visit(s.parts[0], v) {
		return math.MaxInt
	}
	return (math.MaxInt - m.left) / one
}

// TestMeterGoesWhereTheLibraryGoes has every keyword that applies a schema to something.
func TestMeterGoesWhereTheLibraryGoes(t *testing.T) {
	const x = `{"title":"x"}`
	const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`
	objects, arrays := `{"a":1,"b":2,"c":3}`, `[1,2,3]`
	for _, c := range []struct {
		schema, value string
		want          int // visits of the library
	}{
		{`"properties":{"a":` + x + `,"d":` + x + `}`, objects, 2},
		{`"patternProperties":{"^[ab]$":` + x + `,"^b$":` + x + `}`, objects, 4},
		{`"properties":{"a":true},"patternProperties":{"^b$":true},"additionalProperties":` + x, objects, 2},
		{`"additionalProperties":` + x, objects, 4},
		{`"properties":{"a":true},"unevaluatedProperties":` + x, objects, 3},
		{`"propertyNames":` + x, objects, 4},
		{`"dependentSchemas":{"a":` + x + `,"d":` + x + `}`, objects, 2},
		{draft7 + `"dependencies":{"a":` + x + `,"b":["c"]}`, objects, 2},
		{`"items":` + x, arrays, 4},
		{`"prefixItems":[` + x + `,true],"items":` + x, arrays, 3},
		{`"prefixItems":[` + x + `,` + x + `]`, arrays, 3},
		{draft7 + `"items":` + x, arrays, 4},
		{draft7 + `"items":[` + x + `],"additionalItems":` + x, arrays, 4},
		{`"contains":` + x, arrays, 4},
		{`"prefixItems":[true],"unevaluatedItems":` + x, arrays, 3},
		{`"allOf":[` + x + `,` + x + `]`, `1`, 3},
		{`"anyOf":[false,` + x + `]`, `1`, 2},
		{`"oneOf":[false,` + x + `]`, `1`, 2},
		{`"not":{"not":` + x + `}`, `1`, 3},
		{`"if":` + x + `,"then":` + x, `1`, 3},
		{`"if":false,"else":` + x, `1`, 2},
		{`"$ref":"#/$defs/x","$defs":{"x":` + x + `}`, `1`, 2},
		{`"properties":{"a":{"$ref":"#"}},"title":"x"`, `{"a":{"a":{"b":1}}}`, 5},
		{`"type":"object","properties":{"a":{"type":["string","null"],"allOf":[` + x + `]}}`, `{"a":null}`, 3},
	} {
		s := compiled(t, `{`+c.schema+`}`)
		v, fault := argumentBounds.read(json.RawMessage(c.value))
		if fault != "" {
			t.Fatal(fault)
		}
		visits := s.count()
		s.check(v)
		if known := s.known(v); int(*visits) != c.want || known < c.want {
			t.Errorf("{%s} of %s: the library made %d visits, want %d; the meter knows of %d", c.schema, c.value, *visits, c.want, known)
		}
	}
}

func TestComparingElementsIsWork(t *testing.T) {
	for _, n := range []int{few, few + 1} {
		work := func(keyword string) int {
			_, _, work := pair{schema: `{"properties":{"a":{"uniqueItems":` + keyword + `}}}`, arguments: `{"a":[` + same(n, "1") + `]}`}.metered(t)
			return work
		}
		if more, least := work("true")-work("false"), n*2*perNumber; more < least {
			t.Errorf("%d elements: %d units, want at least %d", n, more, least)
		}
	}
}

// TestWorkIsBounded shows that the library goes nowhere without the meter, for the pairs
// that cost most.
func TestWorkIsBounded(t *testing.T) {
	for _, x := range pairs(20) {
		t.Run(x.name, func(t *testing.T) {
			s, v, _ := x.metered(t)
			visits := s.count()
			s.check(v)
			if known := s.known(v); *visits == 0 || int(*visits) > known {
				t.Errorf("the library made %d visits, the meter knew of %d", *visits, known)
			}
		})
	}
}

// metered returns the pair ready to be checked, and what the meter says of it.
func (x pair) metered(t testing.TB) (s *Schema, v any, work int) {
	t.Helper()
	s = compiled(t, x.schema)
	v, fault := argumentBounds.read(json.RawMessage(x.arguments))
	if fault != "" {
		t.Fatal(fault)
	}
	m := meter{left: 2 * mostWork} // more than is allowed: some of the pairs are refused
	if !m.visit(s.parts[0], v) {
		t.Fatal("the pair takes more than twice what is allowed: make it smaller")
	}
	return s, v, 2*mostWork - m.left
}

// BenchmarkHostileCheck says what a unit of work is.
func BenchmarkHostileCheck(b *testing.B) {
	for _, x := range pairs(1) {
		b.Run(x.name, func(b *testing.B) {
			s, v, work := x.metered(b)
			b.ReportAllocs()
			for b.Loop() {
				s.check(v)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(work), "ns/unit")
		})
	}
}

// BenchmarkHostileCompile has the most expensive schemas that were found.
func BenchmarkHostileCompile(b *testing.B) {
	numbered := func(n int, format string) string {
		return repeat(n, ",", func(i int) string { return strings.ReplaceAll(format, "#N", fmt.Sprint(i)) })
	}
	for _, x := range []struct{ name, schema string }{
		{"many properties", `{"properties":{` + numbered(9900, `"p#N":{}`) + `}}`},
		{"many nests", `{"anyOf":[` + same(300, nest(30, "")) + `]}`},
		{"references into no keyword", `{"$ref":"#/x/d0","x":{` + repeat(1500, ",", func(i int) string {
			return fmt.Sprintf(`"d%d":{"items":{"$ref":"#/x/d%d"}}`, i, (i+1)%1500)
		}) + `}}`},
		{"the same among many others", `{"anyOf":[` + numbered(400, `{"$ref":"#/x/d#N"}`) + `],"x":{` + numbered(400, `"d#N":{}`) +
			`},"properties":{` + numbered(8800, `"p#N":{}`) + `}}`},
		{"ids", `{"anyOf":[` + numbered(2200, `{"$id":"tool:///#N"}`) + `]}`},
		{"anchors", `{"anyOf":[` + numbered(6000, `{"$dynamicAnchor":"a#N"}`) + `]}`},
		{"patterns", `{"allOf":[` + numbered(1500, `{"pattern":"(x{1000}y{#N}){1}(z{500}|a{400})"}`) + `]}`},
		{"patterns with classes", `{"allOf":[` + numbered(250, `{"pattern":"`+strings.Repeat(`(?i)[\\pL]`, 90)+`#N"}`) + `]}`},
		{"not valid anywhere", `{"anyOf":[` + same(250, strings.Repeat(`{"not":`, 60)+`{"type":1}`+strings.Repeat(`}`, 60)) + `]}`},
	} {
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Compile(json.RawMessage(x.schema))
			}
		})
	}
}
