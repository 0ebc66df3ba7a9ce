package mcp_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/store/memory"
)

// A play is what may happen to calls, in an order that a seed says.
type play struct {
	*rig
	t       *testing.T
	random  *rand.Rand
	clients []*client
	all     []*played
}

// A played call is one of the play's, and what is known of it.
type played struct {
	*exchange
	client *client
	id     int
	key    string
}

const playSlots = 3

// TestInterleavings lets calls begin, be answered, be cancelled, time out, lose their client
// and lose their provider in random orders. At the end nothing is held, each exchange has
// ended once, and the provider has never had more to do than a rule that holds allows.
func TestInterleavings(t *testing.T) {
	base := uint64(time.Now().UnixNano())
	for n := range uint64(12) {
		seed := base + n
		for _, mode := range []sluice.AbandonMode{sluice.Hold, sluice.Free} {
			rule := slots("three", playSlots, mode)
			if seed%3 == 0 {
				rule.Queue = &sluice.Queue{}
			}
			name := fmt.Sprintf("M-002 M-006 M-009 M-014 seed %d mode %v queue %v", seed, mode, rule.Queue != nil)
			bubble(t, name, []sluice.Rule{rule}, func(o *mcp.Options) { o.Slots[0].MaxRequest = 90 * time.Second }, func(t *testing.T, r *rig, _ *client) {
				p := &play{rig: r, t: t, random: rand.New(rand.NewPCG(seed, uint64(mode)))}
				for range 150 {
					p.step()
					if most := r.provider.Most("hold"); mode == sluice.Hold && most > playSlots {
						t.Fatalf("%d calls were under way at the provider", most)
					}
				}
				p.end()
			})
		}
	}
}

// TestBounds is what a full ledger and an empty window say.
func TestBounds(t *testing.T) {
	bubble(t, "C-24 C-25 so many at one instant, whenever it is, and the next when the first leaves the window", []sluice.Rule{window("three", 3, limit.Minute)}, nil, func(t *testing.T, r *rig, c *client) {
		time.Sleep(59_999 * time.Millisecond)
		for range 3 {
			c.call("echo", `{}`).passed()
		}
		got := c.call("echo", `{}`).refused(-32029)
		if got.RetryAfterMs == nil || *got.RetryAfterMs != 60_000 {
			t.Errorf("got %+v", got)
		}
		time.Sleep(59_999 * time.Millisecond)
		c.call("echo", `{}`).refused(-32029)
		time.Sleep(time.Millisecond)
		c.call("echo", `{}`).passed()
	})
	t.Run("C-31 a ledger that remembers no more refuses, until there is room", func(t *testing.T) {
		store := memory.New(memory.Options{MaxGrants: 1})
		t.Cleanup(func() { store.Close() })
		r := newRigOn(t, store, nil, []sluice.Rule{slots("many", 100, sluice.Hold)}, nil)
		c := r.client("p", "2025-06-18", nil)
		x := c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		if got := c.call("echo", `{}`).refused(-32029); got.Reason != "ledger-full" || got.RetryAfterMs != nil {
			t.Errorf("got %+v", got)
		}
		_ = work.Text("x")
		x.passed()
		c.call("echo", `{}`).passed()
		if n := r.provider.Count("echo"); n != 1 {
			t.Errorf("%d calls have run", n)
		}
	})
}

// step does one thing.
func (p *play) step() {
	switch n := p.random.IntN(20); {
	case n < 7 || len(p.all) == 0:
		p.begin()
	case n < 12:
		p.finish(p.all[p.random.IntN(len(p.all))])
	case n < 14:
		p.cancel(p.all[p.random.IntN(len(p.all))])
	case n < 15 && len(p.clients) > 0:
		p.clients[p.random.IntN(len(p.clients))].Close()
	case n < 16 && p.random.IntN(4) == 0:
		p.reload(remarked(p.options, "p")) // the provider's connection ends, its work goes on
	case n < 18:
		time.Sleep(time.Duration(p.random.IntN(40_000)) * time.Millisecond)
	default:
		synctest.Wait()
	}
}

// begin calls the tool that waits for the test.
func (p *play) begin() {
	version := []string{"2025-06-18", "2026-07-28"}[p.random.IntN(2)]
	if len(p.clients) < 4 || p.random.IntN(10) == 0 {
		p.clients = append(p.clients, p.client("p", version, nil))
	}
	c := p.clients[p.random.IntN(len(p.clients))]
	meta := `{"progressToken":1}`
	if c.Version() == "" {
		meta = mcptest.Meta
	}
	key := fmt.Sprint("key-", len(p.all))
	does := []mcptest.Cancel{mcptest.Quiet, mcptest.Answer, mcptest.Ignore}[p.random.IntN(3)]
	x := c.call("hold", fmt.Sprintf(`{"key":%q,"n":%d,"cancel":%q}`, key, p.random.IntN(3), does), "_meta", meta)
	p.all = append(p.all, &played{exchange: x, client: c, id: c.n, key: key})
}

// finish lets the provider answer, if it works on the call.
func (p *play) finish(c *played) {
	if p.random.IntN(2) == 0 {
		synctest.Wait()
	}
	p.provider.Finish(c.key)
}

// cancel cancels a call as its client's revision has it.
func (p *play) cancel(c *played) {
	if c.cancel != nil && p.random.IntN(2) == 0 {
		go c.cancel() // at the same time as what comes next
		return
	}
	c.client.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.id))
}

// end lets all work end, has an operator free what nobody will ever answer, and looks.
func (p *play) end() {
	p.t.Helper()
	for range 2 * len(p.all) { // those in a queue begin when others end
		for _, c := range p.all {
			p.provider.Finish(c.key)
		}
		synctest.Wait()
		held, err := p.Held(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		if len(held) == 0 {
			break
		}
		for _, h := range held {
			if h.State != "abandoned" {
				continue // it has just begun, or waits
			}
			if ok, err := p.Release(p.t.Context(), h.Slot, h.RequestID, "user:op"); !ok || err != nil {
				p.t.Errorf("not released: %+v, %v", h, err)
			}
		}
	}
	if got := p.heldNow(); len(got) != 0 {
		p.t.Errorf("held: %v", got)
	}
	if n, _ := p.ctl.Recorded(); n != 0 {
		p.t.Errorf("the ledger still has %d records", n)
	}
	for _, c := range p.all {
		if !c.answered() || c.after != 0 {
			p.t.Errorf("%s: ended %v, %d frames after that", c.key, c.answered(), c.after)
		}
	}
	p.once()
}

// once looks that no call was made twice, and that the audit has one beginning and one end of
// each.
func (p *play) once() {
	sent, ended := map[string]int{}, map[string]int{}
	for _, e := range p.audited(audit.Admit) {
		if e.Method == "tools/call" && e.Outcome == audit.Dispatched {
			sent[e.RequestID]++
		}
	}
	for _, action := range []audit.Action{audit.Complete, audit.Release} {
		for _, e := range p.audited(action) {
			if e.Method == "tools/call" {
				ended[e.RequestID]++
			}
		}
	}
	for id, n := range ended {
		if n != 1 {
			p.t.Errorf("%s has ended %d times", id, n)
		}
	}
	made := map[string]int{}
	for _, s := range p.provider.Seen() {
		if made[s.Key]++; made[s.Key] > 1 {
			p.t.Errorf("M-112 the provider was asked for %s %d times", s.Key, made[s.Key])
		}
	}
	for id, n := range sent {
		if n != 1 {
			p.t.Errorf("%s was sent %d times", id, n)
		}
	}
}
