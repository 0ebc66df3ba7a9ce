package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// load reads files given as "name: content" and fails the test on an error.
func load(t *testing.T, files map[string]string, set ...string) *Config {
	t.Helper()
	c, problems := loadFiles(files, set...)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

func loadFiles(files map[string]string, set ...string) (*Config, Problems) {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return Load(names, Options{
		Set: set,
		Env: func(name string) (string, bool) { return "value of " + name, name != "UNSET" },
		ReadFile: func(path string) ([]byte, error) {
			text, ok := files[path]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
			}
			return []byte(text), nil
		},
	})
}

func rule(t *testing.T, c *Config, id string) sluice.Rule {
	t.Helper()
	for _, r := range c.Policy().Rules {
		if r.ID == id {
			return r
		}
	}
	t.Fatalf("there is no rule %q", id)
	return sluice.Rule{}
}

// algorithms returns the limits of a rule without names and units.
func algorithms(r sluice.Rule) []limit.Limit {
	var out []limit.Limit
	for _, l := range r.Limits {
		out = append(out, l.Limit)
	}
	return out
}

func TestGoodFilesLoad(t *testing.T) {
	for _, path := range goodFiles(t) {
		t.Run(path, func(t *testing.T) {
			paths := []string{path}
			if filepath.Base(path) == "local.yaml" || filepath.Base(path) == "spector-prose.yaml" {
				paths = []string{"../examples/spector.yaml", path}
			}
			c, problems := Load(paths, Options{Env: func(name string) (string, bool) { return "value of " + name, true }})
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			for _, p := range problems {
				if p.Code != WarnUnserved && p.Code != WarnDepth {
					t.Errorf("an unexpected warning: %v", p)
				}
			}
			for _, r := range c.Policy().Rules {
				if r.Source == "" {
					t.Errorf("rule %s has no source", r.ID)
				}
			}
			opens(t, c)
		})
	}
}

// opens fails the test if the engine does not take the policy: whatever the engine
// refuses must have been refused here, with a place.
func opens(t *testing.T, c *Config) {
	t.Helper()
	controller, err := sluice.Open(c.Policy(), memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		t.Fatalf("the engine refuses the policy: %v", err)
	}
	if err := controller.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestADRBlock(t *testing.T) {
	c, problems := Load([]string{"../examples/spector.yaml"}, Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	t.Run("B 3.7 the block is the one that is printed", func(t *testing.T) {
		data, err := os.ReadFile("../examples/spector.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"spector:", "  resilience:", "    rate-limiting:", "      backend: in-memory # [in-memory, redis, hazelcast]",
			"        uri: redis://localhost:6379/0", "        - path-pattern: \"/api/v1/memory/consolidate\"", "        default-throttle-period-ms: 60000"} {
			if !strings.Contains(string(data), "\n"+line+"\n") {
				t.Errorf("the line %q is missing", line)
			}
		}
	})
	t.Run("B-8 tiers", func(t *testing.T) {
		for name, want := range map[string]limit.Limit{
			"anonymous": limit.Bucket(10, limit.Second, 20), "standard": limit.Bucket(100, limit.Second, 200),
			"premium": limit.Bucket(500, limit.Second, 1000), "system": limit.Bucket(2000, limit.Second, 5000),
		} {
			r := rule(t, c, "tier-"+name)
			if got := algorithms(r); !reflect.DeepEqual(got, []limit.Limit{want}) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
			if want := (sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {"http"}, sluice.Tier: {name}}}); !reflect.DeepEqual(r.Match, want) {
				t.Errorf("%s matches %v", name, r.Match)
			}
			if !reflect.DeepEqual(r.GroupBy, []sluice.Dimension{sluice.Subject}) || r.Queue != nil || r.OnStoreError != sluice.FailClosed {
				t.Errorf("%s: %+v", name, r)
			}
		}
	})
	t.Run("B-9 an unknown tier is the default one", func(t *testing.T) {
		if tier, ok := c.Tier("gold"); !ok || tier.Name != "standard" {
			t.Errorf("%v %v", tier, ok)
		}
	})
	t.Run("B-69 B-70 the block's numbers", func(t *testing.T) {
		for id, want := range map[string]limit.Limit{
			"endpoint-api-v1-auth-any":           limit.Bucket(30, limit.Minute, 10),
			"endpoint-api-v1-memory-consolidate": limit.Bucket(20, limit.Minute, 5),
		} {
			if got := algorithms(rule(t, c, id)); !reflect.DeepEqual(got, []limit.Limit{want}) {
				t.Errorf("%s: %v, want %v", id, got, want)
			}
		}
	})
	t.Run("B-71 bypasses are there without being written", func(t *testing.T) {
		if want := []string{"/actuator/health/**", "/actuator/info", "/index.html", "/assets/**"}; !slices.Equal(c.ExcludedPaths, want) {
			t.Errorf("%v", c.ExcludedPaths)
		}
	})
}

