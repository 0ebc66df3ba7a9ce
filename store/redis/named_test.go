package redis

import (
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// A scene is two stores on one Cluster, as two processes have them, and a grant in two of
// its slots.
type scene struct {
	*testing.T
	a, b *Store
	take ledger.Command
}

var lastID atomic.Uint64

// scenes returns a maker of scenes of which each has an ID and cells of its own: a window
// of five units and a slot on one master, a slot on another, and one that is shared by all.
func scenes(t *testing.T, group *redistest.Group) func(*testing.T) *scene {
	a, b := openFor(t, Options{URI: group.URI(), Wait: 5 * time.Second}), openFor(t, Options{URI: group.URI(), Wait: 5 * time.Second})
	return func(t *testing.T) *scene {
		id := lastID.Add(1)
		first, second := twoGroups(a)
		step := func(group, cell uint64, l limit.Limit, n int64) ledger.Step {
			return ledger.Step{Key: ledger.Key{Group: group, Cell: 100*id + cell}, Limit: l, N: n}
		}
		return &scene{t, a, b, ledger.Command{ID: ledger.ID{Hi: 5, Lo: id}, Call: 7, Levels: true, Steps: []ledger.Step{
			step(first, 1, limit.Window(5, limit.Hour), 2), step(first, 2, limit.Slots(1), 1),
			step(second, 3, limit.Slots(1), 1), step(0, 4, limit.Slots(9), 1),
		}}}
	}
}

// twoGroups returns groups whose cells are on two masters, the one that is taken first
// first.
func twoGroups(s *Store) (first, second uint64) {
	for first = 1; ; first++ {
		for second = first + 1; second < first+50; second++ {
			at, next := slotOfGroup(first), slotOfGroup(second)
			if at < next && next != sharedSlot && s.nodes.of(at) != s.nodes.of(next) {
				return first, second
			}
		}
	}
}

// apply carries out a command.
func (c *scene) apply(s *Store, cmd ledger.Command) ledger.Result {
	c.Helper()
	cmd.Steps = slices.Clone(cmd.Steps)
	res := make([]ledger.Result, 1)
	if err := s.Apply(context.Background(), []ledger.Command{cmd}, res); err != nil {
		c.Fatal(err)
	}
	return res[0]
}

func (c *scene) want(status ledger.Status, s *Store, op ledger.Op) {
	c.Helper()
	cmd := c.take
	if cmd.Op = op; op != ledger.Take {
		cmd.Steps, cmd.Levels = nil, false
	}
	if got := c.apply(s, cmd).Status; got != status {
		c.Errorf("op %d: status %d, want %d", op, got, status)
	}
}

// left fails the test unless so many units are left in the cells.
func (c *scene) left(want ...int64) {
	c.Helper()
	for i, l := range c.apply(c.a, ledger.Command{Op: ledger.Peek, Steps: c.take.Steps, Levels: true}).Levels {
		if l.Left != want[i] {
			c.Errorf("%d left of step %d, want %d", l.Left, i, want[i])
		}
	}
}

// await waits until so many units are left in the cells, as s sees them.
func (c *scene) await(s *Store, want ...int64) {
	c.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var left []int64
		for _, l := range c.apply(s, ledger.Command{Op: ledger.Peek, Steps: c.take.Steps, Levels: true}).Levels {
			left = append(left, l.Left)
		}
		if slices.Equal(left, want) {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%d are left, want %d", left, want)
		}
	}
}

// begin writes the root or joins it, as far as s has come when something happens.
func (c *scene) begin(s *Store) *attempt {
	c.Helper()
	cmd := c.take
	cmd.Steps = slices.Clone(cmd.Steps)
	said, err := s.askRoot(context.Background(), s.rootRequest(ledger.Take, &cmd))
	if err != nil {
		c.Fatal(err)
	}
	return newAttempt(&cmd, said)
}

// part takes the i-th part of an attempt.
func (c *scene) part(s *Store, a *attempt, i int, want ledger.Status) {
	c.Helper()
	a.list[i].cmd[0].Op = ledger.Take
	if err := s.askPart(context.Background(), a.id, a.list[i], &a.root); err != nil {
		c.Fatal(err)
	}
	if got := a.list[i].res[0].Status; got != want {
		c.Fatalf("part %d: status %d, want %d", i, got, want)
	}
}

