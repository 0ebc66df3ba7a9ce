package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
)

// A dialled is a provider that has dialled in, and asks the broker too.
type dialled struct {
	*mcptest.Provider
	wire
	t *testing.T
	n int
}

// A wire is its end of the connection. Answers to its questions do not go to the provider.
type wire struct {
	mcptest.Wire
	answers chan *mcptest.Frame
}

// inbox is a link's before there is one: a provider dials in with a link, and gets its
// inbox for it.
type inbox struct {
	ready chan struct{}
	to    link.Inbox
}

func (i *inbox) Message(m *jsonrpc.Message, of jsonrpc.ID) { <-i.ready; i.to.Message(m, of) }
func (i *inbox) Lost(id jsonrpc.ID, f link.Failure)        { <-i.ready; i.to.Lost(id, f) }
func (i *inbox) Bad(err error)                             { <-i.ready; i.to.Bad(err) }
func (i *inbox) Down(err error)                            { <-i.ready; i.to.Down(err) }

func (w wire) Next() ([]byte, error) {
	for {
		frame, err := w.Wire.Next()
		if err != nil {
			return nil, err
		}
		f, err := mcptest.ReadFrame(frame)
		if err != nil || f.Method != "" {
			return frame, nil
		}
		w.answers <- f
	}
}

// dialIn connects a provider of the policy's to a slot.
func (r *rig) dialIn(slot string, who *policy.Principal) *dialled {
	r.t.Helper()
	d := &dialled{Provider: mcptest.New(mcptest.Options{Versions: []string{"2025-11-25"}}), t: r.t}
	conns := make(chan wire, 1)
	in := &inbox{ready: make(chan struct{})}
	dialer := &loopback.Dialer{Name: who.ID, Serve: func(c *loopback.Conn) error {
		w := wire{c, make(chan *mcptest.Frame, 10)}
		conns <- w
		return d.Serve(w)
	}}
	l, err := dialer.Dial(r.t.Context(), in)
	if err != nil {
		r.t.Fatal(err)
	}
	if in.to, err = r.Register(slot, who, l); err != nil {
		r.t.Fatal(err)
	}
	close(in.ready)
	r.t.Cleanup(d.Provider.Close)
	d.wire = <-conns
	r.await(func(e audit.Event) bool { return e.Action == audit.Takeover && e.Slot == slot && e.Allowed })
	return d
}

// ask sends the broker a request and waits for the answer.
func (d *dialled) ask(method, params string) *mcptest.Frame {
	d.t.Helper()
	d.n++
	id := fmt.Sprintf(`"ask-%d"`, d.n)
	if err := d.Send([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))); err != nil {
		d.t.Fatal(err)
	}
	select {
	case f := <-d.answers:
		if string(f.ID) != id {
			d.t.Fatalf("got %s, want the answer to %s", f.Raw, id)
		}
		return f
	case <-time.After(20 * time.Second):
		d.t.Fatalf("no answer to %s", method)
	}
	return nil
}

// declares has the provider say what it serves.
func (d *dialled) declares() {
	d.t.Helper()
	f := d.ask("broker/authorization/declare", `{"version":"1","domain":"scada","namespace":{"resource":"/site"},"capabilities":["scada.control"],
		"resources":[{"resource":"pump:1","resourcePath":"/site/pump/1","limits":{"minValue":0,"maxValue":1500}}]}`)
	if f.Error != nil {
		d.t.Fatalf("the declaration: %s", f.Raw)
	}
}

