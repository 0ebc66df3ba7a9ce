package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/browser"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

// holding is a broker with one rule that a single call saturates, for everybody and for the
// broker's own tools, and one operator. What is cancelled is forwarded, and held all the same.
const holding = `
admin: {token: "file:admin-token"}
identity: {jwt: [{issuer: "https://issuer.example", audience: sluice, jwks: %[1]s/local.jwks.json}]}
mcp:
  audit: {file: audit.jsonl}
  providers: [{id: plant, secretEnv: PLANT_SECRET, allowedResources: [/plant/**]}]
auth:
  roles:
    operator: {capabilities: [broker.providers.read, broker.limits.admin]}
    caller: {capabilities: ["*"]}
  assignments:
    - {subject: "group:ops", role: operator, resource: /_system/broker}
    - {subject: "user:alice", role: caller, resource: /plant/**}
limits:
  storeFile: ledger
  rules:
    - {id: one-at-a-time, concurrency: 1, onCancel: forward-and-hold}
    - {id: pumps, budget: {unit: pump-run, max: 100, windowMs: 3600000}}
`

const adminToken = "the-token-of-an-operator"

// A plant is a served broker, whose one provider has dialled in.
type plant struct {
	t                  *testing.T
	dir, broker, admin string
	provider           *mcptest.Provider
	line               *mcptest.Line
	alice              string // her token
}

func openPlant(t *testing.T) *plant {
	t.Helper()
	t.Setenv("PLANT_SECRET", secretOfTests)
	t.Setenv(tokenVariable, adminToken)
	at, err := filepath.Abs(examples)
	if err != nil {
		t.Fatal(err)
	}
	p := &plant{t: t, dir: t.TempDir(), provider: mcptest.New(mcptest.Options{Cancel: mcptest.Ignore}), alice: token(t, "ops")}
	for name, text := range map[string]string{"sluice.yaml": fmt.Sprintf(holding, at), "admin-token": adminToken} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.broker, p.admin = servedAt(t, "mcp", filepath.Join(p.dir, "sluice.yaml"))
	p.line, err = p.provider.DialIn(t.Context(), strings.Replace(p.broker, "http:", "ws:", 1)+"/provider/plant", http.Header{"X-Provider-Token": {secretOfTests}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.line.Close() })
	waitFor(t, func() bool { s := p.diagnosis().Slots; return len(s) == 1 && s[0].Connected })
	p.asks("broker/authorization/declare", `{"version":"1","domain":"plant","namespace":{"resource":"/plant"},"capabilities":["plant.pump"],
		"budgetUnits":["pump-run"],"resources":[{"resource":"pump:1","resourcePath":"/plant/pump/1"}]}`)
	return p
}

// asks has the provider ask the broker.
func (p *plant) asks(method, params string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if _, err := p.line.Request(ctx, method, json.RawMessage(params)); err != nil {
		p.t.Fatal(err)
	}
}

