package mcp_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/store/memory"
)

// TestForgotten is what becomes of requests that nobody will ever answer.
func TestForgotten(t *testing.T) {
	bubble(t, "M-010 M-012 calls whose cancellation the provider obeys leave nothing behind", []sluice.Rule{slots("frees", 1, sluice.Free)}, nil, func(t *testing.T, r *rig, _ *client) {
		r.serves(mcp.Slot{Name: "m", Protocol: "legacy"}, mcptest.Options{Forget: true})
		c := r.client("m", "2025-06-18", nil)
		long := `{"ms":100000000,"message":"` + strings.Repeat("x", 128<<10) + `"}`
		before := heap()
		for range 50 {
			x := c.call("wait", long)
			synctest.Wait()
			x.cancel()
			synctest.Wait()
		}
		if grown := heap() - before; grown > 4<<20 {
			t.Errorf("%d bytes are kept", grown)
		}
	})
	t.Run("M-004 a call that waits for room in the provider's queue at its deadline has not left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, []sluice.Rule{slots("one", 100, sluice.Hold)}, nil)
			deaf := make(chan struct{})
			defer close(deaf)
			r.addSlot(mcp.Slot{Name: "m", Protocol: "legacy", RequestTimeout: time.Minute, Dialer: &loopback.Dialer{MaxFrame: 1 << 20, Serve: func(c *loopback.Conn) error {
				return r.provider.Serve(goesDeaf{c, deaf})
			}}})
			c := r.client("m", "2025-06-18", nil)
			large := `{"message":"` + strings.Repeat("x", 900<<10) + `"}`
			var calls []*exchange
			for range 10 {
				calls = append(calls, c.call("echo", large))
				synctest.Wait()
			}
			for _, x := range calls {
				x.refused(-32000)
			}
			synctest.Wait()
			left := 0
			for _, e := range r.audited(audit.Complete) {
				if e.Outcome == audit.NotDispatched {
					left++
				}
			}
			if held := len(r.heldNow()); left < 4 || left+held != 10 {
				t.Errorf("%d calls never left, %d hold slots", left, held)
			}
		})
	})
	bubble(t, "M-010 a cancellation that overtakes its request is said again", []sluice.Rule{slots("frees", 1, sluice.Free)}, nil, func(t *testing.T, r *rig, _ *client) {
		s := &slow{Dialer: inProcess(r.provider), passing: func() {}}
		r.addSlot(mcp.Slot{Name: "m", Protocol: "legacy", Dialer: s})
		c := r.client("m", "2025-06-18", nil)
		waiting := make(chan struct{})
		s.passing = func() { <-waiting }
		x := c.call("echo", `{}`)
		synctest.Wait()
		x.cancel()
		close(waiting)
		synctest.Wait()
		if got := strings.Join(s.said, " "); got != "cancel send cancel" {
			t.Errorf("the provider was told %s", got)
		}
		if got := r.heldNow(); len(got) != 0 {
			t.Errorf("held: %v", got)
		}
	})
}

// TestUnanswered is a store that takes and does not say so, as one behind a network may.
func TestUnanswered(t *testing.T) {
	for _, c := range []struct {
		name string
		late time.Duration
	}{{"at once", 0}, {"later", time.Second}, {"much later", 10 * time.Second}} {
		t.Run("M-002 M-004 what it takes "+c.name+" for a client that cancels comes back", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &mute{Store: memory.New(memory.Options{}), late: c.late}
				defer store.Close()
				r := newRigOn(t, store, nil, []sluice.Rule{slots("one", 1, sluice.Hold)}, nil)
				client := r.client("p", "2025-06-18", nil)
				store.quiet.Store(true)
				x := client.call("echo", `{}`)
				synctest.Wait()
				x.cancel()
				store.quiet.Store(false)
				time.Sleep(time.Minute)
				if got := r.heldNow(); len(got) != 0 {
					t.Errorf("held: %v", got)
				}
				client.call("echo", `{}`).passed()
			})
		})
	}
}

// TestManyLost is a provider that goes while it works on many calls, whose slots come back one
// by one.
func TestManyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leisurely{memory.New(memory.Options{})}
		defer store.Close()
		r := newRigOn(t, store, nil, []sluice.Rule{slots("many", 100, sluice.Hold)}, func(o *mcp.Options) { o.Slots[0].ExitProvesStop = true })
		c := r.client("p", "2025-06-18", nil)
		var calls []*exchange
		for range 50 {
			calls = append(calls, c.call("silent", `{}`))
		}
		synctest.Wait()
		began := time.Now()
		r.provider.Close()
		for _, x := range calls {
			x.refused(-32000)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("M-018 the last was told after %v", took)
		}
	})
}

// A leisurely store takes 10 ms to give something back.
type leisurely struct{ *memory.Store }

func (s *leisurely) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	if cmds[0].Op == ledger.Release {
		time.Sleep(10 * time.Millisecond)
	}
	return s.Store.Apply(ctx, cmds, res)
}

// A mute store, while it is quiet, takes late, and after its caller has left.
type mute struct {
	*memory.Store
	late  time.Duration
	quiet atomic.Bool
}

func (s *mute) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	if cmds[0].Op != ledger.Take || !s.quiet.Load() {
		return s.Store.Apply(ctx, cmds, res)
	}
	own := []ledger.Command{cmds[0]}
	own[0].Steps = slices.Clone(own[0].Steps)
	<-ctx.Done()
	time.AfterFunc(s.late, func() { _ = s.Store.Apply(context.Background(), own, make([]ledger.Result, 1)) })
	return ctx.Err()
}

// heap is how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A goesDeaf conn reads nothing after the list of tools was asked for.
type goesDeaf struct {
	*loopback.Conn
	ends chan struct{}
}

func (d goesDeaf) Next() ([]byte, error) {
	frame, err := d.Conn.Next()
	if strings.Contains(string(frame), "tools/call") {
		<-d.ends
	}
	return frame, err
}

// A slow dialer's links let a call of a tool pass when passing returns, and note what the
// provider is told.
type slow struct {
	*loopback.Dialer
	passing func()

	mu   sync.Mutex
	said []string
}

func (s *slow) Dial(ctx context.Context, in link.Inbox) (link.Link, error) {
	l, err := s.Dialer.Dial(ctx, in)
	return slowLink{l, s}, err
}

func (s *slow) say(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, what)
}

type slowLink struct {
	link.Link
	s *slow
}

func (l slowLink) Send(ctx context.Context, m link.Outgoing) error {
	if m.Method == "tools/call" {
		l.s.passing()
		l.s.say("send")
		ctx = context.Background() // whatever the call's says by then: there is room
	}
	return l.Link.Send(ctx, m)
}

func (l slowLink) Cancel(id jsonrpc.ID, reason string) {
	l.s.say("cancel")
	l.Link.Cancel(id, reason)
}
