package redis_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// raw returns a client to look behind a store.
func raw(t *testing.T, server *redistest.Server) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// keys are all keys of the server that are cells.
func cellKeys(t *testing.T, c rueidis.Client) []string {
	t.Helper()
	all, err := c.Do(context.Background(), c.B().Keys().Pattern("sluice:{???????????}???????????").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func pttl(t *testing.T, c rueidis.Client, key string) int64 {
	t.Helper()
	ms, err := c.Do(context.Background(), c.B().Pttl().Key(key).Build()).ToInt64()
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

func TestKeysEnd(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URI: "redis://" + server.Addr, Wait: time.Second})
	defer s.Close()
	look := raw(t, server)
	for _, c := range []struct {
		name     string
		limit    limit.Limit
		n        int64
		min, max int64 // of PTTL, in milliseconds
	}{
		{"P-125 half a second", limit.Window(2, 500*limit.Millisecond), 1, 300, 500},
		{"P-126 a minute", limit.Window(60, limit.Minute), 1, 59_000, 60_000},
		{"P-126 a bucket that is full in a minute", limit.Bucket(1, limit.Second, 60), 30, 59_000, 60_000},
		{"P-126 a pace", limit.Pace(3 * limit.Second), 1, 2000, 3000},
		{"a long log", limit.Window(100_000, limit.Minute), 1, 59_000, 60_000},
		{"held slots do not end", limit.Slots(3), 1, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			server.Flush()
			for range 100 {
				if res, err := do(s, take(c.limit, 1, c.n)); err != nil || res.Status != ledger.Done {
					break
				}
			}
			keys := cellKeys(t, look)
			if len(keys) != 1 {
				t.Fatalf("the server has %q", keys)
			}
			// It ends with the millisecond in which it is full.
			if ms := pttl(t, look, keys[0]); ms < c.min || ms > c.max+1 {
				t.Errorf("it ends in %d ms, want %d to %d", ms, c.min, c.max)
			}
		})
	}
	t.Run("C-W2 a call that has ended is kept for ten minutes, for a take that is late", func(t *testing.T) {
		server.Flush()
		cmd := take(limit.Slots(3), 1, 1)
		cmd.ID, cmd.WhileHeld, cmd.Note = ledger.ID{Hi: 1, Lo: 1}, true, []byte("note")
		do(s, cmd)
		record := "sluice:{AAAAAAAAAAEAAAAAAAAAAE}"
		if ms := pttl(t, look, record); ms != -1 {
			t.Errorf("while it is held its record ends in %d ms", ms)
		}
		do(s, ledger.Command{Op: ledger.Release, ID: cmd.ID})
		if ms := pttl(t, look, record); ms < 590_000 || ms > 600_000 {
			t.Errorf("it ends in %d ms, want ten minutes", ms)
		}
		if res, err := do(s, cmd); err != nil || res.Status != ledger.Replayed || !res.Released {
			t.Errorf("a take that is late is told %+v, %v", res, err)
		}
		if n := left(t, s, cmd.Steps[0].Limit, 1); n != 3 {
			t.Errorf("%d left of 3", n)
		}
		for r := range s.Records(context.Background()) {
			t.Errorf("it is listed as %+v", r)
		}
	})
	t.Run("P-124 an end that was lost is set again", func(t *testing.T) {
		for _, l := range []limit.Limit{limit.Bucket(1, limit.Hour, 5), limit.Window(5, limit.Hour), limit.Window(5000, limit.Hour)} {
			server.Flush()
			do(s, take(l, 1, 1))
			key := cellKeys(t, look)[0]
			look.Do(context.Background(), look.B().Persist().Key(key).Build())
			if res, err := do(s, take(l, 1, 1)); err != nil || res.Status != ledger.Done {
				t.Errorf("%v: %+v, %v", l, res, err)
			}
			if ms := pttl(t, look, key); ms <= 0 {
				t.Errorf("%v: it ends in %d ms", l, ms)
			}
			if n := left(t, s, l, 1); n != l.Capacity()-2 {
				t.Errorf("%v: %d left after two", l, n)
			}
		}
	})
	t.Run("P-140 what is full again is gone", func(t *testing.T) {
		server.Flush()
		slots := take(limit.Slots(3), 2, 1)
		res, err := do(s, slots)
		if err != nil {
			t.Fatal(err)
		}
		do(s, take(limit.Window(2, 50*limit.Millisecond), 1, 1))
		do(s, ledger.Command{Op: ledger.Release, Steps: slots.Steps, At: res.At})
		eventually(t, time.Second, "the server is empty", func() bool {
			n, err := look.Do(context.Background(), look.B().Dbsize().Build()).ToInt64()
			return err == nil && n <= 1 // the mark of Open
		})
	})
	t.Run("P-137 a state that is deleted is a fresh one", func(t *testing.T) {
		do(s, take(limit.Window(2, limit.Hour), 9, 2))
		server.Flush()
		if res, err := do(s, take(limit.Window(2, limit.Hour), 9, 2)); err != nil || res.Status != ledger.Done {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestRefusalsAreNotStored(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URI: "redis://" + server.Addr, Wait: time.Second})
	defer s.Close()
	look := raw(t, server)
	t.Run("P-138 a log holds what passed", func(t *testing.T) {
		l, passed := limit.Window(5, 100*limit.Millisecond), 0
		began := time.Now()
		for time.Since(began) < 600*time.Millisecond {
			if res, err := do(s, take(l, 1, 1)); err == nil && res.Status == ledger.Done {
				passed++
			}
		}
		if windows := int(time.Since(began)/(100*time.Millisecond)) + 1; passed < 5 || passed > 5*windows {
			t.Errorf("%d passed of 5 in 100 ms, in %d windows", passed, windows)
		}
		keys := cellKeys(t, look)
		for ; len(keys) == 0; keys = cellKeys(t, look) { // it expires with its window
			do(s, take(l, 1, 1))
		}
		size, err := look.Do(context.Background(), look.B().Strlen().Key(keys[0]).Build()).ToInt64()
		if err != nil || size > 50+5*14 {
			t.Errorf("its value has %d bytes, %v", size, err)
		}
	})
	t.Run("a log of thousands is written in part", func(t *testing.T) {
		server.Flush()
		l := limit.Window(4096, limit.Hour)
		for range 3000 {
			if res, err := do(s, take(l, 1, 1)); err != nil || res.Status != ledger.Done {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		before := netInput(t, look)
		for range 100 {
			do(s, take(l, 1, 1))
		}
		if n := left(t, s, l, 1); n != 4096-3100 {
			t.Errorf("%d left", n)
		}
		t.Logf("%d bytes to the server for 100 takes", netInput(t, look)-before)
	})
}

func netInput(t *testing.T, c rueidis.Client) int {
	t.Helper()
	text, err := c.Do(context.Background(), c.B().Info().Section("stats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = strings.Cut(text, "total_net_input_bytes:")
	n, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(text, "\n", 2)[0]))
	return n
}

// controllers returns n controllers of one policy, each with a store of its own on the
// server, as n processes would have.
func controllers(t *testing.T, server *redistest.Server, n int, rules ...sluice.Rule) []*sluice.Controller {
	t.Helper()
	return controllersAt(t, "redis://"+server.Addr, n, rules...)
}

// controllersAt are controllers on what a URI leads to.
func controllersAt(t *testing.T, uri string, n int, rules ...sluice.Rule) []*sluice.Controller {
	t.Helper()
	var list []*sluice.Controller
	for range n {
		s := open(t, redis.Options{URI: uri, Wait: time.Second})
		t.Cleanup(func() { s.Close() })
		c, err := sluice.Open(&sluice.Policy{Rules: rules}, s, sluice.Options{KeySecret: []byte("sixteen bytes or more")})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

func TestSharedBooks(t *testing.T) {
	server := redistest.Start(t)
	ctx := context.Background()
	t.Run("P-077 B-55 C-W13 two nodes, stacked limits, exactly as many as the least lets", func(t *testing.T) {
		nodes := controllers(t, server, 2,
			sluice.Rule{ID: "minute", Limits: []sluice.Limit{{Limit: limit.Window(10, limit.Minute)}}},
			sluice.Rule{ID: "hour", Limits: []sluice.Limit{{Limit: limit.Window(100, limit.Hour)}}})
		var passed atomic.Int32
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if adm, err := nodes[i%2].Admit(ctx, sluice.Call{Kind: "http"}); err == nil {
					adm.Release()
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		if passed.Load() != 10 {
			t.Errorf("%d passed, want 10", passed.Load())
		}
		x, err := nodes[0].Check(ctx, sluice.Call{Kind: "http"})
		if err != nil || x.Rules[1].Limits[0].Level.Remaining != 90 {
			t.Errorf("the hour has %+v, %v", x.Rules[1].Limits, err)
		}
	})
	t.Run("A-W16 two nodes share one pace", func(t *testing.T) {
		nodes := controllers(t, server, 2, sluice.Rule{ID: "pace", Queue: &sluice.Queue{}, Limits: []sluice.Limit{{Limit: limit.Pace(30 * limit.Millisecond)}}})
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				if adm, err := nodes[i%2].Admit(ctx, sluice.Call{}); err != nil {
					t.Error(err)
				} else {
					adm.Release()
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); d < 150*time.Millisecond {
			t.Errorf("six starts 30 ms apart took %v", d)
		}
	})
	t.Run("P-132 P-133 P-141 hostile names work and are told apart", func(t *testing.T) {
		c := controllers(t, server, 1, sluice.Rule{
			ID: "each", GroupBy: []sluice.Dimension{sluice.Subject, sluice.Tenant}, Missing: sluice.MissingIP,
			Limits: []sluice.Limit{{Limit: limit.Window(1, limit.Hour)}},
		})[0]
		long := strings.Repeat("x", 10_000)
		for _, who := range [][2]string{
			{"}x", ""}, {"{", ""}, {"{}", ""}, {"a}b{c", ""}, {"\x00", ""}, {"*", ""}, {"?", ""}, {"[a]", ""},
			{"a_b", "c"}, {"a", "b_c"}, {"a", "b"}, {"ab", ""}, {"", "ab"}, {long + "1", ""}, {long + "2", ""}, {"\r\nFLUSHALL\r\n", ""},
		} {
			call := sluice.Call{Subject: who[0], Tenant: who[1]}
			if _, err := c.Admit(ctx, call); err != nil {
				t.Errorf("%.20q: %v", who, err)
			}
			if _, err := c.Admit(ctx, call); err == nil {
				t.Errorf("%.20q: passed twice", who)
			}
			if n, err := c.Reset(ctx, who[0]); who[0] != "" && (err != nil || n != 1) {
				t.Errorf("%.20q: reset %d, %v", who, n, err)
			}
		}
	})
	t.Run("a call with an ID is one call on every node", func(t *testing.T) {
		nodes := controllers(t, server, 2, sluice.Rule{ID: "jobs", Limits: []sluice.Limit{{Limit: limit.Slots(1)}}})
		if _, err := nodes[0].Admit(ctx, sluice.Call{ID: "job 1"}); err != nil {
			t.Fatal(err)
		}
		again, err := nodes[1].Admit(ctx, sluice.Call{ID: "job 1"})
		if err != nil || !again.Replayed() {
			t.Errorf("%v, replayed %v", err, again.Replayed())
		}
		adm, err := nodes[1].Resume(ctx, "job 1")
		if err != nil {
			t.Fatal(err)
		}
		adm.Release()
		if _, err := nodes[0].Admit(ctx, sluice.Call{ID: "job 2"}); err != nil {
			t.Errorf("the slot is not free: %v", err)
		}
	})
}
