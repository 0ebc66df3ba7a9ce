package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// recorded is how many admissions the store of c remembers.
func recorded(t *testing.T, c *sluice.Controller) int {
	t.Helper()
	n, ok := c.Recorded()
	if !ok {
		t.Error("the store does not know what it remembers")
	}
	return n
}

// records are those that c lists, in the order of their notes.
func records(t *testing.T, c *sluice.Controller) (list []sluice.Record) {
	t.Helper()
	for r, err := range c.Records(background) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b sluice.Record) int { return strings.Compare(string(a.Note), string(b.Note)) })
	return list
}

func TestWhileHeld(t *testing.T) {
	rate, slot := kinds(one("rate", limit.Window(9, limit.Hour)), "rate"), kinds(one("slot", limit.Slots(2)), "slot")
	hold := func(c *sluice.Controller, kind string) sluice.Admission {
		return admit(t, c, sluice.Call{ID: "id", Kind: kind, WhileHeld: true})
	}
	t.Run("C-15, C-W2, C-W1 a call that takes no slot leaves no record", func(t *testing.T) {
		c := engine(t, rate)
		for _, kind := range []string{"rate", "other", "rate"} {
			adm := hold(c, kind)
			if n := recorded(t, c); n != 0 || adm.Replayed() {
				t.Errorf("%s: %d records, want none", kind, n)
			}
		}
		if n := left(t, c, "rate", sluice.Call{Kind: "rate"}); n != 7 {
			t.Errorf("%d left, want 7", n)
		}
		if _, err := c.Resume(background, "id"); !errors.Is(err, sluice.ErrUnknown) {
			t.Errorf("it is taken up again: %v", err)
		}
	})
	t.Run("C-W2 one that does leaves one until it is released", func(t *testing.T) {
		c := engine(t, slot)
		adm := hold(c, "slot")
		if again := hold(c, "slot"); !again.Replayed() || recorded(t, c) != 1 {
			t.Errorf("%d records, want 1", recorded(t, c))
		}
		resumed, err := c.Resume(background, "id")
		if err != nil {
			t.Fatal(err)
		}
		resumed.Release()
		adm.Release()
		if n := recorded(t, c); n != 0 || left(t, c, "slot", sluice.Call{Kind: "slot"}) != 2 {
			t.Errorf("%d records after its release", n)
		}
	})
	t.Run("C-47, C-W2 and is over with its last slot", func(t *testing.T) {
		free, other := slot, one("other", limit.Slots(1))
		free.OnTimeout = sluice.Free
		c := engine(t, free)
		hold(c, "slot")
		resume(t, c, "id").Abandon()
		if n := recorded(t, c); n != 0 || left(t, c, "slot", sluice.Call{Kind: "slot"}) != 2 {
			t.Errorf("%d records of a call that holds nothing", n)
		}
		c = engine(t, free, other)
		adm := hold(c, "slot")
		adm.Abandon()
		if n := recorded(t, c); n != 1 {
			t.Errorf("%d records of a call that holds a slot still", n)
		}
		adm.Release()
		if n := recorded(t, c); n != 0 || left(t, c, "other", sluice.Call{}) != 1 {
			t.Errorf("%d records after its release", n)
		}
	})
	t.Run("C-W2 at the end of MaxHold, also of one that is taken up again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			brief := slot
			brief.MaxHold = 2 * second
			c := engine(t, brief)
			adm := hold(c, "slot")
			resumed, err := c.Resume(background, "id")
			if err != nil {
				t.Fatal(err)
			}
			sleepUntil(2 * second)
			if n := recorded(t, c); n != 0 || left(t, c, "slot", sluice.Call{Kind: "slot"}) != 2 {
				t.Errorf("%d records after MaxHold", n)
			}
			adm.Release()
			resumed.Release()
			if n := left(t, c, "slot", sluice.Call{Kind: "slot"}); n != 2 {
				t.Errorf("%d left of 2", n)
			}
		})
	})
	t.Run("a Decision that serves other calls later remembers nothing of it", func(t *testing.T) {
		s, d := &spy{Store: memory.New(memory.Options{})}, new(sluice.Decision)
		c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{slot, rate}}, s, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			call sluice.Call
			want int
		}{
			{sluice.Call{ID: "a", Kind: "rate", WhileHeld: true, Note: []byte("n")}, 0},
			{sluice.Call{Kind: "slot"}, 0},
			{sluice.Call{ID: "b", Kind: "slot", WhileHeld: true, Note: []byte("n")}, 1},
			{sluice.Call{Kind: "rate"}, 0},
			{sluice.Call{ID: "e", Kind: "rate", Expires: time.Minute, Note: []byte("n"), Cost: sluice.Cost{{N: 100}}}, 0}, // refused
			{sluice.Call{Kind: "slot"}, 0},
			{sluice.Call{ID: "c", Kind: "rate", Expires: time.Minute}, 1},
			{sluice.Call{ID: "d", Kind: "rate"}, 2},
		} {
			if ok, err := c.Try(background, &x.call, d); ok != (x.call.Cost == nil) || err != nil {
				t.Fatal(ok, err)
			}
			if n := recorded(t, c); n != x.want {
				t.Errorf("%+v: %d records, want %d", x.call, n, x.want)
			}
			if cmd := &s.last; cmd.ID.Zero() && (cmd.Note != nil || cmd.Expires != 0 || cmd.WhileHeld) {
				t.Errorf("%+v: the store was told %+v", x.call, cmd)
			}
			d.Admission().Release()
		}
		if adm, err := c.Resume(background, "d"); err != nil || adm.Left() != math.MaxInt64 || adm.Note() != nil {
			t.Errorf("the last one has %v left and the note %q, %v", adm.Left(), adm.Note(), err)
		}
	})
}

