package mcp_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/policy"
)

// TestAutonomousReservation is C-W11: work that no request has asked for, or that outlives it.
func TestAutonomousReservation(t *testing.T) {
	// may is a broker whose provider has some capabilities of its own at the site.
	may := func(t *testing.T, capabilities ...string) (*rig, *dialled) {
		p, err := policy.New(policy.Config{
			Roles:         []policy.Role{{Name: "plant", Capabilities: capabilities}},
			Assignments:   []policy.Assignment{{Subject: "service:scada", Role: "plant", Resource: "/site/**"}},
			Providers:     []policy.Provider{{ID: "scada", Secret: policy.Secret("a secret for a test"), Subjects: []string{"service:scada"}, AllowedResources: []string{"/site/**"}}},
			SlotResources: map[string]string{"site": "/site"},
		})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, []sluice.Rule{budget("ops", "op", 3, limit.Hour)}, func(o *mcp.Options) { o.Policy, o.Limits = p, true })
		d := r.dialIn("site", p.Principal("scada"))
		d.declare(worksDeclaration)
		return r, d
	}
	const reserve = `{"principal":{"type":"provider"},"capability":"scada.control","resource":"pump:1","resourcePath":"/site/pump/1","unit":"op","quantity":2,"idempotencyKey":%q}`
	t.Run("C-58 nobody may who is not named for it", func(t *testing.T) {
		_, d := may(t, "scada.control")
		if f := d.ask("broker/budget/reserve", fmt.Sprintf(reserve, "k")); f.Error == nil || f.Error.Code != -32602 {
			t.Errorf("got %s", f.Raw)
		}
	})
	t.Run("C-W11 a provider with the capability reserves, settles, and is bound by the budget", func(t *testing.T) {
		_, d := may(t, "scada.control", "broker.budget.autonomous")
		f := d.ask("broker/budget/reserve", fmt.Sprintf(reserve, "k"))
		if f.Error != nil {
			t.Fatalf("got %s", f.Raw)
		}
		if again := d.ask("broker/budget/reserve", fmt.Sprintf(reserve, "k")); !strings.Contains(string(again.Result), `"replayed":true`) {
			t.Errorf("the same key again: %s", again.Raw)
		}
		if more := d.ask("broker/budget/reserve", fmt.Sprintf(reserve, "l")); more.Error == nil || more.Error.Code != -32029 {
			t.Errorf("beyond the budget: %s", more.Raw)
		}
		_, rest, _ := strings.Cut(string(f.Result), `"reservationId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		if s := d.ask("broker/budget/settle", fmt.Sprintf(`{"reservationId":%q,"used":1,"result":"success"}`, id)); s.Error != nil {
			t.Errorf("settled: %s", s.Raw)
		}
	})
	t.Run("C-W11 C-62 the capability alone permits no work", func(t *testing.T) {
		_, d := may(t, "broker.budget.autonomous")
		if f := d.ask("broker/budget/reserve", fmt.Sprintf(reserve, "k")); f.Error == nil || f.Error.Code != -32003 {
			t.Errorf("got %s", f.Raw)
		}
	})
}

func TestBudgetComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorks(t, budget("ops", "op", 4, limit.Minute))
		w.reserves(w.job().wants(3))
		time.Sleep(45 * time.Second)
		w.dialled.refused("broker/budget/reserve", w.job().wants(2), -32029, "limit-exceeded")
		w.reserves(w.job().wants(1))
		time.Sleep(15*time.Second - time.Millisecond)
		w.dialled.refused("broker/budget/reserve", w.job().wants(2), -32029, "limit-exceeded")
		time.Sleep(time.Millisecond)
		// M-110 a debit leaves whole, when its window has passed, and not little by little
		w.reserves(w.job().wants(3))
		w.dialled.refused("broker/budget/reserve", w.job().wants(1), -32029, "limit-exceeded")
	})
}
