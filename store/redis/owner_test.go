package redis_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// silence is short, so that the tests are; rounds are every 50 ms.
const silence = 300 * time.Millisecond

// A holder is a store that takes slots, behind a proxy that can make it unheard of.
type holder struct {
	*redis.Store
	*proxy
	log *journal
}

func newHolder(t *testing.T, server *redistest.Server) *holder {
	t.Helper()
	h := &holder{proxy: newProxy(t, server.Addr), log: &journal{}}
	h.Store = open(t, redis.Options{
		URI: h.uri(), Wait: time.Second, Silence: silence, Logger: slog.New(slog.NewTextHandler(h.log, nil)),
	})
	t.Cleanup(func() { h.Store.Close() })
	return h
}

// take takes n of three slots.
func (h *holder) take(t *testing.T, n int64, id ledger.ID) ledger.Command {
	t.Helper()
	cmd := take(limit.Slots(3), 1, n)
	cmd.ID = id
	res, err := do(h.Store, cmd)
	if err != nil || res.Status != ledger.Done {
		t.Fatalf("take %d: %+v, %v", n, res, err)
	}
	cmd.At = res.At
	return cmd
}

func release(t *testing.T, s *redis.Store, cmd ledger.Command) {
	t.Helper()
	cmd.Op = ledger.Release
	if _, err := do(s, cmd); err != nil {
		t.Fatal(err)
	}
}

func TestOwners(t *testing.T) {
	server := redistest.Start(t)
	watch := func(t *testing.T) *redis.Store {
		s := open(t, redis.Options{URI: "redis://" + server.Addr, Wait: time.Second, Silence: silence})
		t.Cleanup(func() { s.Close() })
		return s
	}
	free := func(t *testing.T, s *redis.Store) int64 { return left(t, s, limit.Slots(3), 1) }

	t.Run("P-091 P-103 the slots of a process that is not heard of come back, once", func(t *testing.T) {
		server.Flush()
		h, s := newHolder(t, server), watch(t)
		held := h.take(t, 2, ledger.ID{})
		h.swallow()
		took := eventually(t, 5*time.Second, "free slots", func() bool { return free(t, s) == 3 })
		if took < silence-silence/6 { // it may have been heard of up to a round before
			t.Errorf("they came back after %v; %v of silence were allowed", took, silence)
		}
		other := take(limit.Slots(3), 1, 3)
		if res, err := do(s, other); err != nil || res.Status != ledger.Done {
			t.Fatalf("%+v, %v", res, err)
		}
		h.heal()
		eventually(t, 5*time.Second, "that it is told", func() bool { return strings.Contains(strings.Join(h.log.lines(), ""), "not heard of for too long") })
		eventually(t, 5*time.Second, "an end of the breaker", func() bool { return h.Stats().Failure == nil })
		release(t, h.Store, held)
		if n := free(t, s); n != 0 {
			t.Errorf("its late release freed %d slots of another", n)
		}
	})
	t.Run("P-098 an admission with an ID is never given back by others", func(t *testing.T) {
		server.Flush()
		h, s := newHolder(t, server), watch(t)
		h.take(t, 1, ledger.ID{Hi: 7, Lo: 7})
		h.take(t, 1, ledger.ID{})
		h.swallow()
		eventually(t, 5*time.Second, "one free slot more", func() bool { return free(t, s) == 2 })
		eventually(t, 5*time.Second, "the end of it", func() bool { return server.Do("HLEN", "sluice:{processes}") == ":1" })
		if n := free(t, s); n != 2 {
			t.Errorf("%d slots are free, want 2", n)
		}
	})
	t.Run("P-103 what it had let go before is not given back again", func(t *testing.T) {
		server.Flush()
		h, s := newHolder(t, server), watch(t)
		both := take(limit.Slots(3), 1, 3)
		both.Steps = append(both.Steps, take(limit.Slots(3), 2, 3).Steps...)
		res, err := do(h.Store, both)
		if err != nil || res.Status != ledger.Done {
			t.Fatalf("%+v, %v", res, err)
		}
		one := ledger.Command{Op: ledger.Free, Steps: both.Steps[:1], At: res.At}
		if res, err := do(h.Store, one); err != nil || res.Status != ledger.Done {
			t.Fatalf("%+v, %v", res, err)
		}
		if res, err := do(s, take(limit.Slots(3), 1, 3)); err != nil || res.Status != ledger.Done {
			t.Fatalf("%+v, %v", res, err)
		}
		h.swallow()
		eventually(t, 5*time.Second, "the rest", func() bool { return left(t, s, limit.Slots(3), 2) == 3 })
		if n := free(t, s); n != 0 {
			t.Errorf("%d slots are free that another holds", n)
		}
	})
	t.Run("P-102 nobody is dead because the server stood still", func(t *testing.T) {
		server.Flush()
		h, s := newHolder(t, server), watch(t)
		h.take(t, 2, ledger.ID{})
		server.Stop()
		time.AfterFunc(3*silence, server.Continue)
		eventually(t, 5*time.Second, "an answer", func() bool { _, err := do(s, ledger.Command{Op: ledger.Peek}); return err == nil })
		for deadline := time.Now().Add(3 * silence); time.Now().Before(deadline); time.Sleep(silence / 6) {
			if n := free(t, s); n != 1 {
				t.Fatalf("%d slots are free, want 1", n)
			}
		}
	})
	t.Run("a process that starts later gives back what it finds, however much", func(t *testing.T) {
		server.Flush()
		h := newHolder(t, server)
		const many = 5000 // more than a portion
		for i := range many {
			if res, err := do(h.Store, take(limit.Slots(1), uint64(i+1), 1)); err != nil || res.Status != ledger.Done {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		h.swallow()
		s := watch(t)
		look := raw(t, server)
		eventually(t, 10*time.Second, "a server without cells", func() bool { return len(cellKeys(t, look)) == 0 })
		if res, err := do(s, take(limit.Slots(1), many, 1)); err != nil || res.Status != ledger.Done {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestClose(t *testing.T) {
	server := redistest.Start(t)
	t.Run("what is to be given back is brought first", func(t *testing.T) {
		server.Flush()
		h := newHolder(t, server)
		held := h.take(t, 2, ledger.ID{})
		h.Stop()
		release(t, h.Store, held)
		if h.Stats().Waiting != 1 {
			t.Fatalf("%d commands wait", h.Stats().Waiting)
		}
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		h.Store.Close()
		if n := len(cellKeys(t, raw(t, server))); n > 0 {
			t.Error("the slots stay held")
		}
		if got := server.Do("HLEN", "sluice:{processes}"); got != ":0" {
			t.Errorf("%s processes are waited for", got)
		}
	})
	t.Run("a server that is gone does not keep it for long", func(t *testing.T) {
		h := newHolder(t, server)
		held := h.take(t, 2, ledger.ID{})
		h.swallow()
		release(t, h.Store, held)
		start := time.Now()
		h.Store.Close()
		if d := time.Since(start); d > 8*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}