// reserve has it reserve runs of its pump for a call that it works on.
func (p *plant) reserve(work *mcptest.Call) {
	p.t.Helper()
	frame, err := mcptest.ReadFrame(work.Frame)
	if err != nil {
		p.t.Fatal(err)
	}
	var params struct {
		Meta struct {
			Caller struct{ Ref string } `json:"io.cyanmycelium/caller"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(frame.Params, &params); err != nil {
		p.t.Fatal(err)
	}
	p.asks("broker/budget/reserve", fmt.Sprintf(`{"principal":{"type":"caller-ref","ref":%q},"capability":"plant.pump","resource":"pump:1",
		"resourcePath":"/plant/pump/1","unit":"pump-run","quantity":7,"idempotencyKey":"k"}`, params.Meta.Caller.Ref))
}

// call asks for a tool over HTTP as alice, of 2026-07-28. Ending ctx closes the stream, which
// cancels the call.
func (p *plant) call(ctx context.Context, slot, tool, arguments string) (*mcptest.Frame, error) {
	body := mcptest.CallTool("1", tool, arguments, "_meta", mcptest.Meta)
	r, err := mcptest.Ask{Body: string(body), Header: []string{"Authorization: Bearer " + p.alice}}.Modern("tools/call", tool).Send(ctx, p.broker+"/"+slot+"/mcp")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, _, err := r.Answer()
	return f, err
}

// done is call, of what must be answered.
func (p *plant) done(slot, tool, arguments string) *mcptest.Frame {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	f, err := p.call(ctx, slot, tool, arguments)
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// diagnosis is what the administration shows.
func (p *plant) diagnosis() (d mcp.Diagnosis) {
	p.t.Helper()
	at := remote{addr: p.admin}
	if err := at.ask(p.t.Context(), http.MethodGet, brokerPath, nil, &d); err != nil {
		p.t.Fatal(err)
	}
	return d
}

// saturate leaves the rule with a call that was cancelled, of which the provider was told and
// that it never answers. It returns the broker's id of it.
func (p *plant) saturate() string {
	p.t.Helper()
	ctx, leave := context.WithCancel(p.t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := p.call(ctx, "plant", "hold", `{"key":"a","secret":"`+secretOfTests+`"}`)
		gone <- err
	}()
	within, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	work, err := p.provider.Held(within, "a")
	if err != nil {
		p.t.Fatal(err)
	}
	p.reserve(work)
	leave()
	if err := <-gone; !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(err.Error(), "closed") {
		p.t.Fatalf("the client got %v", err)
	}
	select {
	case <-work.Cancelled():
	case <-within.Done():
		p.t.Fatal("the provider was not told")
	}
	var held []mcp.Held
	waitFor(p.t, func() bool {
		held = p.diagnosis().Calls.Calls
		return len(held) == 1 && held[0].State == "abandoned"
	})
	if h := held[0]; h.Slot != "plant" || h.Tool != "hold" || h.Identity != "user:alice" || !slices.Equal(h.Rules, []string{"one-at-a-time"}) {
		p.t.Errorf("C-W20 %+v is held", h)
	}
	for _, call := range [][2]string{{"plant", "echo"}, {mcp.BrokerSlot, "broker_info"}} {
		if f := p.done(call[0], call[1], `{}`); f.Error == nil || !strings.Contains(string(f.Error.Data), `"concurrency-exceeded"`) {
			p.t.Errorf("C-41 %s is not saturated: %s", call[0], f.Raw)
		}
	}
	return held[0].RequestID
}

// freed wants the rule to let calls through again.
func (p *plant) freed() {
	p.t.Helper()
	if f := p.done("plant", "echo", `{}`); f.Error != nil {
		p.t.Errorf("the slot is not free: %s", f.Raw)
	}
	if held := p.diagnosis().Calls.Calls; len(held) != 0 {
		p.t.Errorf("%+v is held", held)
	}
}

// TestHoldAndRelease has a provider that never answers after a cancellation. An operator frees
// what it holds in each way there is, while the rule lets nobody through.
func TestHoldAndRelease(t *testing.T) {
	p := openPlant(t)
	var ids []string
	t.Run("C-51 by the tool, with a token", func(t *testing.T) {
		p.t = t
		id := p.saturate()
		ids = append(ids, id)
		d := p.done(mcp.BrokerSlot, "broker_diagnose", `{"rule":"one-at-a-time"}`)
		if !strings.Contains(string(d.Result), id) {
			t.Errorf("the operator does not find %s in %s", id, d.Raw)
		}
		f := p.done(mcp.BrokerSlot, "broker_limits_release", fmt.Sprintf(`{"slot":"plant","requestId":%q}`, id))
		if f.Error != nil || !strings.Contains(string(f.Result), `"by":"user:alice"`) {
			t.Errorf("the tool says %s", f.Raw)
		}
		p.freed()
	})
	t.Run("by the command", func(t *testing.T) {
		p.t = t
		id := p.saturate()
		ids = append(ids, id)
		out, err := exec.Command("sluice", "release", "--addr", p.admin).CombinedOutput()
		if err != nil || !strings.Contains(string(out), id) {
			t.Errorf("the list has no %s: %v\n%s", id, err, out)
		}
		if out, err = exec.Command("sluice", "release", "--addr", p.admin, "--slot", "plant", "--request", id).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		p.freed()
	})
	t.Run("by the page", func(t *testing.T) {
		p.t = t
		id := p.saturate()
		ids = append(ids, id)
		p.releaseByPage(t, id)
		p.freed()
	})
	t.Run("C-103 C-104 the audit has who did it, and no arguments and credentials", func(t *testing.T) {
		var by, of []string
		text := p.audited(t, func(events []audit.Event) bool {
			by, of = nil, nil
			for _, e := range events {
				if e.Action != audit.Release {
					continue
				}
				if by, of = append(by, e.By), append(of, e.RequestID); !e.Allowed || e.Slot != "plant" || !slices.Equal(e.ReleasedRules, []string{"one-at-a-time"}) {
					t.Errorf("audited %+v", e)
				}
			}
			return len(by) == len(ids)
		})
		if !slices.Equal(by, []string{"user:alice", "admin:admin", "admin:admin"}) || !slices.Equal(of, ids) {
			t.Errorf("released by %v: %v; want %v", by, of, ids)
		}
		for _, secret := range []string{secretOfTests, adminToken, p.alice} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("the audit has %q", secret)
			}
		}
	})
}

// releaseByPage frees a call as an operator does who has the page open and uses the keyboard.
func (p *plant) releaseByPage(t *testing.T, id string) {
	t.Helper()
	b := browser.Open(t, p.admin)
	b.Until("true", "document.getElementById('login').open")
	b.Eval("document.getElementById('token').value = '" + adminToken + "'")
	b.Click("#login button")

	const calls, slots = "document.getElementById('broker-calls').textContent", "document.getElementById('broker-slots').textContent"
	b.Until("plant", slots)
	b.Until(id, calls)
	for _, part := range []string{"hold at plant", "user:alice", "one-at-a-time", "nobody waits any more"} {
		b.Until(part, calls)
	}
	b.Until("7 pump-run at plant", "document.getElementById('broker-reservations').textContent")
	b.Until("3 open, 0 expired", "document.getElementById('broker-reserved-note').textContent")
	b.Until("concurrency-exceeded · by one-at-a-time", "document.getElementById('broker-refusals').textContent")
	b.Eval("(document.querySelector('#broker-filter [name=rule]').value = 'another', document.getElementById('broker-filter').dispatchEvent(new Event('input')))")
	b.Until("No call is like that.", calls)
	b.Eval("(document.querySelector('#broker-filter [name=rule]').value = 'one-at-a-time', document.getElementById('broker-filter').dispatchEvent(new Event('input')))")
	b.Until(id, calls)

	const button = "#broker-calls button"
	const says = "document.querySelector('#broker-calls button').textContent"
	b.Click(button)
	b.Until("Sure?", says)
	b.Press(button, "Escape")
	b.Until("Release", says)
	if held := p.diagnosis().Calls.Calls; len(held) != 1 {
		t.Error("one press has released it already")
	}
	b.Click(button)
	b.Click(button)
	b.Until("slots are free", "document.getElementById('broker-said').textContent")
	b.Until("No call", calls)
	b.Until("region", "document.activeElement.getAttribute('role')") // the focus is where it was
}

// TestPagesOfCalls has more calls hold slots than the page shows at once.
func TestPagesOfCalls(t *testing.T) {
	_, dir := loadText(t, `
mcp: {slots: [{slot: demo, command: [sluice, mock-mcp], requestTimeoutMs: 50}, {slot: absent}]}
admin: {mask: true}
limits: {rules: [{id: many, concurrency: 100}]}`)
	var p plant
	p.t = t
	p.broker, p.admin = servedAt(t, "mcp", filepath.Join(dir, "sluice.yaml"))
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() { p.done("demo", "silent", `{}`) })
	}
	all.Wait()
	b := browser.Open(t, p.admin)
	const shown = "document.getElementById('broker-range').textContent + ': ' + document.querySelectorAll('#broker-calls tr').length"
	b.Until("1–50 of 60: 50", shown)
	b.Until("an…", "document.getElementById('broker-calls').textContent") // the caller, masked
	b.Until("absent: No provider has dialled in", "document.getElementById('broker-problems').textContent")
	b.Click("#broker-after")
	b.Until("51–60 of 60: 10", shown)
	b.Until("true", "document.getElementById('broker-after').disabled")
	b.Click("#broker-before")
	b.Until("1–50 of 60: 50", shown)
	choose := func(name, value string) {
		b.Eval(fmt.Sprintf("(document.querySelector('#broker-filter [name=%s]').value = %q, document.getElementById('broker-filter').dispatchEvent(new Event('input')))", name, value))
	}
	choose("state", "running")
	b.Until("No call is like that.", "document.getElementById('broker-calls').textContent")
	choose("state", "abandoned")
	choose("slot", "demo")
	b.Until("1–50 of 60: 50", shown)
	if d := p.diagnosis(); len(d.Calls.Calls) != 50 || d.Calls.Calls[0].Identity != "an…" {
		t.Errorf("%d calls, of %q", len(d.Calls.Calls), d.Calls.Calls[0].Identity)
	}
	if out, err := exec.Command("sluice", "release", "--addr", p.admin).CombinedOutput(); err != nil || bytes.Count(out, []byte("brk-")) != 60 {
		t.Errorf("C-W20 the command does not list them all: %v\n%s", err, out)
	}
	for _, wrong := range []string{"offset=-1", "limit=x"} {
		if text, err := ask("GET", p.admin+brokerPath+"?"+wrong, http.Header{}); err != nil || !strings.Contains(text, "400") {
			t.Errorf("%s: %v %s", wrong, err, text)
		}
	}
}

// TestBrokerMetrics reads what Prometheus would see of a broker with a held call.
func TestBrokerMetrics(t *testing.T) {
	p := openPlant(t)
	p.saturate()
	if f := p.done("plant", "no-such-"+secretOfTests, `{}`); f.Error == nil {
		t.Errorf("an unknown tool: %s", f.Raw)
	}
	got := scrape(t, p.admin)
	for series, want := range map[string]float64{
		"mcp_provider_connected{slot=plant}":                                 1,
		"mcp_calls{slot=plant,state=abandoned}":                              1,
		"mcp_slots_held{slot=plant}":                                         1,
		"mcp_events_total{action=admit,outcome=dispatched,slot=plant}":       1,
		"mcp_events_total{action=cancel,outcome=cancelled,slot=plant}":       1,
		"mcp_events_total{action=admit,outcome=refused,slot=plant}":          1,
		"mcp_events_total{action=admit,outcome=refused,slot=_broker}":        1,
		"mcp_events_total{action=takeover,outcome=granted,slot=plant}":       1,
		"mcp_events_total{action=reserve,outcome=granted,slot=plant}":        1,
		"mcp_refusals_total{reason=concurrency-exceeded,rule=one-at-a-time}": 2,
		"mcp_refusals_total{reason=unknown-tool,rule=}":                      1,
		"mcp_audit_lost_total{}":                                             0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("C-W22 %s is %v (there: %v), want %v", series, v, ok, want)
		}
	}
	for series := range got {
		if strings.Contains(series, secretOfTests) || strings.Contains(series, "alice") {
			t.Errorf("C-104 a caller's text is in %s", series)
		}
	}
}

// audited reads the audit file until it has what is wanted, and returns it. The last line may
// be about to be written.
func (p *plant) audited(t *testing.T, wanted func([]audit.Event) bool) (text []byte) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var err error
		if text, err = os.ReadFile(filepath.Join(p.dir, "audit.jsonl")); err != nil {
			t.Fatal(err)
		}
		var events []audit.Event
		for line := range bytes.Lines(text) {
			var e audit.Event
			if bytes.HasSuffix(line, []byte("\n")) {
				if err := json.Unmarshal(line, &e); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				events = append(events, e)
			}
		}
		if wanted(events) {
			return text
		}
	}
	t.Fatalf("the audit lacks it: %s", text)
	return nil
}
