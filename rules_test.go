package sluice_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// where is a Match of these dimensions and values, in pairs.
func where(r sluice.Rule, pairs ...any) sluice.Rule {
	r.Match.Is = map[sluice.Dimension][]string{}
	for i := 0; i < len(pairs); i += 2 {
		r.Match.Is[pairs[i].(sluice.Dimension)] = strings.Split(pairs[i+1].(string), " ")
	}
	return r
}

var hourly = limit.Window(1, limit.Hour)

func TestMatching(t *testing.T) {
	alice := sluice.Call{
		Subject: "user:alice", Subjects: []string{"group:ops"}, Provider: "db",
		Capability: "db.query", Resource: "/db/main/users",
	}
	for _, x := range []struct {
		name  string
		rule  sluice.Rule
		match bool
	}{
		{"C-18 omitted matches all", one("r", hourly), true},
		{"C-18 subject", where(one("r", hourly), sluice.Subject, "user:alice"), true},
		{"C-18 any of the caller's subjects", where(one("r", hourly), sluice.Subject, "group:ops"), true},
		{"C-18 another subject", where(one("r", hourly), sluice.Subject, "user:al"), false},
		{"C-18 one of several values", where(one("r", hourly), sluice.Subject, "user:bob user:alice"), true},
		{"C-18 provider exact", where(one("r", hourly), sluice.Provider, "DB"), false},
		{"C-18 capability exact", where(one("r", hourly), sluice.Capability, "db.quer"), false},
		{"C-18 selectors intersect", where(one("r", hourly), sluice.Subject, "user:alice", sluice.Provider, "web"), false},
		{"C-18 all selectors", where(one("r", hourly), sluice.Subject, "user:alice", sluice.Resource, "/db/**"), true},
		{"a dimension that the call lacks", where(one("r", hourly), sluice.Tenant, "t"), false},
		{"not", sluice.Rule{ID: "r", Limits: []sluice.Limit{{Limit: hourly}}, Match: sluice.Match{
			Not: map[sluice.Dimension][]string{sluice.Subject: {"group:ops"}}}}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := engine(t, x.rule)
			if refused := passes(t, c, 2, alice) == 1; refused != x.match {
				t.Errorf("the rule is about the call: %v", refused)
			}
			if got := c.Matching(&alice); len(got) == 1 != x.match {
				t.Errorf("Matching says %d rules", len(got))
			}
			e, err := c.Check(background, alice)
			if err != nil || e.Rules[0].Matched != x.match || e.Rules[0].Why == "" {
				t.Errorf("Check: %+v, %v", e.Rules[0], err)
			}
		})
	}
}

func TestResourcePatterns(t *testing.T) {
	for _, x := range []struct{ pattern, matches, not string }{
		{"/a", "/a /a/", "/ /A /ab /a/b a"},
		{"/a/", "/a /a/", "/a/b"},
		{"/a/*", "/a/b /a/* /a/b/", "/a /a/ /a/b/c /b/b"},
		{"/*/b", "/a/b /x/b/", "/b /a/b/b /a//b"},
		{"/a/**", "/a /a/ /a/b /a/b/c/d", "/ab /b /A/b"},
		{"**", "/ /a /a/b", "a"},
		{"/**", "/ /a /a/b", "a"},
		{"/", "/", "/a"},
		{"/a/*/c/**", "/a/b/c /a/b/c/d/e", "/a/c /a/b /a/b/d"},
	} {
		c := engine(t, where(one("r", limit.Window(0, limit.Hour)), sluice.Resource, x.pattern))
		for _, path := range strings.Fields(x.matches) {
			if passes(t, c, 1, sluice.Call{Resource: path}) == 1 {
				t.Errorf("C-18, 4.2(7): %s must match %s", x.pattern, path)
			}
		}
		for _, path := range strings.Fields(x.not) {
			if passes(t, c, 1, sluice.Call{Resource: path}) == 0 {
				t.Errorf("C-18, 4.2(7): %s must not match %s", x.pattern, path)
			}
		}
	}
}

