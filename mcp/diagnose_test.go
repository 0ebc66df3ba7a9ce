package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/store/memory"
)

// shape reads what an operator gets as JSON, so that names are those on the wire.
func shape(t *testing.T, v any) (m map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func keys(m map[string]any) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }

// problem returns the problem of an id, nil if there is none.
func problem(d mcp.Diagnosis, id string) *mcp.Problem {
	i := slices.IndexFunc(d.Problems, func(p mcp.Problem) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return &d.Problems[i]
}

// opens are units of native work.
func opens(id string, n int64) sluice.Rule {
	return sluice.Rule{ID: id, Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {"operation"}}},
		Limits: []sluice.Limit{{Limit: limit.Window(n, limit.Hour), Unit: "op"}}}
}

// reserve has a provider that has declared what it serves reserve a unit for a call of alice's
// that it holds.
func (r *rig) reserve(p *policy.Policy, key string) {
	r.t.Helper()
	d := r.dialIn("site", p.Principal("scada"))
	if f := d.ask("broker/authorization/declare", `{"version":"1","domain":"scada","namespace":{"resource":"/site"},"capabilities":["scada.control"],
		"budgetUnits":["op"],"resources":[{"resource":"tank:1","resourcePath":"/site/tank/1"}]}`); f.Error != nil {
		r.t.Fatal(string(f.Raw))
	}
	r.client("site", "2025-06-18", policy.NewCaller("user:alice", "group:ops")).call("hold", fmt.Sprintf(`{"key":%q}`, key))
	held, err := d.Held(r.t.Context(), key)
	if err != nil {
		r.t.Fatal(err)
	}
	frame, err := mcptest.ReadFrame(held.Frame)
	if err != nil {
		r.t.Fatal(err)
	}
	ref, _ := jsonrpc.Lookup(frame.Params, "_meta", "io.cyanmycelium/caller", "ref")
	if f := d.ask("broker/budget/reserve", fmt.Sprintf(`{"principal":{"type":"caller-ref","ref":%s},"capability":"scada.control","resource":"tank:1",
		"resourcePath":"/site/tank/1","unit":"op","quantity":3,"idempotencyKey":"k"}`, ref)); f.Error != nil {
		r.t.Fatal(string(f.Raw))
	}
}

func TestAuthorityInfo(t *testing.T) {
	p := site(t)
	bubble(t, "C-100 what stands in limits", []sluice.Rule{slots("many", 30, sluice.Hold), opens("budget", 10)}, func(o *mcp.Options) {
		o.Policy, o.Limits, o.Order = p, true, []string{"many", "budget"}
		o.Slots[0].RequestTimeout = 0
	}, func(t *testing.T, r *rig, _ *client) {
		r.reserve(p, "reserved")
		time.Sleep(time.Second)
		c := r.client("site", "2025-06-18", policy.NewCaller("user:alice", "group:ops"))
		for n := range 24 {
			c.call("hold", fmt.Sprintf(`{"key":"%d"}`, n))
			time.Sleep(time.Second)
		}
		limits := shape(t, r.AuthorityInfo(t.Context()))["limits"].(map[string]any)
		if got, want := keys(limits), "activeCallCount activeCalls durable expiredReservations openReservations recentEvents records rules storageFault"; got != want {
			t.Errorf("it has %s\nwant %s", got, want)
		}
		for name, want := range map[string]any{"durable": false, "storageFault": nil, "rules": 2.0, "records": 26.0, "activeCallCount": 25.0, "openReservations": 1.0, "expiredReservations": 0.0} {
			if limits[name] != want {
				t.Errorf("%s is %v, want %v", name, limits[name], want)
			}
		}
		calls := limits["activeCalls"].([]any)
		first := calls[0].(map[string]any)
		if id, _ := first["requestId"].(string); len(calls) != 20 || keys(first) != "ageMs provider requestId" || first["provider"] != "site" || !strings.HasPrefix(id, "brk-") || first["ageMs"].(float64) != 25000 {
			t.Errorf("%d calls, the first is %v", len(calls), first)
		}
		time.Sleep(time.Minute)
		limits = shape(t, r.AuthorityInfo(t.Context()))["limits"].(map[string]any)
		if limits["openReservations"] != 0.0 || limits["expiredReservations"] != 1.0 {
			t.Errorf("a minute later %v are open and %v expired", limits["openReservations"], limits["expiredReservations"])
		}
	})
}

