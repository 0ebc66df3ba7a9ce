package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func compiled(t testing.TB, schema string) *Schema {
	t.Helper()
	s, p := Compile(json.RawMessage(schema))
	if p != nil {
		t.Fatal(p)
	}
	return s
}

// TestValidate has secret values where something is wrong: no sentence may have them.
func TestValidate(t *testing.T) {
	for _, x := range []struct{ name, schema, arguments, want string }{
		{"fits", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, `{"a":"x"}`, ""},
		{"no arguments", `{"type":"object","properties":{"a":{}}}`, ``, ""},
		{"no arguments, one needed", `{"required":["a"]}`, ``, `arguments: lacks "a"`},
		{"null", `{"type":"object"}`, `null`, `arguments: is null, not object`},
		{"type", `{"properties":{"a":{"type":["integer","null"]}}}`, `{"a":"secret"}`, `arguments/a: is string, not null or integer`},
		{"M-092 1.0 is an integer", `{"properties":{"a":{"type":"integer"}}}`, `{"a":1.0}`, ""},
		{"M-092 const beyond 2^53", `{"properties":{"a":{"const":9007199254740993}}}`, `{"a":9007199254740992}`, `arguments/a: is not 9007199254740993`},
		{"M-092 the same number otherwise", `{"properties":{"a":{"const":10}}}`, `{"a":1e1}`, ""},
		{"M-092 multipleOf 0.01", `{"properties":{"a":{"multipleOf":0.01}}}`, `{"a":1.13}`, ""},
		{"M-092 no multiple", `{"properties":{"a":{"multipleOf":0.01}}}`, `{"a":1.135}`, `arguments/a: is no multiple of 0.01`},
		{"enum", `{"properties":{"a":{"enum":["x","y",3,null,{"b":1},[]]}}}`, `{"a":"secret"}`,
			`arguments/a: is none of "x", "y", 3, null, a certain object, a certain array`},
		{"const", `{"properties":{"a":{"const":"x"}}}`, `{"a":"secret"}`, `arguments/a: is not "x"`},
		{"minimum", `{"properties":{"a":{"minimum":0.5}}}`, `{"a":0}`, `arguments/a: is less than 0.5`},
		{"maximum", `{"properties":{"a":{"maximum":5}}}`, `{"a":5150}`, `arguments/a: is greater than 5`},
		{"exclusiveMinimum", `{"properties":{"a":{"exclusiveMinimum":5}}}`, `{"a":5}`, `arguments/a: is not greater than 5`},
		{"exclusiveMaximum", `{"properties":{"a":{"exclusiveMaximum":5}}}`, `{"a":5}`, `arguments/a: is not less than 5`},
		{"minLength", `{"properties":{"a":{"minLength":7}}}`, `{"a":"secret"}`, `arguments/a: is shorter than 7 characters`},
		{"maxLength", `{"properties":{"a":{"maxLength":1}}}`, `{"a":"secret"}`, `arguments/a: is longer than 1 character`},
		{"length in characters", `{"properties":{"a":{"maxLength":2}}}`, `{"a":"äö"}`, ""},
		{"pattern", `{"properties":{"a":{"pattern":"^x"}}}`, `{"a":"secret"}`, `arguments/a: does not match the pattern "^x"`},
		{"additional", `{"properties":{"b":{},"a":{}},"additionalProperties":false}`, `{"secret":1,"secret2":2}`,
			`arguments: has 2 properties that the schema does not have; it has "a", "b"`},
		{"additional, none known", `{"additionalProperties":false}`, `{"secret":1}`, `arguments: has 1 property that the schema does not have`},
		{"a name that only the caller has", `{"additionalProperties":{"type":"string"}}`, `{"secret":1}`, `arguments/*: is number, not string`},
		{"a number as a name", `{"additionalProperties":{"type":"string"}}`, `{"5150":1}`, `arguments/*: is number, not string`},
		{"names with slashes", `{"properties":{"a/b~c":{"type":"string"}}}`, `{"a/b~c":1}`, `arguments/a~1b~0c: is number, not string`},
		{"elements", `{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":["secret",1]}`, `arguments/a/1: is number, not string`},
		{"propertyNames", `{"properties":{"a":{"items":{"propertyNames":{"maxLength":1}}}}}`, `{"a":[{"secret":1},{},{}]}`,
			`arguments/a/0: has a property with a name that is not allowed`},
		{"dependentRequired", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `arguments: lacks "b", which "a" needs`},
		{"dependencies", `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`, `{"a":1}`, `arguments: lacks "b", which "a" needs`},
		{"minProperties", `{"minProperties":2}`, `{"secret":1}`, `arguments: has fewer than 2 properties`},
		{"maxProperties", `{"maxProperties":0}`, `{"secret":1}`, `arguments: has more than 0 properties`},
		{"minItems", `{"properties":{"a":{"minItems":1}}}`, `{"a":[]}`, `arguments/a: has fewer than 1 element`},
		{"maxItems", `{"properties":{"a":{"maxItems":1}}}`, `{"a":[1,2]}`, `arguments/a: has more than 1 element`},
		{"additionalItems", `{"$schema":"http://json-schema.org/draft-07/schema","properties":{"a":{"items":[{}],"additionalItems":false}}}`, `{"a":[1,2]}`,
			`arguments/a: has 1 element too many`},
		{"items of draft-07", `{"$schema":"http://json-schema.org/draft-07/schema","properties":{"a":{"items":[{}],"additionalItems":{"type":"string"}}}}`, `{"a":[1,2]}`,
			`arguments/a/1: is number, not string`},
		{"uniqueItems", `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":["secret",1,"secret"]}`, `arguments/a: has the same element at 0 and 2`},
		{"contains", `{"properties":{"a":{"contains":{"type":"string"}}}}`, `{"a":[1]}`, `arguments/a: has no element that fits`},
		{"minContains", `{"properties":{"a":{"contains":{"type":"string"},"minContains":2}}}`, `{"a":["secret"]}`, `arguments/a: has fewer than 2 elements that fit`},
		{"maxContains", `{"properties":{"a":{"contains":{"type":"string"},"maxContains":1}}}`, `{"a":["a","b"]}`, `arguments/a: has more than 1 element that fit`},
		{"false", `{"properties":{"a":false}}`, `{"a":"secret"}`, `arguments/a: is not allowed`},
		{"not", `{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"secret"}`, `arguments/a: fits what it must not fit`},
		{"anyOf", `{"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}`, `{"a":"secret"}`, `arguments/a: fits none of the alternatives`},
		{"anyOf, one of the type", `{"properties":{"a":{"anyOf":[{"type":"object","required":["b"]},{"type":"null"}]}}}`, `{"a":{}}`, `arguments/a: lacks "b"`},
		{"anyOf, one of the type, by references", `{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/m"},{"$ref":"#/$defs/n"}]}},"$defs":{"m":{"type":"object","required":["b"]},"n":{"type":"null"}}}`,
			`{"a":{}}`, `arguments/a: lacks "b"`},
		{"anyOf, 30 in a row", strings.Repeat(`{"anyOf":[{"type":"null"},`, 30) + `{"required":["b"]}` + strings.Repeat(`]}`, 30), `{}`, `arguments: lacks "b"`},
		{"oneOf, none", `{"properties":{"a":{"oneOf":[{"required":["x"]},{"required":["y"]}]}}}`, `{"a":{}}`, `arguments/a: fits none of the alternatives`},
		{"oneOf, two", `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":2}`, `arguments: fits more than one of the alternatives`},
		{"the first in order of places", `{"properties":{"b":{"type":"string"},"a":{"type":"string"},"c":{"type":"string"}}}`, `{"c":1,"b":1,"a":1}`,
			`arguments/a: is number, not string`},
		{"by a reference", `{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"allOf":[{"type":"string"}]}}}`, `{"a":1}`, `arguments/a: is number, not string`},
		{"by an anchor and an id", `{"$id":"https://x.test/s","properties":{"a":{"$ref":"#y"},"b":{"$ref":"other"}},"$defs":{"x":{"$anchor":"y","type":"string"},"z":{"$id":"other","type":"null"}}}`,
			`{"a":"x","b":1}`, `arguments/b: is number, not null`},
		{"formats are not asserted", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"date"},"b":{"format":"regex"}}}`, `{"a":"never","b":"("}`, ""},
		{"M-028 a member twice", `{}`, `{"a":{"secret":1,"secret":2}}`, `arguments: they have the same member twice in one object`},
		{"no JSON", `{}`, `{"secret`, `arguments: they have text that is no JSON`},
		{"something behind", `{}`, `{} {}`, `arguments: they have text that is no JSON`},
		{"a number like a bomb", `{"properties":{"a":{"minimum":1}}}`, `{"a":1e999999999}`, `arguments: they have a number of more than 128 digits or with an exponent beyond 400`},
		{"a long number", `{}`, `{"a":1` + strings.Repeat("0", 128) + `}`, `arguments: they have a number of more than 128 digits or with an exponent beyond 400`},
		{"M-030 a number beyond a float", `{"properties":{"a":{"type":"number"}}}`, `{"a":-1e400}`, ""},
		{"digits in text are no number", `{}`, `{"a":"1e999999999","b":"\"1e999999999"}`, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := compiled(t, x.schema)
			for range 5 { // maps go round in another order each time
				m := s.Validate(json.RawMessage(x.arguments))
				if m == nil {
					m = &Mismatch{}
					if x.want == "" {
						return
					}
				}
				if m.String() != x.want {
					t.Fatalf("got %q, want %q", m, x.want)
				}
				if strings.Contains(m.String(), "secret") || strings.Contains(m.String(), "5150") {
					t.Fatalf("%q has what the caller sent", m)
				}
			}
		})
	}
}

