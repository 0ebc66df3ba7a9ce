package knock

import (
	"errors"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// open returns a door of a controller with these rules.
func open(t *testing.T, rules ...sluice.Rule) (*Door, *sluice.Controller) {
	t.Helper()
	store := memory.New(memory.Options{})
	ctl, err := sluice.Open(&sluice.Policy{Rules: rules}, store, sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(ctl.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return New(ctl), ctl
}

func perAddress(kind string, l limit.Limit) sluice.Rule {
	return sluice.Rule{ID: kind, Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {kind}}},
		GroupBy: []sluice.Dimension{sluice.IP}, Limits: []sluice.Limit{{Limit: l}}}
}

func TestKnock(t *testing.T) {
	here, other := Visitor{IP: "ip:192.0.2.1"}, Visitor{IP: "ip:192.0.2.2"}
	t.Run("B-W1 an address has its limit, others theirs", func(t *testing.T) {
		d, _ := open(t, perAddress(KindPreAuth, limit.Window(2, limit.Hour)))
		for _, c := range []struct {
			v    Visitor
			pass bool
		}{{here, true}, {here, true}, {here, false}, {other, true}} {
			_, err := d.Knock(t.Context(), c.v)
			if _, refused := errors.AsType[*sluice.Refusal](err); refused == c.pass {
				t.Errorf("%s: %v", c.v.IP, err)
			}
		}
	})
	t.Run("I-018 the site has one too, and what is refused for it holds nothing", func(t *testing.T) {
		d, ctl := open(t, perAddress(KindPreAuth, limit.Slots(5)), perAddress(KindPreAuthSite, limit.Window(1, limit.Hour)))
		first, second := Visitor{IP: "ip:2001:db8::/64", Site: "ip:2001:db8::/48"}, Visitor{IP: "ip:2001:db8:0:1::/64", Site: "ip:2001:db8::/48"}
		held, err := d.Knock(t.Context(), first)
		if err != nil || ctl.Held()[KindPreAuth] != 1 {
			t.Fatalf("%v, held %v", err, ctl.Held())
		}
		if _, err := d.Knock(t.Context(), second); err == nil || ctl.Held()[KindPreAuth] != 1 {
			t.Errorf("%v, held %v", err, ctl.Held())
		}
		if held.Release(); len(ctl.Held()) != 0 {
			t.Errorf("after the request's end %v is held", ctl.Held())
		}
	})
	t.Run("a request holds something if a slot is taken alone, and others follow it", func(t *testing.T) {
		shadow := perAddress(KindPreAuth, limit.Slots(1))
		shadow.ID, shadow.Shadow = "shadow", true
		other := perAddress(KindPreAuth, limit.Slots(1))
		other.ID, other.Limits[0].Unit = "other", "tokens" // of which a knock takes none
		for _, c := range []struct {
			rule sluice.Rule
			want int
		}{{perAddress(KindPreAuth, limit.Window(10, limit.Hour)), 0}, {perAddress(KindPreAuth, limit.Slots(1)), 1}, {shadow, 1}, {other, 0}} {
			d, ctl := open(t, c.rule)
			for range 3 {
				held, err := d.Knock(t.Context(), here)
				if err != nil || len(held) != c.want {
					t.Errorf("%s: %v, %v", c.rule.ID, held, err)
				}
				held.Release()
			}
			if len(ctl.Held()) != 0 {
				t.Errorf("%s: %v is held", c.rule.ID, ctl.Held())
			}
		}
	})
	t.Run("D9 a rule for all kinds counts no knock", func(t *testing.T) {
		r := perAddress("all", limit.Window(1, limit.Hour))
		r.Match = sluice.Match{}
		d, _ := open(t, r)
		for range 3 {
			if _, err := d.Knock(t.Context(), here); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("a policy that comes later counts", func(t *testing.T) {
		d, ctl := open(t)
		if _, err := d.Knock(t.Context(), here); err != nil {
			t.Fatal(err)
		}
		if err := ctl.SetPolicy(&sluice.Policy{Rules: []sluice.Rule{perAddress(KindPreAuth, limit.Window(0, limit.Hour))}}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Knock(t.Context(), here); err == nil {
			t.Error("it passes")
		}
	})
}

func TestGuesses(t *testing.T) {
	const here, other = "ip:192.0.2.1", "ip:192.0.2.2"
	d, _ := open(t, perAddress(KindFailure, limit.Window(2, limit.Hour)))
	t.Run("I-022 who has guessed too often is told so before anything is looked at", func(t *testing.T) {
		for i, want := range []bool{false, false, true} {
			if barred := d.Barred(t.Context(), here) != nil; barred != want {
				t.Errorf("before guess %d: barred %v", i, barred)
			}
			if refused := d.Guessed(t.Context(), here) != nil; refused != want {
				t.Errorf("guess %d: refused %v", i, refused)
			}
		}
	})
	t.Run("nobody else is", func(t *testing.T) {
		if d.Barred(t.Context(), other) != nil || d.Guessed(t.Context(), other) != nil {
			t.Error("another address is barred")
		}
	})
}
