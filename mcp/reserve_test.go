package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
)

// budget is a rule of n units in any per, as configuration makes it.
func budget(id, unit string, n int64, per limit.Micros) sluice.Rule {
	return sluice.Rule{ID: id, Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {"operation"}}}, Settle: sluice.Keep,
		Limits: []sluice.Limit{{Limit: limit.Window(n, per), Unit: sluice.Unit(unit)}}}
}

// A works is a broker with a provider in slot "site" that has declared units "op" and
// "joule", and alice, who may control what is there.
type works struct {
	*rig
	*dialled
	alice *client
	n     int
}

const worksDeclaration = `{"version":"1","domain":"scada","namespace":{"resource":"/site"},"capabilities":["scada.control","scada.observe","scada.stop"],
	"resources":[{"resource":"pump:1","resourcePath":"/site/pump/1","limits":{"minValue":0,"maxValue":1500}}],
	"resultsRequired":["scada.control"],"budgetUnits":["op","joule"]}`

func newWorks(t *testing.T, rules ...sluice.Rule) *works {
	t.Helper()
	return worksOn(newRig(t, rules, withPolicy(t)))
}

// withPolicy has two providers that may serve the site, and alice, who may control it and observe it.
func withPolicy(t *testing.T) func(*mcp.Options) {
	t.Helper()
	p, err := policy.New(policy.Config{
		Roles: []policy.Role{{Name: "operator", Capabilities: []string{"scada.control", "scada.observe", "mcp.tools.call"}}},
		Assignments: []policy.Assignment{
			{Subject: "user:alice", Role: "operator", Resource: "/site/**"}, {Subject: "user:alice", Role: "operator", Resource: "/p"}, {Subject: "user:bob", Role: "operator", Resource: "/site/**"}},
		Denies: []policy.Deny{{Subject: "user:alice", Capabilities: []string{"scada.control"}, Resource: "/site/secret/**"}},
		Providers: []policy.Provider{
			{ID: "scada", Secret: policy.Secret("a secret for a test"), AllowedResources: []string{"/site/**"}},
			{ID: "rival", Secret: policy.Secret("a third secret for a test"), AllowedResources: []string{"/site/**"}},
			{ID: "plc", Secret: policy.Secret("another secret for a test"), AllowedResources: []string{"/site/plc/**"}},
		},
		SlotResources: map[string]string{"second": "/site/second", "plc": "/site/plc"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *mcp.Options) {
		o.Policy, o.Limits = p, true
		o.Slots = append(o.Slots, mcp.Slot{Name: "site", RequestTimeout: 10 * time.Minute})
	}
}

func worksOn(r *rig) *works {
	r.t.Helper()
	w := &works{rig: r}
	w.dialled = r.dialIn("site", r.options.Policy.Principal("scada"))
	w.declare(worksDeclaration)
	w.alice = r.client("site", "2025-06-18", policy.NewCaller("user:alice"))
	return w
}

func (d *dialled) declare(text string) {
	d.t.Helper()
	if f := d.ask("broker/authorization/declare", text); f.Error != nil {
		d.t.Fatalf("the declaration: %s", f.Raw)
	}
}

// A job is a call under way, with the reference of its caller.
type job struct {
	*exchange
	*mcptest.Call
	ref string
}

// begin has a client call a tool that is held.
func (d *dialled) begin(c *client, key string) *job {
	d.t.Helper()
	x := c.call("hold", fmt.Sprintf(`{"key":%q}`, key))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	held, err := d.Held(ctx, key)
	if err != nil {
		d.t.Fatal(err)
	}
	var sent struct {
		Params struct {
			Meta struct {
				Caller struct{ Ref string } `json:"io.cyanmycelium/caller"`
			} `json:"_meta"`
		}
	}
	if err := json.Unmarshal(held.Frame, &sent); err != nil || sent.Params.Meta.Caller.Ref == "" {
		d.t.Fatalf("no reference in %s, %v", held.Frame, err)
	}
	return &job{x, held, sent.Params.Meta.Caller.Ref}
}

// end answers the call.
func (j *job) end(t *testing.T) {
	t.Helper()
	if err := j.Text("done"); err != nil {
		t.Fatal(err)
	}
	j.passed()
}

// job begins a call of alice's.
func (w *works) job() *job {
	w.rig.t.Helper()
	w.n++
	return w.begin(w.alice, fmt.Sprint("job ", w.n))
}

// params are members of an object, as JSON.
type params map[string]string

// with changes members; pairs of name and JSON, empty takes a member out.
func (p params) with(pairs ...string) params {
	p = maps.Clone(p)
	for i := 0; i < len(pairs); i += 2 {
		if p[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
			delete(p, pairs[i])
		}
	}
	return p
}

func (p params) String() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		list = append(list, fmt.Sprintf("%q:%s", name, p[name]))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// wants is a reservation of n units "op", with key "k".
func (j *job) wants(n int) params {
	return params{"principal": fmt.Sprintf(`{"type":"caller-ref","ref":%q}`, j.ref), "capability": `"scada.control"`, "resource": `"tank:1"`,
		"resourcePath": `"/site/tank/1"`, "unit": `"op"`, "quantity": fmt.Sprint(n), "idempotencyKey": `"k"`}
}

// grant is what a reservation is answered with.
type grant struct {
	ReservationID string          `json:"reservationId"`
	DecisionID    string          `json:"decisionId"`
	Quantity      int64           `json:"quantity"`
	ExpiresAt     int64           `json:"expiresAt"`
	ExpiresInMs   int64           `json:"expiresInMs"`
	Replayed      bool            `json:"replayed"`
	Effect        string          `json:"effect"`
	Obligations   json.RawMessage `json:"obligations"`
}

// reserves reserves, and is granted.
func (d *dialled) reserves(p params) (g grant) {
	d.t.Helper()
	f := d.ask("broker/budget/reserve", p.String())
	if f.Error != nil {
		d.t.Fatalf("not granted: %s", f.Raw)
	}
	if err := json.Unmarshal(f.Result, &g); err != nil {
		d.t.Fatal(err)
	}
	return g
}

// refused asks something, and is refused with a code and a reason.
func (d *dialled) refused(method string, p params, code int64, want string) *mcptest.Frame {
	d.t.Helper()
	f := d.ask(method, p.String())
	var data struct{ Reason string }
	if f.Error != nil && f.Error.Data != nil {
		if err := json.Unmarshal(f.Error.Data, &data); err != nil {
			d.t.Error(err)
		}
	}
	if f.Error == nil || f.Error.Code != code || data.Reason != want {
		d.t.Errorf("got %s\nwant error %d, reason %q", f.Raw, code, want)
	}
	return f
}

func (g grant) used(n string, result string) params {
	return params{"reservationId": fmt.Sprintf("%q", g.ReservationID), "used": n, "result": fmt.Sprintf("%q", result)}
}

const (
	reserve = "broker/budget/reserve"
	settle  = "broker/budget/settle"
)

// settles settles, and is believed.
func (d *dialled) settles(p params) {
	d.t.Helper()
	if f := d.ask(settle, p.String()); f.Error != nil || string(f.Result) != `{"settled":true}` {
		d.t.Errorf("C-76 got %s", f.Raw)
	}
}

func TestReserveParameters(t *testing.T) {
	w := newWorks(t, budget("ops", "op", 100, limit.Hour))
	j := w.job()
	good := j.wants(1)
	for name, p := range map[string]params{
		"C-57 a member that is not known":    good.with("note", `"x"`),
		"C-57 a member in other case":        good.with("quantity", "", "Quantity", "1"),
		"C-57 an identity in the principal":  good.with("principal", `{"type":"caller-ref","ref":"x","subject":"user:root"}`),
		"C-57 a principal that is none":      good.with("principal", `"user:alice"`),
		"C-57 no principal":                  good.with("principal", ""),
		"C-58 for the provider itself":       good.with("principal", `{"type":"provider"}`),
		"C-59 nothing":                       good.with("quantity", "0"),
		"C-59 less than nothing":             good.with("quantity", "-1"),
		"C-59 a half":                        good.with("quantity", "0.5"),
		"C-59 a text":                        good.with("quantity", `"1"`),
		"C-59 null":                          good.with("quantity", "null"),
		"C-59 no quantity":                   good.with("quantity", ""),
		"C-59 more than every number can be": good.with("quantity", "9007199254740992"),
		"C-59 more than an int64":            good.with("quantity", "99999999999999999999"),
		"C-59 an empty key":                  good.with("idempotencyKey", `""`),
		"C-59 no key":                        good.with("idempotencyKey", ""),
		"C-59 a key with a space":            good.with("idempotencyKey", `"a b"`),
		"C-59 a key with a line's end":       good.with("idempotencyKey", `"a\n"`),
		"C-59 a key that is too long":        good.with("idempotencyKey", `"`+strings.Repeat("k", 129)+`"`),
		"C-59 a unit that is no text":        good.with("unit", "7"),
		"C-61 a reference nobody has issued": good.with("principal", `{"type":"caller-ref","ref":"cr_stolen"}`),
		"C-63 a unit that is not declared":   good.with("unit", `"volt"`),
		"C-63 a unit in other case":          good.with("unit", `"Op"`),
	} {
		t.Run(name, func(t *testing.T) { w.dialled.refused(reserve, p, -32602, "") })
	}
	for name, c := range map[string]struct {
		params
		reason string
	}{
		"C-62 a deny":                                {good.with("resourcePath", `"/site/secret/1"`), "explicit-deny"},
		"C-62 a capability that is not granted":      {good.with("capability", `"scada.stop"`), "no-matching-grant"},
		"C-62 a capability that is not declared":     {good.with("capability", `"scada.reset"`), "undeclared-capability"},
		"C-62 a resource outside the namespace":      {good.with("resourcePath", `"/elsewhere"`), "undeclared-resource"},
		"C-62 a path that climbs out":                {good.with("resourcePath", `"/site/../elsewhere"`), "undeclared-resource"},
		"C-62 the same native id under another path": {good.with("resource", `"pump:1"`, "resourcePath", `"/site/tank/1"`), "undeclared-resource"},
		"C-62 no path":                               {good.with("resourcePath", ""), "undeclared-resource"},
	} {
		t.Run(name, func(t *testing.T) {
			f := w.dialled.refused(reserve, c.params, -32003, c.reason)
			if f.Error.Message != "Budget authorization refused" || !strings.Contains(string(f.Error.Data), `"effect":"deny"`) || !strings.Contains(string(f.Error.Data), `"decisionId":"dec_`) {
				t.Errorf("the decision is missing in %s", f.Raw)
			}
		})
	}
	t.Run("C-66 what passes is a grant, and no more than a grant", func(t *testing.T) {
		f := w.ask(reserve, good.with("quantity", "9", "idempotencyKey", `"`+strings.Repeat("k", 128)+`"`).String())
		var members map[string]json.RawMessage
		if err := json.Unmarshal(f.Result, &members); err != nil {
			t.Fatalf("%v in %s", err, f.Raw)
		}
		if got := slices.Sorted(maps.Keys(members)); !slices.Equal(got, []string{"decisionId", "expiresAt", "expiresInMs", "quantity", "replayed", "reservationId"}) || string(members["quantity"]) != "9" || string(members["replayed"]) != "false" {
			t.Errorf("got %s", f.Raw)
		}
	})
	t.Run("C-66 a constrained allow says its constraints", func(t *testing.T) {
		g := w.reserves(good.with("resource", `"pump:1"`, "resourcePath", `"/site/pump/1"`, "idempotencyKey", `"pump"`))
		if g.Effect != "allow-with-constraints" || string(g.Obligations) != `{"constraints":{"minValue":0,"maxValue":1500}}` {
			t.Errorf("got %+v", g)
		}
	})
	t.Run("C-61 a reference whose request was answered", func(t *testing.T) {
		j.end(t)
		w.dialled.refused(reserve, good.with("idempotencyKey", `"after"`), -32602, "")
	})
}

func TestReserveNeedsADeclaration(t *testing.T) {
	r := newRig(t, []sluice.Rule{budget("ops", "op", 1, limit.Hour)}, withPolicy(t))
	d := r.dialIn("site", r.options.Policy.Principal("scada"))
	j := &job{ref: "cr_1"}
	t.Run("C-60 nothing is declared", func(t *testing.T) { d.refused(reserve, j.wants(1), -32003, "") })
}

func TestBudgetPolicy(t *testing.T) {
	t.Run("C-64 no rule counts the unit", func(t *testing.T) {
		w := newWorks(t, budget("joules", "joule", 5, limit.Hour), window("calls", 100, limit.Hour))
		w.dialled.refused(reserve, w.job().wants(1), -32029, "no-budget-policy")
	})
	t.Run("C-64 the rule that does is about others", func(t *testing.T) {
		w := newWorks(t, only(budget("ops", "op", 5, limit.Hour), sluice.Subject, "user:bob"))
		w.dialled.refused(reserve, w.job().wants(1), -32029, "no-budget-policy")
	})
	t.Run("C-64 the rule that does only looks on", func(t *testing.T) {
		rule := budget("ops", "op", 5, limit.Hour)
		rule.Shadow = true
		w := newWorks(t, rule)
		w.dialled.refused(reserve, w.job().wants(1), -32029, "no-budget-policy")
	})
	t.Run("C-64 there are no limits at all", func(t *testing.T) {
		w := newWorks(t)
		w.dialled.refused(reserve, w.job().wants(1), -32029, "no-budget-policy")
	})
	t.Run("C-22 a rule's resource is the native one, not the slot's", func(t *testing.T) {
		w := newWorks(t, only(budget("tank", "op", 1, limit.Hour), sluice.Resource, "/site/tank/**"), budget("all", "op", 100, limit.Hour))
		j := w.job()
		w.reserves(j.wants(1))
		w.dialled.refused(reserve, j.wants(1).with("idempotencyKey", `"2"`), -32029, "limit-exceeded")
		w.reserves(j.wants(1).with("idempotencyKey", `"3"`, "resourcePath", `"/site/pump/2"`))
	})
	t.Run("C-65 all budgets are debited, or none", func(t *testing.T) {
		w := newWorks(t, budget("a", "op", 3, limit.Hour), budget("b", "op", 2, limit.Hour))
		j := w.job()
		for range 3 {
			f := w.dialled.refused(reserve, j.wants(3), -32029, "quantity-exceeds-limit")
			if !strings.Contains(string(f.Error.Data), `"ruleId":"b"`) || strings.Contains(string(f.Error.Data), "retryAfterMs") {
				t.Errorf("C-27 got %s", f.Raw)
			}
		}
		w.reserves(j.wants(2))
		w.dialled.refused(reserve, j.wants(1).with("idempotencyKey", `"2"`), -32029, "limit-exceeded")
	})
	t.Run("C-42 C-22 calls of tools take no budget, and reservations no calls", func(t *testing.T) {
		w := newWorks(t, budget("ops", "op", 2, limit.Hour), window("calls", 2, limit.Hour))
		j := w.job()
		w.reserves(j.wants(2))
		w.alice.call("echo", `{}`).passed()
		w.alice.call("echo", `{}`).refused(-32029)
	})
	t.Run("C-20 groups are of the caller, not of the provider", func(t *testing.T) {
		each := budget("each", "op", 1, limit.Hour)
		each.GroupBy = []sluice.Dimension{sluice.Subject}
		w := newWorks(t, each)
		w.reserves(w.job().wants(1))
		w.dialled.refused(reserve, w.job().wants(1), -32029, "limit-exceeded")
		bob := w.rig.client("site", "2025-06-18", policy.NewCaller("user:bob"))
		w.reserves(w.begin(bob, "bob").wants(1))
	})
}

func TestReplay(t *testing.T) {
	w := newWorks(t, budget("ops", "op", 3, limit.Hour))
	j := w.job()
	first := w.reserves(j.wants(3))
	t.Run("C-68 the same question is the same grant, without a debit", func(t *testing.T) {
		decided := len(w.audited(audit.Decide))
		for range 3 {
			again := w.reserves(j.wants(3))
			if !again.Replayed || first.Replayed || again.ReservationID != first.ReservationID || again.DecisionID != first.DecisionID || again.Quantity != 3 || again.ExpiresAt > first.ExpiresAt+1 {
				t.Errorf("first %+v, again %+v", first, again)
			}
		}
		if n := len(w.audited(audit.Decide)) - decided; n != 3 {
			t.Errorf("the policy was asked %d times", n)
		}
		events := w.audited(audit.Reserve)
		if e := events[len(events)-1]; e.Outcome != audit.Replayed || e.DecisionID != first.DecisionID {
			t.Errorf("audited as %+v", e)
		}
	})
	for name, change := range map[string][]string{
		"another quantity": {"quantity", "2"}, "another unit": {"unit", `"joule"`}, "another capability": {"capability", `"scada.observe"`}, "another resource": {"resourcePath", `"/site/tank/2"`},
	} {
		t.Run("C-69 C-72 the same key with "+name, func(t *testing.T) {
			why := "idempotency-conflict"
			if change[0] == "unit" {
				why = "no-budget-policy" // which comes first: nothing is counted in it
			}
			w.dialled.refused(reserve, j.wants(3).with(change...), -32029, why)
		})
	}
	t.Run("C-70 a key whose work is settled", func(t *testing.T) {
		w.settles(first.used("3", "success"))
		w.dialled.refused(reserve, j.wants(3), -32029, "reservation-expired-or-settled")
	})
	t.Run("C-71 the same key in another request is another reservation", func(t *testing.T) {
		w.dialled.refused(reserve, w.job().wants(3), -32029, "limit-exceeded")
	})
}

func TestReplayUnitConflict(t *testing.T) {
	t.Run("C-69 the same key with another unit", func(t *testing.T) {
		w := newWorks(t, budget("ops", "op", 3, limit.Hour), budget("joules", "joule", 3, limit.Hour))
		j := w.job()
		w.reserves(j.wants(3))
		w.dialled.refused(reserve, j.wants(3).with("unit", `"joule"`), -32029, "idempotency-conflict")
		w.reserves(j.wants(3).with("unit", `"joule"`, "idempotencyKey", `"2"`))
	})
}

func TestExpiry(t *testing.T) {
	for _, c := range []struct {
		name    string
		windows []limit.Micros
		want    time.Duration
	}{
		{"C-67 a minute at most", []limit.Micros{limit.Hour}, time.Minute},
		{"C-67 the shortest window that counts the unit", []limit.Micros{limit.Hour, 5 * limit.Second, limit.Minute}, 5 * time.Second},
		{"C-67a what the rule says", []limit.Micros{limit.Hour, 7 * limit.Second}, 250 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rules := []sluice.Rule{budget("joules", "joule", 10, limit.Second), only(budget("others", "op", 10, limit.Second), sluice.Subject, "user:bob")}
				for i, per := range c.windows {
					rules = append(rules, budget(fmt.Sprint("ops-", i), "op", 10, per))
				}
				w := worksOn(newRig(t, rules, func(o *mcp.Options) {
					withPolicy(t)(o)
					if c.want < time.Second {
						o.StartWithin = map[string]time.Duration{"ops-0": time.Second, "ops-1": c.want, "others": time.Microsecond}
					}
				}))
				j := w.job()
				began := time.Now()
				g := w.reserves(j.wants(1))
				if g.ExpiresAt != began.Add(c.want).UnixMilli() || g.ExpiresInMs != c.want.Milliseconds() {
					t.Errorf("%+v, reserved at %d", g, began.UnixMilli())
				}
				time.Sleep(c.want - time.Microsecond)
				if again := w.reserves(j.wants(1)); !again.Replayed || again.ExpiresAt != g.ExpiresAt-1 && again.ExpiresAt != g.ExpiresAt {
					t.Errorf("C-68 a microsecond before the end: %+v", again)
				}
				time.Sleep(time.Microsecond)
				w.dialled.refused(reserve, j.wants(1), -32029, "reservation-expired-or-settled") // C-70 at the end
				w.settles(g.used("1", "success"))                                                // C-77 and C-67a: the work may go on, and is settled
			})
		})
	}
}

