package mcp_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/link/httplink"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

func TestRevisionOfProvider(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       mcptest.Options
		problem string // empty: a call gets through
	}{
		{"2.3 a provider that refuses the revision is asked again with one that it offers", mcptest.Options{Rejects: 1}, ""},
		{"2.3 but once", mcptest.Options{Rejects: 2}, "provider-absent"},
		{"2.3 one without sessions", mcptest.Options{Versions: []string{"2026-07-28"}}, ""},
		{"2.3 one that offers only others", mcptest.Options{Rejects: 1, Versions: []string{"2027-01-01", "2025-06-18"}}, "provider-absent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mcptest.New(c.o)
			t.Cleanup(p.Close)
			r := newRig(t, nil, func(o *mcp.Options) {
				o.Slots = append(o.Slots, mcp.Slot{Name: "q", Dialer: inProcess(p), Protocol: "modern", RequestTimeout: time.Minute, ConnectTimeout: 300 * time.Millisecond})
			})
			f := r.client("q", "2026-07-28", nil).call("echo", `{}`, "_meta", mcptest.Meta).answer()
			if c.problem == "" && f.Error != nil {
				t.Errorf("got %s", f.Raw)
			}
			if c.problem != "" && (f.Error == nil || !strings.Contains(string(f.Raw), c.problem)) {
				t.Errorf("got %s, want %q", f.Raw, c.problem)
			}
		})
	}
}

// status waits until a slot's provider is connected, and returns what is known of it.
func (r *rig) status(slot string) mcp.ProviderStatus {
	r.t.Helper()
	var s mcp.ProviderStatus
	r.until("the provider in "+slot+" is connected", func() bool {
		list := r.Providers()
		s = list[slices.IndexFunc(list, func(s mcp.ProviderStatus) bool { return s.Slot == slot })]
		return s.Connected
	})
	return s
}

// until waits for something of which no event tells.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for range 4000 {
		if is() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("not in 20 s: %s; there are %+v", what, r.Providers())
}

// TestAgreedRevision connects providers of every revision in every way.
func TestAgreedRevision(t *testing.T) {
	all := []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
	type want map[string]string // by Protocol; missing is no connection
	for _, c := range []struct {
		versions []string
		want     want
	}{
		{all, want{"auto": "2026-07-28", "": "2026-07-28", "modern": "2026-07-28", "legacy": "2025-11-25"}},
		{all[:1], want{"auto": "2026-07-28", "modern": "2026-07-28"}},
		{all[1:2], want{"auto": "2025-11-25", "legacy": "2025-11-25"}},
		{all[2:3], want{"auto": "2025-06-18", "legacy": "2025-06-18"}},
		{all[3:4], want{"auto": "2025-03-26", "legacy": "2025-03-26"}},
		{all[4:], want{"auto": "2024-11-05", "legacy": "2024-11-05"}},
		{[]string{"2031-01-01"}, want{}},
	} {
		for _, how := range []string{"auto", "", "modern", "legacy"} {
			if how == "" && c.want[""] == "" {
				continue
			}
			bubble(t, fmt.Sprintf("2.1 %v by %q", c.versions, how), nil, nil, func(t *testing.T, r *rig, _ *client) {
				r.serves(mcp.Slot{Name: "q", Protocol: how}, mcptest.Options{Versions: c.versions})
				time.Sleep(5 * time.Second)
				list := r.Providers()
				if got := list[1]; got.Protocol != c.want[how] || got.Connected != (c.want[how] != "") || !got.Connected && got.Error == "" {
					t.Errorf("got %+v, want %q", got, c.want[how])
				}
			})
		}
	}
}

// A filtered connection takes away what the broker sends, or ends at it.
type filtered struct {
	*loopback.Conn
	method string
	ends   bool
}

var errEnds = errors.New("the provider ends")

