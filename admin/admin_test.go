package admin

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

var update = flag.Bool("update", false, "write the golden files anew")

// world is an engine with an Admin on top, both real, behind a real server.
type world struct {
	t     *testing.T
	ctl   *sluice.Controller
	admin *Admin
	url   string
	log   strings.Builder
}

// newWorld makes one with two rules on each subject; change adjusts the options.
func newWorld(t *testing.T, change func(*world, *Options)) *world {
	t.Helper()
	w := &world{t: t}
	store := memory.New(memory.Options{MaxCells: 1000})
	t.Cleanup(func() { store.Close() })
	each := []sluice.Dimension{sluice.Subject}
	policy := &sluice.Policy{Rules: []sluice.Rule{
		{ID: "tier-standard", GroupBy: each, Limits: []sluice.Limit{{Limit: limit.Bucket(1, limit.Hour, 2)}}},
		{ID: "endpoint-auth", GroupBy: each, Limits: []sluice.Limit{{Limit: limit.Window(2, limit.Hour)}}},
	}}
	o := Options{
		Policy:   func() *sluice.Policy { return w.ctl.Policy() },
		Waiting:  func() map[string]int { return w.ctl.Waiting() },
		Reset:    func(ctx context.Context, id string) (int, error) { return w.ctl.Reset(ctx, id) },
		ResetAll: func(ctx context.Context) (int, error) { return w.ctl.ResetAll(ctx) },
		Stats: func() Stats {
			st := store.Stats()
			return Stats{Backend: "in-memory", Keys: int64(st.Cells), MaxKeys: 1000, Misses: int64(st.Inserted)}
		},
		Summary: func() Summary {
			return Summary{
				Enabled: true, DefaultTier: "standard",
				Tiers:     map[string]Tier{"standard": {RequestsPerSecond: 100, BurstCapacity: 200}},
				Endpoints: []Endpoint{{PathPattern: "/api/v1/auth/**", RequestsPerMinute: 30, BurstCapacity: 10}},
			}
		},
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	if change != nil {
		change(w, &o)
	}
	var err error
	if w.admin, err = New(o); err != nil {
		t.Fatal(err)
	}
	if w.ctl, err = sluice.Open(policy, store, sluice.Options{Observe: w.admin.Observe}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.ctl.Close() })
	server := httptest.NewServer(w.admin.Handler())
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// call asks the engine once for subject and returns whether it was admitted.
func (w *world) call(subject string) bool {
	w.t.Helper()
	adm, err := w.ctl.Admit(w.t.Context(), sluice.Call{Kind: "http", Subject: subject, Tier: "standard"})
	if err == nil {
		adm.Release()
	}
	return err == nil
}

// exhaust calls until subject is refused.
func (w *world) exhaust(subject string) {
	w.t.Helper()
	for range 3 {
		w.call(subject)
	}
	if w.call(subject) {
		w.t.Fatalf("%s is still admitted", subject)
	}
}

// ask sends one request; headers come as "Name: value".
func (w *world) ask(method, path, body string, headers ...string) (*http.Response, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(text)
}

// want asks and compares the status and a part of the body.
func (w *world) want(status int, part, method, path, body string, headers ...string) {
	w.t.Helper()
	resp, text := w.ask(method, path, body, headers...)
	if resp.StatusCode != status || !strings.Contains(text, part) {
		w.t.Errorf("%s %s %s: %d %s; want %d with %s", method, path, body, resp.StatusCode, text, status, part)
	}
}

var unsteady = regexp.MustCompile(`"(perSecond|refusedPerSecond|stateBytes)": [0-9.e-]+`)

func TestStatusShape(t *testing.T) {
	w := newWorld(t, nil)
	w.admin.Loaded("5be1c0ff", nil)
	w.exhaust("ip:203.0.113.9")
	resp, text := w.ask("GET", "/actuator/ratelimits", "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", resp.StatusCode, resp.Header)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	v["state"].(map[string]any)["configLoaded"] = "a time"
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "B-58 B-60 status", "ratelimits.json", unsteady.ReplaceAll(append(got, '\n'), []byte(`"$1": 0`)))
}

func golden(t *testing.T, what, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not as in %s (go test -update writes it):\n%s", what, path, got)
	}
}

