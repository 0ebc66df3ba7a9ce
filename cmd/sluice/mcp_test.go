package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp"
	mcpfront "github.com/sluicegate/sluice/mcp/front"
	"github.com/sluicegate/sluice/mcp/link/child"
	"github.com/sluicegate/sluice/mcp/link/httplink"
	"github.com/sluicegate/sluice/mcp/link/socket"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// wholeBroker gives each key of the broker a value that is not its default.
const wholeBroker = `
listen: {mcp: "127.0.0.1:0"}
store: {backend: file, file: {path: ledger}}
identity: {jwt: [{issuer: "https://id.example", jwks: keys.json, audience: ["https://mcp.example"]}]}
mcp:
  providerRequestTimeoutMs: 7000
  slots:
    - {slot: files, command: [server, -x], env: {TOKEN: "${SECRET}", MODE: ro}, dir: work, sweep: [rm, x], logErrors: true, exitProvesStop: true,
       protocol: legacy, connectTimeoutMs: 1000, requestTimeoutMs: 0, maxFrameBytes: 2048, maxResultBytes: 1024, tools: [a, b], prefix: "",
       validate: false, cache: [{tool: a, ttlMs: 5, scope: shared, writes: true}]}
    - {slot: web, url: "https://h.example/mcp", headers: {Authorization: "${SECRET}"}, maxRequestMs: 9000,
       toolTimeouts: {export: 8000, import: {maxRequestMs: 99000}}}
    - {slot: old, url: "http://h.example/sse", transport: sse}
    - {slot: live, url: "wss://h.example/mcp"}
    - {slot: plant}
  takeover: always
  aggregate: {maxNameLength: 60, listTimeoutMs: 700}
  allowedOrigins: ["https://app.example"]
  allowedHosts: [mcp.local]
  oauth: {resource: "https://mcp.example", authorizationServers: ["https://id.example"], scopes: [tools]}
  maxFrameBytes: 4096
  cacheBytes: 8192
  sessions: {maxSessions: 5, perSubject: 4, startsPerMinute: 3, idleMs: 2000, maxAgeMs: 9000}
  shutdownGraceMs: 1500
limits:
  errors: {legacy: {code: -31000, status: 429}, modern: {code: 4290}}
  rules:
    - {id: one, concurrency: 1, onCancel: forward-and-hold, maxHoldMs: 5, methods: [tools/call, prompts/get]}
    - {id: two, match: {subject: "user:a", provider: plant, capability: c, resource: /x/**}, budget: {unit: op, max: 1, windowMs: 1, startWithinMs: 250}, requireReservation: true}
    - {id: three, budget: {unit: op, max: 1, windowMs: 1}, requireReservation: true, shadow: true}
bounds: {bodyTimeout: 9s}
`