func TestBoundsOnArguments(t *testing.T) {
	s := compiled(t, `{}`)
	for _, x := range []struct{ name, fits, over, want string }{
		{"levels", strings.Repeat("[", 128) + strings.Repeat("]", 128), strings.Repeat("[", 129) + strings.Repeat("]", 129), "they have more than 128 levels"},
		{"values", "[" + same(99_999, "1") + "]", "[" + same(100_000, "1") + "]", "they have more than 100000 values"},
		{"bytes", `"` + strings.Repeat("x", 4<<20-2) + `"`, `"` + strings.Repeat("x", 4<<20-1) + `"`, "they have more than 4194304 bytes"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if m := s.Validate(json.RawMessage(x.fits)); m != nil {
				t.Errorf("as much as is allowed: %v", m)
			}
			if m := s.Validate(json.RawMessage(x.over)); m == nil || m.Cause != x.want {
				t.Errorf("one more: got %v, want %s", m, x.want)
			}
		})
	}
	t.Run("work", func(t *testing.T) {
		s := compiled(t, doubled)
		nest := func(n int) json.RawMessage {
			return json.RawMessage(strings.Repeat(`{"a":`, n) + `{}` + strings.Repeat(`}`, n))
		}
		if m := s.Validate(nest(8)); m == nil || m.Cause != "fits none of the alternatives" {
			t.Errorf("8 levels, each twice the work of the one before: %v", m)
		}
		if m := s.Validate(nest(100)); m == nil || !strings.Contains(m.Cause, "too long") {
			t.Errorf("100 such levels: %v", m)
		}
	})
}