func TestExpires(t *testing.T) {
	budget := one("budget", limit.Window(9, limit.Hour))
	call := sluice.Call{ID: "id", Expires: time.Minute}
	t.Run("C-67, C-68, C-70 it says how long it is good, and expires inclusively", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, budget)
			adm := admit(t, c, call)
			for _, at := range []time.Duration{0, 59 * second, 60 * second, 90 * second} {
				sleepUntil(at)
				again, resumed := admit(t, c, call), resume(t, c, "id")
				for i, a := range []sluice.Admission{adm, again, resumed} {
					if got := a.Left(); got != time.Minute-at || a.Replayed() != (i > 0) {
						t.Errorf("after %v admission %d has %v left", at, i, got)
					}
				}
			}
			if n := left(t, c, "budget", sluice.Call{}); n != 8 {
				t.Errorf("%d left, want 8", n)
			}
		})
	})
	t.Run("what does not expire is good for ever", func(t *testing.T) {
		c := engine(t, budget)
		for name, adm := range map[string]sluice.Admission{
			"without an ID": admit(t, c, sluice.Call{}), "with one": admit(t, c, sluice.Call{ID: "a"}), "again": resume(t, c, "a"),
		} {
			if got := adm.Left(); got != math.MaxInt64 {
				t.Errorf("%s: %v", name, got)
			}
		}
		if got := (sluice.Admission{}).Left(); got != 0 {
			t.Errorf("the zero Admission is good for %v", got)
		}
	})
	t.Run("C-77, C-76 it is settled after it has expired, and only once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, budget)
			admit(t, c, call)
			sleepUntil(10 * time.Minute)
			if err := resume(t, c, "id").SettleAs(background, nil, 3); err != nil {
				t.Fatal(err)
			}
			if s, ok := admit(t, c, call).Settlement(); !ok || s.Outcome != 3 {
				t.Errorf("it is settled to %+v, %v", s, ok)
			}
		})
	})
	t.Run("C-98, C-99 nobody has to release it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, budget)
			admit(t, c, call)
			sleepUntil(61 * time.Minute)
			if again := admit(t, c, call); again.Replayed() || recorded(t, c) != 1 {
				t.Error("it is remembered although its window has passed")
			}
		})
	})
	shadow := one("shadow", limit.Slots(1))
	shadow.Shadow = true
	for _, x := range []struct {
		name string
		call sluice.Call
		rule string // that refuses
		ok   bool
	}{
		{"without an ID", sluice.Call{Expires: time.Minute}, "", false},
		{"a negative time", sluice.Call{ID: "id", Expires: -1}, "", false},
		{"with WhileHeld", sluice.Call{ID: "id", Expires: 1, WhileHeld: true}, "", false},
		{"with slots", sluice.Call{ID: "id", Expires: 1, Kind: "slot"}, "slot", false},
		{"with slots of a shadow", sluice.Call{ID: "id", Expires: 1}, "", true},
		{"C-57 a note that is too long", sluice.Call{ID: "id", Note: make([]byte, sluice.MaxNote+1)}, "", false},
		{"a note as long as may be", sluice.Call{ID: "id", Note: make([]byte, sluice.MaxNote)}, "", true},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := engine(t, budget, shadow, kinds(one("slot", limit.Slots(1)), "slot"))
			d, ok := try(t, c, x.call)
			r := d.Refusal()
			if ok != x.ok || !ok && (r.Reason != sluice.ReasonInvalid || !r.Permanent || r.Rule != x.rule) {
				t.Errorf("admitted %v, refusal %v", ok, r)
			}
			if n := recorded(t, c); ok != (n == 1) {
				t.Errorf("%d records", n)
			}
			for want := range int64(2) {
				if n := left(t, c, "shadow", sluice.Call{}); x.call.Expires > 0 && n != 1-want {
					t.Errorf("%d left of the shadow, want %d", n, 1-want)
				}
				if _, ok := try(t, c, sluice.Call{}); !ok {
					t.Error("the next call is not as ever")
				}
			}
		})
	}
}

