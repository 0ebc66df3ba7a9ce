package sluice_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// kinds restricts r to calls of these kinds.
func kinds(r sluice.Rule, kinds ...string) sluice.Rule {
	r.Match.Is = map[sluice.Dimension][]string{sluice.Kind: kinds}
	return r
}

// TestBehindOthers is about calls that come while others wait.
func TestBehindOthers(t *testing.T) {
	slots := queued(one("slots", limit.Slots(1)), sluice.Queue{Timeout: time.Minute})
	crowded := func(t *testing.T, rules ...sluice.Rule) *sluice.Controller {
		c := engine(t, append([]sluice.Rule{slots}, rules...)...)
		sendAll(2, c, sluice.Call{ID: "first"})
		send(background, c, sluice.Call{})
		return c
	}
	t.Run("B-W16 who can never pass is told at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := send(background, crowded(t), sluice.Call{Cost: sluice.Cost{{Unit: sluice.Calls, N: 2}}})
			wantReason(t, x, sluice.ReasonTooLarge)
			if r := x.refusal(); r != nil && (!r.Permanent || r.RetryAfter != 0) {
				t.Errorf("permanent %v, retry after %v", r.Permanent, r.RetryAfter)
			}
			time.Sleep(time.Minute)
		})
	})
	t.Run("D2 a rule without a queue refuses at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := crowded(t, kinds(one("strict", limit.Window(1, limit.Hour)), "strict"))
			if x := send(background, c, sluice.Call{Kind: "strict"}); !x.waiting() {
				t.Fatalf("strict has room: %v", x.err)
			}
			time.Sleep(time.Minute)
			c = crowded(t, kinds(one("strict", limit.Window(0, limit.Hour)), "strict"))
			wantReason(t, send(background, c, sluice.Call{Kind: "strict"}), sluice.ReasonDenied)
			time.Sleep(time.Minute)
		})
	})
	t.Run("a wait that cannot end in time is refused at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := crowded(t, kinds(queued(one("slow", limit.Pace(limit.Hour)), sluice.Queue{}), "slow"))
			x := send(background, c, sluice.Call{Kind: "slow"}) // waits for a slot, then takes the pace
			if !x.waiting() {
				t.Fatalf("there is time: %v", x.err)
			}
			time.Sleep(time.Minute)
			c = engine(t, queued(one("slow", limit.Pace(50*limit.Second)), sluice.Queue{Timeout: time.Minute}))
			sendAll(2, c, sluice.Call{})
			ctx, cancel := context.WithTimeout(background, 40*second)
			defer cancel()
			wantReason(t, send(ctx, c, sluice.Call{}), sluice.ReasonQueueTimeout)
			time.Sleep(time.Hour)
		})
	})
	t.Run("B-W17 the time-out of the line counts for who stands behind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := send(background, crowded(t), sluice.Call{})
			sleepUntil(time.Minute)
			wantReason(t, x, sluice.ReasonQueueTimeout)
		})
	})
	t.Run("an ID that was admitted needs no turn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := send(background, crowded(t), sluice.Call{ID: "first"})
			if !x.admitted() || !x.adm.Replayed() {
				t.Errorf("%v, want the first admission again", x.err)
			}
			time.Sleep(time.Minute)
		})
	})
}

// TestTwoFairLines has a caller whose turn it is in two lines, in both of which somebody
// came earlier. It must not be sent from the one to the other for ever.
func TestTwoFairLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenant := sluice.Tenant
		fair := sluice.Queue{FairBy: &tenant, Shares: map[string]int64{"favoured": 3}}
		c := engine(t,
			kinds(queued(one("a", limit.Slots(1)), fair), "a", "both"),
			kinds(queued(one("b", limit.Slots(1)), fair), "b", "both"))
		a, b := send(background, c, sluice.Call{Kind: "a"}), send(background, c, sluice.Call{Kind: "b"})
		laterA, laterB := send(background, c, sluice.Call{Kind: "a"}), send(background, c, sluice.Call{Kind: "b"})
		both := send(background, c, sluice.Call{Kind: "both", Tenant: "favoured"})
		if !both.waiting() {
			t.Fatalf("there is no slot: %v", both.err)
		}
		a.adm.Release()
		b.adm.Release()
		for _, x := range []*caller{laterA, laterB, both} {
			if !x.admitted() {
				t.Fatal("somebody waits for ever")
			}
			x.adm.Release()
		}
	})
}

// TestCallerOfTwoBusyRules has a caller who needs a slot of each of two rules, which
// are never free at the same time, because others who need one of them wait all the time.
func TestCallerOfTwoBusyRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := engine(t,
			kinds(queued(one("a", limit.Slots(1)), sluice.Queue{}), "a", "both"),
			kinds(queued(one("b", limit.Slots(1)), sluice.Queue{}), "b", "both"))
		ctx, stop := context.WithCancel(background)
		defer stop()
		work := func(kind string, from time.Duration) {
			time.Sleep(from)
			for ctx.Err() == nil {
				if adm, err := c.Admit(ctx, sluice.Call{Kind: kind}); err == nil {
					time.Sleep(second)
					adm.Release()
				}
			}
		}
		for range 2 {
			go work("a", 0)
			go work("b", 500*ms)
		}
		sleepUntil(10*second + 100*ms)
		leaves, leave := context.WithCancel(background)
		gone := send(leaves, c, sluice.Call{Kind: "both"})
		for places := 0; places < 4 && clock() < time.Minute; places = c.Waiting()["a"] + c.Waiting()["b"] { // one worker in each line, and twice this one
			if sleepUntil(clock() + 100*ms); !gone.waiting() {
				t.Fatal("went through without a claim")
			}
		}
		leave()
		both := send(background, c, sluice.Call{Kind: "both"})
		for range 3 {
			sleepUntil(clock() + 10*second)
			if !both.admitted() || gone.waiting() {
				t.Fatalf("admitted %v, the other has left %v", both.admitted(), !gone.waiting())
			}
			both.adm.Release()
			both = send(background, c, sluice.Call{Kind: "both"})
		}
		stop()
		sleepUntil(clock() + 5*second)
		if len(c.Waiting()) != 0 || !both.admitted() {
			t.Errorf("%v are left", c.Waiting())
		}
	})
}

func TestReplayedGrantOutlivesItsReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := queued(one("r", limit.Slots(1)), sluice.Queue{})
		c := engine(t, rule)
		held := send(background, c, sluice.Call{})
		ctx, cancel := context.WithCancel(background)
		a := send(background, c, sluice.Call{ID: "same"})
		b := send(ctx, c, sluice.Call{ID: "same"})
		go cancel()
		held.adm.Release()
		synctest.Wait()
		if !a.admitted() || b.waiting() {
			t.Fatal("both must be answered")
		}
		if n := passes(t, c, 1, sluice.Call{}); n != 0 {
			t.Error("the second caller's cancellation has freed the slot of the first")
		}
	})
}

// A recorder is a store that remembers the last Take, so that a test can release it
// as another process would.
type recorder struct {
	*memory.Store
	taken ledger.Command
}

func (r *recorder) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	err := r.Store.Apply(ctx, cmds, res)
	if cmds[0].Op == ledger.Take && res[0].Status == ledger.Done {
		r.taken = ledger.Command{Op: ledger.Release, ID: cmds[0].ID, Steps: slices.Clone(cmds[0].Steps), At: res[0].At}
	}
	return err
}

func TestReleaseBySomebodyElse(t *testing.T) {
	rule := queued(one("r", limit.Slots(1)), sluice.Queue{})
	t.Run("by ID", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := engine(t, rule)
			send(background, c, sluice.Call{ID: "held"})
			x := send(background, c, sluice.Call{})
			again, err := c.Resume(background, "held")
			if err != nil {
				t.Fatal(err)
			}
			again.Release()
			wantAt(t, []*caller{x}, 0)
		})
	})
	t.Run("in another process", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &recorder{Store: memory.New(memory.Options{})}
			defer store.Close()
			c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{rule}}, store, sluice.Options{})
			if err != nil {
				t.Fatal(err)
			}
			send(background, c, sluice.Call{})
			x := send(background, c, sluice.Call{})
			sleepUntil(5 * second)
			err = store.Store.Apply(background, []ledger.Command{store.taken}, make([]ledger.Result, 1))
			if err != nil {
				t.Fatal(err)
			}
			sleepUntil(6 * second)
			if !x.admitted() {
				t.Error("the waiter never looked again")
			}
		})
	})
}

// A counter is a store that counts what it is asked.
type counter struct {
	*memory.Store
	asked atomic.Int64
}

func (s *counter) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	s.asked.Add(1)
	return s.Store.Apply(ctx, cmds, res)
}

// TestManyLinesAskInTurn has so many lines wait for releases in other processes that the
// store could do nothing else if each of them asked as often as a single one.
func TestManyLinesAskInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines = 3000
		store := &counter{Store: memory.New(memory.Options{})}
		defer store.Close()
		rule := each(queued(one("r", limit.Slots(1)), sluice.Queue{}), sluice.Subject)
		c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{rule}}, store, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range lines {
			admit(t, c, sluice.Call{Subject: strconv.Itoa(i)})
			go c.Admit(background, sluice.Call{Subject: strconv.Itoa(i)})
		}
		sleepUntil(second)
		before := store.asked.Load()
		sleepUntil(11 * second)
		if n := store.asked.Load() - before; n < 10*4000 || n > 10*5500 {
			t.Errorf("%d lines have asked %d times in ten seconds, want about 5000 a second", lines, n)
		}
		c.Close()
		synctest.Wait()
		if n := len(c.Waiting()); n != 0 {
			t.Errorf("%d lines are left", n)
		}
	})
}

// A gate is a store that keeps one Take waiting.
type gate struct {
	*memory.Store
	shut atomic.Bool
	open chan struct{}
}

func (g *gate) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	if cmds[0].Op == ledger.Take && g.shut.CompareAndSwap(true, false) {
		<-g.open
	}
	return g.Store.Apply(ctx, cmds, res)
}

// TestLineThatEmptied has a line end and one of the same key begin while somebody is about
// to ask the old one. The new line must not be lost: its waiters are told of a release
// and do not have to look again later.
func TestLineThatEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gate{Store: memory.New(memory.Options{}), open: make(chan struct{})}
		defer store.Close()
		c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{
			each(queued(one("r", limit.Slots(1)), sluice.Queue{}), sluice.Subject),
		}}, store, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(background)
		var held, late []*caller
		calls := []sluice.Call{{Subject: "a"}, {Subject: "b"}}
		for _, call := range calls {
			held = append(held, send(background, c, call))
			send(ctx, c, call)
		}
		store.shut.Store(true)
		go c.SetPolicy(c.Policy()) // asks all lines, and stops at the gate with the first
		synctest.Wait()
		cancel()
		synctest.Wait()
		for _, call := range calls {
			late = append(late, send(background, c, call))
		}
		close(store.open)
		synctest.Wait()
		for i := range held {
			held[i].adm.Release()
		}
		wantAt(t, late, 0, 0)
	})
}