// failing is a store that does not say what it remembers, if err says why.
type failing struct {
	*memory.Store
	err error
}

func (f *failing) Records(ctx context.Context) iter.Seq2[ledger.Remembered, error] {
	if f.err == nil {
		return f.Store.Records(ctx)
	}
	return func(yield func(ledger.Remembered, error) bool) { yield(ledger.Remembered{}, f.err) }
}

func TestProblems(t *testing.T) {
	p := site(t)
	bubble(t, "C-101 C-102 each problem, the worst first, with what shows it and what to do", []sluice.Rule{slots("one", 1, sluice.Hold), opens("budget", 10)},
		func(o *mcp.Options) {
			o.Limits, o.Order, o.Policy = true, []string{"one", "budget"}, p
			o.Slots = append(o.Slots, mcp.Slot{Name: "vacant"})
		}, func(t *testing.T, r *rig, _ *client) {
			r.reserve(p, "a")
			c := r.client("site", "2025-06-18", policy.NewCaller("user:alice", "group:ops"))
			for range 13 {
				c.call("echo", `{}`).refused(-32029)
			}
			r.client("site", "2025-06-18", policy.NewCaller("user:mallory")).call("echo", `{}`).refused(-32001)
			if d := r.Diagnose(t.Context(), mcp.Query{}); problem(d, "limits-calls-held") != nil || problem(d, "limits-reservations-expired") != nil {
				t.Errorf("problems of what is young: %+v", d.Problems)
			}
			time.Sleep(time.Minute + time.Millisecond)
			d := r.Diagnose(t.Context(), mcp.Query{})
			var severities []mcp.Severity
			for _, p := range shape(t, d)["problems"].([]any) {
				m := p.(map[string]any)
				delete(m, "slot")
				if got := keys(m); got != "evidence fix id severity symptom" || m["fix"] == "" || m["symptom"] == "" {
					t.Errorf("C-102 a problem has %s: %v", got, m)
				}
				severities = append(severities, mcp.Severity(m["severity"].(string)))
			}
			if want := []mcp.Severity{mcp.Warning, mcp.Warning, mcp.Warning, mcp.Info}; !slices.Equal(severities, want) {
				t.Errorf("C-102 the severities are %v, want %v: %+v", severities, want, d.Problems)
			}
			if p := problem(d, "limits-reservations-expired"); p == nil || p.Severity != mcp.Warning || !strings.Contains(fmt.Sprint(p.Evidence), "count:1") {
				t.Errorf("expired: %+v", p)
			}
			if p := problem(d, "limits-calls-held"); p == nil || p.Severity != mcp.Warning || !strings.Contains(fmt.Sprint(p.Evidence), "[one]") {
				t.Errorf("held: %+v", p)
			}
			refused := problem(d, "limits-admission-refused")
			if refused == nil || refused.Severity != mcp.Info || len(refused.Evidence.([]audit.Event)) != 10 || refused.Evidence.([]audit.Event)[0].Rule != "one" {
				t.Errorf("refused: %+v", refused)
			}
			if p := problem(d, "provider-absent"); p == nil || p.Slot != "vacant" {
				t.Errorf("vacant: %+v", p)
			}
			if !slices.Contains(d.ChecksSkipped, "tools of vacant: the provider is not connected") {
				t.Errorf("skipped: %v", d.ChecksSkipped)
			}
			time.Sleep(time.Hour)
			if problem(r.Diagnose(t.Context(), mcp.Query{}), "limits-admission-refused") != nil {
				t.Error("an old refusal is a problem still")
			}
		})
	t.Run("C-101 C-102 a store that has gone, and what cannot be checked then", func(t *testing.T) {
		store := &failing{Store: memory.New(memory.Options{})}
		ctl, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{slots("one", 1, sluice.Hold)}}, store, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		full := ""
		b, err := mcp.New(ctl, mcp.Options{Limits: true, StoreFault: func() string { return full }})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		defer ctl.Close()
		defer b.Close(t.Context())
		for _, c := range []struct {
			err     error
			full    string
			fault   string
			skipped string
		}{
			{nil, "", "", ""},
			{errors.ErrUnsupported, "", "", "does not list"},
			{context.DeadlineExceeded, "", "", "too large"},
			{nil, "the disk is full", "the disk is full", ""}, // it can be read
			{errors.New("the disk has gone"), "the disk is full", "the disk has gone", "does not answer"},
		} {
			store.err, full = c.err, c.full
			d := b.Diagnose(t.Context(), mcp.Query{})
			if p := problem(d, "limits-storage-fault"); (p != nil) != (c.fault != "") || p != nil && (p.Severity != mcp.Fault || p.Evidence != c.fault || *d.Authority.Limits.StorageFault != c.fault) {
				t.Errorf("%v: %+v", c.err, p)
			}
			if got := strings.Join(d.ChecksSkipped, "; "); !strings.Contains(got, c.skipped) || (got == "") != (c.skipped == "") {
				t.Errorf("%v: skipped %q", c.err, got)
			}
		}
	})
	t.Run("C-102 what the answer has", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.client("p", "2025-06-18", nil)
		const want = "aggregate authority broker calls checksSkipped notes problems refusals reservations seeAlso slots summary"
		if got := keys(shape(t, r.Diagnose(t.Context(), mcp.Query{}))); got != want {
			t.Errorf("it has %s\nwant %s", got, want)
		}
	})
}