func TestPoliciesThatCannotBe(t *testing.T) {
	with := func(change func(*sluice.Rule)) sluice.Rule {
		r := one("r", hourly)
		change(&r)
		return r
	}
	unknown := sluice.Dimension(99)
	for _, x := range []struct {
		name  string
		rules []sluice.Rule
		says  string
	}{
		{"P-082 two of one id", []sluice.Rule{one("r", hourly), one("r", hourly)}, "same id"},
		{"no id", []sluice.Rule{one("", hourly)}, "1 to 128"},
		{"a bad id", []sluice.Rule{one("a b", hourly)}, "' '"},
		{"no limits", []sluice.Rule{one("r")}, "no limits"},
		{"A-19 negative", []sluice.Rule{one("r", limit.Slots(-1))}, "negative"},
		{"A-19 negative interval", []sluice.Rule{one("r", limit.Pace(-1))}, "negative"},
		{"A-19 negative depth", []sluice.Rule{with(func(r *sluice.Rule) { r.Queue = &sluice.Queue{Depth: new(-1)} })}, "negative"},
		{"A-19 negative time-out", []sluice.Rule{with(func(r *sluice.Rule) { r.Queue = &sluice.Queue{Timeout: -1} })}, "negative"},
		{"unknown fairBy", []sluice.Rule{with(func(r *sluice.Rule) { r.Queue = &sluice.Queue{FairBy: &unknown} })}, "unknown"},
		{"unknown groupBy", []sluice.Rule{each(one("r", hourly), unknown)}, "unknown"},
		{"groupBy twice", []sluice.Rule{each(one("r", hourly), sluice.IP, sluice.IP)}, "twice"},
		{"groupBy five", []sluice.Rule{each(one("r", hourly), 0, 1, 2, 3, 4)}, "at most 4"},
		{"selector without values", []sluice.Rule{with(func(r *sluice.Rule) {
			r.Match.Is = map[sluice.Dimension][]string{sluice.Kind: nil}
		})}, "never match"},
		{"two limits of one name", []sluice.Rule{one("r", hourly, hourly)}, "give them names"},
		{"negative weight", []sluice.Rule{with(func(r *sluice.Rule) { r.Weights = map[string]int64{"x": -1} })}, "negative"},
		{"C-18 relative pattern", []sluice.Rule{where(one("r", hourly), sluice.Resource, "a/b")}, `must begin with "/"`},
		{"C-18 .. in a pattern", []sluice.Rule{where(one("r", hourly), sluice.Resource, "/a/../b")}, ".."},
		{"C-18 empty segment", []sluice.Rule{where(one("r", hourly), sluice.Resource, "/a//b")}, "empty"},
		{"C-18 root with an empty segment", []sluice.Rule{where(one("r", hourly), sluice.Resource, "//")}, "empty"},
		{"C-18 ** not last", []sluice.Rule{where(one("r", hourly), sluice.Resource, "/**/b")}, "last"},
		{"C-18 partial wildcard", []sluice.Rule{where(one("r", hourly), sluice.Resource, "/a*")}, "whole"},
	} {
		t.Run(x.name, func(t *testing.T) {
			store := memory.New(memory.Options{})
			defer store.Close()
			_, err := sluice.Open(&sluice.Policy{Rules: x.rules}, store, sluice.Options{})
			if err == nil || !strings.HasPrefix(err.Error(), "sluice: ") || !strings.Contains(err.Error(), x.says) {
				t.Errorf("error %v, want one that says %q", err, x.says)
			}
		})
	}
	t.Run("A-20 nothing that may not start makes state", func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		if _, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{one("r", limit.Slots(-1))}}, store, sluice.Options{}); err == nil {
			t.Error("the policy was taken")
		}
		c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{one("r", hourly)}}, store, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(background)
		cancel()
		c.Admit(gone, sluice.Call{})
		c.Admit(background, sluice.Call{Cost: sluice.Cost{{Unit: sluice.Calls, N: -1}}})
		if n := store.Stats().Cells; n != 0 {
			t.Errorf("%d cells were made for callers that could not start", n)
		}
		passes(t, c, 1, sluice.Call{})
		if n := store.Stats().Cells; n != 1 {
			t.Errorf("%d cells after one call, want 1", n)
		}
	})
	t.Run("every bad rule is reported, with its place", func(t *testing.T) {
		a, b := one("a"), one("b")
		a.Source = "limits.yaml:3:5"
		_, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{a, b}}, memory.New(memory.Options{}), sluice.Options{})
		for _, part := range []string{"limits.yaml:3:5", `rule "a"`, "rule 2", `rule "b"`} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
	})
	if _, err := sluice.Open(nil, nil, sluice.Options{}); err == nil {
		t.Error("no store must be an error")
	}
}

