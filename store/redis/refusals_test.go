package redis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// openTwo returns two stores on a server, as two processes have them. Both hear what
// the other gives back; the first repeats refusals, the second asks always.
func openTwo(t *testing.T, server *redistest.Server) (near, other *redis.Store) {
	t.Helper()
	near = open(t, redis.Options{URI: "redis://" + server.Addr, Wait: time.Second})
	other = open(t, redis.Options{URI: "redis://" + server.Addr, Wait: time.Second, AskAlways: true})
	t.Cleanup(func() { near.Close(); other.Close() })
	hears(t, near)
	hears(t, other)
	return near, other
}

// scripts is how many script calls the server has carried out.
func scripts(t testing.TB, server *redistest.Server) int64 {
	return figure(t, server, "commandstats", "cmdstat_evalsha:calls=")
}

// must carries out cmd and fails the test unless it ends so.
func must(t testing.TB, s *redis.Store, want ledger.Status, cmd ledger.Command) ledger.Result {
	t.Helper()
	res, err := do(s, cmd)
	if err != nil || res.Status != want {
		t.Fatalf("%+v: %+v, %v; want status %d", cmd, res, err, want)
	}
	return res
}

// refuse lets s be refused so often that it need not ask any more, and returns what it
// is told without asking.
func refuse(t *testing.T, server *redistest.Server, s *redis.Store, cmd ledger.Command) ledger.Result {
	t.Helper()
	must(t, s, ledger.Refused, cmd)
	for range 10 { // a busy machine may take longer than a refusal is repeated
		must(t, s, ledger.Refused, cmd)
		before := scripts(t, server)
		res := must(t, s, ledger.Refused, cmd)
		if scripts(t, server) == before {
			return res
		}
	}
	t.Fatalf("each refusal of %+v takes a script call", cmd)
	return ledger.Result{}
}

// kinds are limits of ten units that none comes back to while a test runs.
var kinds = []limit.Limit{limit.Bucket(1, limit.Hour, 10), limit.Window(10, limit.Hour), limit.Slots(10)}

func TestRefusalsAreRepeated(t *testing.T) {
	server := redistest.Start(t)
	for _, l := range kinds {
		t.Run(l.String(), func(t *testing.T) {
			server.Flush()
			near, other := openTwo(t, server)
			t.Run("P-152 a smaller call is asked for, and passes", func(t *testing.T) {
				must(t, other, ledger.Done, take(l, 1, 7))
				refuse(t, server, near, take(l, 1, 5))
				must(t, near, ledger.Done, take(l, 1, 2))
				must(t, near, ledger.Refused, take(l, 1, 2))
			})
			t.Run("P-152 a refund in the same process counts at once", func(t *testing.T) {
				grant := take(l, 2, 7)
				grant.Op, grant.At = ledger.Void, must(t, near, ledger.Done, grant).At
				refuse(t, server, near, take(l, 2, 5))
				must(t, near, ledger.Done, grant)
				must(t, near, ledger.Done, take(l, 2, 5))
			})
			t.Run("P-144 nothing is refused that is there", func(t *testing.T) {
				must(t, other, ledger.Done, take(l, 3, 8))
				must(t, near, ledger.Done, take(l, 3, 1))
				refuse(t, server, near, take(l, 3, 2))
				cmd := take(l, 3, 1)
				cmd.Levels = true
				if res := must(t, near, ledger.Done, cmd); res.Levels[0].Left != 0 {
					t.Errorf("%d left of 10 after 10", res.Levels[0].Left)
				}
				if res := refuse(t, server, near, cmd); res.Levels[0].Left != 0 || res.Levels[0].Max != 10 {
					t.Errorf("told levels %+v", res.Levels)
				}
			})
			t.Run("P-142 two nodes in turn pass as many as there are, then none", func(t *testing.T) {
				passed := 0
				for i := range 60 {
					if res, err := do([]*redis.Store{near, other}[i%2], take(l, 4, 1)); err != nil {
						t.Fatal(err)
					} else if res.Status == ledger.Done {
						passed++
					}
				}
				if passed != 10 {
					t.Errorf("%d passed, want 10", passed)
				}
			})
			t.Run("a call that the books know by its ID is answered with its record", func(t *testing.T) {
				named := take(l, 5, 10)
				named.ID = ledger.ID{Hi: 1, Lo: 1}
				must(t, other, ledger.Done, named)
				refuse(t, server, near, take(l, 5, 10))
				must(t, near, ledger.Replayed, named)
			})
			t.Run("a cell that let it pass is asked for what it would refuse", func(t *testing.T) {
				full, part := take(l, 20, 10), take(l, 21, 9)
				must(t, other, ledger.Done, full)
				part.At = must(t, other, ledger.Done, part).At
				both := func(n int64) ledger.Command {
					cmd := take(l, 20, 1)
					cmd.Steps = append(cmd.Steps, take(l, 21, n).Steps...)
					return cmd
				}
				refuse(t, server, near, both(1))
				part.Op = ledger.Void // nobody was refused by it, nobody is told
				must(t, other, ledger.Done, part)
				if res := must(t, near, ledger.Refused, both(5)); !res.Outcomes[1].OK {
					t.Errorf("told %+v", res.Outcomes)
				}
			})
			t.Run("other numbers of a limit are asked for", func(t *testing.T) {
				must(t, other, ledger.Done, take(l, 6, 10))
				refuse(t, server, near, take(l, 6, 1))
				more := l
				if more.Max *= 2; l.Kind == limit.KindBucket {
					more = limit.Bucket(1, limit.Hour, 20)
				}
				must(t, near, ledger.Done, take(more, 6, 1))
			})
		})
	}
}