func TestReset(t *testing.T) {
	const reset = "/actuator/ratelimits/reset"
	asJSON := "Content-Type: application/json"
	for _, c := range []struct {
		name, query, body string
		status            int
		part              string
		aliceFree         bool
		bobFree           bool
	}{
		{"B-61 B-W9 an identity gets all its limits back", "?key=user:alice", "", 200, `"action":"reset_key","key":"user:alice","foundAndReset":true,"cells":2`, true, false},
		{"B-61 the key in a body stays out of logs", "", `{"key":"user:alice"}`, 200, `"foundAndReset":true`, true, false},
		{"B-62 an unknown key", "?key=user:nobody", "", 200, `"foundAndReset":false`, false, false},
		{"B-61 everything, asked for by name", "?scope=all", "", 200, `"action":"clear_all","success":true,"cells":4`, true, true},
		{"B-61 everything, by body", "", `{"scope":"all"}`, 200, `"action":"clear_all"`, true, true},
		{"B-W9 no key is not everybody", "", "", 400, "scope=all", false, false},
		{"B-W9 an empty key is not everybody", "?key=", "", 400, "scope=all", false, false},
		{"B-W9 ALL is a name like others", "?key=ALL", "", 200, `"foundAndReset":false`, false, false},
		{"key and scope contradict", "?key=user:alice&scope=all", "", 400, "not both", false, false},
		{"an unknown scope", "?key=user:alice&scope=some", "", 400, "only be", false, false},
		{"an unknown field", "", `{"keys":"user:alice"}`, 400, "key and scope", false, false},
		{"a key without end", "?key=" + strings.Repeat("x", keyMax+1), "", 400, "at most", false, false},
		{"a key that is no text", "?key=%ff", "", 400, "UTF-8", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.exhaust("user:alice")
			w.exhaust("user:bob")
			headers := []string{asJSON}
			if c.body == "" {
				headers = nil
			}
			w.want(c.status, c.part, "POST", reset+c.query, c.body, headers...)
			if a, b := w.call("user:alice"), w.call("user:bob"); a != c.aliceFree || b != c.bobFree {
				t.Errorf("afterwards alice is admitted: %v, bob: %v; want %v, %v", a, b, c.aliceFree, c.bobFree)
			}
			audited := strings.Contains(w.log.String(), "a change was made")
			if audited != (c.status == 200) {
				t.Errorf("the audit log has %q", w.log.String())
			}
		})
	}
}

func TestAuditSaysWhoDidWhat(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) {
		o.Tokens = []Token{NewToken("ci", "right", Operator)}
	})
	w.exhaust("user:alice")
	w.want(200, "reset_key", "POST", "/actuator/ratelimits/reset?key=user:alice", "", "Authorization: Bearer right")
	for _, part := range []string{"level=INFO", "action=reset", "who=ci", "peer=127.0.0.1", "key=user:alice", "cells=2", "time="} {
		if !strings.Contains(w.log.String(), part) {
			t.Errorf("the audit log lacks %s: %s", part, w.log.String())
		}
	}
	if strings.Contains(w.log.String(), "right") {
		t.Error("the token is in the log")
	}
}

func TestAuditOfManyAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	const many = 50
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			w.want(200, "reset_key", "POST", fmt.Sprintf("/actuator/ratelimits/reset?key=user:%d.", i), "")
		})
	}
	all.Wait()
	if n := strings.Count(w.log.String(), "a change was made"); n != many {
		t.Errorf("A-W9 %d records of %d changes", n, many)
	}
	for i := range many {
		if key := fmt.Sprintf("key=user:%d.", i); strings.Count(w.log.String(), key) != 1 {
			t.Errorf("A-W9 not one record has %s", key)
		}
	}
}

func TestReload(t *testing.T) {
	t.Run("there is no file", func(t *testing.T) {
		newWorld(t, nil).want(501, "no configuration file", "POST", "/actuator/reload", "")
	})
	var fail error
	w := newWorld(t, func(w *world, o *Options) {
		o.Reload = func(context.Context) error {
			w.admin.Loaded("newhash", fail)
			return fail
		}
	})
	t.Run("it works", func(t *testing.T) {
		w.want(200, `"action":"reload","success":true,"hash":"newhash"`, "POST", "/actuator/reload", "")
	})
	t.Run("it fails, and says why until it works", func(t *testing.T) {
		fail = io.ErrUnexpectedEOF
		w.want(422, "unexpected EOF", "POST", "/actuator/reload", "")
		w.want(200, `"reloadError":"unexpected EOF"`, "GET", "/actuator/ratelimits", "")
		w.want(200, `"configHash":"newhash"`, "GET", "/actuator/ratelimits", "")
		fail = nil
		w.ask("POST", "/actuator/reload", "")
		if _, text := w.ask("GET", "/actuator/ratelimits", ""); strings.Contains(text, "reloadError") {
			t.Error("an old error is still shown")
		}
	})
	t.Run("a GET changes nothing", func(t *testing.T) {
		w.want(405, "", "GET", "/actuator/reload", "")
	})
}