func TestBrokerOptions(t *testing.T) {
	c, dir := loadText(t, wholeBroker)
	log := slog.New(slog.DiscardHandler)
	o, err := brokerOptions(c, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("M-008 M-018 M-096 slots", func(t *testing.T) {
		marks := map[string]bool{}
		for i := range o.Slots {
			marks[o.Slots[i].Mark] = true
			o.Slots[i].Mark = ""
		}
		if len(marks) != len(o.Slots) {
			t.Error("two slots have one mark")
		}
		want := []mcp.Slot{
			{Name: "files", Protocol: "legacy", ConnectTimeout: time.Second, ExitProvesStop: true, MaxResult: 1024, NoValidation: true, Prefix: new(""), Tools: []string{"a", "b"},
				Cache: []mcp.CacheRule{{Tool: "a", TTL: 5 * time.Millisecond, Shared: true, Writes: true}},
				Dialer: &child.Command{Path: "server", Args: []string{"-x"}, Dir: filepath.Join(dir, "work"), Env: map[string]string{"TOKEN": secretOfTests, "MODE": "ro"},
					MaxFrame: 2048, Sweep: []string{"rm", "x"}, Log: log.With("slot", "files")}},
			{Name: "web", Protocol: "auto", ConnectTimeout: 10 * time.Second, RequestTimeout: 7 * time.Second, MaxRequest: 9 * time.Second, MaxResult: 16 << 20,
				ToolTimeouts: map[string]mcp.ToolTimeout{"export": {Request: 8 * time.Second, MaxRequest: 9 * time.Second}, "import": {Request: 7 * time.Second, MaxRequest: 99 * time.Second}},
				Dialer:       &httplink.Server{URL: "https://h.example/mcp", Header: http.Header{"Authorization": {secretOfTests}}, MaxFrame: 16 << 20}},
			{Name: "old", Protocol: "auto", ConnectTimeout: 10 * time.Second, RequestTimeout: 7 * time.Second, MaxResult: 16 << 20,
				Dialer: &httplink.Server{URL: "http://h.example/sse", SSE: true, Header: http.Header{}, MaxFrame: 16 << 20}},
			{Name: "live", Protocol: "auto", ConnectTimeout: 10 * time.Second, RequestTimeout: 7 * time.Second, MaxResult: 16 << 20,
				Dialer: &socket.Server{URL: "wss://h.example/mcp", Header: http.Header{}, MaxFrame: 16 << 20}},
			{Name: "plant", Protocol: "auto", ConnectTimeout: 10 * time.Second, RequestTimeout: 7 * time.Second, MaxResult: 16 << 20},
		}
		for i := range want {
			if !reflect.DeepEqual(o.Slots[i], want[i]) {
				t.Errorf("%+v\nwant %+v", o.Slots[i], want[i])
			}
		}
	})
	t.Run("C-30 M-012 D22 what rules say to the broker", func(t *testing.T) {
		requirements := []mcp.Requirement{{Rule: "two", Unit: "op", Subject: "user:a", Provider: "plant", Capability: "c", Resource: "/x/**"}}
		if !reflect.DeepEqual(o.Requirements, requirements) || !reflect.DeepEqual(o.Order, []string{"one", "two", "three"}) ||
			!reflect.DeepEqual(o.ForwardCancel, []string{"one"}) || !reflect.DeepEqual(o.StartWithin, map[string]time.Duration{"two": 250 * time.Millisecond}) || !o.Methods || !o.Limits {
			t.Errorf("%+v", o)
		}
	})
	t.Run("D12 how refusals look", func(t *testing.T) {
		for version, want := range map[string][2]int64{protocol.V20251125: {-31000, 429}, protocol.V20260728: {4290, 200}} {
			e, status := o.Table.Error(protocol.Refused, version, "", nil)
			if e.Code != want[0] || int64(status) != want[1] {
				t.Errorf("%s: %d, HTTP %d", version, e.Code, status)
			}
		}
	})
	t.Run("C 4.2.1 M-017 the rest", func(t *testing.T) {
		if o.Takeover != mcp.TakeoverAlways || o.MaxName != 60 || o.ListTimeout != 700*time.Millisecond || o.CacheBytes != 8192 || o.DialledTimeout != 7*time.Second || o.Grace != 1500*time.Millisecond || !o.Durable {
			t.Errorf("%+v", o)
		}
	})
	t.Run("M-048 M-070 the door", func(t *testing.T) {
		f := mcpfront.Options{NeedToken: true, Origins: []string{"https://app.example"}, Hosts: []string{"mcp.local"}, Logger: log,
			Resource: mcpfront.Resource{URL: "https://mcp.example", AuthorizationServers: []string{"https://id.example"}, Scopes: []string{"tools"}},
			Bounds:   mcpfront.Bounds{Sessions: 5, SessionsPerCaller: 4, StartsPerMinute: 3, SessionIdle: 2 * time.Second, SessionAge: 9 * time.Second, BodyTimeout: 9 * time.Second}}
		f.Bounds.Frame.MaxBytes = 4096
		if got := frontOptions(c, log); !reflect.DeepEqual(got, f) {
			t.Errorf("%+v", got)
		}
	})
}

func TestBrokerOptionsWithout(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	t.Run("an address nobody starts anything", func(t *testing.T) {
		c, _ := loadText(t, "mcp: {slots: [{slot: a, command: [x]}]}")
		if o, err := brokerOptions(c, log); err != nil || o.Slots != nil || o.Durable {
			t.Errorf("%+v %v", o, err)
		}
	})
	t.Run("C-16 without a block, and with an empty one", func(t *testing.T) {
		for text, want := range map[string]bool{"mcp: {}": false, "limits: {}": true, "limits: {}\nenabled: false": false} {
			c, _ := loadText(t, text)
			if o, err := brokerOptions(c, log); err != nil || o.Limits != want || o.Methods {
				t.Errorf("%s: %+v %v", text, o, err)
			}
		}
	})
	t.Run("D22 a rule by hand may count methods too", func(t *testing.T) {
		c, _ := loadText(t, "mcp: {}\nrules: [{id: r, match: {kind: method}, slots: 1}]")
		if o, err := brokerOptions(c, log); err != nil || !o.Methods {
			t.Errorf("%+v %v", o, err)
		}
	})
}

// TestBrokerPolicy compiles the security file of the third document with the limits of
// resources that its authors proposed.
func TestBrokerPolicy(t *testing.T) {
	c, _ := loadText(t, `
providers: [{id: scada, secretEnv: SECRET, subjects: ["service:scada"], allowedResources: [/site/**]}, {id: other, secretEnv: OTHER}]
mcp: {providerSecret: "${SHARED}"}
auth:
  slotResources: {plant: /site/plant}
  toolCapabilities: {read: plant.observe}
  providerToolCapabilities: {/site/plant: {write: plant.control}}
  roles: {viewer: {capabilities: [plant.observe]}, operator: {capabilities: [plant.control], inherits: [viewer]}}
  assignments: [{id: ops, subject: "group:ops", role: operator, resource: /site/**}]
  denies: [{id: no, subject: "user:mallory", capabilities: ["*"], resource: /**}]
  protectedSlots: {guarded: {declaredBy: scada, publishedBy: other}}
  resourceLimits: [{id: pumps, pattern: "/site/{unit}/pump", where: {unit: "u[0-9]+"}, limits: {minValue: 0, maxValue: 1500.5, allowedValues: [1, on, null], destinations: [plc]}}]
`, "SHARED", "shared-shared-shared", "OTHER", "other-other-other-other")
	p, err := mcpPolicy(c, secretOfEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	alice, mallory := policy.NewCaller("user:alice", "group:ops"), policy.NewCaller("user:mallory", "group:ops")
	for _, q := range []struct {
		who          *policy.Caller
		tool         string
		allowed      bool
		by, required string
	}{{alice, "write", true, "ops", "plant.control"}, {alice, "read", true, "ops", "plant.observe"}, {mallory, "read", false, "no", "plant.observe"}, {nil, "read", false, "", "plant.observe"}} {
		if d := p.May(q.who, "plant", toolsCall, q.tool); d.Allowed != q.allowed || d.Policy != q.by || d.Capability != q.required || d.Resource != "/site/plant" {
			t.Errorf("4.2.8 4.2.9 %s: %+v", q.tool, d)
		}
	}
	for secret, id := range map[string]string{secretOfTests: "scada", "other-other-other-other": "other", "shared-shared-shared": "shared-secret"} {
		if who, err := p.Authenticate(http.Header{"X-Provider-Token": {secret}}); err != nil || who.ID != id {
			t.Errorf("4.2.10 %s: %+v %v", id, who, err)
		}
	}
	if p.Reachable(alice, "guarded") || !p.Reachable(policy.NewCaller("service:scada"), "guarded") || p.MayServe(p.Principal("scada"), "guarded") {
		t.Error("the protected slot is open")
	}
}

// brokerFor makes the program of a file, which serves nobody.
func brokerFor(t *testing.T, text string) *mcpServer {
	t.Helper()
	at, err := filepath.Abs(examples)
	if err != nil {
		t.Fatal(err)
	}
	_, dir := loadText(t, fmt.Sprintf(text, at))
	p := &program{source: source{files: []string{filepath.Join(dir, "sluice.yaml")}}, streams: streams{&bytes.Buffer{}, &bytes.Buffer{}}}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p.broker
}

const knownCallers = `
identity:
  apiKeys: {file: %[1]s/local.keys, secret: "file:%[1]s/local.key-secret"}
  jwt: [{issuer: "https://issuer.example", audience: sluice, jwks: %[1]s/local.jwks.json, tenantClaim: sub}]
  authFailures: 3/h
  preAuth: 8/h burst 8
tiers: {anonymous: 1/s, standard: 1/s, premium: 1/s}
providers: [{id: scada, secretEnv: SECRET}]
`

// visit is a request from an address with headers "Name: value".
func visit(address string, headers ...string) *http.Request {
	r := httptest.NewRequest("POST", "/demo/mcp", nil)
	r.RemoteAddr = address + ":1234"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

func TestWhoCallsTheBroker(t *testing.T) {
	s := brokerFor(t, knownCallers)
	t.Run("4.2.5 a token gives all its subjects, whatever headers say", func(t *testing.T) {
		who, err := s.identify(visit("203.0.113.1", "Authorization: Bearer "+token(t, "ops"), "X-Tenant-ID: forged"))
		if err != nil || !reflect.DeepEqual(who, &policy.Caller{Subjects: []string{"group:ops", "user:alice"}, Tenant: "tenant:alice", Tier: "standard", IP: "ip:203.0.113.1", Verified: true}) {
			t.Errorf("%+v %v", who, err)
		}
	})
	t.Run("C-20 an API key is a client, so that each has limits of its own", func(t *testing.T) {
		who, err := s.identify(visit("203.0.113.1", "X-API-Key: "+key(t, "try-premium")))
		if err != nil || !strings.HasPrefix(who.Identity(), "client:apikey:") || who.Tier != "premium" || !who.Verified {
			t.Errorf("%+v %v", who, err)
		}
	})
	t.Run("C-W25 nobody is anonymous, and told apart by address", func(t *testing.T) {
		who, err := s.identify(visit("203.0.113.1"))
		if err != nil || who.Identity() != policy.Anonymous || who.IP != "ip:203.0.113.1" || who.Verified || who.Tier != "anonymous" {
			t.Errorf("%+v %v", who, err)
		}
	})
	t.Run("D9 a bad credential is nobody's, and guessing ends", func(t *testing.T) {
		for i := range 5 {
			who, err := s.identify(visit("203.0.113.2", "X-API-Key: slk_guess"))
			f, tooMany := errors.AsType[*mcpfront.Failure](err)
			if who != nil || err == nil || tooMany != (i >= 3) || tooMany && (f.Status != 429 || f.RetryAfter <= 0) || strings.Contains(err.Error(), "slk_") {
				t.Errorf("guess %d: %+v %v", i, who, err)
			}
		}
		if _, err := s.identify(visit("203.0.113.2", "X-API-Key: "+key(t, "try-premium"))); err == nil {
			t.Error("I-022 the address learns that this one is good")
		}
	})
	t.Run("D9 the limit of an address comes before its credential", func(t *testing.T) {
		for i := range 10 {
			_, err := s.identify(visit("203.0.113.3", "X-API-Key: "+key(t, "try-premium")))
			if (err == nil) != (i < 8) {
				t.Errorf("request %d: %v", i, err)
			}
		}
	})
}

func TestWhoDialsIn(t *testing.T) {
	const in, unknown = 101, 401
	dial := func(s *mcpServer, address string, headers ...string) (status int) {
		_, err := s.admit(visit(address, headers...))
		refused, ok := errors.AsType[*socket.Refused](err)
		switch {
		case err == nil:
			return in
		case ok:
			return refused.Status
		}
		return unknown
	}
	s := brokerFor(t, knownCallers)
	t.Run("4.2.10 with its secret", func(t *testing.T) {
		for _, h := range []string{"X-Provider-Token: " + secretOfTests, "Authorization: Bearer " + secretOfTests} {
			if got := dial(s, "203.0.113.4", h); got != in {
				t.Errorf("%d", got)
			}
		}
	})
	t.Run("M-114 who guesses is held up, with a good secret too", func(t *testing.T) {
		for i, want := range []int{unknown, unknown, unknown, 429} {
			if got := dial(s, "203.0.113.5", "X-Provider-Token: guess"); got != want {
				t.Errorf("guess %d: %d, want %d", i, got, want)
			}
		}
		if got := dial(s, "203.0.113.5", "X-Provider-Token: "+secretOfTests); got != 429 {
			t.Errorf("%d", got)
		}
	})
	for name, c := range map[string]struct {
		more string
		want int
	}{"M-114 nobody where no provider is named": {"mcp: {}", 404}, "unless that is asked for": {"mcp: {anonymousProviders: true}", in}} {
		t.Run(name, func(t *testing.T) {
			if got := dial(brokerFor(t, "# %s\n"+c.more), "203.0.113.6"); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// TestMarks says which changes of a slot start or call its provider anew.
func TestMarks(t *testing.T) {
	mark := func(slot string) string {
		t.Helper()
		c, _ := loadText(t, "listen: {mcp: ':0'}\nmcp: {slots: [{slot: a, "+slot+"}]}", "OTHER", "another secret")
		o, err := brokerOptions(c, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return o.Slots[0].Mark
	}
	const program, server = "command: [x, y], env: {A: '${SECRET}'}", "url: 'http://h', headers: {A: '${SECRET}'}"
	for _, c := range []struct {
		before, after string
		anew          bool
	}{
		{program, "command: [x, z], env: {A: '${SECRET}'}", true},
		{program, "command: [x, y], env: {A: '${OTHER}'}", true},
		{program, program + ", dir: d", true},
		{program, program + ", protocol: legacy", true},
		{program, program + ", maxFrameBytes: 4096", true},
		{program, program + ", sweep: [x]", true},
		{program, program + ", logErrors: true", true},
		{program, program + ", requestTimeoutMs: 5, connectTimeoutMs: 5, tools: [t], prefix: p, validate: false, exitProvesStop: true", false},
		{server, "url: 'http://i', headers: {A: '${SECRET}'}", true},
		{server, "url: 'http://h', headers: {A: '${OTHER}'}", true},
		{server, server + ", transport: sse", true},
		{server, server + ", maxResultBytes: 5, cache: [{tool: t, ttlMs: 5}], toolTimeouts: {t: 5}", false},
	} {
		if anew := mark(c.before) != mark(c.after); anew != c.anew {
			t.Errorf("{%s} to {%s}: anew is %v", c.before, c.after, anew)
		}
	}
	if strings.Contains(mark(program), secretOfTests) {
		t.Error("a mark shows a secret")
	}
}