func TestGrouping(t *testing.T) {
	for _, x := range []struct {
		name   string
		rule   sluice.Rule
		a, b   sluice.Call
		shared bool
	}{
		{"C-19 no groupBy", one("r", hourly), sluice.Call{Subject: "a"}, sluice.Call{Subject: "b"}, true},
		{"C-20 by subject", each(one("r", hourly), sluice.Subject), sluice.Call{Subject: "a"}, sluice.Call{Subject: "b"}, false},
		{"C-20 by every dimension, not by the first alone", each(one("r", hourly), sluice.Subject, sluice.Tenant),
			sluice.Call{Subject: "a", Tenant: "b"}, sluice.Call{Subject: "a", Tenant: "c"}, false},
		{"C-21 groups do not count", each(one("r", hourly), sluice.Subject),
			sluice.Call{Subject: "a"}, sluice.Call{Subject: "a", Subjects: []string{"group:new"}}, true},
		{"C-W17 order does not matter", each(one("r", hourly), sluice.Tenant, sluice.Subject),
			sluice.Call{Subject: "a", Tenant: "b"}, sluice.Call{Subject: "b", Tenant: "a"}, false},
		{"C-W25 anonymous callers by address", each(one("r", hourly), sluice.IP), sluice.Call{IP: "ip:1"}, sluice.Call{IP: "ip:2"}, false},
		{"missing: by address", each(one("r", hourly), sluice.Subject), sluice.Call{IP: "ip:1"}, sluice.Call{IP: "ip:2"}, false},
		{"missing: all without an address together", each(one("r", hourly), sluice.Subject), sluice.Call{}, sluice.Call{}, true},
		{"an address is no subject of that text", each(one("r", hourly), sluice.Subject), sluice.Call{IP: "x"}, sluice.Call{Subject: "x"}, false},
		{"nobody is not somebody without a name", each(one("r", hourly), sluice.Subject, sluice.Tenant),
			sluice.Call{Subject: "ab", Tenant: "c"}, sluice.Call{Subject: "a", Tenant: "bc"}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := engine(t, x.rule)
			passes(t, c, 1, x.a)
			if shared := passes(t, c, 1, x.b) == 0; shared != x.shared {
				t.Errorf("the two share a counter: %v", shared)
			}
		})
	}
	t.Run("C-23 every rule, limit and value has a counter of its own", func(t *testing.T) {
		c := engine(t, each(one("a", limit.Window(3, limit.Hour), limit.Bucket(5, limit.Hour, 5)), sluice.Subject),
			each(one("b", limit.Window(7, limit.Hour)), sluice.Subject))
		passes(t, c, 2, sluice.Call{Subject: "x"})
		for subject, want := range map[string][]int64{"x": {1, 3, 5}, "y": {3, 5, 7}} {
			e, err := c.Check(background, sluice.Call{Subject: subject})
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, r := range e.Rules {
				for _, l := range r.Limits {
					got = append(got, l.Level.Remaining)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s has %v left, want %v", subject, got, want)
			}
		}
	})
	t.Run("missing: skip", func(t *testing.T) {
		r := each(one("r", hourly), sluice.Subject)
		r.Missing = sluice.MissingSkip
		if n := passes(t, engine(t, r), 5, sluice.Call{}); n != 5 {
			t.Errorf("%d of 5 pass", n)
		}
	})
	t.Run("missing: deny", func(t *testing.T) {
		r := each(one("r", hourly), sluice.Subject)
		r.Missing = sluice.MissingDeny
		d, ok := try(t, engine(t, r), sluice.Call{})
		if x := d.Refusal(); ok || x.Reason != sluice.ReasonMissing || !x.Permanent || x.Rule != "r" {
			t.Errorf("%+v", x)
		}
	})
}

