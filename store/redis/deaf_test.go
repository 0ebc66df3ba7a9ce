package redis_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// TestSubscriptionBreaks is about messages that nobody hears.
func TestSubscriptionBreaks(t *testing.T) {
	server := redistest.Start(t)
	p := newProxy(t, server.Addr)
	ctx := context.Background()
	policy := &sluice.Policy{Rules: []sluice.Rule{{
		ID: "jobs", Queue: &sluice.Queue{}, Limits: []sluice.Limit{{Limit: limit.Slots(1)}},
	}}}
	options := sluice.Options{KeySecret: []byte("sixteen bytes or more")}
	direct := controllers(t, server, 1, policy.Rules...)[0]
	s := open(t, redis.Options{URI: p.uri(), Wait: time.Second})
	defer s.Close()
	c, err := sluice.Open(policy, s, options)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	state := make(chan bool, 100)
	defer s.Watch(func(ledger.Key) {}, func(works bool) { state <- works })()
	if !next(t, state) {
		t.Fatal("it began deaf")
	}
	cut := func(t *testing.T) {
		p.Stop()
		if next(t, state) {
			t.Fatal("it hears what it cannot")
		}
	}
	t.Run("a release that was not heard is found when the subscription is back", func(t *testing.T) {
		holder, err := direct.Admit(ctx, sluice.Call{})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			a, err := c.Admit(ctx, sluice.Call{})
			a.Release()
			got <- err
		}()
		waiting(t, c, 1)
		marked(t, server)
		cut(t)
		holder.Release()
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := next(t, got); err != nil {
			t.Error(err)
		}
		t.Logf("found %v after the connection was there again", time.Since(began))
		if !next(t, state) {
			t.Error("it is deaf")
		}
	})
	t.Run("nothing is refused without asking while it is down", func(t *testing.T) {
		cmd := take(limit.Slots(1), 77, 1)
		must(t, s, ledger.Done, cmd)
		refuse(t, server, s, cmd)
		cut(t)
		if _, err := do(s, cmd); err == nil {
			t.Error("a refusal was repeated that may have ended")
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if !next(t, state) {
			t.Error("it is deaf")
		}
		eventually(t, 5*time.Second, "the server is asked again", func() bool { _, err := do(s, cmd); return err == nil })
		refuse(t, server, s, cmd)
	})
}

// TestSilentSubscription is about a connection that nobody closes and nothing comes through.
func TestSilentSubscription(t *testing.T) {
	server := redistest.Start(t)
	p := newProxy(t, server.Addr)
	s := open(t, redis.Options{URI: p.uri()})
	defer s.Close()
	state := make(chan bool, 100)
	defer s.Watch(func(ledger.Key) {}, func(works bool) { state <- works })()
	if !next(t, state) {
		t.Fatal("it began deaf")
	}
	p.swallow()
	began := time.Now()
	if next(t, state) {
		t.Error("it hears what it cannot")
	}
	t.Logf("found out after %v", time.Since(began))
	p.heal()
	if !next(t, state) {
		t.Error("it stays deaf")
	}
}

// TestMayNotSubscribe is about a user without the right to publish or to hear.
func TestMayNotSubscribe(t *testing.T) {
	server := redistest.Start(t)
	if got := server.Do("ACL", "SETUSER", "books", "on", ">books", "~sluice:*", "resetchannels", "+@all"); got != "+OK" {
		t.Fatal(got)
	}
	log := &journal{}
	rule := sluice.Rule{ID: "jobs", Queue: &sluice.Queue{}, Limits: []sluice.Limit{{Limit: limit.Slots(1)}}}
	var nodes []*sluice.Controller
	for range 2 {
		s := open(t, redis.Options{
			URI: "redis://books:books@" + server.Addr, Wait: time.Second,
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		defer s.Close()
		c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{rule}}, s, sluice.Options{KeySecret: []byte("sixteen bytes or more")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		nodes = append(nodes, c)
	}
	ctx := context.Background()
	holder, err := nodes[0].Admit(ctx, sluice.Call{})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { _, err := nodes[1].Admit(ctx, sluice.Call{}); got <- err }()
	waiting(t, nodes[1], 1)
	marked(t, server)
	holder.Release()
	if err := next(t, got); err != nil {
		t.Error(err)
	}
	eventually(t, 5*time.Second, "each store says so once", func() bool { return len(log.lines()) == 2 })
	if text := log.lines()[0]; !strings.Contains(text, "may not subscribe to sluice:freed") {
		t.Errorf("the log says %s", text)
	}
}
