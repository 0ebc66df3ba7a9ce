package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// loadExample loads files of examples/broker.
func loadExample(t *testing.T, names ...string) *Config {
	t.Helper()
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join("../examples/broker", name))
	}
	c, problems := Load(paths, Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBrokerBlock(t *testing.T) {
	c := loadExample(t, "security.json")
	t.Run("C-3 C-12 C-13 the block beside auth and providers", func(t *testing.T) {
		l := c.MCP.Limits
		if l.MaxRecords != 10_000 || l.RetentionMs != 600_000 || l.StaleLock != "pid-check" || l.OnRulesChange != "migrate" || len(l.Rules) != 5 {
			t.Errorf("%+v", l)
		}
		if c.MCP.Providers[0].SecretEnv != "SCADA_SECRET" || c.MCP.Auth.ProviderToolCapabilities[0].Tools[1].To != "scada.control" {
			t.Errorf("%+v", c.MCP)
		}
	})
	t.Run("C-14 storeFile is relative to the file", func(t *testing.T) {
		if got := c.MCP.Limits.StoreFile; got != filepath.FromSlash("../examples/broker/broker-limits.json") {
			t.Errorf("%q", got)
		}
	})
	t.Run("C-24 windows, not buckets; starts may be forgotten", func(t *testing.T) {
		if got := algorithms(rule(t, c, "global-call-rate")); !reflect.DeepEqual(got, []limit.Limit{limit.Slots(8)}) {
			t.Errorf("%v", got)
		}
		starts := rule(t, c, "global-call-rate:rate")
		if got := algorithms(starts); got[0] != limit.Window(30, limit.Second) || !starts.Volatile {
			t.Errorf("%v, volatile %v", got, starts.Volatile)
		}
		if calls := rule(t, c, "calls-per-user"); calls.Volatile || calls.GroupBy[0] != sluice.Subject {
			t.Errorf("%+v", calls)
		}
	})
	t.Run("C-47 release frees, hold is the default", func(t *testing.T) {
		if rule(t, c, "global-call-rate").OnTimeout != sluice.Free || rule(t, c, "calls-per-user").OnTimeout != sluice.Hold {
			t.Error("onTimeout")
		}
	})
	t.Run("D13 a budget is kept and counts its unit", func(t *testing.T) {
		r := rule(t, c, "lan-operations:budget")
		if r.Settle != sluice.Keep || r.Limits[0].Unit != "network-operation" || !reflect.DeepEqual(r.Match.Is[sluice.Kind], []string{"operation"}) {
			t.Errorf("%+v", r)
		}
	})
}

// The two blocks that the broker's document prints, line by line; the second one lacks the
// braces of a whole file there.
func TestPrintedBrokerBlocks(t *testing.T) {
	printed := map[string][]string{
		"limits.json": {`"limits": {`, `"storeFile": "./broker-limits.json",`, `"maxRecords": 10000,`, `"retentionMs": 600000,`, `"rules": [`, `{`,
			`"id": "global-call-rate",`, `"rate": { "max": 30, "windowMs": 1000 },`, `"concurrency": 8,`, `"onTimeout": "release"`, `},`, `{`,
			`"id": "calls-per-user",`, `"groupBy": ["subject"],`, `"calls": { "max": 120, "windowMs": 60000 }`, `},`, `{`,
			`"id": "lan-operations",`, `"match": { "provider": "network-discovery" },`,
			`"budget": { "unit": "network-operation", "max": 300, "windowMs": 60000 },`, `"requireReservation": true`, `}`, `]`, `}`},
		"reads-and-writes.json": {
			`"auth": { "providerToolCapabilities": { "/production/site1/scada": { "scada.read": "scada.observe", "scada.write": "scada.control" } } },`,
			`"limits": { "rules": [`,
			`{ "id": "writes-per-operator", "match": { "capability": "scada.control" }, "groupBy": ["subject"], "calls": { "max": 20, "windowMs": 60000 } },`,
			`{ "id": "reads-pace", "match": { "capability": "scada.observe" }, "rate": { "max": 50, "windowMs": 1000 }, "concurrency": 16, "onTimeout": "release" }`,
			`] }`},
	}
	for name, lines := range printed {
		t.Run("C-3 C-4 "+name+" is as it is printed, and loads", func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("../examples/broker", name))
			if err != nil {
				t.Fatal(err)
			}
			if want := "{\n" + strings.Join(lines, "\n") + "\n}\n"; string(data) != want {
				t.Errorf("the file is not what is printed:\n%s", data)
			}
			opens(t, loadExample(t, name))
		})
	}
	t.Run("C-14 both beside each other", func(t *testing.T) {
		c := loadExample(t, "limits.json", "reads-and-writes.json")
		if len(c.MCP.Limits.Rules) != 2 || c.Store.Backend != "file" {
			t.Errorf("%+v, store %s", c.MCP.Limits, c.Store.Backend)
		}
	})
}