// full has the slot of the second part held by somebody else, until the release.
func (c *scene) full() (release func()) {
	c.Helper()
	other := ledger.Command{Steps: c.take.Steps[2:3]}
	at := c.apply(c.b, other).At
	return func() { c.apply(c.b, ledger.Command{Op: ledger.Release, Steps: other.Steps, At: at}) }
}

func TestFencing(t *testing.T) {
	group := redistest.Cluster(t)
	fresh := scenes(t, group)
	ctx := context.Background()
	t.Run("who is refused takes nothing from who got through meanwhile", func(t *testing.T) {
		c := fresh(t)
		release := c.full()
		a := c.begin(c.a)
		c.part(c.a, a, 0, ledger.Done)
		c.part(c.a, a, 1, ledger.Refused)
		release()
		c.want(ledger.Replayed, c.b, ledger.Take) // joins, adopts the first part and commits
		var res ledger.Result
		if done, err := c.a.turnBack(ctx, a, 1, &res); !done || err != nil || res.Status != ledger.Done || len(res.Levels) != 4 {
			t.Errorf("%v, %v, %+v", done, err, res)
		}
		c.left(3, 0, 0, 8)
		c.want(ledger.Done, c.b, ledger.Release)
		c.left(3, 1, 1, 9)
	})
	t.Run("who got through what was given up begins anew", func(t *testing.T) {
		c := fresh(t)
		a := c.begin(c.a)
		c.part(c.a, a, 0, ledger.Done)
		b := c.begin(c.b)
		c.part(c.b, b, 0, ledger.Replayed)
		c.part(c.b, b, 1, ledger.Done)
		c.part(c.b, b, 2, ledger.Done)
		a.list[1].res[0].Status = ledger.Refused
		var res ledger.Result
		if done, err := c.a.turnBack(ctx, a, 1, &res); !done || err != nil || res.Status != ledger.Refused {
			t.Errorf("%v, %v, %+v", done, err, res)
		}
		if done, err := c.b.commit(ctx, b, &res); done || err != nil {
			t.Errorf("what was given up is committed: %v, %v", done, err)
		}
		c.left(5, 1, 1, 9)
		c.want(ledger.Done, c.b, ledger.Take)
		c.left(3, 0, 0, 8)
		c.want(ledger.Done, c.b, ledger.Release)
	})
	t.Run("what was given up is committed by nobody, however soon", func(t *testing.T) {
		c := fresh(t)
		a, b := c.begin(c.a), c.begin(c.b)
		for i := range a.list {
			c.part(c.a, a, i, ledger.Done)
			c.part(c.b, b, i, ledger.Replayed)
		}
		abort := ledger.Command{ID: a.id, Call: uint64(a.root.life)}
		if said, err := c.a.askRoot(ctx, c.a.rootRequest(opAbort, &abort)); err != nil || said.status != ledger.Done {
			t.Fatalf("%+v, %v", said, err)
		}
		for _, one := range []struct {
			*Store
			*attempt
		}{{c.b, b}, {c.a, a}} {
			if done, err := one.commit(ctx, one.attempt, new(ledger.Result)); done || err != nil {
				t.Errorf("%v, %v", done, err)
			}
		}
		c.left(5, 1, 1, 9)
	})
	t.Run("C-69 what a process leaves half taken is finished by the next with the ID", func(t *testing.T) {
		for parts := range 4 {
			c := fresh(t)
			a := c.begin(c.a)
			for i := range parts {
				c.part(c.a, a, i, ledger.Done)
			}
			c.begin(c.b) // another joins, and dies too
			for _, op := range []ledger.Op{ledger.Find, ledger.Settle, ledger.Free} {
				c.want(ledger.Unknown, c.b, op)
			}
			c.want(ledger.Replayed, c.b, ledger.Take)
			c.want(ledger.Done, c.b, ledger.Find)
			c.left(3, 0, 0, 8)
			c.want(ledger.Done, c.b, ledger.Release)
			c.left(3, 1, 1, 9)
		}
	})
	t.Run("what a process leaves half taken is given up by a void, and by a find much later", func(t *testing.T) {
		for _, op := range []ledger.Op{ledger.Void, ledger.Release, ledger.Find} {
			c := fresh(t)
			a := c.begin(c.a)
			if op == ledger.Find {
				a.root.life = age(t, c, group)
			}
			c.part(c.a, a, 0, ledger.Done)
			c.want(ledger.Unknown, c.b, op)
			c.left(5, 1, 1, 9)
			c.want(ledger.Done, c.b, ledger.Take)
			c.left(3, 0, 0, 8)
		}
	})
	t.Run("a void that was sent for an earlier life does nothing to a later one", func(t *testing.T) {
		c := fresh(t)
		a := c.begin(c.a)
		c.part(c.a, a, 0, ledger.Done)
		c.part(c.a, a, 1, ledger.Done)
		abort := ledger.Command{ID: a.id, Call: uint64(a.root.life)}
		if said, err := c.a.askRoot(ctx, c.a.rootRequest(opAbort, &abort)); err != nil || said.status != ledger.Done {
			t.Fatalf("%+v, %v", said, err)
		}
		c.want(ledger.Done, c.b, ledger.Take) // before anything was voided
		c.left(3, 0, 0, 8)
		c.a.bring(ctx, c.a.voids(a.id, a.list, &a.root), c.a.forget(a.id, a.root.life))
		c.left(3, 0, 0, 8)
		c.want(ledger.Done, c.b, ledger.Find)
		c.part(c.a, a, 2, ledger.Conflict) // a take that is as late
		c.left(3, 0, 0, 8)
		c.want(ledger.Done, c.b, ledger.Void)
		c.left(5, 1, 1, 9)
	})
	t.Run("P-092 a take that fails half way holds nothing", func(t *testing.T) {
		c := fresh(t)
		silent := group.Owner(c.a.cellKey(piecesOf(&c.take)[1].cmd[0].Steps[0].Key))
		for group.Owner(c.a.recordKey(c.take.ID)) == silent {
			c = fresh(t) // with a root that is written
		}
		cmds := []ledger.Command{c.take}
		cmds[0].Steps = slices.Clone(c.take.Steps)
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		silent.Stop()
		err := c.a.Apply(short, cmds, make([]ledger.Result, 1))
		silent.Continue()
		if err == nil {
			t.Fatal("it does not fail")
		}
		c.await(c.b, 5, 1, 1, 9)
		c.want(ledger.Done, c.b, ledger.Take)
		c.left(3, 0, 0, 8)
		c.want(ledger.Done, c.b, ledger.Release)
	})
	t.Run("a take that arrives after its void takes nothing", func(t *testing.T) {
		c := fresh(t)
		a := c.begin(c.a)
		c.a.bring(ctx, c.a.voids(a.id, a.list, &a.root), func() {})
		for i := range a.list {
			c.part(c.a, a, i, ledger.Conflict)
		}
		c.left(5, 1, 1, 9)
	})
	t.Run("P-103 what a process that died had given up is given back by the next with the ID, though it is refused", func(t *testing.T) {
		c := fresh(t)
		other := ledger.Command{Steps: slices.Clone(c.take.Steps[:1])}
		other.Steps[0].N = 3
		c.apply(c.b, other)
		a := c.begin(c.a)
		c.part(c.a, a, 0, ledger.Done)
		c.part(c.a, a, 1, ledger.Done)
		abort := ledger.Command{ID: a.id, Call: uint64(a.root.life)}
		if said, err := c.a.askRoot(ctx, c.a.rootRequest(opAbort, &abort)); err != nil || said.status != ledger.Done {
			t.Fatalf("%+v, %v", said, err)
		}
		next := c.take
		next.Steps = slices.Clone(next.Steps)
		next.Steps[0].N = 3
		if res := c.apply(c.b, next); res.Status != ledger.Refused {
			t.Fatalf("status %d", res.Status)
		}
		c.await(c.b, 2, 1, 1, 9)
	})
	t.Run("a server whose clock is behind makes no life that is too early", func(t *testing.T) {
		c := fresh(t)
		a := c.begin(c.a)
		a.root.life += 3 * limit.Second // as another server would have said before a failover
		c.part(c.a, a, 0, ledger.Done)
		c.lose(group) // so that nobody knows what became of it
		c.want(ledger.Done, c.b, ledger.Take)
		c.left(1, 0, 0, 8) // the slot came back; the rest may have been used
		c.want(ledger.Done, c.b, ledger.Release)
		c.left(1, 1, 1, 9)
	})
	t.Run("P-103 what a process that died leaves half done others finish", func(t *testing.T) {
		watcher := openFor(t, Options{URI: group.URI(), Wait: 5 * time.Second, Silence: 600 * time.Millisecond})
		for parts := range 3 {
			c := fresh(t)
			dying, err := Open(ctx, Options{URI: group.URI(), Wait: 5 * time.Second, Silence: 600 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			a := c.begin(dying) // and takes some parts
			for i := range parts {
				c.part(dying, a, i, ledger.Done)
			}
			other := fresh(t) // of which it ends the root and tells no part
			other.take.WhileHeld = parts == 1
			other.want(ledger.Done, dying, ledger.Take)
			end := ledger.Command{Op: ledger.Release, ID: other.take.ID}
			if said, err := dying.askRoot(ctx, dying.rootRequest(end.Op, &end)); err != nil || said.status != ledger.Done {
				t.Fatalf("%+v, %v", said, err)
			}
			third := fresh(t) // which it holds: nobody may end that
			third.want(ledger.Done, dying, ledger.Take)
			dying.stopRounds()
			c.await(watcher, 5, 1, 1, 9)
			other.await(watcher, 3, 1, 1, 9)
			third.left(3, 0, 0, 8)
			third.want(ledger.Done, watcher, ledger.Release)
			dying.Close()
		}
	})
	t.Run("P-078 what was refused is not remembered", func(t *testing.T) {
		c := fresh(t)
		defer c.full()()
		before := keys(t, group)
		for range 3 {
			c.want(ledger.Refused, c.a, ledger.Take)
		}
		for deadline := time.Now().Add(5 * time.Second); keys(t, group) != before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d keys, and %d before", keys(t, group), before)
			}
		}
	})
}

