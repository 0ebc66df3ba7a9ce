package sluice_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// engine opens a Controller with rules on a store in memory.
func engine(t testing.TB, rules ...sluice.Rule) *sluice.Controller {
	t.Helper()
	return engineWith(t, sluice.Options{}, rules...)
}

func engineWith(t testing.TB, o sluice.Options, rules ...sluice.Rule) *sluice.Controller {
	t.Helper()
	store := memory.New(memory.Options{})
	c, err := sluice.Open(&sluice.Policy{Rules: rules}, store, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		store.Close()
	})
	return c
}

// one is a rule for all calls together.
func one(id string, limits ...limit.Limit) sluice.Rule {
	r := sluice.Rule{ID: id}
	for _, l := range limits {
		r.Limits = append(r.Limits, sluice.Limit{Limit: l})
	}
	return r
}

// queued is r with a queue.
func queued(r sluice.Rule, q sluice.Queue) sluice.Rule {
	r.Queue = &q
	return r
}

// each is r for every value of dims on its own.
func each(r sluice.Rule, dims ...sluice.Dimension) sluice.Rule {
	r.GroupBy = dims
	return r
}

// try decides about call and keeps what it admitted.
func try(t testing.TB, c *sluice.Controller, call sluice.Call) (*sluice.Decision, bool) {
	t.Helper()
	d := &sluice.Decision{WantLevels: true}
	ok, err := c.Try(context.Background(), &call, d)
	if err != nil {
		t.Fatal(err)
	}
	return d, ok
}

// passes counts how many of n equal calls are admitted one after the other.
func passes(t testing.TB, c *sluice.Controller, n int, call sluice.Call) int {
	t.Helper()
	passed := 0
	for range n {
		if _, ok := try(t, c, call); ok {
			passed++
		}
	}
	return passed
}

// left is what remains of the limit of a rule for call.
func left(t testing.TB, c *sluice.Controller, rule string, call sluice.Call) int64 {
	t.Helper()
	e, err := c.Check(context.Background(), call)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range e.Rules {
		if r.Rule == rule && len(r.Limits) > 0 {
			return r.Limits[0].Level.Remaining
		}
	}
	t.Fatalf("rule %q has no limits for this call", rule)
	return 0
}

// bubbleStart is when the clock of every synctest bubble starts.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// A caller is an Admit in a goroutine of its own, inside a bubble.
type caller struct {
	done chan struct{} // closed when what follows is set
	adm  sluice.Admission
	err  error
	at   time.Duration // when Admit returned, from the bubble's start
}

// send starts an Admit and returns when it has been answered or stands in line.
func send(ctx context.Context, c *sluice.Controller, call sluice.Call) *caller {
	x := &caller{done: make(chan struct{})}
	go func() {
		x.adm, x.err = c.Admit(ctx, call)
		x.at = clock()
		close(x.done)
	}()
	synctest.Wait()
	return x
}

// waiting reports whether the caller stands in line.
func (x *caller) waiting() bool {
	synctest.Wait()
	select {
	case <-x.done:
		return false
	default:
		return true
	}
}

// admitted reports whether the caller may go ahead.
func (x *caller) admitted() bool { return !x.waiting() && x.err == nil }

// refusal returns why the caller was refused, nil if it was not.
func (x *caller) refusal() *sluice.Refusal {
	if x.waiting() {
		return nil
	}
	r, _ := errors.AsType[*sluice.Refusal](x.err)
	return r
}

// clock is the time since the bubble's start.
func clock() time.Duration { return time.Since(bubbleStart) }

// sleepUntil moves the bubble's clock to at and lets everybody act.
func sleepUntil(at time.Duration) {
	time.Sleep(at - clock())
	synctest.Wait()
}

// wantAt checks when callers were admitted.
func wantAt(t *testing.T, callers []*caller, at ...time.Duration) {
	t.Helper()
	for i, x := range callers {
		switch {
		case x.waiting():
			t.Errorf("caller %d waits, want it admitted at %v", i+1, at[i])
		case x.err != nil || x.at != at[i]:
			t.Errorf("caller %d: %v at %v, want it admitted at %v", i+1, x.err, x.at, at[i])
		}
	}
}

// wantReason checks why a caller was refused.
func wantReason(t *testing.T, x *caller, want sluice.Reason) {
	t.Helper()
	switch r := x.refusal(); {
	case x.waiting():
		t.Errorf("the caller waits, want a refusal for %v", want)
	case r == nil:
		t.Errorf("answer %v, want a refusal for %v", x.err, want)
	case r.Reason != want:
		t.Errorf("refused for %v, want %v", r.Reason, want)
	}
}