func TestADRBlockOutbound(t *testing.T) {
	c, problems := Load([]string{"../examples/spector.yaml"}, Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	t.Run("B-24 providers", func(t *testing.T) {
		r := rule(t, c, "llm-anthropic")
		want := []limit.Limit{limit.Bucket(300, limit.Minute, 300), limit.Bucket(150_000, limit.Minute, 150_000), limit.Slots(15)}
		if got := algorithms(r); !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if r.Limits[1].Unit != sluice.Tokens || r.Queue == nil || r.Queue.Timeout != 5*time.Second || r.Settle != sluice.Refund {
			t.Errorf("%+v", r)
		}
	})
	t.Run("L-016 B-W18 any minute, or a burst of one's own", func(t *testing.T) {
		c := load(t, map[string]string{"a.yaml": "llm: {providers: {a: {tpm: 100, rpm: 9, anyMinute: true}, b: {rpm: 60, requestsBurst: 5}}}"})
		half := limit.Minute + 500*limit.Millisecond
		if got := algorithms(rule(t, c, "llm-a")); !reflect.DeepEqual(got, []limit.Limit{limit.Window(9, half), limit.Window(100, half)}) {
			t.Errorf("%v", got)
		}
		if got := algorithms(rule(t, c, "llm-b")); !reflect.DeepEqual(got, []limit.Limit{limit.Bucket(60, limit.Minute, 5)}) {
			t.Errorf("%v", got)
		}
	})
	t.Run("B-38 B-49 channels and connectors", func(t *testing.T) {
		if got := algorithms(rule(t, c, "channel-inbound-user")); got[0] != limit.Bucket(30, limit.Minute, 5) {
			t.Errorf("%v", got)
		}
		if got := algorithms(rule(t, c, "connector:default")); got[0] != limit.Window(100, limit.Minute) {
			t.Errorf("%v", got)
		}
	})
	t.Run("a section that is not served says so", func(t *testing.T) {
		var keys []string
		for _, p := range problems {
			if p.Code == WarnUnserved {
				keys = append(keys, p.Key)
			}
		}
		if !slices.Equal(keys, []string{"channels", "connectors"}) {
			t.Errorf("%v", keys)
		}
	})
}

func TestProseNumbers(t *testing.T) {
	c, problems := Load([]string{"../examples/spector.yaml", "../examples/spector-prose.yaml"}, Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		id   string
		want limit.Limit
	}{
		{"endpoint-api-v1-auth-login", limit.Bucket(10, limit.Minute, 20)},
		{"endpoint-api-v1-auth-token", limit.Bucket(10, limit.Minute, 20)},
		{"endpoint-api-v1-admin-consolidate", limit.Bucket(5, limit.Minute, 10)},
	} {
		t.Run("B-69 B-70 "+tc.id, func(t *testing.T) {
			if got := algorithms(rule(t, c, tc.id)); got[0] != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestSources(t *testing.T) {
	c, problems := Load([]string{"../examples/sources.yaml"}, Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	t.Run("A-79 arXiv: one at once, three seconds apart", func(t *testing.T) {
		r := rule(t, c, "source-export.arxiv.org")
		if got := algorithms(r); got[0] != limit.Slots(1) || got[1] != limit.Pace(3*limit.Second) {
			t.Errorf("%v", got)
		}
		if *r.Queue.Depth != 8 || r.Queue.Timeout != 20*time.Second {
			t.Errorf("%+v", r.Queue)
		}
	})
	t.Run("A-80 D5 sources of a group share one rule", func(t *testing.T) {
		r := rule(t, c, "source-eutils.ncbi.nlm.nih.gov")
		if got := algorithms(r); got[1] != limit.Pace(333_334) {
			t.Errorf("%v; a third of a second is rounded up", got)
		}
	})
	t.Run("A-35 what a manifest omits is unlimited", func(t *testing.T) {
		c := load(t, map[string]string{"a.yaml": "sources: [{id: x, governance: {}}]"})
		r := rule(t, c, "source-x")
		if got := algorithms(r); len(got) != 1 || got[0].Kind != limit.KindCooldown || r.Queue == nil || r.Queue.Depth != nil || r.Queue.Timeout != 0 {
			t.Errorf("%v %+v", got, r.Queue)
		}
	})
}

func TestEndpoints(t *testing.T) {
	c := load(t, map[string]string{"a.yaml": `
tiers: {anonymous: 1/s, standard: 1/s}
endpoints:
  - {path: /login, limit: 6/min, groupBy: ip, replace: true}
  - {path: "/a/*/b?/{id}/**", methods: [POST], limit: 1/s, inFlight: 3, shadow: true, onStoreError: open, queue: {depth: 2, timeoutMs: 1500}}
  - {path: /free, replace: true}
`})
	t.Run("P-022 an omitted burst is the rate's own count and is shown", func(t *testing.T) {
		r := rule(t, c, "endpoint-login")
		if r.Limits[0].Burst != 6 || r.Limits[0].String() != "6/min burst 6" {
			t.Errorf("%v", r.Limits)
		}
	})
	t.Run("D7 both apply, unless the endpoint replaces the tier", func(t *testing.T) {
		if got := rule(t, c, "tier-anonymous").Match.Not[sluice.Route]; !slices.Equal(got, []string{"endpoint-login", "endpoint-free"}) {
			t.Errorf("%v", got)
		}
	})
	t.Run("B-10 and then its limit is the only one, for every tier", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { // so that no time passes
			store := memory.New(memory.Options{})
			defer store.Close()
			controller, err := sluice.Open(c.Policy(), store, sluice.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer controller.Close()
			for _, tier := range []string{"anonymous", "standard"} {
				for route, want := range map[string]int{"endpoint-login": 6, "endpoint-other": 1} {
					call, passed := sluice.Call{Kind: "http", Subject: tier, IP: tier, Tier: tier, Route: route}, 0
					for range 10 {
						if _, err := controller.Admit(t.Context(), call); err == nil {
							passed++
						}
					}
					if passed != want {
						t.Errorf("%s on %s: %d of 10 pass, want %d", tier, route, passed, want)
					}
				}
			}
		})
	})
	t.Run("the id is made of the pattern", func(t *testing.T) {
		r := rule(t, c, "endpoint-a-one-bq-id-any-post")
		if !r.Shadow || r.OnStoreError != sluice.FailOpen || *r.Queue.Depth != 2 || r.Queue.Timeout != 1500*time.Millisecond || r.Limits[1].Limit != limit.Slots(3) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("the source is file, line and column", func(t *testing.T) {
		if got := rule(t, c, "endpoint-login").Source; got != "a.yaml:4:5" {
			t.Errorf("%q", got)
		}
	})
}

func TestPreAuth(t *testing.T) {
	t.Run("D9 it always runs", func(t *testing.T) {
		c := load(t, map[string]string{"a.yaml": ""})
		r := rule(t, c, "preauth")
		if r.GroupBy[0] != sluice.IP || r.Source != "built-in" || !reflect.DeepEqual(r.Match.Is[sluice.Kind], []string{"preauth"}) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("unless it is switched off", func(t *testing.T) {
		c := load(t, map[string]string{"a.yaml": "identity: {preAuth: {enabled: false}, authFailures: {enabled: false}}"})
		if len(c.Policy().Rules) != 0 {
			t.Errorf("%v", c.Policy().Rules)
		}
	})
	t.Run("the default hides no tier of the ADR", func(t *testing.T) {
		c := Default()
		if pre, top := rule(t, c, "preauth").Limits[0].Limit, rule(t, c, "tier-system").Limits[0].Limit; faster(top, pre) || top.Burst > pre.Burst {
			t.Errorf("%v hides %v", pre, top)
		}
	})
}

func TestSwitches(t *testing.T) {
	t.Run("B-1 enabled: false is no rules", func(t *testing.T) {
		c, problems := Load([]string{"../examples/spector.yaml"}, Options{Set: []string{"spector.resilience.rate-limiting.enabled=false"}})
		if problems.Err() != nil || c.Enabled || len(c.Policy().Rules) != 0 {
			t.Errorf("%v", problems)
		}
	})
	t.Run("B-35 B-41 sections have switches of their own", func(t *testing.T) {
		c := load(t, map[string]string{"a.yaml": "llm: {enabled: false, defaultPolicy: {requestsPerMinute: 1}}\nchannels: {enabled: false, inboundUserRpm: 1}\nconnectors: {enabled: false, throttleRequests: 1}"})
		for _, r := range c.Policy().Rules {
			if r.ID != "preauth" && r.ID != "auth-failures" {
				t.Errorf("rule %s", r.ID)
			}
		}
	})
}

func TestMerge(t *testing.T) {
	files := map[string]string{
		"a.yaml": "listen: {gate: ':1', admin: '127.0.0.1:2'}\ntiers: {anonymous: {requestsPerSecond: 1, burst: 2}, standard: 5/s}\nexcludedPaths: [/a, /b]\nupstreams: [{name: u, url: 'http://h'}]",
		"b.yaml": "listen: {gate: ':3'}\ntiers:\n  anonymous: {burst-capacity: 7}\nexcludedPaths: [/c]\nadmin: null",
	}
	c := load(t, files)
	if c.Listen.Gate != ":3" || c.Listen.Admin != "127.0.0.1:2" {
		t.Errorf("maps are merged deep: %+v", c.Listen)
	}
	if got := rule(t, c, "tier-anonymous").Limits[0].Limit; got != limit.Bucket(1, limit.Second, 7) {
		t.Errorf("a key in another spelling is the same key: %v", got)
	}
	if !slices.Equal(c.ExcludedPaths, []string{"/c"}) {
		t.Errorf("lists replace: %v", c.ExcludedPaths)
	}
	if got := c.Pos(&c.Listen.Gate).String(); got != "b.yaml:1:16" {
		t.Errorf("the place is that of the later file: %s", got)
	}
	if got := c.Pos(&c.Listen.Admin).String(); got != "a.yaml:1:29" {
		t.Errorf("what was not replaced keeps its place: %s", got)
	}
	files["b.yaml"] = "listen: {gate: null}"
	if c := load(t, files); c.Listen.Gate != "" {
		t.Errorf("null takes back what an earlier file says: %q", c.Listen.Gate)
	}
}

func TestSet(t *testing.T) {
	files := map[string]string{"a.yaml": "listen: {gate: ':1'}\nupstreams: [{name: u, url: 'http://h'}, {name: v, url: 'http://v', paths: /v}]"}
	c := load(t, files, "listen.gate=127.0.0.1:18080", "upstreams.1.url=http://w", "tiers.anonymous=3/s", "tiers.5.requests-per-second=7",
		"default-tier=5", "excluded_paths=[/x, /y]", "identity.preAuth.burst-capacity=9", "identity.pre-auth.rate=9/s", "backend=in-memory", "limits.maxRecords=5")
	switch {
	case c.Listen.Gate != "127.0.0.1:18080", c.Upstreams[1].URL != "http://w", c.Upstreams[0].URL != "http://h",
		c.DefaultTier != "5", !slices.Equal(c.ExcludedPaths, []string{"/x", "/y"}), c.MCP.Limits.MaxRecords != 5:
		t.Errorf("%+v", c.Root)
	}
	if got := rule(t, c, "tier-5").Source; got != "--set" {
		t.Errorf("source %q", got)
	}
	for set, want := range map[string]string{
		"listen.gat=:1":      `--set: error[unknown-key] listen.gat: unknown key; did you mean "gate"?`,
		"listen.gate":        "--set: error[syntax] listen.gate: an override is key=value, such as listen.gate=127.0.0.1:8080",
		"upstreams.7.url=x":  `--set: error[reference] upstreams.7.url: "7" is no element of the list, which has 2; the first is 0`,
		"tiers.a=fast":       `--set: error[unit] tiers.a.limit: "fast" has no time; ` + rateForm,
		"tiers.a.burst=1, 2": `--set: error[unit] tiers.a.burst: must be a number alone, not "1, 2"; the key's name says the unit`,
	} {
		_, problems := loadFiles(files, set)
		if err := problems.Err(); err == nil || err.Error() != want {
			t.Errorf("--set %s: %v\nwant: %s", set, err, want)
		}
	}
}

func TestSecrets(t *testing.T) {
	files := map[string]string{
		"etc/a.yaml": "admin: {token: file:token}\nidentity: {apiKeys: {file: keys, secret: '${KEY_SECRET}'}}\nredis: {uri: 'file:/run/redis'}",
		"etc/token":  "hunter2\n", "/run/redis": "redis://u:hunter2@h/1",
	}
	c, problems := Load([]string{"etc/a.yaml"}, Options{
		Env: func(name string) (string, bool) { return "value of " + name, true },
		ReadFile: func(path string) ([]byte, error) {
			if text, ok := files[filepath.ToSlash(path)]; ok {
				return []byte(text), nil
			}
			return nil, errors.New("not here")
		},
	})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if c.Admin.Token.Reveal() != "hunter2" || c.Identity.APIKeys.Secret.Reveal() != "value of KEY_SECRET" || c.Store.Redis.URI.Reveal() != "redis://u:hunter2@h/1" {
		t.Error("a secret is not what its source says")
	}
	if c.Identity.APIKeys.File != filepath.FromSlash("etc/keys") {
		t.Errorf("the key file is relative to the configuration: %q", c.Identity.APIKeys.File)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if s := fmt.Sprintf(format, c.Admin); strings.Contains(s, "hunter2") {
			t.Errorf("%s prints the secret: %s", format, s)
		}
	}
	t.Run("a variable must be set, to something", func(t *testing.T) {
		for _, value := range []struct {
			text string
			set  bool
		}{{"", true}, {"left over", false}} {
			_, problems := Load([]string{"a.yaml"}, Options{
				Env:      func(string) (string, bool) { return value.text, value.set },
				ReadFile: func(string) ([]byte, error) { return []byte("admin: {token: '${T}'}"), nil },
			})
			if len(problems) != 1 || problems[0].Code != CodeSecret {
				t.Errorf("%+v: %v", value, problems)
			}
		}
	})
	t.Run("only there", func(t *testing.T) {
		c := load(t, map[string]string{"a.yaml": "identity: {jwt: [{issuer: '${HOME}', jwks: keys.json}]}"})
		if got := c.Identity.JWT[0].Issuer; got != "${HOME}" {
			t.Errorf("%q", got)
		}
	})
}

func TestStrict(t *testing.T) {
	o := Options{Strict: true, ReadFile: func(string) ([]byte, error) { return []byte("tiers: {anonymous: 0/s, standard: 1/s}"), nil }}
	c, problems := Load([]string{"a.yaml"}, o)
	if c != nil || len(problems.Errors()) != 1 || problems[0].Code != WarnDeniesAll {
		t.Errorf("%v", problems)
	}
	o.Strict = false
	if c, problems := Load([]string{"a.yaml"}, o); c == nil || len(problems.Warnings()) != 1 {
		t.Errorf("%v", problems)
	}
}

func TestHash(t *testing.T) {
	hash := func(text string) string { return load(t, map[string]string{"a.yaml": text}).Hash() }
	if hash("tiers: {anonymous: 1/s}") == hash("tiers: {anonymous: 2/s}") {
		t.Error("another limit has the same hash")
	}
	if hash("default-tier: anonymous\ntiers: {anonymous: 1/s}") != hash("# comment\ndefaultTier: anonymous\ntiers:\n  anonymous: 1/s") {
		t.Error("another spelling has another hash")
	}
}

func TestDefault(t *testing.T) {
	c := Default()
	if c.Listen.Gate != ":8080" || c.Listen.Admin != "127.0.0.1:9090" || c.Upstreams[0].URL != "demo:" || len(c.Tiers) != 4 {
		t.Errorf("%+v", c.Root)
	}
	if len(new(Config).Policy().Rules) != 0 {
		t.Error("the zero Config has rules")
	}
	c, problems := Load(nil, Options{})
	if c == nil || len(problems) != 0 {
		t.Errorf("the default has problems: %v", problems)
	}
}

func TestReadErrors(t *testing.T) {
	_, problems := Load([]string{"missing.yaml", "also.yaml"}, Options{})
	want := "missing.yaml: error[read] cannot read the file: missing.yaml: no such file or directory\n" +
		"also.yaml: error[read] cannot read the file: also.yaml: no such file or directory"
	if err := problems.Err(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestShadowRulesAreBounded(t *testing.T) {
	rules := func(n int) map[string]string {
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range n {
			fmt.Fprintf(&b, "- {id: r%d, slots: 1, shadow: true}\n", i)
		}
		return map[string]string{"a.yaml": b.String()}
	}
	opens(t, load(t, rules(maxShadows)))
	_, problems := loadFiles(rules(maxShadows + 2))
	if len(problems) != 1 || problems[0].Code != CodeRange || problems[0].Key != "rules[255].id" {
		t.Errorf("%v", problems)
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.8.8:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "localhost:1": true, "unix:/run/s": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false, "10.0.0.1:1": false,
	} {
		if got := loopback(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		key, outer string
		want       bool
	}{
		{"tiers.a", "tiers.a", true}, {"tiers.a.burst", "tiers.a", true}, {"rules[1].id", "rules", true},
		{"tiers.ab", "tiers.a", false}, {"rules[10]", "rules[1]", false}, {"tiers", "tiers.a", false}, {"tiers", "", false},
	} {
		if got := within(c.key, c.outer); got != c.want {
			t.Errorf("%q in %q: %v", c.key, c.outer, got)
		}
	}
}
