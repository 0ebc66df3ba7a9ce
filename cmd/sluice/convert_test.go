package main

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/gate/cost"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/wire"
)

// everything gives each key a value that is not its default.
const everything = `
listen: {gate: "127.0.0.1:0"}
identity:
  clientIp: {header: Forwarded, trustedProxies: [10.0.0.0/8], ipv4Prefix: 24, ipv6Prefix: 56, nat64Prefixes: ["64:ff9b::/96"], trustUnix: true}
  apiKeys: {headers: [X-Key, X-Other], bearer: false, secret: "${SECRET}", unverified: accept}
  jwt:
    - {issuer: "https://a.example", name: a, audience: [x], algorithms: [ES384], jwks: "https://a.example/keys", subjectClaim: uid,
       tenantClaim: org, tierClaim: plan, rolesClaim: scope, roles: {boss: gold}, leeway: 5s}
  tenant: {header: X-Org, from: anyone, tier: gold}
  authFailures: {distinct: true}
defaultTier: gold
anonymousTier: gold
tiers: {gold: 90/min burst 7}
endpoints:
  - {id: batch, path: /batch, methods: [POST], hosts: [api.example], limit: 30/min burst 5, headers: {families: draft-7, when: near, upstream: min},
     cost: {calls: 2, extractor: json-rpc-calls, pointer: /arguments/calls, class: /tool, methods: {ping: 0, search: 3}, max: 9, onOversize: refuse}}
excludedPaths: [/free]
upstreams:
  - {name: app, url: "http://127.0.0.1:1", paths: [/**], hosts: [api.example], preserveHost: true, connectTimeout: 1s, responseTimeout: 2s,
     idleTimeout: 3s, maxConnections: 4, caFile: ca.pem}
mcpPaths: [{path: /mcp, jsonRpcCode: -32000, status: 429}]
paths: {encodedSlash: reject, caseInsensitive: true, unclean: reject, forward: canonical}
bounds: {headerBytes: 2048, bodyBytes: 10, inspectBytes: 20, headerTimeout: 1s, bodyTimeout: 2s, idleTimeout: 3s, connectionsPerIp: 5, concurrentStreams: 6}
headers: {families: off, when: refused, upstream: keep}
problem: {type: "https://problems.example/limit"}
cors: {origins: ["https://app.example"], expose: [Retry-After]}
streams: {closeOverLimit: true, wsRefusal: accept-then-close, sseRefusal: retry, maxDuration: 1h, sse: {maxDuration: 1m}, websocket: {maxDuration: 2h}}
methodOverride: honour
tls: {certFile: c.pem, keyFile: k.pem, clientCaFile: a.pem, minVersion: "1.3"}
`

// secretOfTests is what ${SECRET} is.
const secretOfTests = "0123456789abcdefghijklmnopqrstuv"