// next returns what comes next from a channel.
func next[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(5 * time.Second):
		t.Fatal("nobody was told anything")
	}
	return v
}

// TestRefusalsEnd is about what another process does that ends a refusal. It is known
// when the message has come, and not only when the refusal has been repeated long enough.
func TestRefusalsEnd(t *testing.T) {
	server := redistest.Start(t)
	near, other := openTwo(t, server)
	told := make(chan ledger.Key, 100)
	defer near.Watch(func(k ledger.Key) { told <- k }, func(bool) {})()
	void := func(grant ledger.Command) ledger.Command { grant.Op = ledger.Void; return grant }
	release := func(grant ledger.Command) ledger.Command { grant.Op = ledger.Release; return grant }
	settle := func(grant ledger.Command) ledger.Command {
		grant.Op, grant.Used = ledger.Settle, []int64{1}
		return grant
	}
	reset := func(ledger.Command) ledger.Command { return ledger.Command{Op: ledger.Reset, Group: 1} }
	all := func(ledger.Command) ledger.Command { return ledger.Command{Op: ledger.Reset, All: true} }
	for i, c := range []struct {
		name  string
		limit limit.Limit
		end   func(grant ledger.Command) ledger.Command
	}{
		{"P-152 a bucket is voided", kinds[0], void}, {"P-152 a window is voided", kinds[1], void}, {"slots are voided", kinds[2], void},
		{"P-152 a bucket is settled", kinds[0], settle}, {"P-152 a window is settled", kinds[1], settle},
		{"slots are released", kinds[2], release},
		{"a bucket is reset", kinds[0], reset}, {"a window is reset", kinds[1], reset},
		{"all buckets are reset", kinds[0], all}, {"all windows are reset", kinds[1], all},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int64{10, 9} { // the first is asked by the quick script, if there is one
				server.Flush()
				grant := take(c.limit, uint64(i), 10)
				grant.At = must(t, other, ledger.Done, grant).At
				refuse(t, server, near, take(c.limit, uint64(i), n))
				messages := published(t, server)
				must(t, other, ledger.Done, c.end(grant))
				if k := next(t, told); k != grant.Steps[0].Key {
					t.Errorf("told of %+v, not of %+v", k, grant.Steps[0].Key)
				}
				must(t, near, ledger.Done, take(c.limit, uint64(i), 9))
				if n := published(t, server) - messages; n != 1 {
					t.Errorf("%d messages", n)
				}
			}
		})
	}
	t.Run("another process counts by other numbers", func(t *testing.T) {
		server.Flush()
		must(t, other, ledger.Done, take(kinds[0], 50, 10))
		refuse(t, server, near, take(kinds[0], 50, 1))
		must(t, other, ledger.Done, take(limit.Bucket(1, limit.Second, 20), 50, 1))
		next(t, told)
		before := scripts(t, server)
		must(t, near, ledger.Refused, take(kinds[0], 50, 1))
		if scripts(t, server) == before {
			t.Error("it did not ask")
		}
	})
	t.Run("a give-back is published only to whoever was refused", func(t *testing.T) {
		server.Flush()
		before := published(t, server)
		for i, l := range kinds {
			grant := take(l, uint64(100+i), 10)
			grant.At = must(t, near, ledger.Done, grant).At
			must(t, near, ledger.Refused, grant) // but once
			must(t, other, ledger.Done, void(grant))
		}
		if n := published(t, server) - before; n != 0 {
			t.Errorf("%d messages to nobody", n)
		}
	})
	t.Run("many give-backs are one message, until somebody is refused again", func(t *testing.T) {
		server.Flush()
		grant := take(kinds[2], 200, 1)
		for range 10 {
			grant.At = must(t, other, ledger.Done, grant).At
		}
		refuse(t, server, near, take(kinds[2], 200, 1))
		before := published(t, server)
		for range 10 {
			must(t, other, ledger.Done, release(grant))
		}
		next(t, told)
		if n := published(t, server) - before; n != 1 {
			t.Errorf("%d messages for ten slots", n)
		}
	})
}

func TestAskAlways(t *testing.T) {
	server := redistest.Start(t)
	_, other := openTwo(t, server)
	must(t, other, ledger.Done, take(limit.Slots(1), 1, 1))
	before := scripts(t, server)
	for range 50 {
		must(t, other, ledger.Refused, take(limit.Slots(1), 1, 1))
	}
	if n := scripts(t, server) - before; n != 50 {
		t.Errorf("%d script calls for 50 refusals", n)
	}
}

func TestRefusalsOfAFullServer(t *testing.T) {
	server := redistest.Start(t)
	near, _ := openTwo(t, server)
	limits := append(slices.Clone(kinds), limit.Pace(limit.Hour), limit.Window(3000, limit.Hour))
	for i, l := range limits {
		for range min(l.Capacity(), 1000) { // the last has a log that is written in part
			must(t, near, ledger.Done, take(l, uint64(i), l.Capacity()/min(l.Capacity(), 1000)))
		}
	}
	server.Do("CONFIG", "SET", "maxmemory", "1")
	defer server.Do("CONFIG", "SET", "maxmemory", "0")
	for i, l := range limits {
		refuse(t, server, near, take(l, uint64(i), 1))
		cmd := take(l, uint64(i), 1)
		cmd.Watch = limit.Minute
		must(t, near, ledger.Refused, cmd)
	}
}