// resume takes up the admission of an ID.
func resume(t *testing.T, c *sluice.Controller, id string) sluice.Admission {
	t.Helper()
	adm, err := c.Resume(background, id)
	if err != nil {
		t.Fatal(err)
	}
	return adm
}

func TestNote(t *testing.T) {
	c := engine(t, one("r", limit.Window(9, limit.Hour)))
	note := []byte("one\x00")
	first := admit(t, c, sluice.Call{ID: "id", Note: note})
	again := admit(t, c, sluice.Call{ID: "id", Note: []byte("two")}) // C-72 it is no part of what makes calls the same
	copy(note, "eno")
	if again.Replayed() && first.Replayed() {
		t.Error("C-68 the first one is replayed")
	}
	for name, adm := range map[string]sluice.Admission{"replayed": again, "resumed": resume(t, c, "id")} {
		if got := string(adm.Note()); got != "one\x00" {
			t.Errorf("C-68 %s with the note %q", name, got)
		}
		clear(adm.Note()) // it is the caller's
	}
	if got := string(again.Note()); got != "one\x00" {
		t.Errorf("the note has become %q", got)
	}
	if n := left(t, c, "r", sluice.Call{}); n != 8 {
		t.Errorf("C-68 %d left, want 8", n)
	}
}

func TestSettleAs(t *testing.T) {
	keep := kinds(tokenRule(func(r *sluice.Rule) { r.Settle = sluice.Keep }), "budget")
	also := keep
	also.ID = "also"
	c := engine(t, keep, also)
	for name, call := range map[string]sluice.Call{
		"a budget":      {ID: "budget", Kind: "budget", Cost: tokens(600)},
		"without an ID": {Kind: "budget", Cost: tokens(1)},
		"no rule":       {ID: "none", Kind: "none"},
		"neither":       {Kind: "none"},
	} {
		t.Run("C-76 "+name, func(t *testing.T) {
			adm := admit(t, c, call)
			if s, ok := adm.Settlement(); ok {
				t.Errorf("it is settled to %+v before", s)
			}
			for i, x := range []struct {
				used    int64
				outcome uint8
				err     error
			}{{0, 2, nil}, {0, 2, nil}, {0, 1, sluice.ErrSettled}, {0, 0, sluice.ErrSettled}} {
				who := []sluice.Admission{adm}
				if call.ID != "" {
					who = append(who, resume(t, c, call.ID), admit(t, c, call))
				}
				for k, a := range who {
					if err := a.SettleAs(background, tokens(x.used), x.outcome); !errors.Is(err, x.err) {
						t.Errorf("settlement %d by %d: %v, want %v", i, k, err, x.err)
					}
					if s, ok := a.Settlement(); !ok || s.Outcome != 2 {
						t.Errorf("after settlement %d admission %d is settled to %+v, %v", i, k, s, ok)
					}
				}
			}
		})
	}
	t.Run("C-78 nothing is refunded and the usage is kept", func(t *testing.T) {
		if err := resume(t, c, "budget").SettleAs(background, tokens(7), 2); !errors.Is(err, sluice.ErrSettled) {
			t.Errorf("other figures: %v", err)
		}
		s, ok := resume(t, c, "budget").Settlement()
		if want := tokens(0); !ok || !slices.Equal(s.Used, want) {
			t.Errorf("it used %v, want %v", s.Used, want)
		}
		if n := left(t, c, "r", sluice.Call{Kind: "budget"}); n != 399 { // 600, and 1 without an ID
			t.Errorf("%d left, want 399", n)
		}
	})
	t.Run("B-W29 calls are told without their weight", func(t *testing.T) {
		r := one("r", limit.Window(20, limit.Hour))
		r.Weights = map[string]int64{"search": 3, "ping": 0}
		for capability, want := range map[string]sluice.Cost{"search": {{Unit: sluice.Calls, N: 2}}, "ping": nil} {
			c := engine(t, r)
			calls := func(n int64) sluice.Cost { return sluice.Cost{{Unit: sluice.Calls, N: n}} }
			if err := admit(t, c, sluice.Call{ID: "id", Capability: capability, Cost: calls(5)}).Settle(background, calls(2)); err != nil {
				t.Fatal(err)
			}
			if s, ok := resume(t, c, "id").Settlement(); !ok || !slices.Equal(s.Used, want) {
				t.Errorf("%s used %v, want %v", capability, s.Used, want)
			}
		}
	})
}

func TestRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := []sluice.Rule{kinds(one("window", limit.Window(9, limit.Hour)), "reserve"), kinds(one("slot", limit.Slots(9)), "call"), kinds(one("other", limit.Slots(9)), "call")}
		rules[2].OnTimeout = sluice.Free
		c := engine(t, rules...)
		note := func(s string) []byte { return []byte(s) }
		admit(t, c, sluice.Call{ID: "1", Kind: "call", Note: note("1 held"), WhileHeld: true})
		admit(t, c, sluice.Call{ID: "2", Kind: "call", Note: note("2 abandoned")}).Abandon()
		admit(t, c, sluice.Call{ID: "3", Kind: "call", Note: note("released")}).Release()
		admit(t, c, sluice.Call{ID: "4", Kind: "reserve", Note: note("4 expired"), Expires: second})
		settled := admit(t, c, sluice.Call{ID: "5", Kind: "reserve", Note: note("5 settled"), Expires: time.Hour})
		if err := settled.SettleAs(background, sluice.Cost{{N: 1}}, 2); err != nil {
			t.Fatal(err)
		}
		settled.Release()
		admit(t, c, sluice.Call{Kind: "call"})
		sleepUntil(10 * second)
		const forever = time.Duration(math.MaxInt64)
		want := []sluice.Record{
			{Note: note("1 held"), Age: 10 * second, Left: forever, Slots: 2, Rules: []string{"slot", "other"}},
			{Note: note("2 abandoned"), Age: 10 * second, Left: forever, Slots: 1, Rules: []string{"slot"}},
			{Note: note("4 expired"), Age: 10 * second, Left: -9 * second},
			{
				Note: note("5 settled"), Age: 10 * second, Left: time.Hour - 10*second, Settled: true, Released: true,
				Settlement: sluice.Settlement{Outcome: 2, Used: sluice.Cost{{Unit: sluice.Calls, N: 1}}},
			},
		}
		if got := records(t, c); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("C-100, C-101 the records are\n%+v, want\n%+v", got, want)
		}
		if n := recorded(t, c); n != 5 {
			t.Errorf("C-100 %d records, want 5", n)
		}
		if err := c.SetPolicy(&sluice.Policy{Rules: rules[:1]}); err != nil {
			t.Fatal(err)
		}
		if got := records(t, c)[0]; got.Slots != 2 || len(got.Rules) != 0 {
			t.Errorf("when the rules have gone it holds %d slots of %v", got.Slots, got.Rules)
		}
		for range c.Records(background) {
			break // whoever has seen enough may go
		}
	})
	t.Run("a store that lists nothing", func(t *testing.T) {
		c, err := sluice.Open(nil, struct{ sluice.Store }{}, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range c.Records(background) {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("it says %v", err)
			}
		}
		if n, ok := c.Recorded(); ok {
			t.Errorf("it counts %d", n)
		}
	})
	t.Run("a store that fails", func(t *testing.T) {
		c, err := sluice.Open(nil, forgetful{}, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range c.Records(background) {
			if n++; n > 1 || !errors.Is(err, errBroken) {
				t.Errorf("it says %v", err)
			}
		}
	})
}

// spy is a store that notes what it was told last.
type spy struct {
	*memory.Store
	last ledger.Command
}

func (s *spy) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	s.last = cmds[0]
	return s.Store.Apply(ctx, cmds, res)
}

// forgetful is a store that cannot say what it remembers.
type forgetful struct{ broken }

func (forgetful) Recorded() (int, bool) { return 0, false }

func (forgetful) Records(context.Context) iter.Seq2[ledger.Remembered, error] {
	return func(yield func(ledger.Remembered, error) bool) { yield(ledger.Remembered{}, errBroken) }
}