func (f filtered) Next() ([]byte, error) {
	for {
		frame, err := f.Conn.Next()
		if err != nil || !strings.Contains(string(frame), f.method) {
			return frame, err
		}
		if f.ends {
			return nil, errEnds
		}
	}
}

// TestOddProviders are what providers do with a handshake.
func TestOddProviders(t *testing.T) {
	serve := func(r *rig, method string, ends bool, slot mcp.Slot) *mcptest.Provider {
		p := mcptest.New(mcptest.Options{Versions: []string{"2025-06-18"}})
		r.t.Cleanup(p.Close)
		slot.Name, slot.RequestTimeout = "q", time.Minute
		slot.Dialer = &loopback.Dialer{Name: "odd", Serve: func(c *loopback.Conn) error { return p.Serve(filtered{c, method, ends}) }}
		r.addSlot(slot)
		return p
	}
	bubble(t, "2.5 one that never answers server/discover is asked the old way", nil, nil, func(t *testing.T, r *rig, _ *client) {
		serve(r, "server/discover", false, mcp.Slot{})
		began := time.Now()
		r.client("q", "2025-06-18", nil).call("echo", `{}`).passed()
		if took := time.Since(began); took > 2100*time.Millisecond {
			t.Errorf("connected after %v", took)
		}
	})
	bubble(t, "M-008 however short the time for connecting is", nil, nil, func(t *testing.T, r *rig, _ *client) {
		serve(r, "server/discover", false, mcp.Slot{ConnectTimeout: time.Second})
		r.client("q", "2025-06-18", nil).call("echo", `{}`).passed()
	})
	bubble(t, "2.5 one that ends when it is asked what it is, too", nil, nil, func(t *testing.T, r *rig, _ *client) {
		serve(r, "server/discover", true, mcp.Slot{})
		time.Sleep(time.Second)
		r.client("q", "2025-06-18", nil).call("echo", `{}`).passed()
	})
	bubble(t, "M-008 one that never answers initialize delays nobody else, and is tried again", nil, nil, func(t *testing.T, r *rig, c *client) {
		serve(r, `"initialize"`, false, mcp.Slot{Protocol: "legacy", ConnectTimeout: 3 * time.Second})
		began := time.Now()
		c.call("echo", `{}`).passed()
		r.client(mcp.AllSlot, "2025-06-18", nil).call("p-echo", `{}`).passed()
		if took := time.Since(began); took > 0 {
			t.Errorf("others waited for %v", took)
		}
		x := r.client("q", "", nil).call("echo", `{}`)
		if f := x.answer(); f.Error == nil || f.Error.Code != -32000 || time.Since(began) > 4*time.Second {
			t.Errorf("after %v: %s", time.Since(began), f.Raw)
		}
	})
	bubble(t, "M-085 one that never lists is there all the same, unchecked", nil, func(o *mcp.Options) { o.ListTimeout = time.Second }, func(t *testing.T, r *rig, _ *client) {
		serve(r, "tools/list", false, mcp.Slot{Protocol: "legacy"})
		r.client("q", "2025-06-18", nil).call("echo", `{}`).passed()
	})
	bubble(t, "M-018 calls of a provider that has gone fail at once; it is called again and serves", nil, nil, func(t *testing.T, r *rig, c *client) {
		began := time.Now()
		c.call("die", `{}`).refused(-32000)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("failed after %v", took)
		}
		time.Sleep(time.Second)
		c.call("echo", `{}`).passed()
	})
	bubble(t, "M-036 a batch from a provider is counted and nothing else", nil, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("raw", `{"frames":["[{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}]","{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[]}}"]}`)
		x.passed()
		c.call("echo", `{}`).passed()
	})
}

