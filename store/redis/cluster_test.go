package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
	"github.com/sluicegate/sluice/store/storetest"
)

func TestCluster(t *testing.T) {
	group := redistest.Cluster(t)
	t.Run("contract", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) sluice.Store {
			group.Flush()
			return open(t, redis.Options{URI: group.URI(), Wait: time.Second})
		})
	})
	for _, c := range []struct {
		name  string
		check func(*testing.T, *redistest.Group)
	}{
		{"P-129 a master that forgets its scripts costs no error and no debit", forgetsScripts},
		{"P-132 P-133 P-141 hostile names work and are told apart", hostileNames},
		{"a user with the rights that the message names, and no more", fewRights},
		{"a slot that moves under load costs no error and no debit", slotMoves},
		{"P-153 P-160 while a master is silent its slots fail at once and others are served", masterSilent},
		{"P-134 P-092 a master that is killed under load takes along what it had told nobody, and no more", masterKilled},
	} {
		t.Run(c.name, func(t *testing.T) {
			group.Flush()
			c.check(t, group)
		})
	}
}

// cellOf is a step in the cell of a group of its own; group zero is shared by all.
func cellOf(group uint64, l limit.Limit, n int64) ledger.Step {
	return ledger.Step{Key: ledger.Key{Group: group, Cell: group + 1000}, Limit: l, N: n}
}

// keyOf is the key of cellOf, as far as its slot goes.
func keyOf(group uint64) string {
	return redis.CellKey(ledger.Key{Group: group, Cell: group + 1000})
}

// leftOf is how many units are left in the cell of a group.
func leftOf(t *testing.T, s *redis.Store, group uint64, l limit.Limit) int64 {
	t.Helper()
	res, err := do(s, ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{cellOf(group, l, 0)}, Levels: true})
	if err != nil {
		t.Fatal(err)
	}
	return res.Levels[0].Left
}

