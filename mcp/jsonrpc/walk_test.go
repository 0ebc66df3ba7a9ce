package jsonrpc

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

func TestLookup(t *testing.T) {
	raw := json.RawMessage(` { "a" : {"b":[1, {"c":2}] , "\u0062b":"}\"{","n":null}, "e":{}, "a":3 }`)
	for _, c := range []struct {
		name string
		path []string
		want string // empty if there is none
	}{
		{"itself", nil, string(raw)},
		{"an array", []string{"a", "b"}, `[1, {"c":2}]`},
		{"a name spelt with an escape", []string{"a", "bb"}, `"}\"{"`},
		{"null is there", []string{"a", "n"}, "null"},
		{"an empty object", []string{"e"}, "{}"},
		{"of two the first", []string{"a", "n"}, "null"},
		{"nothing", []string{"x"}, ""},
		{"nothing below an array", []string{"a", "b", "c"}, ""},
		{"nothing below a text", []string{"a", "bb", "c"}, ""},
		{"nothing below nothing", []string{"x", "y"}, ""},
		{"exact case", []string{"A"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, ok := Lookup(raw, c.path...); string(got) != c.want || ok != (c.want != "") {
				t.Errorf("got %s, %v", got, ok)
			}
		})
	}
	m := mustParse(t, `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":1.0}}}`)
	if got, ok := m.Param("_meta", "progressToken"); !ok || string(got) != "1.0" {
		t.Errorf("the token is %s, %v", got, ok)
	}
	if _, ok := mustParse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`).Param("name"); ok {
		t.Error("there are no params")
	}
}

func TestMembers(t *testing.T) {
	got := maps.Collect(Members(json.RawMessage(`{"a":1 ,"\u00e9":"x", "":[]}`)))
	if len(got) != 3 || string(got["a"]) != "1" || string(got["é"]) != `"x"` || string(got[""]) != "[]" {
		t.Errorf("got %s", got)
	}
	for range Members(json.RawMessage(`["a"]`)) {
		t.Error("an array has no members")
	}
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		raw  string
		drop []string
		want string
	}{
		{`{"a":1 , "b":1.0,"\u0063":3}`, nil, `{"a":1 , "b":1.0,"\u0063":3}`},
		{` {"a":1 , "b":1.0,"\u0063":3}`, []string{"a"}, `{"b":1.0,"\u0063":3}`},
		{`{"a":1 , "b" : 1.0,"\u0063":3}`, []string{"c"}, `{"a":1,"b" : 1.0}`},
		{`{"a":1 , "b":1.0,"\u0063":3}`, []string{"a", "b", "c"}, `{}`},
		{`{}`, []string{"a"}, `{}`},
		{`[1]`, []string{"a"}, `[1]`},
	} {
		got := Filter(json.RawMessage(c.raw), func(name string) bool { return !slices.Contains(c.drop, name) })
		if string(got) != c.want {
			t.Errorf("%s without %q is %s, want %s", c.raw, c.drop, got, c.want)
		}
	}
}

func TestText(t *testing.T) {
	for _, text := range []string{"", "a", "a/b\"\\\b\f\n\r\t", "größe", "\u2028", "😀", "<&>"} {
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := Text(raw); got != text || !ok {
			t.Errorf("%s is %q, %v", raw, got, ok)
		}
	}
	for raw, want := range map[string]string{
		`"\ud83d\ude00"`: "😀", `"\ud83d"`: "\ufffd", `"\ude00\ud83d"`: "\ufffd\ufffd", `"\uD83dA\u004a"`: "\ufffdAJ", `"\ud83d\u0041"`: "\ufffdA", `"\ufffd"`: "\ufffd",
	} {
		if got, ok := Text(json.RawMessage(raw)); got != want || !ok {
			t.Errorf("%s is %q, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{"", "1", "null", `{"a":"b"}`, `"`} {
		if got, ok := Text(json.RawMessage(raw)); ok {
			t.Errorf("%s is the text %q", raw, got)
		}
	}
}

func TestSetIn(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		path      []string
		want      string
	}{
		{"into nothing", "", []string{"a", "b"}, `{"a":{"b":0}}`},
		{"into an empty object", "{ }", []string{"a"}, `{ "a":0}`},
		{"into a text", `"x"`, []string{"a"}, `{"a":0}`},
		{"of two the first", `{"a":1,"a":2}`, []string{"a"}, `{"a":0,"a":2}`},
		{"without a path", `{"a":1}`, nil, `0`},
		{"into what does not end", `{"a":1`, []string{"a"}, `{"a":0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := json.RawMessage(c.raw)
			if got := SetIn(raw, json.RawMessage("0"), c.path...); string(got) != c.want || string(raw) != c.raw {
				t.Errorf("%s became %s, want %s", c.raw, got, c.want)
			}
		})
	}
	if got := DeleteIn(json.RawMessage(`{"a":{"b":1,"c":2}}`), "a", "b"); string(got) != `{"a":{"c":2}}` {
		t.Errorf("got %s", got)
	}
}