func TestBrokerBounds(t *testing.T) {
	rules := func(n int) string {
		var b strings.Builder
		b.WriteString("limits:\n  rules:\n")
		for i := range n {
			fmt.Fprintf(&b, "  - {id: r%d, concurrency: 1}\n", i)
		}
		return b.String()
	}
	long := strings.Repeat("x", 2048)
	for _, c := range []struct{ name, file, problem string }{
		{"C-3 256 rules", rules(256), ""},
		{"C-3 and not one more", rules(257), "mcp.limits.rules: has 257 elements; at most 256 are allowed"},
		{"C-5 an id of 128", "limits: {rules: [{id: " + long[:128] + ", concurrency: 1}]}", ""},
		{"C-5 an id of 129", "limits: {rules: [{id: " + long[:129] + ", concurrency: 1}]}", "rules[0].id"},
		{"C-6 a selector of 2048", "limits: {rules: [{id: a, concurrency: 1, match: {provider: " + long + "}}]}", ""},
		{"C-6 a selector of 2049", "limits: {rules: [{id: a, concurrency: 1, match: {provider: x" + long + "}}]}", "match.provider"},
		{"C-8 a window of a day", "limits: {rules: [{id: a, rate: {max: 1, windowMs: 86400000}}]}", ""},
		{"C-8 the largest exact count", fmt.Sprintf("limits: {rules: [{id: a, calls: {max: %d, windowMs: 1}}]}", int64(limit.MaxCredits)), ""},
		{"C-8 and not one more", fmt.Sprintf("limits: {rules: [{id: a, calls: {max: %d, windowMs: 1}}]}", int64(limit.MaxCredits)+1), "too large to count exactly"},
		{"C-9 a unit of 64", "limits: {rules: [{id: a, budget: {unit: " + long[:64] + ", max: 1, windowMs: 1}}]}", ""},
		{"C-9 a unit of 65", "limits: {rules: [{id: a, budget: {unit: " + long[:65] + ", max: 1, windowMs: 1}}]}", "budget.unit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			loaded, problems := loadFiles(map[string]string{"a.yaml": c.file})
			switch err := problems.Err(); {
			case c.problem == "" && err != nil:
				t.Error(err)
			case c.problem == "":
				opens(t, loaded)
			case err == nil || !strings.Contains(err.Error(), c.problem):
				t.Errorf("%v, want %q", err, c.problem)
			}
		})
	}
}

func TestBrokerSwitch(t *testing.T) {
	limits := func(file string) *MCPLimits { return load(t, map[string]string{"a.yaml": file}).MCP.Limits }
	t.Run("C-16 an empty list of rules is the feature without a rule", func(t *testing.T) {
		for _, file := range []string{"limits: {}", "limits: {rules: []}", "mcp: {limits: {}}", "security: {limits: {rules: []}}"} {
			if l := limits(file); l == nil || len(l.Rules) != 0 {
				t.Errorf("%s: %+v", file, l)
			}
		}
	})
	t.Run("C-16 without the block the feature is off", func(t *testing.T) {
		for _, file := range []string{"mcp: {}", "mcp: {limits: null}"} {
			if l := limits(file); l != nil {
				t.Errorf("%s: %+v", file, l)
			}
		}
	})
	t.Run("C-10 C-11 C-12 C-13 what is not said", func(t *testing.T) {
		l := limits("limits: {rules: [{id: a, concurrency: 1}]}")
		want := MCPLimits{MaxRecords: 10_000, RetentionMs: 86_400_000, StaleLock: "pid-check", OnRulesChange: "migrate",
			Errors: MCPErrors{MCPError{Status: 200}, MCPError{Status: 200}}, Rules: l.Rules}
		if !reflect.DeepEqual(*l, want) {
			t.Errorf("%+v", l)
		}
	})
}