func TestAllOrNothing(t *testing.T) {
	a, b := one("a", limit.Window(10, limit.Minute)), one("b", limit.Window(1, limit.Minute))
	for name, rules := range map[string][]sluice.Rule{"P-073": {a, b}, "P-074 the other way round": {b, a}} {
		t.Run(name, func(t *testing.T) {
			c := engine(t, rules...)
			if n := passes(t, c, 6, sluice.Call{}); n != 1 {
				t.Errorf("%d of 6 pass, want 1", n)
			}
			if l, m := left(t, c, "a", sluice.Call{}), left(t, c, "b", sluice.Call{}); l != 9 || m != 0 {
				t.Errorf("left %d and %d, want 9 and 0", l, m)
			}
		})
	}
	t.Run("C-17 global 2, alice 1", func(t *testing.T) {
		c := engine(t, one("global", limit.Window(2, limit.Hour)), where(one("alice", hourly), sluice.Subject, "user:alice"))
		alice, bob := sluice.Call{Subject: "user:alice"}, sluice.Call{Subject: "user:bob"}
		if n := passes(t, c, 3, alice); n != 1 {
			t.Errorf("alice passes %d times, want 1", n)
		}
		if n := passes(t, c, 3, bob); n != 1 {
			t.Errorf("bob passes %d times, want 1: alice's refusals have cost him", n)
		}
	})
	t.Run("I-094, I-088, 7.5 user 4 and tenant 4", func(t *testing.T) {
		c := engine(t, each(one("A", limit.Window(4, limit.Hour)), sluice.Subject), each(one("B", limit.Window(4, limit.Hour)), sluice.Tenant))
		for _, x := range []struct {
			user, tenant string
			n, pass      int
			violated     []string
		}{
			{"u1", "CH", 5, 4, []string{"A", "B"}},
			{"u2", "CH", 2, 0, []string{"B"}},
			{"u2", "TC", 4, 4, nil},
			{"u2", "TC", 1, 0, []string{"A", "B"}},
		} {
			call := sluice.Call{Subject: x.user, Tenant: x.tenant}
			if n := passes(t, c, x.n, call); n != x.pass {
				t.Errorf("%s at %s: %d of %d pass, want %d", x.user, x.tenant, n, x.n, x.pass)
			}
			if x.violated == nil {
				continue
			}
			d, _ := try(t, c, call)
			if r := d.Refusal(); !slices.Equal(r.Violated, x.violated) || r.Rule != x.violated[0] {
				t.Errorf("%s at %s: refused by %v, want %v", x.user, x.tenant, r.Violated, x.violated)
			}
		}
	})
	t.Run("I-041, I-042 only the rules that match move", func(t *testing.T) {
		c := engine(t, where(one("a", limit.Window(5, limit.Minute)), sluice.Resource, "/a"),
			where(one("b", limit.Window(50, limit.Minute)), sluice.Resource, "/b"))
		if a, b := passes(t, c, 60, sluice.Call{Resource: "/a"}), passes(t, c, 60, sluice.Call{Resource: "/b"}); a != 5 || b != 50 {
			t.Errorf("%d and %d pass, want 5 and 50", a, b)
		}
	})
	t.Run("I-097, P-077 a hundred at once", func(t *testing.T) {
		c := engine(t, one("a", limit.Window(10, limit.Minute)), one("b", limit.Window(100, limit.Hour)))
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := c.Admit(background, sluice.Call{}); err == nil {
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		if passed.Load() != 10 {
			t.Errorf("%d pass, want 10", passed.Load())
		}
	})
}

func TestRefusals(t *testing.T) {
	tokens := one("tokens", limit.Window(100, limit.Minute))
	tokens.Limits[0].Unit = sluice.Tokens
	weighed := one("weighed", limit.Slots(1))
	weighed.Weights = map[string]int64{"": 2}
	for _, x := range []struct {
		name      string
		rules     []sluice.Rule
		cost      sluice.Cost
		reason    sluice.Reason
		rule      string
		retry     time.Duration
		permanent bool
	}{
		{"C-26 a window", []sluice.Rule{one("r", limit.Window(1, limit.Minute))}, nil, sluice.ReasonRate, "r", time.Minute, false},
		{"C-27, B-W16 more than there can be", []sluice.Rule{one("r", limit.Window(3, limit.Minute))},
			sluice.Cost{{Unit: sluice.Calls, N: 4}}, sluice.ReasonTooLarge, "r", 0, true},
		{"C-28, P-096 slots", []sluice.Rule{one("r", limit.Slots(1))}, nil, sluice.ReasonConcurrency, "r", 0, false},
		{"C-29 the first in the policy", []sluice.Rule{one("a", limit.Window(1, limit.Second)), one("b", limit.Window(1, limit.Hour))},
			nil, sluice.ReasonRate, "a", time.Hour, false},
		{"C-29 inside a rule the first of its limits", []sluice.Rule{one("r", limit.Window(1, limit.Minute), limit.Slots(1))},
			nil, sluice.ReasonRate, "r", 0, false},
		{"C-W5 the longest wait", []sluice.Rule{one("a", limit.Window(1, limit.Hour)), one("b", limit.Window(1, limit.Second))},
			nil, sluice.ReasonRate, "a", time.Hour, false},
		{"slots and a window: time alone does not help", []sluice.Rule{one("a", limit.Window(1, limit.Hour)), one("b", limit.Slots(1))},
			nil, sluice.ReasonRate, "a", 0, false},
		{"I-114, P-080 zero slots", []sluice.Rule{one("r", limit.Slots(0))}, nil, sluice.ReasonDenied, "r", 0, true},
		{"P-080 a rate of zero", []sluice.Rule{one("r", limit.Bucket(0, limit.Second, 10))}, nil, sluice.ReasonDenied, "r", 0, true},
		{"what is never outweighs what is later", []sluice.Rule{one("a", limit.Window(1, limit.Hour)), one("b", limit.Slots(0))},
			nil, sluice.ReasonDenied, "b", 0, true},
		{"a negative cost", []sluice.Rule{one("r", limit.Slots(1))}, sluice.Cost{{Unit: sluice.Calls, N: -1}}, sluice.ReasonInvalid, "", 0, true},
		{"a negative cost that a weight would hide", []sluice.Rule{weighed}, sluice.Cost{{N: math.MinInt64}}, sluice.ReasonInvalid, "", 0, true},
		{"a negative cost of what no rule counts", nil, sluice.Cost{{Unit: sluice.Bytes, N: -1}}, sluice.ReasonInvalid, "", 0, true},
		{"no unit is calls", []sluice.Rule{one("r", limit.Slots(1))}, sluice.Cost{{N: 2}}, sluice.ReasonTooLarge, "r", 0, true},
		{"another unit is a budget", []sluice.Rule{tokens}, sluice.Cost{{Unit: sluice.Tokens, N: 100}}, sluice.ReasonBudget, "tokens", time.Minute, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := engine(t, x.rules...)
				call := sluice.Call{Cost: x.cost}
				try(t, c, call)
				d, ok := try(t, c, call)
				r := d.Refusal()
				if ok {
					t.Fatal("admitted")
				}
				if r.Reason != x.reason || r.Rule != x.rule || r.RetryAfter != x.retry || r.Permanent != x.permanent {
					t.Errorf("%v by %q, retry after %v, permanent %v", r.Reason, r.Rule, r.RetryAfter, r.Permanent)
				}
				if text := r.Error(); !strings.Contains(text, x.rule) || !strings.Contains(text, x.reason.String()) {
					t.Errorf("the message says too little: %s", text)
				}
				if x.retry == 0 {
					return
				}
				time.Sleep(x.retry - time.Microsecond)
				if _, ok := try(t, c, call); ok {
					t.Error("passes a microsecond early")
				}
				time.Sleep(time.Microsecond)
				if _, ok := try(t, c, call); !ok {
					t.Error("does not pass after the retry time")
				}
			})
		})
	}
	t.Run("C-24 a debit leaves its window exactly one window later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, one("r", limit.Window(2, limit.Second)))
			passes(t, c, 1, sluice.Call{})
			time.Sleep(600 * time.Millisecond)
			passes(t, c, 1, sluice.Call{})
			time.Sleep(400 * time.Millisecond)
			if n := passes(t, c, 2, sluice.Call{}); n != 1 {
				t.Errorf("%d pass at one second, want 1", n)
			}
		})
	})
	t.Run("C-25 a window asks for no distance between starts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, one("r", limit.Window(5, limit.Second)))
			for _, x := range []struct {
				after time.Duration
				want  int
			}{{0, 5}, {second - time.Microsecond, 0}, {time.Microsecond, 5}} {
				time.Sleep(x.after)
				if n := passes(t, c, 6, sluice.Call{}); n != x.want {
					t.Errorf("%d of 6 pass at %v, want %d", n, clock(), x.want)
				}
			}
		})
	})
	t.Run("I-104 refused calls do not prolong it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, one("r", limit.Window(1, 20*limit.Second)))
			for i := range 21 {
				if passed := passes(t, c, 1, sluice.Call{}) == 1; passed != (i%20 == 0) {
					t.Errorf("at %d s: passed %v", i, passed)
				}
				time.Sleep(time.Second)
			}
		})
	})
}