func TestSentencesAreShort(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	for _, schema := range []string{
		`{"required":["` + long + `y"]}`,
		`{"required":["` + same2(20, long) + `"]}`,
		`{"properties":{"a":{"enum":["` + long + `"]}}}`,
		`{"properties":{"a":{"pattern":"` + long[:1000] + `"}}}`,
		`{"properties":{"` + long + `":{"type":"null"},"a":{"const":"\u001b[2J"}}}`,
	} {
		m := compiled(t, schema).Validate(json.RawMessage(`{"a":"x","` + long + `x":1,"` + long + `":1}`))
		if m == nil || len(m.String()) > mostText || strings.ContainsAny(m.String(), "\x1b\n") {
			t.Errorf("%.60s: %d bytes: %v", schema, len(m.String()), m)
		}
	}
	_, p := Compile(json.RawMessage(`{"properties":{"` + long + `":{"type":"no\u001b[2J"}}}`))
	if p == nil || len(p.String()) > mostText || strings.Contains(p.String(), "\x1b") {
		t.Errorf("problem: %v", p)
	}
}

// same2 returns text n times, each a little different, between quotes and commas.
func same2(n int, text string) string {
	return repeat(n, `","`, func(i int) string { return fmt.Sprint(text, i) })
}

func TestConcurrentUse(t *testing.T) {
	s := compiled(t, `{"properties":{"n":{"type":"integer","minimum":10},"child":{"$ref":"#"}},"propertyNames":{"pattern":"^[a-z]+$"}}`)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				m := s.Validate(json.RawMessage(fmt.Sprintf(`{"child":{"n":%d}}`, i+6)))
				if (m == nil) != (i >= 4) {
					t.Errorf("n is %d: %v", i+6, m)
				}
			}
		})
	}
	all.Wait()
}