func TestSettle(t *testing.T) {
	w := newWorks(t, budget("ops", "op", 10, limit.Hour))
	j := w.job()
	g := w.reserves(j.wants(5))
	for name, p := range map[string]params{
		"C-73 a member that is not known": g.used("1", "success").with("note", `"x"`),
		"C-73 no reservation":             g.used("1", "success").with("reservationId", ""),
		"C-73 no usage":                   g.used("1", "success").with("used", ""),
		"C-73 no result":                  g.used("1", "success").with("result", ""),
		"C-73 another result":             g.used("1", "aborted"),
		"C-73 a result in other case":     g.used("1", "Success"),
	} {
		t.Run(name, func(t *testing.T) { w.dialled.refused(settle, p, -32602, "") })
	}
	for name, used := range map[string]string{"less than nothing": "-1", "a half": "0.5", "a text": `"1"`, "more than was reserved": "6", "more than every number can be": "9007199254740993", "null": "null"} {
		t.Run("C-75 "+name, func(t *testing.T) { w.dialled.refused(settle, g.used(used, "success"), -32029, "invalid-usage") })
	}
	t.Run("C-74 a reservation that nobody has made", func(t *testing.T) {
		w.dialled.refused(settle, grant{ReservationID: "rsv_0"}.used("1", "success"), -32029, "unknown-reservation")
	})
	t.Run("C-74 C-61 another slot of the same provider", func(t *testing.T) {
		second := w.dialIn("second", w.options.Policy.Principal("scada"))
		second.refused(settle, g.used("5", "success"), -32029, "unknown-reservation")
		second.declare(worksDeclaration)
		second.refused(reserve, j.wants(1).with("idempotencyKey", `"second"`), -32602, "")
	})
	t.Run("C-74 C-61 another provider, and its reference", func(t *testing.T) {
		plc := w.dialIn("plc", w.options.Policy.Principal("plc"))
		plc.declare(strings.NewReplacer("scada", "plc", "/site", "/site/plc").Replace(worksDeclaration))
		plc.refused(settle, g.used("5", "success"), -32029, "unknown-reservation")
		plc.refused(reserve, j.wants(1).with("capability", `"plc.control"`, "resourcePath", `"/site/plc/1"`), -32602, "")
	})
	t.Run("C-76 the same again is the same, another is a conflict", func(t *testing.T) {
		for range 2 {
			w.settles(g.used("2", "failure"))
		}
		w.dialled.refused(settle, g.used("2", "success"), -32029, "settlement-conflict")
		w.dialled.refused(settle, g.used("3", "failure"), -32029, "settlement-conflict")
	})
	t.Run("C-78 C-103 nothing comes back, and the books say what was used", func(t *testing.T) {
		w.settles(w.reserves(j.wants(5).with("idempotencyKey", `"2"`)).used("0", "refused"))
		w.dialled.refused(reserve, j.wants(1).with("idempotencyKey", `"3"`), -32029, "limit-exceeded")
		events := w.audited(audit.Settle)
		if e := events[len(events)-1]; e.Used == nil || *e.Used != 0 || e.Result != "refused" || e.Unit != "op" || e.Quantity != 5 || e.Identity != "user:alice" {
			t.Errorf("audited as %+v", e)
		}
	})
}