// site is a policy with one provider, "scada", which may serve "site", and operators.
func site(t *testing.T) *policy.Policy {
	t.Helper()
	p, err := policy.New(policy.Config{
		Roles: []policy.Role{{Name: "operator", Capabilities: []string{"scada.control", "mcp.tools.call"}}},
		Assignments: []policy.Assignment{
			{Subject: "group:ops", Role: "operator", Resource: "/site/**"}, {Subject: "service:scada", Role: "operator", Resource: "/site/tank/**"},
		},
		Providers: []policy.Provider{
			{ID: "scada", Secret: policy.Secret("a secret for a test"), Subjects: []string{"service:scada"}, AllowedResources: []string{"/site/**"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRevoked is a provider that is connected when its right to be ends.
func TestRevoked(t *testing.T) {
	with := func(secret, where string) *policy.Policy {
		p, err := policy.New(policy.Config{Providers: []policy.Provider{
			{ID: "scada", Secret: policy.Secret(secret), AllowedResources: []string{where}},
			{ID: "other", Secret: policy.Secret("the secret of another provider")},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	none, err := policy.New(policy.Config{Providers: []policy.Provider{{ID: "other", Secret: policy.Secret("the secret of another provider")}}})
	if err != nil {
		t.Fatal(err)
	}
	const secret = "a secret for a test"
	for _, c := range []struct {
		name  string
		then  *policy.Policy
		stays bool
	}{
		{"nothing has changed", with(secret, "/site"), true},
		{"it is not configured any more", none, false},
		{"its secret is another", with("the next secret for a test", "/site"), false},
		{"it may be elsewhere alone", with(secret, "/elsewhere/**"), false},
	} {
		for _, listed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, slot configured %v", c.name, listed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log journal
					r := newRig(t, nil, func(o *mcp.Options) {
						o.Policy, o.Logger = with(secret, "/site"), slog.New(slog.NewTextHandler(&log, nil))
						if listed {
							o.Slots = append(o.Slots, mcp.Slot{Name: "site"})
						}
					})
					r.dialIn("site", r.options.Policy.Principal("scada"))
					o := r.options
					o.Policy = c.then
					r.reload(o)
					synctest.Wait()
					there := slices.ContainsFunc(r.Providers(), func(s mcp.ProviderStatus) bool { return s.Slot == "site" && s.Connected })
					if there != c.stays {
						t.Errorf("it is connected: %v", there)
					}
					if said := strings.Contains(string(log.read()), `msg="mcp: a provider that dials in has gone" slot=site provider=provider:scada`); said == c.stays {
						t.Errorf("the log says that it has gone: %v", said)
					}
				})
			})
		}
	}
}

func TestAuthorize(t *testing.T) {
	p := site(t)
	r := newRig(t, []sluice.Rule{slots("one", 1, sluice.Hold)}, func(o *mcp.Options) { o.Policy = p })
	d := r.dialIn("site", p.Principal("scada"))

	ops := r.client("site", "2025-06-18", policy.NewCaller("user:alice", "group:ops"))
	const self = `{"principal":{"type":"provider"},"checks":[{"capability":"scada.control","resource":"tank:1","resourcePath":"/site/tank/1"}]}`
	t.Run("C-60 nothing declared yet", func(t *testing.T) {
		if f := d.ask("broker/authorize", self); f.Error == nil || f.Error.Code != -32003 {
			t.Errorf("got %s", f.Raw)
		}
	})
	d.declares()
	waiting := ops.call("hold", `{"key":"a"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	held, err := d.Held(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Params struct {
			Meta struct {
				Caller struct{ Ref, CorrelationID string } `json:"io.cyanmycelium/caller"`
			} `json:"_meta"`
		}
	}
	if err := json.Unmarshal(held.Frame, &sent); err != nil {
		t.Fatal(err)
	}
	caller := sent.Params.Meta.Caller
	checks := fmt.Sprintf(`{"principal":{"type":"caller-ref","ref":%q},"checks":[
		{"capability":"scada.control","resource":"tank:1","resourcePath":"/site/tank/1","attributes":{"value":7}},
		{"capability":"scada.control","resource":"pump:1","resourcePath":"/site/pump/1"},
		{"capability":"scada.control","resource":"x","resourcePath":"/elsewhere"}]}`, caller.Ref)
	t.Run("C-42 several answers, and no limit is asked, however often", func(t *testing.T) {
		for range 3 {
			var got struct {
				PolicyVersion string
				Decisions     []struct {
					DecisionID, Effect, Reason string
					Obligations                struct{ Constraints json.RawMessage }
				}
			}
			f := d.ask("broker/authorize", checks)
			if err := json.Unmarshal(f.Result, &got); err != nil || len(got.Decisions) != 3 || got.PolicyVersion != p.Version()+".1" {
				t.Fatalf("got %s, %v", f.Raw, err)
			}
			text := ""
			for _, a := range got.Decisions {
				text += fmt.Sprintf("%s %s %s; ", a.Effect, a.Reason, a.Obligations.Constraints)
			}
			if want := `allow role-grant ; allow-with-constraints role-grant {"minValue":0,"maxValue":1500}; deny undeclared-resource ; `; text != want {
				t.Errorf("got  %s\nwant %s", text, want)
			}
		}
	})
	t.Run("C-104 the audit has the decisions and nothing that was asked with", func(t *testing.T) {
		events := r.audited(audit.Decide)
		if len(events) != 9 || events[0].Identity != "user:alice" || events[0].CorrelationID != caller.CorrelationID || events[0].DecisionID == events[1].DecisionID || events[2].Reason != "undeclared-resource" {
			t.Errorf("got %+v", events)
		}
	})
	t.Run("C-61 a provider asks for itself", func(t *testing.T) {
		if f := d.ask("broker/authorize", self); f.Error != nil {
			t.Errorf("got %s", f.Raw)
		}
	})
	t.Run("C-61 a reference nobody has issued", func(t *testing.T) {
		if f := d.ask("broker/authorize", `{"principal":{"type":"caller-ref","ref":"cr_stolen"},"checks":[{"capability":"a.b","resource":"r"}]}`); f.Error == nil || f.Error.Code != -32602 {
			t.Errorf("got %s", f.Raw)
		}
	})
	for name, params := range map[string]string{
		"C-57 another key":                  `"principal":{"type":"caller-ref","ref":"x"},"extra":1`,
		"C-57 a key in other case":          `"principal":{"type":"caller-ref","ref":"x"},"Quantity":1`,
		"C-57 another key of the principal": `"principal":{"type":"caller-ref","ref":"x","subject":"user:root"}`,
		"C-58 for the provider itself":      `"principal":{"type":"provider"}`,
		"C-59 a quantity that is a text":    `"principal":{"type":"caller-ref","ref":"x"},"unit":"u","quantity":"1","idempotencyKey":"k"`,
	} {
		t.Run(name, func(t *testing.T) {
			if f := d.ask("broker/budget/reserve", "{"+params+"}"); f.Error == nil || f.Error.Code != -32602 {
				t.Errorf("got %s", f.Raw)
			}
		})
	}
	if err := held.Text("done"); err != nil {
		t.Fatal(err)
	}
	waiting.passed()
	t.Run("C-61 a reference whose request was answered", func(t *testing.T) {
		if f := d.ask("broker/authorize", checks); f.Error == nil || f.Error.Code != -32602 {
			t.Errorf("got %s", f.Raw)
		}
	})
}

func TestPolicyOfRequests(t *testing.T) {
	p := site(t)
	r := newRig(t, nil, func(o *mcp.Options) { o.Policy = p })
	r.dialIn("site", p.Principal("scada"))
	ops := r.client("site", "2025-06-18", policy.NewCaller("user:alice", "group:ops"))
	ops.call("echo", `{}`).passed()
	t.Run("4.2.8 a method that needs no capability is not denied for it", func(t *testing.T) {
		f := ops.ask("logging/setLevel", map[string]string{"level": "info"}).answer()
		if f.Error != nil && f.Error.Code == -32001 {
			t.Errorf("got %s", f.Raw)
		}
	})
	t.Run("C-105 what nothing grants", func(t *testing.T) {
		stranger := r.client("site", "2025-06-18", policy.NewCaller("user:mallory"))
		stranger.call("echo", `{}`).refused(-32001)
	})
	t.Run("4.2.8 a method that nobody has listed", func(t *testing.T) {
		ops.ask("vendor/open", map[string]any{}).refused(-32001)
	})
}

// TestListsShowWhatCanBeCalled maps three tools to capabilities that the caller has, or has
// not, in every combination.
func TestListsShowWhatCanBeCalled(t *testing.T) {
	tools := []string{"echo", "big", "progress"}
	for mask := range 1 << len(tools) {
		mapped := map[string]string{}
		for i, tool := range tools {
			mapped[tool] = []string{"x.no", "x.yes"}[mask>>i&1]
		}
		p, err := policy.New(policy.Config{
			Roles:            []policy.Role{{Name: "r", Capabilities: []string{"x.yes", "mcp.tools.list"}}},
			Assignments:      []policy.Assignment{{Subject: "user:alice", Role: "r", Resource: "/p"}},
			ToolCapabilities: mapped,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("M-084 %03b", mask), func(t *testing.T) {
			r := newRig(t, nil, func(o *mcp.Options) { o.Policy = p })
			c := r.client("p", "2025-06-18", policy.NewCaller("user:alice"))
			var list struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal(c.ask("tools/list", map[string]any{}).passed().Result, &list); err != nil {
				t.Fatal(err)
			}
			shown := map[string]bool{}
			for _, tool := range list.Tools {
				shown[tool.Name] = true
			}
			for _, tool := range tools {
				f := c.call(tool, `{}`).answer()
				if called := f.Error == nil; called != shown[tool] || called != (mapped[tool] == "x.yes") {
					t.Errorf("%s is shown: %v; a call of it: %s", tool, shown[tool], f.Raw)
				}
				delete(shown, tool)
			}
			if len(shown) > 0 {
				t.Errorf("tools that nobody has granted are shown: %v", shown)
			}
		})
	}
}

func TestResults(t *testing.T) {
	p := site(t)
	r := newRig(t, nil, func(o *mcp.Options) { o.Policy = p })
	d := r.dialIn("site", p.Principal("scada"))
	if f := d.ask("broker/authorization/declare", `{"version":"1","domain":"scada","namespace":{"resource":"/site"},"capabilities":["scada.control"],
		"resultsRequired":["scada.control"],"budgetUnits":["op"],"resources":[{"resource":"tank:1","resourcePath":"/site/tank/1"}]}`); f.Error != nil {
		t.Fatal(string(f.Raw))
	}
	decided := d.ask("broker/authorize", `{"principal":{"type":"provider"},"checks":[{"capability":"scada.control","resource":"tank:1","resourcePath":"/site/tank/1"}]}`)
	var answer struct {
		Decisions []struct {
			DecisionID string `json:"decisionId"`
		} `json:"decisions"`
	}
	if err := json.Unmarshal(decided.Result, &answer); err != nil || len(answer.Decisions) != 1 {
		t.Fatalf("%v in %s", err, decided.Raw)
	}
	awaited := func() int { return r.AuthorityInfo(t.Context()).ResultsAwaited }
	if awaited() != 1 {
		t.Fatalf("%d results are awaited of %s", awaited(), decided.Raw)
	}
	report := fmt.Sprintf(`{"decisionId":%q,"result":"success"}`, answer.Decisions[0].DecisionID)
	for _, wrong := range []string{`{"decisionId":"dec_0","result":"success"}`, strings.Replace(report, "success", "well", 1), strings.Replace(report, "result", "Result", 1)} {
		if f := d.ask("broker/audit/result", wrong); f.Error == nil || f.Error.Code != -32602 {
			t.Errorf("%s: %s", wrong, f.Raw)
		}
	}
	if f := d.ask("broker/audit/result", report); f.Error != nil || awaited() != 0 {
		t.Errorf("%d are awaited after %s", awaited(), f.Raw)
	}
	if f := d.ask("broker/audit/result", report); f.Error == nil {
		t.Error("a result was reported twice")
	}
	t.Run("C-79 a reservation is not awaited", func(t *testing.T) {
		ops := r.client("site", "2025-06-18", policy.NewCaller("user:alice", "group:ops"))
		ops.call("hold", `{"key":"a"}`)
		held, err := d.Held(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		frame, _ := mcptest.ReadFrame(held.Frame)
		ref, _ := jsonrpc.Lookup(frame.Params, "_meta", "io.cyanmycelium/caller", "ref")
		d.ask("broker/budget/reserve", fmt.Sprintf(`{"principal":{"type":"caller-ref","ref":%s},"capability":"scada.control","resource":"tank:1",
			"resourcePath":"/site/tank/1","unit":"op","quantity":1,"idempotencyKey":"k"}`, ref))
		if awaited() != 0 {
			t.Errorf("%d are awaited", awaited())
		}
		_ = held.Text("x")
	})
}

func TestWithdraw(t *testing.T) {
	p, err := policy.New(policy.Config{
		Roles:       []policy.Role{{Name: "op", Capabilities: []string{"*"}}},
		Assignments: []policy.Assignment{{Subject: "user:op", Role: "op", Resource: "/**"}},
		Providers:   []policy.Provider{{ID: "scada", Secret: policy.Secret("a secret for a test"), AllowedResources: []string{"/site/**"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, nil, func(o *mcp.Options) { o.Policy = p })
	d := r.dialIn("site", p.Principal("scada"))
	d.declares()
	op := r.client(mcp.BrokerSlot, "2025-06-18", policy.NewCaller("user:op"))
	withdraw := func() string {
		return string(op.call("broker_declaration_release", `{"provider":"scada","slot":"site"}`).passed().Result)
	}
	t.Run("C-W27 not while the provider serves the slot", func(t *testing.T) {
		if got := withdraw(); !strings.Contains(got, `"isError":true`) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("C-W27 C-W26 then with an audit of who did it, once", func(t *testing.T) {
		if err := d.wire.Close(); err != nil {
			t.Fatal(err)
		}
		r.until("the provider has gone", func() bool { return !r.Providers()[1].Connected })
		if got := withdraw(); !strings.Contains(got, `"domains":["scada"]`) {
			t.Errorf("got %s", got)
		}
		if got := withdraw(); !strings.Contains(got, `"isError":true`) {
			t.Errorf("twice: %s", got)
		}
		list := r.audited(audit.Declare)
		if last := list[len(list)-1]; last.By != "user:op" || last.Outcome != audit.Released {
			t.Errorf("audited %+v", last)
		}
	})
}