func TestPages(t *testing.T) {
	bubble(t, "C-W20 all calls, by page and by what they are", []sluice.Rule{slots("many", 100, sluice.Hold)}, func(o *mcp.Options) { o.Slots[0].RequestTimeout = 30 * time.Second }, func(t *testing.T, r *rig, _ *client) {
		alice, bob := r.client("p", "2025-06-18", policy.NewCaller("user:alice")), r.client("p", "2025-06-18", policy.NewCaller("user:bob"))
		for range 60 {
			alice.call("silent", `{}`)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute) // which abandons those
		bob.call("hold", `{"key":"a"}`)
		r.key("a")
		seen := map[string]bool{}
		for from := 0; from < 61; from += 25 {
			page := r.Diagnose(t.Context(), mcp.Query{Offset: from, Limit: 25}).Calls
			if page.Total != 61 || page.Offset != from {
				t.Errorf("at %d: %d from %d", from, page.Total, page.Offset)
			}
			for _, c := range page.Calls {
				seen[c.RequestID] = true
			}
		}
		if len(seen) != 61 {
			t.Errorf("the pages have %d calls", len(seen))
		}
		for _, c := range []struct {
			q           mcp.Query
			total, here int
		}{
			{mcp.Query{}, 61, 50}, {mcp.Query{Limit: 10_000}, 61, 61}, {mcp.Query{Offset: 1000}, 61, 0}, {mcp.Query{Offset: -5, Limit: -5}, 61, 50},
			{mcp.Query{State: mcp.Abandoned}, 60, 50}, {mcp.Query{State: mcp.Running}, 1, 1}, {mcp.Query{Identity: "user:bob"}, 1, 1},
			{mcp.Query{Rule: "many"}, 61, 50}, {mcp.Query{Rule: "none"}, 0, 0}, {mcp.Query{Slot: "q"}, 0, 0}, {mcp.Query{Capability: "mcp.tools.call", Slot: "p"}, 61, 50},
			{mcp.Query{Identity: "u…", Label: func(s string) string { return s[:1] + "…" }}, 61, 50},
		} {
			if got := r.Diagnose(t.Context(), c.q).Calls; got.Total != c.total || len(got.Calls) != c.here {
				t.Errorf("%+v: %d of %d, want %d of %d", c.q, len(got.Calls), got.Total, c.here, c.total)
			}
		}
	})
}