func forgetsScripts(t *testing.T, group *redistest.Group) {
	s := open(t, redis.Options{URI: group.URI(), Wait: 5 * time.Second})
	defer s.Close()
	l, shared := limit.Window(1000, limit.Hour), limit.Bucket(1, limit.Hour, 1000)
	var all sync.WaitGroup
	for i := range uint64(1000) {
		all.Go(func() {
			if i%100 == 0 {
				group.Masters()[i/100%3].Do("SCRIPT", "FLUSH")
			}
			res, err := do(s, ledger.Command{Steps: []ledger.Step{cellOf(i%7+1, l, 1), cellOf(0, shared, 1)}})
			if err != nil || res.Status != ledger.Done {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	all.Wait()
	used := 1000 - leftOf(t, s, 0, shared)
	for g := range uint64(7) {
		used += 1000 - leftOf(t, s, g+1, l)
	}
	if used != 2000 {
		t.Errorf("%d units are used after a thousand calls of two", used)
	}
}

func hostileNames(t *testing.T, group *redistest.Group) {
	s := open(t, redis.Options{URI: group.URI(), Wait: time.Second})
	defer s.Close()
	c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{
		{ID: "all", Limits: []sluice.Limit{{Limit: limit.Slots(1000)}}},
		{ID: "each", GroupBy: []sluice.Dimension{sluice.Subject, sluice.Tenant}, Missing: sluice.MissingIP, Limits: []sluice.Limit{{Limit: limit.Window(1, limit.Hour)}}},
	}}, s, sluice.Options{KeySecret: []byte("sixteen bytes or more")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, long := context.Background(), strings.Repeat("x", 10_000)
	for i, who := range [][2]string{
		{"}x", ""}, {"{", ""}, {"{}", ""}, {"a}b{c", ""}, {"\x00", ""}, {"*", ""}, {"a_b", "c"}, {"a", "b_c"}, {"a", "b"},
		{"ab", ""}, {"", "ab"}, {long + "1", ""}, {long + "2", ""}, {"\r\nFLUSHALL\r\n", ""},
	} {
		call := sluice.Call{Subject: who[0], Tenant: who[1]}
		if i%2 == 0 {
			call.ID = "{" + who[0] + "}" + who[1]
		}
		adm, err := c.Admit(ctx, call)
		if err != nil {
			t.Fatalf("%.20q: %v", who, err)
		}
		adm.Release()
		call.ID = ""
		if _, err := c.Admit(ctx, call); err == nil {
			t.Errorf("%.20q: passed twice", who)
		}
		if n, err := c.Reset(ctx, who[0]); who[0] != "" && (err != nil || n != 1) {
			t.Errorf("%.20q: reset %d, %v", who, n, err)
		}
	}
}

func fewRights(t *testing.T, group *redistest.Group) {
	words := append([]string{"ACL", "SETUSER", "books", "on", ">books", "~sluice:*", "resetchannels", "&sluice:freed"}, strings.Fields(redis.Rights)...)
	for _, n := range group.Nodes {
		if got := n.Do(words...); got != "+OK" {
			t.Fatal(got)
		}
	}
	s := open(t, redis.Options{URI: strings.Replace(group.URI(), "//", "//books:books@", 1), Wait: time.Second})
	defer s.Close()
	for id := range uint64(2) {
		cmd := ledger.Command{ID: ledger.ID{Lo: id}, Steps: []ledger.Step{cellOf(1, limit.Slots(9), 1), cellOf(2, limit.Window(9, limit.Hour), 1), cellOf(0, limit.Bucket(1, limit.Hour, 9), 1)}}
		res, err := do(s, cmd)
		if err != nil || res.Status != ledger.Done {
			t.Errorf("%+v, %v", res, err)
		}
		cmd.Op, cmd.At = ledger.Release, res.At
		if res, err := do(s, cmd); err != nil || res.Status != ledger.Done {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if res, err := do(s, ledger.Command{Op: ledger.Reset, All: true}); err != nil || res.Count != 2 {
		t.Errorf("reset %+v, %v", res, err)
	}
}

// slotMoves moves the slot of a caller to and fro while calls of all kinds are about it.
func slotMoves(t *testing.T, group *redistest.Group) {
	s := open(t, redis.Options{URI: group.URI(), Wait: 10 * time.Second})
	defer s.Close()
	const mine = 5
	l, slots := limit.Window(1<<40, limit.Hour), limit.Slots(1000)
	var passed, next atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for i := range 6 {
		all.Go(func() {
			for ctx.Err() == nil {
				cmd := ledger.Command{Steps: []ledger.Step{cellOf(mine, l, 1)}}
				switch i % 3 {
				case 1: // two cells of the slot, of which one is new
					other := cellOf(mine, limit.Slots(1), 1)
					other.Key.Cell += uint64(next.Add(1))
					cmd.Steps = append(cmd.Steps, other)
				case 2:
					cmd.ID = ledger.ID{Hi: 9, Lo: uint64(next.Add(1))}
					cmd.Steps = append(cmd.Steps, cellOf(0, slots, 1))
				}
				res, err := do(s, cmd)
				if err != nil || res.Status != ledger.Done {
					t.Errorf("caller %d: %+v, %v", i, res, err)
					return
				}
				passed.Add(1)
				cmd.Op, cmd.At = ledger.Release, res.At
				if res, err := do(s, cmd); i%3 > 0 && (err != nil || res.Status != ledger.Done) {
					t.Errorf("caller %d: released %+v, %v", i, res, err)
				}
			}
		})
	}
	slot := group.Slot(keyOf(mine))
	for range 4 {
		from := group.Owner(keyOf(mine))
		to := group.Masters()[0]
		if to == from {
			to = group.Masters()[1]
		}
		before := passed.Load()
		keys, finish := group.Move(slot, from, to)
		eventually(t, 5*time.Second, "calls while the slot begins to move", func() bool { return passed.Load() > before+20 })
		for range 3 {
			keys(3)
		}
		finish()
		before = passed.Load()
		eventually(t, 5*time.Second, "calls at the new place", func() bool { return passed.Load() > before+20 })
	}
	stop()
	all.Wait()
	if used := 1<<40 - leftOf(t, s, mine, l); used != passed.Load() {
		t.Errorf("%d units are used after %d calls", used, passed.Load())
	}
	if n := leftOf(t, s, 0, slots); n != 1000 {
		t.Errorf("%d slots are free of 1000", n)
	}
}

// on returns groups whose cells are on a master, and others.
func on(group *redistest.Group, master *redistest.Server, n int) (here, elsewhere []uint64) {
	for g := uint64(1); len(here) < n || len(elsewhere) < n; g++ {
		if group.Owner(keyOf(g)) == master {
			here = append(here, g)
		} else {
			elsewhere = append(elsewhere, g)
		}
	}
	return here[:n], elsewhere[:n]
}

func masterSilent(t *testing.T, group *redistest.Group) {
	s := open(t, redis.Options{URI: group.URI()})
	defer s.Close()
	victim := group.Masters()[0]
	here, elsewhere := on(group, victim, 4)
	l := limit.Window(1<<40, limit.Hour)
	try := func(g uint64) (time.Duration, error) {
		began := time.Now()
		_, err := do(s, ledger.Command{Steps: []ledger.Step{cellOf(g, l, 1)}})
		return time.Since(began), err
	}
	for _, g := range append(here, elsewhere...) {
		if _, err := try(g); err != nil {
			t.Fatal(err)
		}
	}
	victim.Stop()
	defer victim.Continue()
	eventually(t, time.Second, "the breaker opens", func() bool {
		_, err := try(here[0])
		return errors.Is(err, redis.ErrUnavailable)
	})
	became := make(chan time.Time, 1)
	go func() {
		for !strings.Contains(group.Nodes[3].Info("replication"), "role:master") {
			time.Sleep(time.Millisecond)
		}
		became <- time.Now()
	}()
	quick, slow, lost := 0, 0, 0
	for i := 0; ; i++ {
		d, err := try(here[i%4])
		if err == nil {
			break
		}
		if errors.Is(err, redis.ErrUnavailable) && d < time.Millisecond {
			quick++
		} else {
			slow++
		}
		if _, err := try(elsewhere[i%4]); err != nil {
			lost++
		}
	}
	if quick < 9*slow || lost > (quick+slow)/10 {
		t.Errorf("where the master is silent %d failed at once and %d did not, where it is not %d failed", quick, slow, lost)
	}
	d := time.Since(<-became)
	t.Logf("served %v after the Cluster's own failover, %d failed at once before", d, quick)
	if d > time.Second {
		t.Errorf("P-160 it took %v", d)
	}
	victim.Continue()
	group.Settle()
}

// masterKilled kills a master while callers take and give back slots in it and elsewhere,
// with and without an ID. What the master had answered and not told its replica may be lost:
// a release at most for each call that was under way.
func masterKilled(t *testing.T, group *redistest.Group) {
	s := open(t, redis.Options{URI: group.URI(), Wait: 200 * time.Millisecond})
	defer s.Close()
	victim := group.Masters()[1]
	here, elsewhere := on(group, victim, 3)
	groups := append(append([]uint64{0}, here...), elsewhere...)
	where := make(map[uint64]*redistest.Server)
	for _, g := range groups {
		where[g] = group.Owner(keyOf(g))
	}
	const callers = 12
	slots := limit.Slots(1000)
	var passed, failed atomic.Int64
	var killed atomic.Bool
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for i := range callers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for n := uint64(1); ctx.Err() == nil; n++ {
				cmd := ledger.Command{}
				for _, k := range r.Perm(len(groups))[:1+r.IntN(3)] {
					cmd.Steps = append(cmd.Steps, cellOf(groups[k], slots, 1))
				}
				if i%2 == 0 {
					cmd.ID = ledger.ID{Hi: uint64(i + 100), Lo: n}
				}
				res, err := do(s, cmd)
				end := ledger.Release
				switch {
				case err == nil && res.Status == ledger.Done:
					passed.Add(1)
				case err == nil:
					t.Errorf("%+v", res)
				default:
					failed.Add(1)
					end = ledger.Void // nobody knows what became of it
				}
				cmd.Op, cmd.At = end, res.At
				if err == nil || i%2 == 0 {
					if _, err := do(s, cmd); err != nil {
						t.Errorf("what is given back failed: %v", err)
					}
				}
				if err != nil || killed.Load() {
					time.Sleep(time.Millisecond) // what is refused at once would fill the outbox
				}
			}
		})
	}
	eventually(t, 20*time.Second, "calls pass", func() bool { return passed.Load() > 500 })
	killed.Store(true)
	victim.Kill()
	eventually(t, 20*time.Second, "the replica is master", func() bool { return len(group.Masters()) == 3 })
	failover := time.Now()
	probe := ledger.Command{Steps: []ledger.Step{cellOf(here[0], slots, 0)}}
	eventually(t, 5*time.Second, "its slots are served", func() bool { _, err := do(s, probe); return err == nil })
	t.Logf("served %v after the Cluster's own failover; %d calls passed, %d failed", time.Since(failover), passed.Load(), failed.Load())
	before := passed.Load()
	eventually(t, 5*time.Second, "calls pass again", func() bool { return passed.Load() > before+200 })
	stop()
	all.Wait()
	held := func(g uint64) int64 {
		res, err := do(s, ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{cellOf(g, slots, 0)}, Levels: true})
		if err != nil {
			return callers + 1 // it is not known
		}
		return 1000 - res.Levels[0].Left
	}
	lost := int64(0)
	for _, g := range groups {
		if where[g] != victim {
			eventually(t, 5*time.Second, fmt.Sprintf("all slots of group %d are free", g), func() bool { return held(g) == 0 })
			continue
		}
		eventually(t, 5*time.Second, "what waited has been given back", func() bool { return s.Stats().Waiting == 0 && held(g) <= callers })
		lost += held(g)
	}
	if lost > callers {
		t.Errorf("%d slots are lost, and no more calls were under way than %d", lost, callers)
	}
	group.Settle()
}
