package mcp_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/store/memory"
)

// holdsFor is a rule whose slots come back after a time.
func holdsFor(id string, most time.Duration) sluice.Rule {
	r := slots(id, 1, sluice.Hold)
	r.MaxHold = most
	return r
}

// overstays are the audited ends of slots that were held too long.
func (r *rig) overstays() (list []string) {
	for _, e := range r.audited(audit.Timeout) {
		if e.Reason == "max-hold" {
			list = append(list, fmt.Sprintf("%s %v", e.Outcome, e.ReleasedRules))
		}
	}
	return list
}

func TestLongestHold(t *testing.T) {
	bubble(t, "C-W21 each rule gives its slot back after its time, and the audit has it", []sluice.Rule{holdsFor("short", 2*time.Minute), holdsFor("long", 3*time.Minute)}, nil, func(t *testing.T, r *rig, c *client) {
		c.call("silent", `{}`).answer()
		for _, step := range []struct {
			after time.Duration
			held  string
			noted []string
		}{
			{30 * time.Second, "[abandoned[short long]]", nil},
			{31 * time.Second, "[abandoned[long]]", []string{"released [short]"}},
			{time.Minute, "[]", []string{"released [short]", "released [long]"}},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			if held, noted := fmt.Sprint(r.heldNow()), r.overstays(); held != step.held || !slices.Equal(noted, step.noted) {
				t.Errorf("held %s, noted %v; want %s, %v", held, noted, step.held, step.noted)
			}
		}
		c.call("echo", `{}`).passed()
	})
	bubble(t, "C-W21 what was freed otherwise is not noted again", []sluice.Rule{holdsFor("one", 2*time.Minute), func() sluice.Rule { r := holdsFor("frees", 2*time.Minute); r.OnTimeout = sluice.Free; return r }()}, nil, func(t *testing.T, r *rig, c *client) {
		c.call("silent", `{}`).answer() // its deadline frees the second
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want := []string{"released [one]"}
		if got := r.overstays(); !slices.Equal(got, want) {
			t.Errorf("noted %v, want %v", got, want)
		}
		c.call("silent", `{}`).answer()
		held, _ := r.Held(t.Context())
		if ok, _ := r.Release(t.Context(), "p", held[0].RequestID, "user:op"); !ok {
			t.Fatal("not released")
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := r.overstays(); !slices.Equal(got, want) {
			t.Errorf("noted %v, want %v", got, want)
		}
	})
	bubble(t, "C-W21 a client that waits goes on waiting", []sluice.Rule{holdsFor("one", time.Minute)}, func(o *mcp.Options) { o.Slots[0].RequestTimeout = 0 }, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := r.overstays(); !slices.Equal(got, []string{"released [one]"}) || fmt.Sprint(r.heldNow()) != "[running[]]" {
			t.Errorf("noted %v, held %v", got, r.heldNow())
		}
		_ = work.Text("x")
		x.passed()
	})
}

// TestEarlierProcess leaves calls in the ledger as a process does that was killed.
func TestEarlierProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		rules := []sluice.Rule{only(holdsFor("bounded", 10*time.Minute), sluice.Provider, "p"), only(slots("unbounded", 1, sluice.Hold), sluice.Provider, "q")}
		dead := slices.Clone(rules)
		dead[0].MaxHold = 0 // no timer of its runs any more
		before, err := sluice.Open(&sluice.Policy{Rules: dead}, store, sluice.Options{KeySecret: []byte("a secret for this test alone")})
		if err != nil {
			t.Fatal(err)
		}
		leave := func(slot string) {
			note := fmt.Sprintf(`{"slot":%q,"requestId":"brk-before-1","tool":"hold","identity":"user:alice"}`, slot)
			if _, err := before.Admit(t.Context(), sluice.Call{Kind: "tool", Provider: slot, ID: "call\x00" + slot + "\x00brk-before-1", WhileHeld: true, Note: []byte(note)}); err != nil {
				t.Fatal(err)
			}
		}
		leave("p")
		leave("q")
		var events []audit.Event
		ctl, err := sluice.Open(&sluice.Policy{Rules: rules}, store, sluice.Options{KeySecret: []byte("a secret for this test alone")})
		if err != nil {
			t.Fatal(err)
		}
		defer ctl.Close()
		b, err := mcp.New(ctl, mcp.Options{Audit: func(e audit.Event) { events = append(events, e) }})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		states := func() (list []string) {
			held, err := b.Held(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range held {
				list = append(list, fmt.Sprint(h.Slot, h.State, h.Rules))
			}
			slices.Sort(list)
			return list
		}
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if got := states(); !slices.Equal(got, []string{"pearlier[bounded]", "qearlier[unbounded]"}) {
			t.Errorf("held: %v", got)
		}
		time.Sleep(time.Minute + 5*time.Second) // what a process that is alive has for its own
		synctest.Wait()
		if got := states(); !slices.Equal(got, []string{"qearlier[unbounded]"}) {
			t.Errorf("C-W21 held: %v", got)
		}
		if len(events) != 1 || events[0].Reason != "max-hold" || events[0].Slot != "p" || events[0].Identity != "user:alice" || events[0].Tool != "hold" || !slices.Equal(events[0].ReleasedRules, []string{"bounded"}) {
			t.Errorf("C-W21 audited %+v", events)
		}
		if ok, err := b.Release(t.Context(), "q", "brk-before-1", "user:op"); !ok || err != nil {
			t.Errorf("C-51 an operator cannot free it: %v", err)
		}
		if got := states(); got != nil {
			t.Errorf("held: %v", got)
		}
		leave("p")
		b.Close(t.Context())
		time.Sleep(11 * time.Minute)
		again, err := mcp.New(ctl, mcp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close(context.Background())
		synctest.Wait()
		if got := states(); got != nil {
			t.Errorf("C-W21 a broker that starts frees at once what is overdue; held: %v", got)
		}
	})
}
