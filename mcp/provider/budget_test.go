package provider_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/provider"
)

// worker is a server with one tool, which does what the test says for each call.
func worker(work func(context.Context, *provider.Request) (*provider.Result, error)) *provider.Server {
	return &provider.Server{Name: "plant", Version: "1", Tools: []provider.Tool{{Name: "work", Run: work}}}
}

// inside calls the tool, and runs f while its request is under way.
func inside(t *testing.T, r *rig, f func(ctx context.Context, p *provider.Provider, c provider.CallerReference)) {
	t.Helper()
	r.open()
	r.dial(r.options(worker(func(ctx context.Context, q *provider.Request) (*provider.Result, error) {
		c, ok := q.Caller()
		if !ok {
			t.Errorf("C-83 no caller reference in %s", q.Meta)
		}
		f(ctx, provider.FromContext(ctx), c)
		return provider.Text("done"), nil
	})))
	r.connected(1)
	r.call("site", "work", `{}`).text()
}

// query asks for some units on a caller's behalf.
func query(c provider.CallerReference, n int64) provider.Query {
	return provider.Query{Caller: c, Capability: "plant.run", Resource: "tank:1", Path: "/site/tank/1", Unit: "op", Quantity: n}
}

func TestWithBudget(t *testing.T) {
	settled := func(r *rig, result string) {
		t.Helper()
		e := r.last(audit.Settle)
		if e.Result != result || e.Used == nil || *e.Used != 3 || e.Outcome != audit.Settled {
			t.Errorf("settled as %+v", e)
		}
	}
	t.Run("C-82 work runs once and is settled as a success", func(t *testing.T) {
		r, ran := newRig(t, budget("ops", 10, limit.Hour)), 0
		inside(t, r, func(ctx context.Context, p *provider.Provider, c provider.CallerReference) {
			err := p.WithBudget(ctx, query(c, 3), func(_ context.Context, g *provider.Grant) error {
				ran++
				if g.Quantity != 3 || g.Replayed || !g.Valid(time.Now()) || time.Until(time.UnixMilli(g.ExpiresAt)).Round(time.Second) != time.Minute || g.DecisionID == "" {
					t.Errorf("C-66 C-67 the grant is %+v", g)
				}
				return nil
			})
			if err != nil || ran != 1 {
				t.Errorf("ran %d times, %v", ran, err)
			}
			settled(r, "success")
		})
	})
	t.Run("C-82 a settlement that fails is the call's failure", func(t *testing.T) {
		inside(t, newRig(t, budget("ops", 10, limit.Hour)), func(ctx context.Context, p *provider.Provider, c provider.CallerReference) {
			err := p.WithBudget(ctx, query(c, 3), func(ctx context.Context, g *provider.Grant) error {
				return p.SettleBudget(ctx, provider.Settlement{ReservationID: g.ReservationID, Used: 1, Result: provider.Success})
			})
			if e, ok := errors.AsType[*provider.Error](err); !ok || e.Reason != "settlement-conflict" {
				t.Errorf("got %v", err)
			}
		})
	})
	stuck := errors.New("the valve is stuck")
	t.Run("C-82 work that fails is settled as a failure, and is the error", func(t *testing.T) {
		r := newRig(t, budget("ops", 10, limit.Hour))
		inside(t, r, func(ctx context.Context, p *provider.Provider, c provider.CallerReference) {
			if err := p.WithBudget(ctx, query(c, 3), func(context.Context, *provider.Grant) error { return stuck }); err != stuck {
				t.Errorf("got %v", err)
			}
			settled(r, "failure")
		})
	})
	t.Run("C-82 and stays the error if it cannot be settled", func(t *testing.T) {
		inside(t, newRig(t, budget("ops", 10, limit.Hour)), func(ctx context.Context, p *provider.Provider, c provider.CallerReference) {
			err := p.WithBudget(ctx, query(c, 3), func(ctx context.Context, g *provider.Grant) error {
				if err := p.SettleBudget(ctx, provider.Settlement{ReservationID: g.ReservationID, Used: 1, Result: provider.Success}); err != nil {
					t.Error(err)
				}
				return stuck
			})
			if err != stuck {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("C-82 work that was cancelled is settled all the same", func(t *testing.T) {
		r := newRig(t, budget("ops", 10, limit.Hour))
		inside(t, r, func(ctx context.Context, p *provider.Provider, c provider.CallerReference) {
			within, cancel := context.WithCancel(ctx)
			err := p.WithBudget(within, query(c, 3), func(context.Context, *provider.Grant) error { cancel(); return within.Err() })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			settled(r, "failure")
		})
	})
	never := func(context.Context, *provider.Grant) error {
		t.Error("the work ran")
		return nil
	}
	t.Run("C-82 C-68 a replayed grant is no permission", func(t *testing.T) {
		inside(t, newRig(t, budget("ops", 10, limit.Hour)), func(ctx context.Context, p *provider.Provider, c provider.CallerReference) {
			q := query(c, 3)
			q.Key = "once"
			first, err := p.ReserveBudget(ctx, q)
			if err != nil || first.Replayed {
				t.Fatalf("%+v %v", first, err)
			}
			if again, err := p.ReserveBudget(ctx, q); err != nil || !again.Replayed || again.ReservationID != first.ReservationID || again.DecisionID != first.DecisionID || again.ExpiresAt > first.ExpiresAt+1 {
				t.Errorf("%+v, first %+v, %v", again, first, err)
			}
			if err := p.WithBudget(ctx, q, never); !errors.Is(err, provider.ErrReplayed) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("C-82 C-67a an expired grant is no permission", func(t *testing.T) {
		inside(t, newRig(t, budget("ops", 10, limit.Millisecond)), func(ctx context.Context, p *provider.Provider, c provider.CallerReference) {
			if err := p.WithBudget(ctx, query(c, 3), never); !errors.Is(err, provider.ErrExpired) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("C-26 C-65 a refusal says by which rule and for how long", func(t *testing.T) {
		inside(t, newRig(t, budget("wide", 10, limit.Hour), budget("narrow", 3, limit.Hour)), func(ctx context.Context, p *provider.Provider, c provider.CallerReference) {
			if err := p.WithBudget(ctx, query(c, 3), func(context.Context, *provider.Grant) error { return nil }); err != nil {
				t.Error(err)
			}
			err := p.WithBudget(ctx, query(c, 1), never)
			if e, ok := errors.AsType[*provider.Error](err); !ok || e.Reason != "limit-exceeded" || e.Rule != "narrow" || e.RetryAfter.Round(time.Minute) != time.Hour || e.Code != 429 || !strings.Contains(e.Error(), "narrow") {
				t.Errorf("got %#v", err)
			}
			if _, err := p.ReserveBudget(ctx, query(c, 7)); err == nil {
				t.Error("more than the narrow rule ever lets")
			}
		})
	})
	t.Run("C-66 a constrained allow says so", func(t *testing.T) {
		inside(t, newRig(t, budget("ops", 10, limit.Hour)), func(ctx context.Context, p *provider.Provider, c provider.CallerReference) {
			q := query(c, 1)
			q.Resource, q.Path = "pump:1", "/site/pump/1"
			g, err := p.ReserveBudget(ctx, q)
			if err != nil || g.Effect != "allow-with-constraints" || g.Obligations.Constraints == nil || g.Obligations.Constraints.MinValue != "0" || g.Obligations.Constraints.MaxValue != "1500" {
				t.Errorf("%+v %v", g, err)
			}
		})
	})
}

func TestAutonomousWork(t *testing.T) {
	r := newRig(t, budget("ops", 3, limit.Hour))
	r.open()
	p := r.dial(r.options(tools(nil)))
	q := query(provider.CallerReference{Ref: "cr_0"}, 3)
	q.Autonomous = true
	ran := false
	if err := p.WithBudget(t.Context(), q, func(context.Context, *provider.Grant) error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("C-W11 %v", err)
	}
	if e := r.last(audit.Settle); e.Identity != "service:plant" || e.Result != "success" {
		t.Errorf("C-W11 settled as %+v", e)
	}
	q.Autonomous, q.Caller = false, provider.CallerReference{}
	if e, ok := errors.AsType[*provider.Error](p.WithBudget(t.Context(), q, nil)); !ok || e.Code != -32602 {
		t.Errorf("C-58 a query without a caller is the provider's")
	}
}

func TestAuthorize(t *testing.T) {
	r := newRig(t)
	inside(t, r, func(ctx context.Context, p *provider.Provider, c provider.CallerReference) {
		got, err := p.Authorize(ctx, c, provider.Check{Capability: "plant.run", Resource: "tank:1", Path: "/site/tank/1"},
			provider.Check{Capability: "plant.run", Resource: "pump:1", Path: "/site/pump/1"}, provider.Check{Capability: "plant.run", Resource: "x", Path: "/elsewhere"})
		if err != nil || len(got) != 3 || !got[0].Allowed() || !got[1].Allowed() || got[1].Obligations.Constraints == nil || got[2].Allowed() || got[2].Reason != "undeclared-resource" {
			t.Errorf("4.2.9 %+v %v", got, err)
		}
		awaited := func() int { return r.AuthorityInfo(ctx).ResultsAwaited }
		if awaited() != 2 {
			t.Errorf("%d results are awaited", awaited())
		}
		if err := p.Report(ctx, &got[0], provider.Success); err != nil || awaited() != 1 {
			t.Errorf("%d results are awaited, %v", awaited(), err)
		}
		if e, ok := errors.AsType[*provider.Error](p.Report(ctx, &got[0], provider.Success)); !ok || e.Code != -32602 {
			t.Errorf("a result was taken twice")
		}
		if self, err := p.Authorize(ctx, provider.CallerReference{}, provider.Check{Capability: "plant.run", Resource: "tank:2", Path: "/site/tank/2"}); err != nil || self[0].Allowed() {
			t.Errorf("the provider itself may not be there: %+v %v", self, err)
		}
		if _, err := p.Authorize(ctx, provider.CallerReference{Ref: "cr_stolen"}, provider.Check{Capability: "plant.run", Resource: "x", Path: "/site"}); err == nil {
			t.Error("C-61 a stolen reference is taken")
		}
	})
}

func TestCallerReferenceOf(t *testing.T) {
	for meta, want := range map[string]provider.CallerReference{
		`{"io.cyanmycelium/caller":{"ref":"cr_1","correlationId":"c","traceId":"t"},"x":1}`: {Ref: "cr_1", CorrelationID: "c", TraceID: "t"},
		`{"io.cyanmycelium/caller":{"ref":"cr_1","correlationId":"c"}}`:                     {Ref: "cr_1", CorrelationID: "c"},
		`{"io.cyanmycelium/caller":{"ref":"cr_1"}}`:                                         {},
		`{"io.cyanmycelium/caller":{"ref":7,"correlationId":"c"}}`:                          {},
		`{"io.cyanmycelium/caller":{"Ref":"cr_1","correlationId":"c"}}`:                     {},
		`{"io.cyanmycelium/caller":"cr_1"}`:                                                 {},
		`{"caller":{"ref":"cr_1","correlationId":"c"}}`:                                     {},
		`[]`: {}, ``: {}, `{`: {},
	} {
		if got, ok := provider.CallerReferenceOf([]byte(meta)); got != want || ok != (want.Ref != "") {
			t.Errorf("C-83 %s: %+v %v", meta, got, ok)
		}
	}
}