func TestShadow(t *testing.T) {
	t.Run("P-076 is inert", func(t *testing.T) {
		would := 0
		shadow := one("shadow", limit.Window(1, limit.Minute))
		shadow.Shadow = true
		c := engineWith(t, sluice.Options{Observe: func(e *sluice.Event) {
			for _, r := range e.Rules {
				if r.Shadow && r.Refused {
					would++
				}
			}
		}}, one("enforced", limit.Window(5, limit.Minute)), shadow)
		if n := passes(t, c, 10, sluice.Call{}); n != 5 {
			t.Errorf("%d of 10 pass, want 5", n)
		}
		if would != 9 {
			t.Errorf("the shadow would have refused %d, want 9", would)
		}
	})
	t.Run("P-076 a refusal does not speak of it", func(t *testing.T) {
		shadow := one("shadow", limit.Window(1, limit.Hour))
		shadow.Shadow = true
		c := engine(t, shadow, one("enforced", limit.Window(1, limit.Minute)))
		passes(t, c, 1, sluice.Call{})
		d, ok := try(t, c, sluice.Call{})
		if r := d.Refusal(); ok || r.Rule != "enforced" || !slices.Equal(r.Violated, []string{"enforced"}) || r.RetryAfter > time.Minute {
			t.Errorf("%v, %+v", ok, r)
		}
	})
	t.Run("a shadow with a queue and a missing dimension keeps nobody", func(t *testing.T) {
		shadow := each(queued(one("shadow", limit.Slots(0)), sluice.Queue{}), sluice.Tenant)
		shadow.Shadow, shadow.Missing = true, sluice.MissingDeny
		if n := passes(t, engine(t, shadow), 3, sluice.Call{}); n != 3 {
			t.Errorf("%d of 3 pass", n)
		}
	})
}