// TestSettleLate settles when everybody else has gone.
func TestSettleLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorks(t, budget("ops", "op", 10, 2*limit.Hour))
		answered, late, gone := w.job(), w.job(), w.job()
		a, b, c := w.reserves(answered.wants(1)), w.reserves(late.wants(1)), w.reserves(gone.wants(1))
		answered.end(t)
		w.settles(a.used("1", "success")) // C-77 after the client's answer
		time.Sleep(11 * time.Minute)
		late.refused(-32000)
		w.dialled.refused(reserve, late.wants(1).with("idempotencyKey", `"late"`), -32602, "") // C-61 its client was answered
		w.settles(b.used("1", "success"))                                                      // C-77 after deadline and expiry
		if err := w.wire.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		rival := w.dialIn("site", w.options.Policy.Principal("rival"))
		rival.refused(settle, c.used("1", "success"), -32029, "unknown-reservation") // C-74 another provider in the same slot
		if err := rival.wire.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		again := w.dialIn("site", w.options.Policy.Principal("scada"))
		synctest.Wait()                       // the handshake
		again.settles(c.used("1", "success")) // C-77 M-113 over another connection, which has declared nothing
		again.declare(worksDeclaration)
		j := again.begin(w.alice, "again")
		again.refused(reserve, j.wants(8), -32029, "limit-exceeded") // C-78
		again.reserves(j.wants(7))
	})
}