func TestEvents(t *testing.T) {
	bubble(t, "C-103 the last 200, and refusals for themselves", []sluice.Rule{slots("one", 1, sluice.Hold)}, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		c.call("echo", `{}`).refused(-32029)
		_ = work.Text("x")
		x.passed()
		for range 150 {
			c.call("echo", `{}`).passed()
		}
		events := r.AuthorityInfo(t.Context()).Limits.RecentEvents
		if len(events) != 200 || slices.ContainsFunc(events, func(e audit.Event) bool { return e.Outcome == audit.Refused }) {
			t.Errorf("there are %d", len(events))
		}
		if !slices.IsSortedFunc(events, func(x, y audit.Event) int { return x.Time.Compare(y.Time) }) {
			t.Error("they are not in order")
		}
		refusals := r.Diagnose(t.Context(), mcp.Query{}).Refusals
		if len(refusals) != 1 || refusals[0].Rule != "one" || refusals[0].Reason != "concurrency-exceeded" || refusals[0].RequestID == "" {
			t.Errorf("the refusals are %+v", refusals)
		}
	})
	bubble(t, "C-103 M-121 each action, with what it has", []sluice.Rule{slots("one", 1, sluice.Free)}, nil, func(t *testing.T, r *rig, c *client) {
		c.call("echo", `{}`).passed()
		synctest.Wait() // the audit hears of an end after the client
		c.call("nonsense", `{}`).answer()
		synctest.Wait()
		c.call("hold", `{"key":"late"}`).answer() // after its time
		synctest.Wait()
		c.call("hold", `{"key":"cancelled"}`)
		r.key("cancelled")
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.n))
		synctest.Wait()
		x := c.call("die", `{}`)
		x.answer()
		synctest.Wait()
		var got []string
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range r.events {
			if e.Method != "tools/call" {
				continue
			}
			got = append(got, fmt.Sprintf("%s %s %v", e.Action, e.Outcome, e.Allowed))
			if e.Time.IsZero() || e.RequestID == "" || e.CorrelationID == "" || e.Slot != "p" || e.Identity != "anonymous" {
				t.Errorf("audited %+v", e)
			}
		}
		want := []string{"admit dispatched true", "complete completed true", "admit invalid false", "admit dispatched true", "timeout timed-out false",
			"admit dispatched true", "cancel cancelled false", "admit dispatched true", "lost failed false"}
		if !slices.Equal(got, want) {
			t.Errorf("audited\n%v, want\n%v", got, want)
		}
	})
}

// TestOneRecord has one attempt of each kind, and wants the records of each.
func TestOneRecord(t *testing.T) {
	p, err := policy.New(policy.Config{
		Roles:            []policy.Role{{Name: "r", Capabilities: []string{"mcp.tools.call", "mcp.tools.list"}}},
		Assignments:      []policy.Assignment{{Subject: "user:alice", Role: "r", Resource: "/p"}, {Subject: "user:owner", Role: "r", Resource: "/**"}},
		ToolCapabilities: map[string]string{"die": "x.no"},
		Providers:        []policy.Provider{{ID: "owner", Secret: policy.Secret("a secret for a test"), Subjects: []string{"user:owner"}}},
		ProtectedSlots:   map[string]policy.Protection{"guarded": {DeclaredBy: "owner", PublishedBy: "owner"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	alice := policy.NewCaller("user:alice")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, []sluice.Rule{slots("one", 1, sluice.Hold)}, func(o *mcp.Options) {
			o.Policy = p
			o.Slots[0].Cache = []mcp.CacheRule{{Tool: "big", TTL: time.Hour, Writes: true}}
			o.Slots = append(o.Slots, mcp.Slot{Name: "guarded"})
		})
		c := r.client("p", "2025-06-18", alice)
		for _, attempt := range []struct {
			name string
			do   func()
			want string
		}{
			{"passes", func() { c.call("echo", `{}`).passed() }, "admit dispatched; complete completed"},
			{"its tool fails", func() { c.call("error", `{"code":-1,"message":"m"}`).answer() }, "admit dispatched; complete failed"},
			{"denied", func() { c.call("die", `{}`).refused(-32001) }, "admit denied"},
			{"at a slot that is another's", func() { r.Access("guarded", alice) }, "admit denied"},
			{"at its own slot", func() { r.Access("guarded", policy.NewCaller("user:owner")) }, ""},
			{"no such tool", func() { c.call("none", `{}`).refused(-32602) }, "admit invalid"},
			{"to be kept", func() { c.call("big", `{"bytes":1}`).passed() }, "admit dispatched; complete completed"},
			{"kept", func() { c.call("big", `{"bytes":1}`).passed() }, "admit cache-hit"},
			{"late", func() { c.call("silent", `{}`).answer() }, "admit dispatched; timeout timed-out"},
			{"refused", func() { c.call("echo", `{}`).refused(-32029) }, "admit refused"},
			{"freed", func() {
				held, _ := r.Held(t.Context())
				_, _ = r.Release(t.Context(), "p", held[0].RequestID, "user:op")
			}, "release released"},
			{"cancelled", func() {
				c.call("hold", `{"key":"a"}`)
				r.key("a")
				c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.n))
			}, "admit dispatched; cancel cancelled"},
		} {
			synctest.Wait() // the audit hears of an end after the client
			r.mu.Lock()
			r.events = nil
			r.mu.Unlock()
			attempt.do()
			synctest.Wait()
			r.mu.Lock()
			var got []string
			for _, e := range r.events {
				got = append(got, fmt.Sprint(e.Action, " ", e.Outcome))
			}
			r.mu.Unlock()
			if text := strings.Join(got, "; "); text != attempt.want {
				t.Errorf("M-121 %s: %s, want %s", attempt.name, text, attempt.want)
			}
		}
	})
}

