package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// At most two calls at once, three seconds apart, eight waiting for at most 20 seconds.
func Example() {
	rule := sluice.Rule{
		ID:     "arxiv",
		Limits: []sluice.Limit{{Limit: limit.Slots(2)}, {Limit: limit.Pace(3 * limit.Second)}},
		Queue:  &sluice.Queue{Depth: new(8), Timeout: 20 * time.Second},
	}
	ctl, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{rule}}, memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		panic(err)
	}
	adm, err := ctl.Admit(context.Background(), sluice.Call{}) // waits its turn
	if err != nil {
		panic(err)
	}
	defer adm.Release()
	fmt.Println("my turn")
	// Output: my turn
}

// Whoever refuses much keeps a Decision and a Call for each goroutine and allocates nothing.
func ExampleController_Try() {
	ctl := open(sluice.Rule{
		ID: "each", GroupBy: []sluice.Dimension{sluice.Subject},
		Limits: []sluice.Limit{{Limit: limit.Window(2, limit.Hour)}},
	})
	var d sluice.Decision
	var call sluice.Call
	for range 3 {
		call.Subject = "user:ann"
		ok, err := ctl.Try(context.Background(), &call, &d)
		if err != nil {
			panic(err)
		}
		if ok {
			d.Admission().Release()
			fmt.Println("admitted")
		} else {
			fmt.Println(d.Refusal().Reason, d.Refusal().Rule)
		}
	}
	// Output:
	// admitted
	// admitted
	// rate each
}

// A call takes what it may need and says afterwards what it did need.
func ExampleAdmission_Settle() {
	ctl := open(sluice.Rule{
		ID:     "tokens",
		Limits: []sluice.Limit{{Limit: limit.Window(1000, limit.Hour), Unit: sluice.Tokens}},
	})
	ctx := context.Background()
	left := func() int64 {
		x, err := ctl.Check(ctx, sluice.Call{})
		if err != nil {
			panic(err)
		}
		return x.Rules[0].Limits[0].Level.Remaining
	}
	adm, err := ctl.Admit(ctx, sluice.Call{Cost: sluice.Cost{{Unit: sluice.Tokens, N: 800}}})
	if err != nil {
		panic(err)
	}
	fmt.Println("reserved, left:", left())
	if err := adm.Settle(ctx, sluice.Cost{{Unit: sluice.Tokens, N: 150}}); err != nil {
		panic(err)
	}
	adm.Release()
	fmt.Println("settled, left:", left())

	_, err = ctl.Admit(ctx, sluice.Call{Cost: sluice.Cost{{Unit: sluice.Tokens, N: 5000}}})
	if r, ok := errors.AsType[*sluice.Refusal](err); ok {
		fmt.Println(r.Reason, "for good:", r.Permanent)
	}
	// Output:
	// reserved, left: 200
	// settled, left: 850
	// too_large for good: true
}

// An upstream that answered 429 is left alone by everybody who calls it.
func ExampleAdmission_Cool() {
	ctl := open(sluice.Rule{
		ID: "provider", GroupBy: []sluice.Dimension{sluice.Provider},
		Limits: []sluice.Limit{{Limit: limit.Cooldown(limit.Hour)}},
	})
	ctx := context.Background()
	adm, err := ctl.Admit(ctx, sluice.Call{Provider: "openai"})
	if err != nil {
		panic(err)
	}
	if err := adm.Cool(ctx, 30*time.Second); err != nil { // Retry-After: 30
		panic(err)
	}
	adm.Release()
	for _, provider := range []string{"openai", "anthropic"} {
		adm, err := ctl.Admit(ctx, sluice.Call{Provider: provider})
		if r, ok := errors.AsType[*sluice.Refusal](err); ok {
			fmt.Println(provider, r.Reason, r.RetryAfter.Round(time.Second))
			continue
		}
		adm.Release()
		fmt.Println(provider, "admitted")
	}
	// Output:
	// openai cooldown 30s
	// anthropic admitted
}

// Several rules are taken together, or none: whoever is refused by one has used up
// nothing of the others.
func ExampleController_Admit() {
	ctl := open(
		sluice.Rule{
			ID: "user", GroupBy: []sluice.Dimension{sluice.Subject},
			Limits: []sluice.Limit{{Limit: limit.Window(4, limit.Hour)}},
		},
		sluice.Rule{
			ID: "tenant", GroupBy: []sluice.Dimension{sluice.Tenant},
			Limits: []sluice.Limit{{Limit: limit.Window(5, limit.Hour)}},
		},
	)
	call := sluice.Call{Subject: "user:ann", Tenant: "tenant:acme"}
	for range 10 {
		adm, err := ctl.Admit(context.Background(), call)
		if r, ok := errors.AsType[*sluice.Refusal](err); ok {
			fmt.Println("refused by", r.Violated, "for", r.RetryAfter.Round(time.Hour))
			call.Subject = "user:bob"
			continue
		}
		if err != nil {
			panic(err)
		}
		adm.Release()
		if call.Subject == "user:bob" {
			fmt.Println("bob has his turn")
			break
		}
	}
	// Output:
	// refused by [user] for 1h0m0s
	// bob has his turn
}

// A new policy holds at once, and what was used stays used.
func ExampleController_SetPolicy() {
	perHour := func(n int64) *sluice.Policy {
		return &sluice.Policy{Rules: []sluice.Rule{{
			ID: "all", Limits: []sluice.Limit{{Limit: limit.Window(n, limit.Hour)}},
		}}}
	}
	ctl := open(perHour(100).Rules...)
	ctx := context.Background()
	for range 50 {
		adm, err := ctl.Admit(ctx, sluice.Call{})
		if err != nil {
			panic(err)
		}
		adm.Release()
	}
	for _, n := range []int64{10, 60} {
		if err := ctl.SetPolicy(perHour(n)); err != nil {
			panic(err)
		}
		x, err := ctl.Check(ctx, sluice.Call{})
		if err != nil {
			panic(err)
		}
		fmt.Println(n, "an hour: admitted", x.Admitted, "left", x.Rules[0].Limits[0].Level.Remaining)
	}
	// Output:
	// 10 an hour: admitted false left 0
	// 60 an hour: admitted true left 10
}

// open returns a controller with rules on a store in memory.
func open(rules ...sluice.Rule) *sluice.Controller {
	ctl, err := sluice.Open(&sluice.Policy{Rules: rules}, memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		panic(err)
	}
	return ctl
}