// TestReferenceLife is a request without a deadline.
func TestReferenceLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worksOn(newRig(t, []sluice.Rule{budget("ops", "op", 10, limit.Hour)}, func(o *mcp.Options) {
			withPolicy(t)(o)
			o.Slots[len(o.Slots)-1].RequestTimeout = 0
		}))
		j := w.job()
		time.Sleep(10 * time.Minute)
		w.reserves(j.wants(1))
		time.Sleep(time.Microsecond)
		w.dialled.refused(reserve, j.wants(1).with("idempotencyKey", `"2"`), -32602, "") // 4.2.12 ten minutes, if nothing else ends it
		j.end(t)
	})
}

// TestNoBrokerForWhomItCalls is a provider that has no identity of its own.
func TestNoBrokerForWhomItCalls(t *testing.T) {
	r := newRig(t, []sluice.Rule{budget("ops", "op", 10, limit.Hour)}, nil)
	c := r.client("p", "2025-06-18", nil)
	for _, method := range []string{reserve, settle, "broker/authorize", "broker/authorization/declare"} {
		t.Run("C-81 "+method, func(t *testing.T) {
			f := c.call("ask", fmt.Sprintf(`{"method":%q,"params":{}}`, method)).passed()
			if !strings.Contains(string(f.Result), "-32601") {
				t.Errorf("got %s", f.Raw)
			}
		})
	}
}