func TestBrokerRules(t *testing.T) {
	c := load(t, map[string]string{"a.yaml": `
limits:
  rules:
    - id: all
      match: {subject: "group:ops", provider: lan, capability: network.active, resource: /site/**}
      group-by: [subject, ip]
      calls: {max: 5, window-ms: 1000}
      rate: {max: 6, windowMs: 2000}
      concurrency: 2
      budget: {unit: op, max: 7, windowMs: 2900, startWithinMs: 100, settle: refund, allowOverrun: true}
      weights: {network.active: 3}
      queue: {depth: 4, timeoutMs: 500, fairBy: subject}
      maxHoldMs: 60000
      shadow: true
    - {id: reads, methods: [resources/read, prompts/get], rate: {max: 1, windowMs: 1}}
    - {id: both, methods: [tools/call, resources/read], rate: {max: 1, windowMs: 1}}
    - {id: tools, methods: tools/call, rate: {max: 1, windowMs: 1}}
`})
	opens(t, c)
	t.Run("C-4 C-22 one rule is of calls, of starts and of operations", func(t *testing.T) {
		for id, want := range map[string][]limit.Limit{
			"all": {limit.Window(5, limit.Second), limit.Slots(2)}, "all:rate": {limit.Window(6, 2*limit.Second)}, "all:budget": {limit.Window(7, 3*limit.Second)},
		} {
			r := rule(t, c, id)
			if got := algorithms(r); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, want %v", id, got, want)
			}
			kind := map[bool]string{true: KindOperation, false: KindTool}[id == "all:budget"]
			match := map[sluice.Dimension][]string{sluice.Kind: {kind}, sluice.Subject: {"group:ops"}, sluice.Provider: {"lan"},
				sluice.Capability: {"network.active"}, sluice.Resource: {"/site/**"}}
			if !reflect.DeepEqual(r.Match.Is, match) || !reflect.DeepEqual(r.GroupBy, []sluice.Dimension{sluice.Subject, sluice.IP}) || !r.Shadow {
				t.Errorf("%s: %+v", id, r)
			}
		}
	})
	t.Run("C-W12 C-W21 C-W30 a line, a longest hold, weights", func(t *testing.T) {
		for _, id := range []string{"all", "all:rate"} {
			r := rule(t, c, id)
			if q := r.Queue; q == nil || *q.Depth != 4 || q.Timeout != 500*time.Millisecond || *q.FairBy != sluice.Subject || r.Weights["network.active"] != 3 {
				t.Errorf("%s: %+v", id, r)
			}
		}
		if r := rule(t, c, "all"); r.MaxHold != time.Minute {
			t.Errorf("%+v", r)
		}
	})
	t.Run("C-W9 C-W10 a budget that comes back, and that may be overrun", func(t *testing.T) {
		if r := rule(t, c, "all:budget"); r.Settle != sluice.Refund || !r.AllowOverrun || r.Queue != nil || r.Weights != nil {
			t.Errorf("%+v", r)
		}
	})
	t.Run("D22 C-38 methods are counted where a rule names them", func(t *testing.T) {
		for id, want := range map[string]map[sluice.Dimension][]string{
			"reads:rate": {sluice.Kind: {KindMethod}, sluice.Method: {"resources/read", "prompts/get"}},
			"both:rate":  {sluice.Kind: {KindTool, KindMethod}, sluice.Method: {"tools/call", "resources/read"}},
			"tools:rate": {sluice.Kind: {KindTool}, sluice.Method: {"tools/call"}},
		} {
			if got := rule(t, c, id).Match.Is; !reflect.DeepEqual(got, want) {
				t.Errorf("%s matches %v, want %v", id, got, want)
			}
		}
	})
}