// keys is how many keys there are.
func keys(t *testing.T, group *redistest.Group) (n int64) {
	for _, m := range group.Masters() {
		size, err := strconv.ParseInt(strings.TrimPrefix(m.Do("DBSIZE"), ":"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		n += size
	}
	return n
}

// lose makes the server lose the root, as a failover may.
func (c *scene) lose(group *redistest.Group) {
	key := c.a.recordKey(c.take.ID)
	if got := group.Owner(key).Do("DEL", key); got != ":1" {
		c.Fatal(got)
	}
}

// age makes the root of the scene look as if it had been begun long ago, and returns when.
func age(t *testing.T, c *scene, group *redistest.Group) limit.Micros {
	t.Helper()
	key := c.a.recordKey(c.take.ID)
	option := rueidis.ClientOption{InitAddress: []string{group.Owner(key).Addr}, ForceSingleClient: true, DisableCache: true}
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	raw, err := client.Do(context.Background(), client.B().Get().Key(key).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	at := len(raw) - 16 // before the owner, which is last while nothing has been settled
	life := binary.LittleEndian.Uint64([]byte(raw[at:])) - uint64(deadAfter) - 1
	old := raw[:at] + string(binary.LittleEndian.AppendUint64(nil, life)) + raw[at+8:]
	if err := client.Do(context.Background(), client.B().Set().Key(key).Value(old).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	return limit.Micros(life)
}

// lives returns for how long the root of the scene and its parts are kept, in the order in
// which they are taken; -1 is for ever.
func (c *scene) lives(group *redistest.Group) (all []time.Duration) {
	c.Helper()
	keys := []string{c.a.recordKey(c.take.ID)}
	for _, p := range piecesOf(&c.take) {
		keys = append(keys, c.a.besideKey(groupOf(p.cmd[0].Steps), c.take.ID))
	}
	for _, key := range keys {
		ms, err := strconv.ParseInt(strings.TrimPrefix(group.Owner(key).Do("PTTL", key), ":"), 10, 64)
		if err != nil || ms == -2 {
			c.Fatalf("%s is not there: %v", key, err)
		}
		all = append(all, time.Duration(max(-1, ms*int64(time.Millisecond))))
	}
	return all
}

// TestLeaving is about grants that expire in a Cluster: the parts stay as long as the root,
// and no longer than some minutes more.
func TestLeaving(t *testing.T) {
	group := redistest.Cluster(t)
	fresh := scenes(t, group)
	leave := func(t *testing.T, c *scene) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			all, ok := c.lives(group), true
			for i, life := range all {
				least := time.Hour
				if i > 0 {
					least += brief
				}
				ok = ok && life > least-time.Minute && life <= least
			}
			if ok {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("root and parts are kept for %v, want %v and %v more", all, time.Hour, brief)
			}
		}
	}
	stay := func(t *testing.T, c *scene) {
		t.Helper()
		if all := c.lives(group); slices.Max(all) != -1 {
			t.Errorf("root and parts are kept for %v, want for ever", all)
		}
	}
	expiring := func(t *testing.T, steps ...int) *scene {
		c := fresh(t)
		all := c.take.Steps
		c.take.Steps, c.take.Expires = nil, limit.Minute
		for _, i := range steps {
			c.take.Steps = append(c.take.Steps, all[i])
		}
		c.take.Steps = append(c.take.Steps, ledger.Step{Key: ledger.Key{Cell: all[3].Key.Cell + 1}, Limit: limit.Bucket(1, limit.Hour, 9), N: 1})
		return c
	}
	t.Run("C-98 C-99 a reservation leaves with all its parts", func(t *testing.T) {
		c := expiring(t, 0)
		c.want(ledger.Done, c.a, ledger.Take)
		leave(t, c)
		c.take.Used = []int64{1, 1}
		c.want(ledger.Done, c.b, ledger.Settle)
		leave(t, c)
	})
	t.Run("C-98 while it holds a slot nothing of it leaves", func(t *testing.T) {
		c := expiring(t, 0, 2)
		c.want(ledger.Done, c.a, ledger.Take)
		stay(t, c)
		if status := c.apply(c.b, ledger.Command{Op: ledger.Free, ID: c.take.ID, Steps: c.take.Steps[1:2]}).Status; status != ledger.Done {
			t.Errorf("status %d", status)
		}
		leave(t, c)
	})
	t.Run("C-98 a slot that a shadow was denied keeps nothing", func(t *testing.T) {
		c := expiring(t, 0, 2)
		c.want(ledger.Done, c.a, ledger.Take)
		other := expiring(t)
		other.take.Steps = append(other.take.Steps, c.take.Steps[1])
		other.take.Steps[1].Set = 1
		other.want(ledger.Done, other.b, ledger.Take)
		leave(t, other)
	})
	t.Run("C-W2 one that is remembered while it is held is kept for some minutes more, for a take that is late", func(t *testing.T) {
		c := fresh(t)
		c.take.WhileHeld = true
		c.want(ledger.Done, c.a, ledger.Take)
		stay(t, c)
		c.want(ledger.Done, c.a, ledger.Release)
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			all := c.lives(group)
			if slices.Min(all) > brief-time.Minute && slices.Max(all) <= brief {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("root and parts are kept for %v, want %v", all, brief)
			}
		}
		for _, op := range []ledger.Op{ledger.Find, ledger.Settle, ledger.Release, ledger.Void} {
			c.want(ledger.Unknown, c.b, op)
		}
		if res := c.apply(c.b, c.take); res.Status != ledger.Replayed || !res.Released {
			t.Errorf("a take that is late is told %+v", res)
		}
		c.left(3, 1, 1, 9)
	})
	t.Run("C-98 one that does not expire stays", func(t *testing.T) {
		c := expiring(t, 0)
		c.take.Expires = 0
		c.want(ledger.Done, c.a, ledger.Take)
		stay(t, c)
	})
}