// TestRefunds are rules that give back what was not used, and take what was used too much.
func TestRefunds(t *testing.T) {
	t.Run("C-W9 units that were not used come back if the rule says so", func(t *testing.T) {
		rule := budget("ops", "op", 10, limit.Hour)
		rule.Settle = sluice.Refund
		w := newWorks(t, rule)
		j := w.job()
		w.settles(w.reserves(j.wants(10)).used("1", "success"))
		w.dialled.refused(reserve, j.wants(10).with("idempotencyKey", `"2"`), -32029, "limit-exceeded")
		w.reserves(j.wants(9).with("idempotencyKey", `"3"`))
	})
	t.Run("C-W10 D14 what was used too much is debited if the rule says so", func(t *testing.T) {
		rule := budget("ops", "op", 10, limit.Hour)
		rule.AllowOverrun = true
		w := newWorks(t, rule)
		j := w.job()
		w.settles(w.reserves(j.wants(1)).used("4", "success"))
		w.dialled.refused(reserve, j.wants(7).with("idempotencyKey", `"2"`), -32029, "limit-exceeded")
		w.reserves(j.wants(6).with("idempotencyKey", `"3"`))
	})
	t.Run("C-75 a rule that gives back takes no more for that", func(t *testing.T) {
		rule := budget("ops", "op", 10, limit.Hour)
		rule.Settle = sluice.Refund
		w := newWorks(t, rule)
		j := w.job()
		w.dialled.refused(settle, w.reserves(j.wants(1)).used("2", "success"), -32029, "invalid-usage")
		w.reserves(j.wants(9).with("idempotencyKey", `"2"`))
	})
	t.Run("C-W10 not if another rule counts the unit too, and does not say so", func(t *testing.T) {
		rule := budget("ops", "op", 10, limit.Hour)
		rule.AllowOverrun = true
		w := newWorks(t, rule, budget("others", "op", 10, limit.Hour))
		w.dialled.refused(settle, w.reserves(w.job().wants(1)).used("2", "success"), -32029, "invalid-usage")
	})
}

// TestReservationsAtOnce asks for more than there is from many goroutines.
func TestReservationsAtOnce(t *testing.T) {
	w := newWorks(t, budget("ops", "op", 100, limit.Hour))
	j := w.job()
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			text := j.wants(10).with("idempotencyKey", fmt.Sprintf(`"k-%d"`, i)).String()
			if err := w.Send(mcptest.Request(fmt.Sprintf(`"at-once-%d"`, i), reserve, json.RawMessage(text))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	granted := 0
	for range 50 {
		select {
		case f := <-w.answers:
			if f.Error == nil {
				granted++
			} else if !strings.Contains(string(f.Error.Data), `"limit-exceeded"`) {
				t.Errorf("got %s", f.Raw)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no answer")
		}
	}
	if granted != 10 {
		t.Errorf("M-109 C-80 %d grants of 10 against 100", granted)
	}
}