func TestWeights(t *testing.T) {
	r := one("r", limit.Window(10, limit.Hour))
	r.Weights = map[string]int64{"search": 5, "ping": 0}
	c := engine(t, r)
	if n := passes(t, c, 1, sluice.Call{Capability: "search"}); n != 1 || left(t, c, "r", sluice.Call{}) != 5 {
		t.Error("B-W29, C-W30 a search weighs five")
	}
	passes(t, c, 1, sluice.Call{Capability: "other"})
	passes(t, c, 9, sluice.Call{Capability: "ping"})
	if n := left(t, c, "r", sluice.Call{}); n != 4 {
		t.Errorf("C-W30 %d left, want 4", n)
	}
	if n := passes(t, c, 1, sluice.Call{Capability: "search"}); n != 0 {
		t.Error("C-W30 a search passes with four left")
	}
}

// TestCheckAgreesWithTry asks before every call of a random sequence.
func TestCheckAgreesWithTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		skip := each(one("skip", limit.Bucket(1, limit.Second, 2)), sluice.Tenant)
		skip.Missing = sluice.MissingSkip
		deny := kinds(each(one("deny", limit.Slots(2)), sluice.Channel), "chat")
		deny.Missing = sluice.MissingDeny
		shadow := one("shadow", limit.Slots(1))
		shadow.Shadow = true
		c := engine(t, each(one("w", limit.Window(3, 2*limit.Second)), sluice.Subject), skip, deny, shadow, one("pace", limit.Pace(100*limit.Millisecond)))
		pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
		var held []*sluice.Decision
		for step := range 2000 {
			call := sluice.Call{
				Kind: pick("chat", "http"), Subject: pick("a", "b"), Tenant: pick("", "t"), Channel: pick("", "c"),
				Cost: sluice.Cost{{Unit: sluice.Calls, N: rnd.Int64N(4) - 1}},
			}
			e, err := c.Check(background, call)
			if err != nil {
				t.Fatal(err)
			}
			d, ok := try(t, c, call)
			if ok != e.Admitted {
				t.Fatalf("I-096 step %d: Check says %v, Try %v for %+v", step, e.Admitted, ok, call)
			}
			if !ok {
				r := d.Refusal()
				if r.Error() != e.Refusal.Error() || !slices.Equal(r.Violated, e.Refusal.Violated) {
					t.Fatalf("step %d: Check says %v, Try %v", step, e.Refusal, r)
				}
			} else {
				held = append(held, d)
			}
			if rnd.IntN(2) == 0 && len(held) > 0 {
				held[0].Admission().Release()
				held = held[1:]
			}
			time.Sleep(time.Duration(rnd.IntN(150)) * time.Millisecond)
		}
	})
}

func TestMatchInWords(t *testing.T) {
	for want, m := range map[string]sluice.Match{
		"every call": {},
		"kind http or llm, tier not system nor premium": {
			Is:  map[sluice.Dimension][]string{sluice.Kind: {"http", "llm"}},
			Not: map[sluice.Dimension][]string{sluice.Tier: {"system", "premium"}},
		},
	} {
		if got := m.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
