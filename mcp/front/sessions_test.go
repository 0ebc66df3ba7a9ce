package front

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/store/memory"
)

// A bubble is a front in fake time. Its clients are at the broker's own slot, which needs no
// provider.
type bubble struct {
	*Front
	t *testing.T
}

func inBubble(t *testing.T, bounds Bounds, test func(*bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		ctl, err := sluice.Open(&sluice.Policy{}, store, sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer ctl.Close()
		broker, err := mcp.New(ctl, mcp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer broker.Close(t.Context())
		f, err := New(Options{Broker: broker, Bounds: bounds})
		if err != nil {
			t.Fatal(err)
		}
		test(&bubble{f, t})
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := f.sessions.kept.Load(); n != 0 || len(f.sessions.byID) != 0 {
			t.Error("left behind:", n, len(f.sessions.byID))
		}
	})
}

func caller(name string) *policy.Caller { return policy.NewCaller("user:" + name) }

// start starts a session, which is idle from then on.
func (b *bubble) start(who *policy.Caller) (*session, *crowd) {
	b.t.Helper()
	s := b.sessions.newSession("http", mcp.BrokerSlot, who)
	core, err := b.o.Broker.Connect(mcp.BrokerSlot, who, mcp.ConnectOptions{Transport: "http"})
	if err != nil {
		b.t.Fatal(err)
	}
	s.core = core
	if full := b.sessions.add(s); full != nil {
		core.Close()
		return nil, full
	}
	s.rest()
	return s, nil
}

// must starts one that has to start.
func (b *bubble) must(who *policy.Caller) *session {
	b.t.Helper()
	s, full := b.start(who)
	if full != nil {
		b.t.Fatal(full.why, full.wait)
	}
	return s
}

func (b *bubble) refuses(who *policy.Caller) time.Duration {
	b.t.Helper()
	s, full := b.start(who)
	if s != nil {
		b.t.Fatal("a session too many")
	}
	if full.wait <= 0 {
		b.t.Error("no time to come back:", full.why)
	}
	return full.wait
}

func (b *bubble) lives(s *session) bool {
	return b.sessions.find(s.id, "http", s.slot, caller("alice")) == s
}

func TestNumbersOfSessions(t *testing.T) {
	t.Run("M-048 of one caller", func(t *testing.T) {
		inBubble(t, Bounds{SessionsPerCaller: 2}, func(b *bubble) {
			first := b.must(caller("alice"))
			b.must(caller("alice"))
			b.refuses(caller("alice"))
			b.must(caller("bob"))
			first.close()
			b.must(caller("alice"))
			b.refuses(caller("alice"))
		})
	})
	t.Run("M-048, M-108 of anonymous callers, by address", func(t *testing.T) {
		inBubble(t, Bounds{SessionsPerCaller: 1}, func(b *bubble) {
			b.must(&policy.Caller{IP: "ip:192.0.2.1"})
			b.refuses(&policy.Caller{IP: "ip:192.0.2.1"})
			b.must(&policy.Caller{IP: "ip:192.0.2.2"})
		})
	})
	t.Run("M-048 of all", func(t *testing.T) {
		inBubble(t, Bounds{Sessions: 3}, func(b *bubble) {
			for n := range 3 {
				b.must(caller(fmt.Sprint(n)))
			}
			b.refuses(caller("alice"))
		})
	})
	t.Run("M-048 in a minute, to the moment", func(t *testing.T) {
		inBubble(t, Bounds{StartsPerMinute: 3}, func(b *bubble) {
			for range 3 {
				b.must(caller("alice")).close()
			}
			wait := b.refuses(caller("alice"))
			if wait != 20*time.Second {
				t.Error("wait:", wait)
			}
			b.must(caller("bob")).close()
			time.Sleep(wait - time.Millisecond)
			b.refuses(caller("alice"))
			time.Sleep(time.Millisecond)
			b.must(caller("alice")).close()
			b.refuses(caller("alice"))
		})
	})
	t.Run("M-048 in a minute, of all, and who is refused pays nothing", func(t *testing.T) {
		inBubble(t, Bounds{StartsPerMinute: 1}, func(b *bubble) {
			for n := range startsOfAll {
				b.must(caller(fmt.Sprint(n))).close()
			}
			wait := b.refuses(caller("alice"))
			if wait != time.Minute/startsOfAll {
				t.Error("wait:", wait)
			}
			time.Sleep(wait)
			b.must(caller("alice")).close()
		})
	})
	t.Run("M-007 nothing is kept of who has gone", func(t *testing.T) {
		inBubble(t, Bounds{}, func(b *bubble) {
			for n := range 100 {
				b.must(caller(fmt.Sprint(n))).close()
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			b.sessions.mu.Lock()
			defer b.sessions.mu.Unlock()
			if n := len(b.sessions.payers); n != 0 || b.sessions.sweeper != nil {
				t.Error("payers left:", n, "sweeper:", b.sessions.sweeper)
			}
		})
	})
}

func TestLivesOfSessions(t *testing.T) {
	t.Run("C-W29 an idle one ends", func(t *testing.T) {
		inBubble(t, Bounds{SessionIdle: time.Hour}, func(b *bubble) {
			s := b.must(caller("alice"))
			time.Sleep(59 * time.Minute)
			if !b.lives(s) {
				t.Fatal("ended too early")
			}
			s.use()
			time.Sleep(5 * time.Hour)
			if !b.lives(s) {
				t.Fatal("ended while in use")
			}
			s.rest()
			time.Sleep(50 * time.Minute)
			if !b.lives(s) {
				t.Fatal("the time in use was counted")
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if b.lives(s) || s.use() {
				t.Error("never ends")
			}
		})
	})
	t.Run("M-077 an old one ends, whoever uses it", func(t *testing.T) {
		inBubble(t, Bounds{SessionAge: time.Hour}, func(b *bubble) {
			s := b.must(caller("alice"))
			s.use()
			time.Sleep(2 * time.Hour)
			select {
			case <-s.end:
			default:
				t.Error("still open")
			}
		})
	})
	t.Run("what is kept is forgotten", func(t *testing.T) {
		inBubble(t, Bounds{KeptFor: time.Minute, SessionIdle: time.Hour}, func(b *bubble) {
			s := b.must(caller("alice"))
			s.kept.add(7, event{1, make([]byte, 100)})
			time.Sleep(30 * time.Second)
			s.kept.add(7, event{2, make([]byte, 100)})
			time.Sleep(50 * time.Second)
			if events, bytes := s.kept.after(7, 0); len(events) != 1 || events[0].n != 2 || bytes != 100 {
				t.Error(events, bytes)
			}
			time.Sleep(time.Minute)
			if s.kept.has(7) || s.kept.bytes != 0 {
				t.Error("still kept")
			}
		})
	})
}

func TestKeptWithinBounds(t *testing.T) {
	const one = 100 + keptCost
	t.Run("of one session", func(t *testing.T) {
		inBubble(t, Bounds{Kept: 3 * one}, func(b *bubble) {
			s := b.must(caller("alice"))
			for n := range 10 {
				s.kept.add(int64(n%2), event{int64(n), make([]byte, 100)})
			}
			odd, _ := s.kept.after(1, 0)
			even, _ := s.kept.after(0, 0)
			if len(odd) != 2 || len(even) != 1 || odd[0].n != 7 || even[0].n != 8 {
				t.Error(odd, even)
			}
			s.kept.add(5, event{1, make([]byte, 1000)})
			if s.kept.has(5) {
				t.Error("more than there is room for")
			}
		})
	})
	t.Run("of all", func(t *testing.T) {
		inBubble(t, Bounds{KeptInAll: 2 * one}, func(b *bubble) {
			first, second := b.must(caller("alice")), b.must(caller("bob"))
			for n := range 3 {
				first.kept.add(0, event{int64(n), make([]byte, 100)})
			}
			second.kept.add(0, event{1, make([]byte, 100)})
			if all := b.sessions.kept.Load(); all > 2*one || second.kept.has(0) {
				t.Error(all)
			}
			first.close()
			second.kept.add(0, event{2, make([]byte, 100)})
			if !second.kept.has(0) {
				t.Error("no room where there is some")
			}
			first.kept.add(0, event{9, nil})
			if first.kept.has(0) {
				t.Error("a session that has ended keeps something")
			}
		})
	})
}

// TestPushWhileAway shows for how long something is kept for a client whose stream broke.
func TestPushWhileAway(t *testing.T) {
	inBubble(t, Bounds{}, func(b *bubble) {
		s := b.must(caller("alice"))
		if s.pushed([]byte("{}")) {
			t.Error("taken for a client that has never listened")
		}
		o := s.push.open()
		o.begin()
		o.close()
		if !s.pushed([]byte("{1}")) {
			t.Error("not kept for a client that may come back")
		}
		time.Sleep(resumeWithin)
		if s.pushed([]byte("{2}")) {
			t.Error("kept for a client that has not come back")
		}
		o = s.push.open()
		if got := o.take(); len(got.events) != 1 || string(got.events[0].frame) != "{1}" {
			t.Error("got", got)
		}
		o.close()
	})
}

// TestBacklog has more wait for a connection than may.
func TestBacklog(t *testing.T) {
	s := &stream{most: 10}
	o := s.open()
	if !s.append(make([]byte, 6)) || s.append(make([]byte, 6)) {
		t.Error("the bound is not ten bytes")
	}
	if got := o.take(); !got.lost {
		t.Error("the connection goes on:", got)
	}
	if s.append(nil) {
		t.Error("taken for nobody")
	}
}

func TestFlights(t *testing.T) {
	f := flights{most: 2}
	if got := []bool{f.enter(), f.enter(), f.enter()}; !slices.Equal(got, []bool{true, true, false}) {
		t.Errorf("the bound is not two: %v", got)
	}
	drained := f.drained()
	f.leave()
	select {
	case <-drained:
		t.Error("one is still under way")
	default:
	}
	f.leave()
	<-drained
	<-f.drained() // and again
}

// TestBacklogOfAll has more wait for all connections together than may.
func TestBacklogOfAll(t *testing.T) {
	all := &waiting{most: 100}
	open := func() (*stream, *outlet) {
		s := &stream{most: 64, all: all}
		return s, s.open()
	}
	hog, writer := open()
	hog.append(make([]byte, 60))
	writer.take() // it writes for long, to a client that does not read
	hog.append(make([]byte, 60))
	good, reader := open()
	if !good.append(make([]byte, 30)) {
		t.Error("a client that has read everything does not get the next message")
	}
	if got := reader.take(); len(got.events) != 1 {
		t.Error("got", got)
	}
	for i, fits := range []bool{true, true, false} {
		if good.append(make([]byte, 1)) != fits {
			t.Errorf("the share of a crowd is not two bytes, says byte %d", i+1)
		}
	}
	reader.close()
	writer.close()
	if n := all.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	if good, reader = open(); !good.append(make([]byte, 1)) || !good.append(make([]byte, 60)) {
		t.Error("it stays crowded")
	}
	good.end(nil, 200)
	reader.close()
	if n := all.Load(); n != 0 {
		t.Errorf("%d bytes are left in the end", n)
	}
}