func TestBrokerSlots(t *testing.T) {
	c := load(t, map[string]string{"etc/a.yaml": `
mcp:
  servers:
    - {slot: files, command: [npx, server, /data], env: {TOKEN: "${T}", PLAIN: x}, dir: work, tool-timeouts: {long: 90000, none: {maxRequestMs: 99000}}}
    - {slot: web, url: "https://h/mcp", headers: {Authorization: "${T}", X-Region: eu}, prefix: ""}
    - {slot: old, url: "http://h/sse", transport: sse, protocol: legacy, requestTimeoutMs: 0}
    - {slot: live, url: "wss://h/mcp", cache: [{tool: read, ttlMs: 5}]}
    - {slot: plant}
`})
	slots := c.MCP.Slots
	t.Run("the transport follows from what is given", func(t *testing.T) {
		for i, want := range []string{"stdio", "streamable-http", "sse", "websocket", ""} {
			if got := slots[i].Transport; got != want {
				t.Errorf("%s: %q, want %q", slots[i].Slot, got, want)
			}
		}
	})
	t.Run("M-008 times are apart, zero is none, absent is another's", func(t *testing.T) {
		if s := slots[0]; s.ConnectTimeoutMs != 10_000 || s.RequestTimeoutMs != nil || s.MaxRequestMs != nil ||
			*s.ToolTimeouts[0].RequestTimeoutMs != 90_000 || s.ToolTimeouts[1].RequestTimeoutMs != nil || *s.ToolTimeouts[1].MaxRequestMs != 99_000 {
			t.Errorf("%+v", s)
		}
		if *slots[2].RequestTimeoutMs != 0 || c.MCP.ProviderRequestTimeoutMs != 60_000 {
			t.Errorf("%+v", slots[2])
		}
	})
	t.Run("secrets by name, plain text in clear, and none of them printed", func(t *testing.T) {
		if v := slots[0].Env[0].Value.Reveal(); v != "value of T" || slots[0].Env[1].Value.Reveal() != "x" || slots[1].Headers[1].Value.Reveal() != "eu" {
			t.Errorf("%q", v)
		}
		if s := fmt.Sprintf("%+v %v", slots[0], slots[1].Headers); strings.Contains(s, "value of T") {
			t.Errorf("it prints the secret: %s", s)
		}
	})
	t.Run("M-018 M-080 M-093 what is not said", func(t *testing.T) {
		s := slots[4]
		want := MCPSlot{Slot: "plant", Protocol: "auto", ConnectTimeoutMs: 10_000, MaxFrameBytes: 16 << 20, Validate: true}
		if !reflect.DeepEqual(s, want) || *slots[1].Prefix != "" || slots[3].Cache[0] != (MCPCache{Tool: "read", TTLMs: 5, Scope: "subject"}) {
			t.Errorf("%+v", s)
		}
	})
	t.Run("C-14 paths begin at the file", func(t *testing.T) {
		if slots[0].Dir != filepath.FromSlash("etc/work") {
			t.Errorf("%q", slots[0].Dir)
		}
	})
}

func TestBrokerDefaults(t *testing.T) {
	m := load(t, map[string]string{"a.yaml": "mcp: {audit: {file: a.log}}"}).MCP
	want := MCP{ProviderRequestTimeoutMs: 60_000, Takeover: "liveness", Aggregate: MCPAggregate{MaxNameLength: 64, ListTimeoutMs: 5000},
		Subjects: MCPSubjects{Group: []string{"groups", "roles"}, Client: "client_id"},
		Sessions: MCPSessions{MaxSessions: 10_000, PerSubject: 256, StartsPerMinute: 600, IdleMs: 1_800_000, MaxAgeMs: 86_400_000}, Audit: &MCPAudit{File: "a.log", MaxBytes: 64 << 20, Keep: 5},
		MaxFrameBytes: 4 << 20, MaxProviderFrameBytes: 16 << 20, CacheBytes: 64 << 20, ShutdownGraceMs: 10_000, ProviderKeepAliveMs: 20_000}
	if !reflect.DeepEqual(*m, want) {
		t.Errorf("M-017 M-048 M-064: %+v", m)
	}
}

func TestBrokerBooks(t *testing.T) {
	store := func(file string) Store { return load(t, map[string]string{"etc/a.yaml": file}).Store }
	t.Run("C-12 C-13 C-14 storeFile is the store of everything", func(t *testing.T) {
		s := store("limits: {storeFile: b.ledger, maxRecords: 7, retentionMs: 5000, staleLock: refuse, onRulesChange: refuse}")
		want := FileStore{Path: filepath.FromSlash("etc/b.ledger"), MaxRecords: 7, Retention: 5 * time.Second, StaleLock: "refuse", OnRulesChange: "refuse"}
		if s.Backend != "file" || *s.File != want {
			t.Errorf("%s %+v", s.Backend, s.File)
		}
	})
	t.Run("C-12 C-13 what the block does not say", func(t *testing.T) {
		want := FileStore{Path: filepath.FromSlash("etc/b.ledger"), MaxRecords: 10_000, Retention: 24 * time.Hour, StaleLock: "pid-check", OnRulesChange: "migrate"}
		if s := store("limits: {storeFile: b.ledger}"); *s.File != want {
			t.Errorf("%+v", s.File)
		}
	})
	t.Run("C-14 the same ledger may be named twice", func(t *testing.T) {
		s := store("store: {backend: file, file: {path: ./b.ledger, maxRecords: 9}}\nlimits: {storeFile: b.ledger, retentionMs: 5000}")
		if s.File.MaxRecords != 9 || s.File.Retention != 5*time.Second {
			t.Errorf("the store's own settings count first: %+v", s.File)
		}
	})
	t.Run("C-12 without a file records are bounded too", func(t *testing.T) {
		if s := store("limits: {}"); s.Backend != "in-memory" || *s.Memory.MaxRecords != 10_000 || s.Memory.Retention != 24*time.Hour {
			t.Errorf("%s %+v", s.Backend, s.Memory)
		}
		if s := store("mcp: {}"); s.Memory.MaxRecords != nil || s.Memory.Retention != time.Hour {
			t.Errorf("%+v", s.Memory)
		}
	})
	t.Run("C-W13 several brokers on one Redis", func(t *testing.T) {
		s := store("store: {backend: redis, redis: {keySecret: '${SECRET_OF_THE_STORE}'}}\nlimits: {retentionMs: 5000}")
		if s.Backend != "redis" || s.File != nil || s.Redis.Retention != 5*time.Second {
			t.Errorf("%+v", s)
		}
	})
}

