package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// do carries out one command.
func do(s *redis.Store, cmd ledger.Command) (ledger.Result, error) {
	res := make([]ledger.Result, 1)
	err := s.Apply(context.Background(), []ledger.Command{cmd}, res)
	return res[0], err
}

func take(l limit.Limit, cell uint64, n int64) ledger.Command {
	return ledger.Command{Steps: []ledger.Step{{Key: ledger.Key{Group: 1, Cell: cell}, Limit: l, N: n}}}
}

// left is how many units of a cell are there, as another store sees it.
func left(t *testing.T, s *redis.Store, l limit.Limit, cell uint64) int64 {
	t.Helper()
	cmd := take(l, cell, 0)
	cmd.Op, cmd.Levels = ledger.Peek, true
	res, err := do(s, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return res.Levels[0].Left
}

// eventually waits until ok holds, and fails the test if it does not within a time.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// A journal counts log lines.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.FieldsFunc(j.text.String(), func(r rune) bool { return r == '\n' })
}

func TestLostAnswers(t *testing.T) {
	server := redistest.Start(t)
	direct := open(t, redis.Options{URI: "redis://" + server.Addr, Wait: time.Second})
	defer direct.Close()
	slots, window := limit.Slots(10), limit.Window(10, limit.Hour)
	start := func(t *testing.T) (*proxy, *redis.Store) {
		server.Flush()
		p := newProxy(t, server.Addr)
		s := open(t, redis.Options{URI: p.uri()})
		t.Cleanup(func() { s.Close() })
		return p, s
	}
	t.Run("P-128 a take whose answer is lost is not sent again", func(t *testing.T) {
		p, s := start(t)
		p.swallowAnswers()
		if _, err := do(s, take(window, 1, 1)); !errors.Is(err, redis.ErrWait) {
			t.Errorf("told %v", err)
		}
		p.heal()
		time.Sleep(50 * time.Millisecond)
		if n := left(t, direct, window, 1); n != 9 {
			t.Errorf("%d left of 10 after one take", n)
		}
	})
	t.Run("a slot whose answer is lost comes back", func(t *testing.T) {
		p, s := start(t)
		p.swallowAnswers()
		if _, err := do(s, take(slots, 1, 1)); !errors.Is(err, redis.ErrWait) {
			t.Errorf("told %v", err)
		}
		p.heal()
		eventually(t, 3*time.Second, "the slot is back", func() bool { return left(t, direct, slots, 1) == 10 })
	})
	t.Run("a slot that is asked for late is not taken", func(t *testing.T) {
		p, s := start(t)
		p.delay(300)
		if _, err := do(s, take(slots, 1, 1)); !errors.Is(err, redis.ErrWait) {
			t.Errorf("told %v", err)
		}
		p.heal()
		time.Sleep(500 * time.Millisecond)
		eventually(t, 3*time.Second, "the slot is back", func() bool { return left(t, direct, slots, 1) == 10 })
	})
	t.Run("a release whose answer is lost frees one slot, and once", func(t *testing.T) {
		p, s := start(t)
		var grants []ledger.Command
		for range 3 {
			cmd := take(slots, 1, 1)
			res, err := do(s, cmd)
			if err != nil {
				t.Fatal(err)
			}
			grants = append(grants, ledger.Command{Op: ledger.Release, Steps: cmd.Steps, At: res.At})
		}
		p.swallowAnswers()
		if _, err := do(s, grants[0]); err != nil {
			t.Errorf("a release failed: %v", err)
		}
		eventually(t, time.Second, "the server has freed it", func() bool { return left(t, direct, slots, 1) == 8 })
		p.heal()
		time.Sleep(300 * time.Millisecond)
		if n := left(t, direct, slots, 1); n != 8 {
			t.Errorf("%d free of 10, with two held", n)
		}
	})
	t.Run("releases while the server is away arrive when it is back", func(t *testing.T) {
		p, s := start(t)
		cmd := take(slots, 1, 4)
		res, err := do(s, cmd)
		if err != nil {
			t.Fatal(err)
		}
		p.swallow()
		eventually(t, time.Second, "the breaker opens", func() bool {
			_, err := do(s, take(window, 1, 1))
			return errors.Is(err, redis.ErrUnavailable)
		})
		if _, err := do(s, ledger.Command{Op: ledger.Release, Steps: cmd.Steps, At: res.At}); err != nil {
			t.Errorf("a release failed: %v", err)
		}
		if n := left(t, direct, slots, 1); n != 6 {
			t.Errorf("%d free of 10", n)
		}
		p.heal()
		eventually(t, 3*time.Second, "the slots are free", func() bool { return left(t, direct, slots, 1) == 10 })
	})
	t.Run("a caller that leaves is given nothing", func(t *testing.T) {
		p := newProxy(t, server.Addr)
		s := open(t, redis.Options{URI: p.uri(), Wait: 5 * time.Second})
		defer s.Close()
		p.delay(100)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		cmds := []ledger.Command{take(window, 1, 1), take(slots, 2, 1)}
		if err := s.Apply(ctx, cmds, make([]ledger.Result, 2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("told %v", err)
		}
		eventually(t, 3*time.Second, "all is back", func() bool {
			return left(t, direct, window, 1) == 10 && left(t, direct, slots, 2) == 10
		})
	})
}

func TestScriptsAreForgotten(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URI: "redis://" + server.Addr, Wait: 5 * time.Second})
	defer s.Close()
	t.Run("P-129 a flush between calls costs no error and no debit", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				if i%100 == 0 {
					server.Do("SCRIPT", "FLUSH")
				}
				if res, err := do(s, take(limit.Window(1000, limit.Hour), 1, 1)); err != nil || res.Status != ledger.Done {
					t.Errorf("%+v, %v", res, err)
				}
			})
		}
		wg.Wait()
		if n := left(t, s, limit.Window(1000, limit.Hour), 1); n != 0 {
			t.Errorf("%d left of 1000 after a thousand", n)
		}
	})
	t.Run("P-136 five hundred at once on one key pass in one trip each", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				if res, err := do(s, take(limit.Bucket(1, limit.Hour, 1000), 2, 1)); err != nil || res.Status != ledger.Done {
					t.Errorf("%+v, %v", res, err)
				}
			})
		}
		wg.Wait()
		if n := left(t, s, limit.Bucket(1, limit.Hour, 1000), 2); n != 500 {
			t.Errorf("%d left of 1000", n)
		}
	})
}