// TestForgottenSession is an HTTP provider that has restarted.
func TestForgottenSession(t *testing.T) {
	begin := func(t *testing.T) (*rig, *mcptest.Provider, *mcptest.Handler) {
		p := mcptest.New(mcptest.Options{Versions: []string{"2025-06-18"}})
		h := p.Handler(mcptest.HTTP{})
		server := httptest.NewServer(h)
		r := newRig(t, []sluice.Rule{slots("many", 50, sluice.Hold)}, func(o *mcp.Options) {
			o.Slots = append(o.Slots, mcp.Slot{Name: "q", Protocol: "legacy", RequestTimeout: time.Minute, Dialer: &httplink.Server{URL: server.URL}})
		})
		t.Cleanup(server.Close)
		t.Cleanup(p.Close)
		r.status("q")
		return r, p, h
	}
	t.Run("M-046 one new session, and every call that met the old one is made once", func(t *testing.T) {
		r, p, h := begin(t)
		c := r.client("q", "2025-06-18", nil)
		c.call("echo", `{}`).passed()
		time.Sleep(300 * time.Millisecond) // real: a connection that fails sooner is called again later
		h.Forget()
		const many = 40
		var calls []*exchange
		for range many {
			calls = append(calls, c.call("echo", `{}`))
		}
		for _, x := range calls {
			x.passed()
		}
		if begun, _ := h.Sessions(); begun != 2 {
			t.Errorf("%d sessions were begun, want 2", begun)
		}
		if n := p.Count("echo"); n != many+1 {
			t.Errorf("%d calls were executed, want %d", n, many+1)
		}
		if held := r.heldNow(); len(held) != 0 {
			t.Errorf("held: %v", held)
		}
	})
	t.Run("M-046 M-112 another failure repeats nothing", func(t *testing.T) {
		r, p, h := begin(t)
		c := r.client("q", "2025-06-18", nil)
		for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusTooManyRequests} {
			h.Fail(mcptest.Fault{Status: status})
			if f := c.call("echo", `{}`).answer(); f.Error == nil {
				t.Errorf("%d: got %s", status, f.Raw)
			}
		}
		if begun, _ := h.Sessions(); begun != 1 || p.Count("echo") != 0 {
			t.Errorf("%d sessions, %d calls", begun, p.Count("echo"))
		}
	})
}

// TestGenerations is what an old connection of a provider may still do: nothing.
func TestGenerations(t *testing.T) {
	queued := slots("one", 1, sluice.Hold)
	queued.Queue = &sluice.Queue{}
	bubble(t, "M-004 a call that stood in line while its provider came back is sent to the one that is there", []sluice.Rule{queued}, nil, func(t *testing.T, r *rig, c *client) {
		r.serves(mcp.Slot{Name: "q", Protocol: "legacy"}, mcptest.Options{})
		q := r.client("q", "2025-06-18", nil)
		c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		x := q.call("echo", `{}`)
		synctest.Wait()
		r.reload(remarked(r.options, "q"))
		synctest.Wait()
		_ = work.Text("x")
		x.passed()
		synctest.Wait()
		if held := r.heldNow(); len(held) != 0 {
			t.Errorf("held: %v", held)
		}
	})
	bubble(t, "M-113 an answer that comes after the provider has come back is nobody's", []sluice.Rule{slots("one", 1, sluice.Hold)}, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`)
		work := r.key("a")
		r.reload(remarked(r.options, "p"))
		if f := x.answer(); f.Error == nil || f.Error.Code != -32000 {
			t.Errorf("got %s", f.Raw)
		}
		synctest.Wait()
		_ = work.Text("late") // over a connection that is no more
		synctest.Wait()
		if got := r.heldNow(); len(got) != 1 {
			t.Errorf("held: %v; no proof that the work has ended has come", got)
		}
		if n := len(r.audited(audit.Complete)); n != 1 { // initialize
			t.Errorf("%d calls have completed", n)
		}
	})
}

// remarked are options in which a slot has changed so that its provider is called again.
func remarked(o mcp.Options, slot string) mcp.Options {
	o.Slots = slices.Clone(o.Slots)
	for i := range o.Slots {
		if o.Slots[i].Name == slot {
			o.Slots[i].Mark += "'"
		}
	}
	return o
}
