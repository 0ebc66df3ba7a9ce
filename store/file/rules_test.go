package file_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

// An office is a controller on a store.
type office struct {
	*testing.T
	*sluice.Controller
	store *file.Store
	log   *strings.Builder
}

// openOffice opens a store and a controller on it.
func openOffice(t *testing.T, path string, o file.Options, rules ...sluice.Rule) (*office, error) {
	t.Helper()
	log := new(strings.Builder)
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	s := openStore(t, path, o)
	c, err := sluice.Open(&sluice.Policy{Rules: rules}, s, sluice.Options{KeySecret: s.KeySecret()})
	return &office{t, c, s, log}, err
}

func mustOffice(t *testing.T, path string, o file.Options, rules ...sluice.Rule) *office {
	t.Helper()
	of, err := openOffice(t, path, o, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// left is what remains of a rule's first limit for a call.
func (o *office) left(rule string, call sluice.Call) int64 {
	o.Helper()
	x, err := o.Check(context.Background(), call)
	if err != nil {
		o.Fatal(err)
	}
	for _, r := range x.Rules {
		if r.Rule == rule && len(r.Limits) > 0 {
			return r.Limits[0].Level.Remaining
		}
	}
	o.Fatalf("no limit of %q in %+v", rule, x.Rules)
	return 0
}

func (o *office) wantLeft(want int64, rule string, call sluice.Call) {
	o.Helper()
	if got := o.left(rule, call); got != want {
		o.Errorf("%d left of %s, want %d", got, rule, want)
	}
}

func (o *office) admit(call sluice.Call) sluice.Admission {
	o.Helper()
	a, err := o.Admit(context.Background(), call)
	if err != nil {
		o.Fatal(err)
	}
	return a
}

func (o *office) close() {
	o.Helper()
	if err := o.store.Close(); err != nil {
		o.Fatal(err)
	}
}

func rule(id string, limits ...limit.Limit) sluice.Rule {
	r := sluice.Rule{ID: id, GroupBy: []sluice.Dimension{sluice.Subject}}
	for _, l := range limits {
		r.Limits = append(r.Limits, sluice.Limit{Limit: l})
	}
	return r
}

var alice = sluice.Call{Subject: "user:alice"}

func aliceAs(id string) sluice.Call { return sluice.Call{Subject: "user:alice", ID: id} }

func TestOtherRules(t *testing.T) {
	day := limit.Window(10, limit.Day)
	t.Run("C-94 kept counters meet the new maximum, removed ones go", func(t *testing.T) {
		path := freshPath(t)
		o := mustOffice(t, path, file.Options{}, rule("kept", day), rule("removed", day))
		o.admit(alice)
		o.admit(alice)
		o.close()
		o = mustOffice(t, path, file.Options{}, rule("kept", limit.Window(5, limit.Day)))
		o.wantLeft(3, "kept", alice)
		if n := strings.Count(o.log.String(), "the rules have changed"); n != 1 || !strings.Contains(o.log.String(), `"counters dropped"=1`) {
			t.Errorf("want one line with the count dropped, got %d:\n%s", n, o.log)
		}
		o.close()
		o = mustOffice(t, path, file.Options{}, rule("kept", day), rule("removed", day))
		o.wantLeft(8, "kept", alice)
		o.wantLeft(10, "removed", alice)
	})
	t.Run("C-94 a held call loses only removed rules' slots", func(t *testing.T) {
		path := freshPath(t)
		kept, removed := rule("kept", limit.Slots(2)), rule("removed", limit.Slots(2))
		o := mustOffice(t, path, file.Options{}, kept, removed)
		o.admit(aliceAs("both"))
		o.close()
		o = mustOffice(t, path, file.Options{}, kept)
		o.wantLeft(1, "kept", alice)
		o.close()
		o = mustOffice(t, path, file.Options{}, kept, removed)
		o.wantLeft(1, "kept", alice)
		o.wantLeft(2, "removed", alice)
		a, err := o.Resume(context.Background(), "both")
		if err != nil {
			t.Fatal(err)
		}
		a.Release()
		o.wantLeft(2, "kept", alice)
	})
	t.Run("C-94 a held call is finished when no slot is left", func(t *testing.T) {
		path := freshPath(t)
		o := mustOffice(t, path, file.Options{}, rule("removed", limit.Slots(2)))
		o.admit(aliceAs("one"))
		o.close()
		o = mustOffice(t, path, file.Options{}, rule("other", day))
		o.close()
		if s, err := file.Verify(path); err != nil || s.Open != 0 || s.Ended != 1 {
			t.Errorf("%+v, %v; want the grant ended", s, err)
		}
	})
	t.Run("C-97 refuse", func(t *testing.T) {
		path, refuse := freshPath(t), file.Options{OnRulesChange: file.RefuseRules}
		o := mustOffice(t, path, refuse, rule("a", day), rule("b", day))
		o.admit(alice)
		o.close()
		mustOffice(t, path, refuse, rule("b", day), rule("a", day)).close() // the order does not matter
		for _, c := range []struct {
			want  string
			rules []sluice.Rule
		}{
			{"removed: b window", []sluice.Rule{rule("a", day)}},
			{"new: c window", []sluice.Rule{rule("a", day), rule("b", day), rule("c", day)}},
			{"changed: a window (from 10 in any 24h0m0s to 9 in any 24h0m0s)", []sluice.Rule{rule("a", limit.Window(9, limit.Day)), rule("b", day)}},
		} {
			o, err := openOffice(t, path, refuse, c.rules...)
			wantOneLine(t, err, c.want)
			wantOneLine(t, err, "set onRulesChange to migrate")
			o.close()
		}
		mustOffice(t, path, refuse, rule("a", day), rule("b", day)).wantLeft(9, "a", alice)
	})
	t.Run("C-W16 rules change while calls run", func(t *testing.T) {
		path := freshPath(t)
		o := mustOffice(t, path, file.Options{}, rule("kept", day), rule("removed", day))
		o.admit(alice)
		if err := o.SetPolicy(&sluice.Policy{Rules: []sluice.Rule{rule("kept", limit.Window(5, limit.Day))}}); err != nil {
			t.Fatal(err)
		}
		o.wantLeft(4, "kept", alice)
		o.close()
		if c, err := file.Inspect(path); err != nil || len(c.Cells) != 1 || c.Cells[0].Owner.Rule != "kept" {
			t.Errorf("%+v, %v; want the cell of the rule that was kept", c.Cells, err)
		}
	})
	t.Run("C-W16 a refused change leaves the old policy", func(t *testing.T) {
		o := mustOffice(t, freshPath(t), file.Options{OnRulesChange: file.RefuseRules}, rule("a", day))
		o.admit(alice)
		if err := o.SetPolicy(&sluice.Policy{}); err == nil {
			t.Fatal("the change was not refused")
		}
		o.wantLeft(9, "a", alice)
	})
	t.Run("C-W17 the order of groupBy is nothing, another grouping is reported", func(t *testing.T) {
		path := freshPath(t)
		r := rule("r", day)
		r.GroupBy = []sluice.Dimension{sluice.Subject, sluice.Provider}
		call := sluice.Call{Subject: "user:alice", Provider: "p"}
		o := mustOffice(t, path, file.Options{}, r)
		o.admit(call)
		o.close()
		r.GroupBy = []sluice.Dimension{sluice.Provider, sluice.Subject}
		o = mustOffice(t, path, file.Options{}, r)
		o.wantLeft(9, "r", call)
		if strings.Contains(o.log.String(), "the rules have changed") {
			t.Errorf("the order of groupBy was taken for a change: %s", o.log)
		}
		o.close()
		r.GroupBy = []sluice.Dimension{sluice.Provider}
		o = mustOffice(t, path, file.Options{}, r)
		if !strings.Contains(o.log.String(), "grouped otherwise: r window") {
			t.Errorf("another grouping was not reported: %s", o.log)
		}
	})
	t.Run("C-96, C-W18 a window that has become shorter applies to old debits", func(t *testing.T) {
		path := freshPath(t)
		o := mustOffice(t, path, file.Options{}, rule("r", day))
		o.admit(alice)
		o.close()
		o = mustOffice(t, path, file.Options{}, rule("r", limit.Window(10, limit.Millisecond)))
		for o.left("r", alice) != 10 { // a millisecond
		}
	})
	t.Run("what is volatile now was not kept", func(t *testing.T) {
		path := freshPath(t)
		o := mustOffice(t, path, file.Options{}, rule("r", day))
		o.admit(alice)
		o.close()
		r := rule("r", day)
		r.Volatile = true
		mustOffice(t, path, file.Options{}, r).close()
		mustOffice(t, path, file.Options{}, rule("r", day)).wantLeft(10, "r", alice)
	})
}

func TestKeySecret(t *testing.T) {
	mine, other := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	day := rule("r", limit.Window(10, limit.Day))
	t.Run("drawn once and kept", func(t *testing.T) {
		path := freshPath(t)
		s := openStore(t, path, file.Options{})
		secret := s.KeySecret()
		s.Close()
		if got := openStore(t, path, file.Options{}).KeySecret(); string(got) != string(secret) || len(secret) != 32 {
			t.Errorf("the secret was %x and is %x", secret, got)
		}
	})
	t.Run("given by the owner and not in the file", func(t *testing.T) {
		path := freshPath(t)
		o := mustOffice(t, path, file.Options{KeySecret: mine}, day)
		o.admit(alice)
		o.close()
		if strings.Contains(string(readFile(t, path)), string(mine)) {
			t.Error("the secret is in the file")
		}
		mustOffice(t, path, file.Options{KeySecret: mine}, day).wantLeft(9, "r", alice)
	})
	for _, c := range []struct {
		name          string
		first, second []byte
		want          string
	}{
		{"another one", mine, other, "another key secret"},
		{"none", mine, nil, "a key secret of its owner's"},
		{"one of the owner's now", nil, mine, "another key secret"},
		{"too short", nil, mine[:8], "can be guessed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := freshPath(t)
			openStore(t, path, file.Options{KeySecret: c.first}).Close()
			_, err := file.Open(path, file.Options{KeySecret: c.second})
			wantOneLine(t, err, c.want)
		})
	}
	t.Run("a controller without one is refused", func(t *testing.T) {
		if _, err := sluice.Open(nil, openStore(t, freshPath(t), file.Options{}), sluice.Options{}); err == nil {
			t.Error("its keys would be lost with the process")
		}
	})
}