func TestFullMemory(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URI: "redis://" + server.Addr, Wait: time.Second})
	defer s.Close()
	slots := take(limit.Slots(10), 1, 3)
	held, err := do(s, slots)
	if err != nil {
		t.Fatal(err)
	}
	server.Do("CONFIG", "SET", "maxmemory", "1")
	if res, err := do(s, take(limit.Window(5, limit.Hour), 2, 1)); err != nil || res.Status != ledger.Full {
		t.Errorf("a take was told %+v, %v", res, err)
	}
	if _, err := do(s, ledger.Command{Op: ledger.Release, Steps: slots.Steps, At: held.At}); err != nil {
		t.Errorf("a release failed: %v", err)
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	eventually(t, 2*time.Second, "the slots are free", func() bool { return left(t, s, limit.Slots(10), 1) == 10 })
}

func TestOpenErrors(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "right")
	cluster := redistest.Start(t, "--cluster-enabled", "yes")
	sentinel := redistest.Sentinel(t, redistest.Start(t))
	acl := redistest.Start(t)
	if got := acl.Do("ACL", "SETUSER", "weak", "on", ">weak", "~*", "+hello", "+ping"); got != "+OK" {
		t.Fatal(got)
	}
	for _, c := range []struct{ name, uri, want string }{
		{"no URI", "", "the URI cannot be read"},
		{"another scheme", "http://127.0.0.1", "the URI cannot be read"},
		{"a secret in a broken URI", "redis://:se/cret@127.0.0.1:1", "the URI cannot be read"},
		{"a port without server", "redis://127.0.0.1:" + redistest.FreePort(t), "is the server running"},
		{"no password", "redis://" + server.Addr, "the server wants a password"},
		{"a wrong password", "redis://:secret@" + server.Addr, "refuses the user or the password"},
		{"a wrong user", "redis://who:secret@" + server.Addr, "refuses the user or the password"},
		{"a database that is not there", "redis://:right@" + server.Addr + "/99", "DB index is out of range"},
		{"a Cluster that nobody has created", "redis://" + cluster.Addr, "the Cluster serves no slots"},
		{"a database of a Cluster", "redis://" + cluster.Addr + "/3", "has database 0 alone"},
		{"a Sentinel", "redis://" + sentinel.Addr, "add ?master_set=NAME"},
		{"a user without rights", "redis://weak:weak@" + acl.Addr, "may not do what the store does"},
		{"a name that the Sentinel does not know", "redis://" + sentinel.Addr + "?master_set=nobody", "redis: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			s, err := redis.Open(ctx, redis.Options{URI: c.uri})
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			text := err.Error()
			if !strings.Contains(text, c.want) || !strings.HasPrefix(text, "redis: ") || strings.Contains(text, "cret") || strings.Contains(text, "\n") {
				t.Errorf("told %q, want something with %q", text, c.want)
			}
		})
	}
	t.Run("a prefix that is none", func(t *testing.T) {
		if _, err := redis.Open(context.Background(), redis.Options{URI: "redis://:right@" + server.Addr, Prefix: "a{b}"}); err == nil {
			t.Error("it was opened")
		}
	})
	t.Run("a user with the rights that the message names, and no more", func(t *testing.T) {
		rights := []string{"+evalsha", "+eval", "+hello", "+scan", "+get", "+mget", "+set", "+del", "+getrange", "+setrange", "+pexpireat", "+time",
			"+hget", "+hgetall", "+hincrby", "+hdel"}
		if got := acl.Do(append([]string{"ACL", "SETUSER", "books", "on", ">books", "~sluice:*"}, rights...)...); got != "+OK" {
			t.Fatal(got)
		}
		s := open(t, redis.Options{URI: "redis://books:books@" + acl.Addr, Wait: time.Second})
		defer s.Close()
		for range 2 {
			for _, l := range []limit.Limit{limit.Bucket(1, limit.Hour, 9), limit.Window(9, limit.Hour), limit.Slots(9)} {
				if res, err := do(s, take(l, uint64(l.Kind), 1)); err != nil || res.Status != ledger.Done {
					t.Errorf("%v: %+v, %v", l, res, err)
				}
			}
			if res, err := do(s, ledger.Command{Op: ledger.Reset, Group: 1}); err != nil || res.Count != 2 {
				t.Errorf("reset %+v, %v", res, err)
			}
		}
	})
	t.Run("the right password", func(t *testing.T) {
		open(t, redis.Options{URI: fmt.Sprintf("redis://:right@%s/3", server.Addr)}).Close()
	})
}
