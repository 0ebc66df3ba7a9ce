package dialect

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzObject holds the scanner against encoding/json: of every valid object it finds the same
// members with the same values.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, ` { "a" : [1,{"b":"}"}] , "c" : "\\\"" } `, `{"m\u006fdel":"x"}`, `{"a":"\\"}`, `[1]`, `{"a":1`, `{"a" 1}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) { // the other reader replaces what is no text
			return
		}
		got, n := map[string]string{}, 0
		ok := object([]byte(s), func(m member) bool {
			if s[m.at:m.at+len(m.value)] != string(m.value) {
				t.Fatalf("%q: the value of %q is not where it is said to be", s, m.name)
			}
			got[string(m.name)], n = string(m.value), n+1
			return true
		})
		var want map[string]json.RawMessage
		if json.Unmarshal([]byte(s), &want) != nil || want == nil {
			return
		}
		if !ok || len(got) != len(want) {
			t.Fatalf("%q: %d members, want %d", s, n, len(want))
		}
		for name, v := range want {
			if got[name] != string(v) {
				t.Errorf("%q: %q is %s, want %s", s, name, got[name], v)
			}
		}
	})
}

func TestNumber(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "12": 12, "1.9": 1, "1e3": 1000, "-1": -1, "-7": -1, "null": -1, `"5"`: 5, `" 5 "`: 5, `"x"`: -1, `""`: -1, "": -1,
		"99999999999999999999": 1 << 62, "1e999": 1 << 62, "true": -1} {
		if got := number([]byte(in)); got != want {
			t.Errorf("number(%s) = %d, want %d", in, got, want)
		}
	}
}

func TestDeepNesting(t *testing.T) {
	deep := `{"messages":[{"role":"user","content":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}]}`
	if _, err := Read(Route{Dialect: OpenAI, Operation: Chat}, []byte(deep)); err != nil {
		t.Error(err)
	}
	m := Route{Dialect: OpenAI, Operation: Chat}.NewMeter(func([]byte) {})
	m.ReadWhole([]byte(`{"choices":` + deep + `}`))
}