func TestResourceLimits(t *testing.T) {
	c := load(t, map[string]string{"a.yaml": `
auth:
  resourceLimits:
    - {id: pumps, pattern: "/site/{unit}/pump", where: {unit: "u[0-9]+"}, limits: {minValue: 0, maxValue: 1500.5, allowedValues: [1, on, null], destinations: [plc]}}
`})
	l := c.MCP.Auth.ResourceLimits[0]
	if l.Where[0] != (Expression{"unit", "u[0-9]+"}) || l.Limits.MinValue.Value != int64(0) || l.Limits.MaxValue.Value != 1500.5 ||
		!reflect.DeepEqual(l.Limits.AllowedValues.Value, []any{int64(1), "on", nil}) || l.Limits.Destinations[0] != "plc" {
		t.Errorf("C-W26: %+v", l)
	}
}

func TestQuickStart(t *testing.T) {
	c := loadExample(t, "quickstart.yaml")
	if len(c.MCP.Slots) != 1 || len(c.MCP.Providers) != 1 || c.MCP.Providers[0].ID != "discovery" || c.Store.Backend != "file" {
		t.Errorf("one program, one provider that dials in, one ledger: %+v", c.MCP)
	}
	opens(t, c)
}

func TestOAuth(t *testing.T) {
	c := load(t, map[string]string{"a.yaml": `
identity: {jwt: [{issuer: "https://id.example/", jwks: keys.json, audience: ["https://mcp.example/files/mcp"]}]}
mcp: {oauth: {resource: "https://mcp.example", authorizationServers: ["https://id.example"], scopes: [tools]}}
`})
	if o := c.MCP.OAuth; o.Resource != "https://mcp.example" || o.AuthorizationServers[0] != "https://id.example" || o.Scopes[0] != "tools" {
		t.Errorf("%+v", o)
	}
}

// TestBrokerAllows loads what is just within what is refused by testdata/mcp-*.bad.yaml.
func TestBrokerAllows(t *testing.T) {
	for name, file := range map[string]string{
		"D12 the codes that are meant anyway":       "limits: {errors: {legacy: {code: -32029, status: 429}, modern: {code: 429}}}",
		"M-106 a code just outside what is kept":    "limits: {errors: {modern: {code: -32100}, legacy: {code: -32099}}}",
		"progress that extends nothing":             "mcp: {slots: [{slot: a, requestTimeoutMs: 500, maxRequestMs: 500}]}",
		"C-W26 one value":                           "auth: {resourceLimits: [{id: a, pattern: /x, limits: {minValue: 5, maxValue: 5}}]}",
		"M-114 anonymous providers on this machine": "listen: {mcp: '127.0.0.1:1'}\nmcp: {anonymousProviders: true}",
		"M-080 prefixes that begin alike":           "mcp: {slots: [{slot: a, prefix: x}, {slot: b, prefix: x-}, {slot: c, prefix: ''}]}",
		"a result as large as a message":            "mcp: {slots: [{slot: a, command: [x], maxFrameBytes: 4096, maxResultBytes: 4096}]}",
	} {
		t.Run(name, func(t *testing.T) {
			if _, problems := loadFiles(map[string]string{"a.yaml": file}); len(problems) > 0 {
				t.Errorf("%v", problems)
			}
		})
	}
}