// A journal is a log that is written by many.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) read() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bytes.Clone(j.text.Bytes())
}

// TestNothingLeaks plants a secret wherever a caller or a provider can put one, and looks for
// it in everything that an operator reads.
func TestNothingLeaks(t *testing.T) {
	const secret = "hunter2-planted"
	var log journal
	p, err := policy.New(policy.Config{
		Roles:       []policy.Role{{Name: "r", Capabilities: []string{"*"}}},
		Assignments: []policy.Assignment{{Subject: "user:alice", Role: "r", Resource: "/**"}},
		Providers:   []policy.Provider{{ID: "scada", Secret: policy.Secret(secret + "-of-a-provider"), AllowedResources: []string{"/site/**"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, []sluice.Rule{slots("one", 3, sluice.Hold), window("few", 8, limit.Hour)}, func(o *mcp.Options) {
		o.Policy, o.Limits, o.Order = p, true, []string{"one", "few"}
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Secret = []byte(secret + "-of-the-broker")
		o.Slots[0].Cache = []mcp.CacheRule{{Tool: "echo", TTL: time.Hour, Writes: true}}
	})
	alice := r.client("p", "2025-06-18", policy.NewCaller("user:alice"))
	arguments := fmt.Sprintf(`{"key":"a","password":%q,"message":%q,"code":-32050,"data":%q,"cancel":"ignore"}`, secret, secret, secret)
	alice.call("hold", arguments, "_meta", fmt.Sprintf(`{"progressToken":%q,"x":%q}`, secret, secret))
	r.key("a")
	alice.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%q}}`, alice.n, secret))
	for _, tool := range []string{"echo", "echo", "error", "fail", secret} {
		alice.call(tool, arguments).answer()
	}
	alice.ask(secret, map[string]string{"x": secret}).answer()
	alice.ask("resources/read", map[string]string{"uri": "file:///" + secret}).answer()
	alice.send(`{"jsonrpc":"2.0","id":"` + secret + `","method":"tools/call","params":{"name":"echo","arguments":` + arguments + `}}`).answer()
	alice.send(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"` + secret + `","arguments":` + arguments + `}}`)
	alice.send(`{"jsonrpc":"2.0","method":"notifications/` + secret + `"}`)
	for range 8 {
		alice.call("wait", `{"ms":0,"secret":"`+secret+`"}`).answer()
	}
	d := r.dialIn("site", p.Principal("scada"))
	d.ask("broker/authorize", `{"principal":{"type":"caller-ref","ref":"`+secret+`"},"checks":[{"capability":"a.b","resource":"`+secret+`"}]}`)
	d.ask("broker/budget/settle", `{"reservationId":"`+secret+`","used":1,"result":"success"}`)
	d.ask("broker/"+secret, `{}`)
	op := r.client(mcp.BrokerSlot, "2025-06-18", policy.NewCaller("user:alice"))
	op.call("broker_limits_release", `{"slot":"`+secret+`","requestId":"`+secret+`"}`).answer()
	op.call(secret, `{"x":"`+secret+`"}`).answer()

	r.await(func(e audit.Event) bool { return e.Slot == mcp.BrokerSlot && e.Reason == "unknown-tool" }) // the last
	r.mu.Lock()
	events, err := json.Marshal(r.events)
	n := len(r.events)
	r.mu.Unlock()
	if err != nil || n < 30 {
		t.Fatalf("%d events, %v", n, err)
	}
	diagnosis, err := json.Marshal(r.Diagnose(context.Background(), mcp.Query{Limit: 500}))
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string][]byte{"log": log.read(), "audit": events, "diagnosis": diagnosis} {
		if i := bytes.Index(text, []byte("hunter2")); i >= 0 {
			t.Errorf("C-104 the %s has it: %s", what, text[max(0, i-300):min(len(text), i+100)])
		}
	}
}
