package schema

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestHeaders(t *testing.T) {
	s := compiled(t, `{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"deep":{"type":"object","properties":{"n":{"type":["null","integer"],"x-mcp-header":"Deep-N"}}},
		"dry":{"type":"boolean","x-mcp-header":"Dry!"},
		"x-mcp-header":{"type":"object"},
		"data":{"const":{"x-mcp-header":"no annotation"}}}}`)
	headers, p := s.Headers()
	if p != nil || len(headers) != 3 {
		t.Fatalf("got %v, %v; want 3 headers", headers, p)
	}
	arguments := func(s string) json.RawMessage { return json.RawMessage(s) }
	byName := map[string]Header{}
	for _, h := range headers {
		byName[h.Name] = h
	}
	for _, x := range []struct {
		header, arguments, want string
		ok                      bool
	}{
		{"Mcp-Param-Region", `{"region":"us-west1"}`, "us-west1", true},
		{"Mcp-Param-Region", `{"region":" \u4e16 "}`, " 世 ", true},
		{"Mcp-Param-Region", `{"region":""}`, "", true},
		{"Mcp-Param-Region", `{"region":null}`, "", false},
		{"Mcp-Param-Region", `{}`, "", false},
		{"Mcp-Param-Region", ``, "", false},
		{"Mcp-Param-Region", `{"region":7}`, "", false},
		{"Mcp-Param-Deep-N", `{"deep":{"n":-7}}`, "-7", true},
		{"Mcp-Param-Deep-N", `{"deep":{"n":42.0}}`, "42", true},
		{"Mcp-Param-Deep-N", `{"deep":{"n":9007199254740993}}`, "9007199254740993", true},
		{"Mcp-Param-Deep-N", `{"deep":{"n":1.5}}`, "", false},
		{"Mcp-Param-Deep-N", `{"deep":{"n":1e999999999}}`, "", false},
		{"Mcp-Param-Deep-N", `{"deep":7}`, "", false},
		{"Mcp-Param-Deep-N", `{"n":7}`, "", false},
		{"Mcp-Param-Dry!", `{"dry":true}`, "true", true},
		{"Mcp-Param-Dry!", `{"dry":null}`, "", false},
	} {
		h, ok := byName[x.header]
		if !ok {
			t.Fatalf("there is no %s", x.header)
		}
		if got, ok := h.Value(arguments(x.arguments)); got != x.want || ok != x.ok {
			t.Errorf("%s of %s: got %q, %v; want %q, %v", x.header, x.arguments, got, ok, x.want, x.ok)
		}
	}
	for _, x := range []struct {
		header, text string
		sent         bool
		arguments    string
		want         bool
	}{
		{"Mcp-Param-Region", "us", true, `{"region":"us"}`, true},
		{"Mcp-Param-Region", "US", true, `{"region":"us"}`, false},
		{"Mcp-Param-Region", "", true, `{"region":""}`, true},
		{"Mcp-Param-Region", "", false, `{"region":""}`, false},
		{"Mcp-Param-Region", "", false, `{"region":null}`, true},
		{"Mcp-Param-Region", "us", true, `{"region":null}`, false},
		{"Mcp-Param-Region", "", false, `{}`, true},
		{"Mcp-Param-Deep-N", "42.0", true, `{"deep":{"n":42}}`, true},
		{"Mcp-Param-Deep-N", "4.2e1", true, `{"deep":{"n":42}}`, true},
		{"Mcp-Param-Deep-N", "43", true, `{"deep":{"n":42}}`, false},
		{"Mcp-Param-Deep-N", "1e999999999", true, `{"deep":{"n":42}}`, false},
		{"Mcp-Param-Deep-N", "0x2a", true, `{"deep":{"n":42}}`, false},
		{"Mcp-Param-Deep-N", "84/2", true, `{"deep":{"n":42}}`, false},
		{"Mcp-Param-Deep-N", "", true, `{"deep":{"n":42}}`, false},
		{"Mcp-Param-Dry!", "false", true, `{"dry":false}`, true},
	} {
		if got := byName[x.header].Matches(x.text, x.sent, arguments(x.arguments)); got != x.want {
			t.Errorf("%s %q (sent: %v) and %s match: %v", x.header, x.text, x.sent, x.arguments, got)
		}
	}
}

func TestHeadersThatBreakTheRules(t *testing.T) {
	for name, x := range map[string]struct{ schema, want string }{
		"empty":             {`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, "no name"},
		"no text":           {`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`, "no name"},
		"a blank":           {`{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`, "no name"},
		"a colon":           {`{"properties":{"a":{"type":"string","x-mcp-header":"A:"}}}`, "no name"},
		"the end of a line": {`{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}`, "no name"},
		"not ASCII":         {`{"properties":{"a":{"type":"string","x-mcp-header":"Ä"}}}`, "no name"},
		"twice":             {`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"a"}}}}}`, "another property"},
		"number":            {`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, "no string, integer"},
		"object":            {`{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`, "no string, integer"},
		"two types":         {`{"properties":{"a":{"type":["string","integer"],"x-mcp-header":"A"}}}`, "no string, integer"},
		"no type":           {`{"properties":{"a":{"x-mcp-header":"A"}}}`, "no string, integer"},
		"the top itself":    {`{"type":"string","x-mcp-header":"A"}`, "properties alone"},
		"in items":          {`{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}`, "properties alone"},
		"in prefixItems":    {`{"properties":{"a":{"prefixItems":[{"type":"string","x-mcp-header":"A"}]}}}`, "properties alone"},
		"in anyOf":          {`{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, "properties alone"},
		"in then":           {`{"if":{},"then":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`, "properties alone"},
		"by a reference":    {`{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}`, "properties alone"},
		"in a pattern":      {`{"patternProperties":{"a":{"type":"string","x-mcp-header":"A"}}}`, "properties alone"},
	} {
		t.Run(name, func(t *testing.T) {
			s := compiled(t, x.schema)
			headers, p := s.Headers()
			if p == nil || !strings.Contains(p.String(), x.want) {
				t.Errorf("got %v, %v; want a problem with %q", headers, p, x.want)
			}
		})
	}
}