// usual is a schema as tools have it.
const usual = `{"type":"object","properties":{"city":{"type":"string","minLength":1,"maxLength":80},
	"units":{"enum":["metric","imperial"]},"days":{"type":"integer","minimum":1,"maximum":14},
	"details":{"$ref":"#/$defs/details"}},"required":["city"],"additionalProperties":false,
	"$defs":{"details":{"type":"object","properties":{"wind":{"type":"boolean"},"rain":{"type":"boolean"}}}}}`

func BenchmarkValidate(b *testing.B) {
	s := compiled(b, usual)
	arguments := json.RawMessage(`{"city":"Bern","units":"metric","days":3,"details":{"wind":true,"rain":true}}`)
	b.ReportAllocs()
	for b.Loop() {
		if m := s.Validate(arguments); m != nil {
			b.Fatal(m)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		compiled(b, usual)
	}
}

// FuzzValidate shows that no schema and no arguments bring the library to a panic, or to
// more work than is allowed, and that what is said of them is short.
func FuzzValidate(f *testing.F) {
	for _, x := range pairs(20) {
		if len(x.schema)+len(x.arguments) < 10_000 {
			f.Add([]byte(x.schema), []byte(x.arguments))
		}
	}
	f.Add([]byte(usual), []byte(`{"city":"","units":7}`))
	f.Add([]byte(`{"$ref":"#"}`), []byte(`{}`))
	f.Add([]byte(`{"$id":"a","$defs":{"b":{"$id":"a","$ref":"b#c"}},"$anchor":"c"}`), []byte(`1e-400`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"x-mcp-header":"a"}],"dependencies":{"a":["b"],"c":{}}}`), []byte(`[[]]`))
	f.Add([]byte(`{"not":{"pattern":"(?!a)"},"patternProperties":{"(?=x)":false}}`), []byte(`{"a":"b"}`))
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		s, p := Compile(schema)
		if p != nil {
			if len(p.String()) > mostText || strings.Contains(p.String(), errPanic.Error()) {
				t.Fatalf("%v", p)
			}
			return
		}
		visits := s.count()
		m := s.Validate(arguments)
		if v, fault := argumentBounds.read(arguments); fault == "" && *visits > 0 {
			if known := s.known(v); int(*visits) > min(known, mostWork/visit) {
				t.Errorf("the library made %d visits, the meter knew of %d", *visits, known)
			}
		}
		if m != nil && (len(m.String()) > mostText || strings.Contains(m.Cause, errPanic.Error())) {
			t.Errorf("%v", m)
		}
		for _, note := range s.Notes() {
			if len(note) > mostText {
				t.Errorf("note: %s", note)
			}
		}
		headers, _ := s.Headers()
		for _, h := range headers {
			h.Value(arguments)
		}
	})
}
