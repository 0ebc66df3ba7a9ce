package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("sluice.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("sluice.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON reads a file as an editor would, without our decoder's help.
func asJSON(t *testing.T, path string, data []byte) any {
	t.Helper()
	n := parse(path, data, func(p Problem) { t.Fatal(p) })
	text, err := json.Marshal(n.free())
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaAcceptsExamples(t *testing.T) {
	s := compileSchema(t)
	examples := goodFiles(t)
	for _, path := range examples {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(asJSON(t, path, data)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := s.Validate(asJSON(t, defaultName, defaultFile)); err != nil {
		t.Errorf("the embedded default: %v", err)
	}
}

// goodFiles returns all examples and testdata/*.good.yaml.
func goodFiles(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, glob := range []string{"../examples/*.yaml", "../examples/broker/*.json", "../examples/broker/*.yaml", "testdata/*.good.yaml"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", glob, len(files), err)
		}
		out = append(out, files...)
	}
	return out
}

// What one key may hold, and what it may not. What spans several keys is no matter of a
// schema.
var (
	goodLines = []string{
		"enabled: false",
		"enabled: null",
		"defaultTier: a",
		"default-tier: a",
		"default_tier: a",
		"tiers: {a: 10/s}",
		"tiers: {a: {requestsPerSecond: 0}}",
		"tiers: {a: {requests_per_second: 1, burst-capacity: 2}}",
		"endpoints: [{path: /a, limit: 1/s}]",
		"endpoints: [{path: /a, limit: 1/s, methods: GET}]",
		"endpoints: [{path: /a, limit: 1/s, cost: 3}]",
		"mcpPaths: /mcp",
		"mcpPaths: [/mcp, {path: /x, status: 429}]",
		"headers: off",
		"headers: {families: [draft-6], when: near}",
		"rules: [{id: a, slots: 1}]",
		"rules: [{id: a, pace: 3s}]",
		"rules: [{id: a, pace: 1m30s}]",
		"rules: [{id: a, slots: 1, weights: {a: 2}}]",
		"rules: [{id: a, slots: 1, match: {kind: http, not: {tier: [a, b]}}}]",
		"identity: {clientIp: {trustedProxies: []}}",
		"identity: {clientIp: {trustedProxies: [10.0.0.0/8]}}",
		"admin: {token: '${T}'}",
		"spector: {resilience: {rate-limiting: {enabled: true}}}",
		"backend: in-memory",
		"limits: {rules: [{id: a, concurrency: 1}]}",
		"auth: {providerToolCapabilities: {/a: {t: c}}}",
		"sources: [{id: a, governance: {rateLimitPerSecond: 0.5}, tools: {x: [1, {y: null}]}}]",
		"shutdown: {grace: 5s}",
	}
	badLines = []string{
		"enabled: yes",
		"DefaultTier: a",
		"defaulttier: a",
		"defaultTier: 5",
		"listne: {}",
		"tiers: {a: 10}",
		"tiers: {a: 10 / s}",
		"tiers: {a: 10/fortnight}",
		"tiers: {a: {requestsPerSecond: -1}}",
		"tiers: {a: {requestsPerSecond: 1.5}}",
		"tiers: []",
		"endpoints: [{limit: 1/s}]",
		"endpoints: [{path: /a, limit: 1/s, cost: three}]",
		"mcpPaths: {path: /x}",
		"mcpPaths: [{path: /x, status: 404}]",
		"headers: draft-5",
		"rules: [{slots: 1}]",
		"rules: [{id: a, pace: 3}]",
		"rules: [{id: a, slots: 1, match: {kin: http}}]",
		"rules: [{id: a, slots: 1, match: {tier: []}}]",
		"identity: {jwt: [{issuer: a, jwks: k, audience: []}]}",
		"identity: {clientIp: {trustedProxies: [ten]}}",
		"identity: {clientIp: {ipv6Prefix: 129}}",
		"admin: {token: clear}",
		"spector: {resilience: {rate-limiting: {enable: true}}}",
		"spector: {resilience: {}, other: 1}",
		"backend: memory",
		"limits: {rule: []}",
		"sources: [{id: a}]",
		"shutdown: {grace: 5 s}",
	}
)

// TestSchemaAndDecoderAgree gives each line to both, which must judge alike.
func TestSchemaAndDecoderAgree(t *testing.T) {
	s := compileSchema(t)
	judge := func(lines []string, want bool) {
		for _, line := range lines {
			byDecoder := decodes(line)
			bySchema := s.Validate(asJSON(t, "x.yaml", []byte(line))) == nil
			if byDecoder != want || bySchema != want {
				t.Errorf("%s: decoder %v, schema %v, want %v", line, byDecoder, bySchema, want)
			}
		}
	}
	judge(goodLines, true)
	judge(badLines, false)
}

// decodes reports whether the steps up to the decoder accept a file.
func decodes(yaml string) bool {
	ok := true
	report := func(Problem) { ok = false }
	n := parse("x.yaml", []byte(yaml), report)
	n.rehome(report)
	n.canon(reflect.TypeFor[Root](), fieldInfo{}, "", report)
	d := decoder{env: func(string) (string, bool) { return "x", true }, places: places{}, report: report}
	d.structure(n, reflect.New(reflect.TypeFor[Root]()).Elem(), "")
	return ok
}

// TestTags reads every tag of every struct, so that the code that uses them need not
// handle a tag that is wrong.
func TestTags(t *testing.T) {
	docs := comments()
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		if docs[typ.Name()] == "" {
			t.Errorf("%s has no comment", typ)
		}
		names := map[string]bool{}
		for _, f := range describe(typ).fields {
			checkTags(t, docs, f)
			for _, name := range f.names() {
				if names[name] {
					t.Errorf("%s: two fields are called %q", typ, name)
				}
				names[name] = true
			}
			inner := deref(f.typ)
			if inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if isStruct(inner) {
				visit(inner)
			}
		}
	}
	visit(reflect.TypeFor[Root]())
	if len(seen) < 40 {
		t.Errorf("only %d structs were visited", len(seen))
	}
	for _, m := range moves {
		if m.to == "" {
			continue
		}
		if _, _, p := resolve(strings.Split(m.to, ".")); p != nil {
			t.Errorf("a move goes nowhere: %v", p)
		}
	}
}

func checkTags(t *testing.T, docs map[string]string, f fieldInfo) {
	at := f.owner.Name() + "." + f.name
	if docs[at] == "" {
		t.Errorf("%s has no comment", at)
	}
	if _, ok := formats[f.format]; f.format != "" && f.format != "path" && !ok {
		t.Errorf("%s: no format %q", at, f.format)
	}
	for _, bound := range []string{f.min, f.max} {
		n := &node{kind: loose, text: bound}
		v := reflect.New(deref(f.typ)).Elem()
		if v.Kind() == reflect.Slice {
			v = reflect.New(reflect.TypeFor[int64]()).Elem()
		}
		if bound != "" {
			if _, err := setScalar(n, v); err != nil {
				t.Errorf("%s: the bound %q: %v", at, bound, err)
			}
		}
	}
	typ := deref(f.typ)
	if typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if (typ == secretType) != (f.secret == "only" || f.secret == "may") {
		t.Errorf("%s: a Secret has a secret tag and nothing else has", at)
	}
	if f.keyed != "" {
		if _, ok := f.typ.Elem().FieldByName(f.keyed); !ok {
			t.Errorf("%s: its elements have no field %s", at, f.keyed)
		}
	}
}

func TestReferenceIsInTheGuide(t *testing.T) {
	const path = "../docs/guide/configuration.md"
	const begin, end = "<!-- reference: made by `go test ./config -update` -->\n", "<!-- end of reference -->"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks for the reference", path)
	}
	want := "\n" + Reference()
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Errorf("%s is not what Reference makes; run go test ./config -update", path)
	}
}