// loadText loads a file with that text. More variables may follow, name and value in turn.
func loadText(t *testing.T, text string, variables ...string) (c *config.Config, dir string) {
	t.Helper()
	for i := 0; i < len(variables); i += 2 {
		t.Setenv(variables[i], variables[i+1])
	}
	t.Setenv("SECRET", secretOfTests)
	dir = t.TempDir()
	path := filepath.Join(dir, "sluice.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, problems := config.Load([]string{path}, config.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return c, dir
}

func TestGateOptions(t *testing.T) {
	c, dir := loadText(t, everything)
	got, err := gateOptions(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	got.Logger, got.Identity.Logger = nil, nil
	want := gate.Options{
		DistinctFailures: true,
		ClientIP: gate.ClientIP{
			Header: "Forwarded", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, TrustUnix: true,
			IPv4Prefix: 24, IPv6Prefix: 56, NAT64: []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96")},
		},
		Identity: identity.Options{
			KeyHeaders: []string{"X-Key", "X-Other"}, NoBearer: true, Unverified: identity.Accept,
			Issuers: []identity.Issuer{{
				Issuer: "https://a.example", Name: "a", Audience: []string{"x"}, Algorithms: []string{"ES384"}, JWKS: "https://a.example/keys",
				Leeway: 5 * time.Second, SubjectClaim: "uid", TierClaim: "plan", RolesClaim: "scope", TenantClaim: "org",
				RoleTiers: []identity.RoleTier{{Role: "boss", Tier: "gold"}},
			}},
			Tenant:      identity.Tenant{Header: "X-Org", From: identity.FromAnyone, Tier: "gold"},
			DefaultTier: "gold", Tiers: []string{"gold"}, Secret: []byte("0123456789abcdefghijklmnopqrstuv"),
		},
		AnonymousTier: "gold",
		Paths:         gate.Paths{EncodedSlash: gate.SlashRefused, FoldCase: true, RefuseUnclean: true, ForwardCanonical: true},
		Endpoints: []gate.Endpoint{{
			ID: "batch", Pattern: "/batch", Methods: []string{"POST"}, Hosts: []string{"api.example"},
			Cost: cost.Options{
				Calls: new(int64(2)), Extractor: cost.JSONRPC, Pointer: "/arguments/calls", Class: "/tool", Methods: map[string]int64{"ping": 0, "search": 3},
				Max: 9, Inspect: 20, RefuseOversize: true,
			},
			Headers: &gate.Headers{Families: []wire.Family{wire.Draft7}, When: wire.Near, Merge: gate.Least},
		}},
		Excluded: []string{"/free"},
		MCP:      []gate.MCP{{Pattern: "/mcp", Code: -32000, Status: 429}},
		Bounds: gate.Bounds{
			HeaderBytes: 2048, BodyBytes: new(int64(10)), HeaderTimeout: time.Second, BodyTimeout: 2 * time.Second,
			IdleTimeout: 3 * time.Second, ConnectionsPerIP: 5, ConcurrentStreams: 6,
		},
		Headers: gate.Headers{Families: []wire.Family{}, When: wire.Refused, Merge: gate.Keep},
		Problem: wire.Problem{Type: "https://problems.example/limit"},
		CORS:    wire.CORS{Origins: []string{"https://app.example"}, Expose: []string{"Retry-After"}},
		Streams: gate.Streams{
			SSE: gate.Stream{MaxDuration: time.Minute}, MCP: gate.Stream{MaxDuration: time.Hour}, WebSocket: gate.Stream{MaxDuration: time.Hour},
			CloseOverLimit: true, AcceptThenClose: true, RetryEvents: true,
		},
		MethodOverride: gate.HonourOverride,
		Upstreams: []upstream.Options{{
			Name: "app", URL: "http://127.0.0.1:1", Paths: []string{"/**"}, Hosts: []string{"api.example"}, PreserveHost: true,
			ConnectTimeout: time.Second, ResponseTimeout: 2 * time.Second, IdleTimeout: 3 * time.Second, MaxConnections: 4, CAFile: filepath.Join(dir, "ca.pem"),
		}},
	}
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if name := g.Type().Field(i).Name; !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			t.Errorf("%s is\n%+v, want\n%+v", name, g.Field(i).Interface(), w.Field(i).Interface())
		}
	}
	if got, want := tlsOptions(&c.TLS), (gate.TLS{
		CertFile: filepath.Join(dir, "c.pem"), KeyFile: filepath.Join(dir, "k.pem"), ClientCAFile: filepath.Join(dir, "a.pem"), MinVersion: tls.VersionTLS13,
	}); got != want {
		t.Errorf("TLS is %+v, want %+v", got, want)
	}
}

func TestMethodsOfACost(t *testing.T) {
	for text, want := range map[string]map[string]int64{
		"json-rpc-calls":                          nil, // the housekeeping of MCP is free
		"json-rpc-calls, methods: {}":             {},
		"json-rpc-calls, methods: {ping: {n: 2}}": {"ping": 2},
	} {
		c, _ := loadText(t, "endpoints: [{path: /mcp, limit: 1/s, cost: {extractor: "+text+"}}]")
		if got := costOptions(&c.Endpoints[0].Cost, &c.Bounds).Methods; !reflect.DeepEqual(got, want) {
			t.Errorf("of %q methods are %#v, want %#v", text, got, want)
		}
	}
}

func TestAdminTokens(t *testing.T) {
	const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" // of "test"
	operator, reader := admin.NewToken("admin", "0123456789abcdefghijklmnopqrstuv", admin.Operator), admin.NewToken("reader", "test", admin.Reader)
	for text, want := range map[string][]admin.Token{
		"{}":                     nil,
		"{token: \"${SECRET}\"}": {operator},
		"{token: \"${SECRET}\", readerTokenSha256: " + digest + "}": {operator, reader},
		"{readerTokenSha256: " + digest + "}":                       {reader},
	} {
		c, _ := loadText(t, "admin: "+text)
		if got, err := adminTokens(&c.Admin); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("of %s the tokens are %v, %v", text, got, err)
		}
	}
}

func TestSummary(t *testing.T) {
	c, _ := loadText(t, everything)
	want := admin.Summary{
		Enabled: true, DefaultTier: "gold",
		Tiers:     map[string]admin.Tier{"gold": {RequestsPerSecond: 1.5, BurstCapacity: 7}},
		Endpoints: []admin.Endpoint{{PathPattern: "/batch", RequestsPerMinute: 30, BurstCapacity: 5}},
	}
	if got := summary(c); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestFilesIn: a file that a configuration names is watched as the configuration is.
func TestFilesIn(t *testing.T) {
	c, dir := loadText(t, everything)
	var want []string
	for _, name := range []string{"c.pem", "k.pem", "a.pem", "ca.pem"} {
		want = append(want, filepath.Join(dir, name))
	}
	if got := filesIn(c); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheADRsProblemComesWithItsInstance(t *testing.T) {
	if problemOptions(wire.Spector().Type).Instance == nil {
		t.Error("D11: the ADR's type has no instance")
	}
}