func TestHealth(t *testing.T) {
	var mu sync.Mutex
	var draining bool
	var ready error
	w := newWorld(t, func(_ *world, o *Options) {
		o.Draining = func() bool { mu.Lock(); defer mu.Unlock(); return draining }
		o.Ready = func() error { mu.Lock(); defer mu.Unlock(); return ready }
		o.Tokens = []Token{NewToken("ci", "right", Reader)} // probes have none
	})
	for _, c := range []struct {
		name     string
		draining bool
		ready    error
		status   int
		body     string
	}{
		{"well", false, nil, 200, `{"status":"UP"}`},
		{"not ready", false, io.EOF, 503, `{"status":"DOWN"}`},
		{"draining", true, nil, 503, `{"status":"OUT_OF_SERVICE"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			mu.Lock()
			draining, ready = c.draining, c.ready
			mu.Unlock()
			w.want(c.status, c.body, "GET", "/actuator/health", "")
			w.want(c.status, c.body, "GET", "/actuator/health/readiness", "")
			w.want(200, `{"status":"UP"}`, "GET", "/actuator/health/liveness", "")
		})
	}
}

func TestStoreFault(t *testing.T) {
	fault := Stats{Backend: "file", Records: 7, Degraded: true, Fault: "no space left on device"}
	w := newWorld(t, func(_ *world, o *Options) { o.Stats = func() Stats { return fault } })
	t.Run("C-87 the state says that the store does not answer, and why", func(t *testing.T) {
		w.want(200, `"degraded":true,"storeFault":"no space left on device"`, "GET", "/actuator/ratelimits", "")
		w.want(200, `"recordCount":7,"degraded":true`, "GET", "/actuator/ratelimits", "")
		w.want(200, `"storeFault":"no space left on device"`, "GET", "/api/v1/snapshot", "")
	})
	t.Run("readiness stays: calls whose rules do not need the store pass", func(t *testing.T) {
		w.want(200, `{"status":"UP","degraded":true}`, "GET", "/actuator/health/readiness", "")
		w.want(200, `{"status":"UP"}`, "GET", "/actuator/health/liveness", "")
	})
}

func TestExposed(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) { o.Version = "v9" })
	w.call("user:alice")
	for path, part := range map[string]string{
		"/actuator/ratelimits": `"backend":"in-memory"`, "/actuator/health": "UP", "/actuator/info": `"version":"v9"`,
		"/metrics":             `sluice_ratelimit_requests_total{key_type="user",status="allowed",tier="other"} 1`,
		"/actuator/prometheus": "sluice_ratelimit_decisions_total", "/": "<title>sluice</title>", "/app.js": "import",
	} {
		t.Run("B-W10 "+path, func(t *testing.T) { w.want(200, part, "GET", path, "") })
	}
	w.want(404, "not found", "GET", "/nowhere", "")
}

func TestNewRefuses(t *testing.T) {
	whole := newTraffic().options()
	for name, change := range map[string]func(*Options){
		"Options need Policy": func(o *Options) { o.Policy = nil },
		"needs a name":        func(o *Options) { o.Tokens = []Token{NewToken("", "x", Reader)} },
		`token "ci" is empty`: func(o *Options) { o.Tokens = []Token{NewToken("ci", "", Reader)} },
	} {
		o := whole
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New says %v, want %q", err, name)
		}
	}
}

func TestObserveDoesNotAllocate(t *testing.T) {
	a, err := New(newTraffic().options())
	if err != nil {
		t.Fatal(err)
	}
	e := &sluice.Event{
		Call:   &sluice.Call{Kind: "http", Subject: "user:ada", Tier: "standard"},
		Rules:  []sluice.RuleOutcome{{Rule: "tier-standard"}},
		Levels: []sluice.Level{{Rule: "tier-standard", Limit: 200, Remaining: 7, Window: 1}},
	}
	if n := testing.AllocsPerRun(1000, func() { a.Observe(e) }); n != 0 {
		t.Errorf("an admitted call allocates %v times", n)
	}
	refuse := *e
	refuse.Outcome, refuse.Refusal = sluice.Refused, &sluice.Refusal{Rule: "tier-standard"}
	for range 100 {
		a.Observe(&refuse) // the sample of this second is full now
	}
	if n := testing.AllocsPerRun(1000, func() { a.Observe(&refuse) }); n != 0 {
		t.Errorf("a refused call allocates %v times", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	a, err := New(newTraffic().options())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		e := &sluice.Event{
			Call:   &sluice.Call{Kind: "http", Subject: "apikey:7f3a1c9e04d2b86fa1530c97e2d84b6f", Tier: "standard"},
			Rules:  []sluice.RuleOutcome{{Rule: "tier-standard"}},
			Levels: []sluice.Level{{Rule: "tier-standard", Limit: 200, Window: 1}},
		}
		for n := int64(0); pb.Next(); n++ {
			e.Levels[0].Remaining = n % 200
			a.Observe(e)
		}
	})
}
