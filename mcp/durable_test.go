package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/socket"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/store/file"
	"github.com/sluicegate/sluice/store/memory"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// onFile starts a broker on a ledger.
func onFile(t *testing.T, path string, rules ...sluice.Rule) (w *works, stop func()) {
	t.Helper()
	store, err := file.Open(path, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w = worksOn(newRigOn(t, store, store.KeySecret(), rules, withPolicy(t)))
	stop = sync.OnceFunc(func() {
		w.stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return w, stop
}

// TestRestart stops a broker in the middle of its work, and starts another on its ledger.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	pace := window("pace", 1, limit.Hour)
	pace.Volatile = true
	rules := []sluice.Rule{
		budget("ops", "op", 10, limit.Hour), budget("joules", "joule", 10, limit.Millisecond), only(window("calls", 6, limit.Hour), sluice.Provider, "site"),
		only(slots("one", 3, sluice.Hold), sluice.Provider, "site"), only(pace, sluice.Provider, "p"),
	}
	w, stop := onFile(t, path, rules...)
	before, c := w.job(), w.rig.client("p", "2025-06-18", policy.NewCaller("user:alice"))
	settled, open, expired := w.reserves(before.wants(4)), w.reserves(before.wants(3).with("idempotencyKey", `"2"`)), w.reserves(before.wants(5).with("unit", `"joule"`, "idempotencyKey", `"3"`))
	w.settles(settled.used("4", "success"))
	w.job()
	w.alice.call("echo", `{}`).passed()
	c.call("echo", `{}`).passed()
	c.call("echo", `{}`).refused(-32029)
	held, err := w.rig.Held(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop()

	w, _ = onFile(t, path, rules...)
	t.Run("C-88 rates start empty", func(t *testing.T) {
		c := w.rig.client("p", "2025-06-18", policy.NewCaller("user:alice"))
		c.call("echo", `{}`).passed()
		c.call("echo", `{}`).refused(-32029)
	})
	after := w.job()
	t.Run("C-88 debits of budgets are there", func(t *testing.T) {
		w.dialled.refused(reserve, after.wants(4), -32029, "limit-exceeded")
		w.reserves(after.wants(3))
	})
	t.Run("C-88 C-76 what was settled is settled", func(t *testing.T) {
		w.settles(settled.used("4", "success"))
		w.dialled.refused(settle, settled.used("4", "failure"), -32029, "settlement-conflict")
	})
	t.Run("C-88 C-77 what was not can be", func(t *testing.T) { w.settles(open.used("1", "failure")) })
	t.Run("C-99 C-77 also what had expired", func(t *testing.T) { w.settles(expired.used("5", "success")) })
	t.Run("C-88 calls that held slots hold them", func(t *testing.T) {
		now, err := w.rig.Held(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		earlier := map[string]bool{}
		for _, h := range now {
			if h.State == "earlier" && slices.Equal(h.Rules, []string{"one"}) {
				earlier[h.RequestID] = true
			}
		}
		if len(held) != 2 || len(earlier) != 2 || !earlier[held[0].RequestID] || !earlier[held[1].RequestID] {
			t.Errorf("held before: %+v\nnow: %+v", held, now)
		}
		w.alice.call("echo", `{}`).refused(-32029)
		if ok, err := w.Release(t.Context(), "site", held[0].RequestID, "a test"); !ok || err != nil {
			t.Errorf("C-51 %v %v", ok, err)
		}
		w.alice.call("echo", `{}`).passed()
	})
	t.Run("C-88 calls are counted on", func(t *testing.T) {
		w.alice.call("echo", `{}`).passed() // the sixth
		if got := w.alice.call("echo", `{}`).refused(-32029); got.RuleID != "calls" {
			t.Errorf("got %+v", got)
		}
	})
}

// TestOnDisk looks at what a crash would leave at the moment of an answer.
func TestOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	pace := only(window("pace", 100, limit.Hour), sluice.Provider, "p")
	pace.Volatile = true
	rules := []sluice.Rule{budget("ops", "op", 10, limit.Hour), only(slots("one", 1, sluice.Hold), sluice.Provider, "site"), pace}
	w, _ := onFile(t, path, rules...)
	size := func() int64 {
		var n int64
		for _, f := range filesOf(t, path) {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			n += info.Size()
		}
		return n
	}
	before := size()
	w.rig.client("p", "2025-06-18", policy.NewCaller("user:alice")).call("echo", `{}`).passed()
	if n, ok := w.ctl.Recorded(); n != 0 || !ok || size() != before {
		t.Errorf("C-85 a call that moves a rate alone leaves %d records, and %d bytes on disk", n, size()-before)
	}
	j := w.job()
	g := w.reserves(j.wants(7))
	crashed := filepath.Join(t.TempDir(), "ledger")
	for _, f := range filesOf(t, path) {
		text, err := os.ReadFile(f)
		if err == nil {
			err = os.WriteFile(crashed+strings.TrimPrefix(f, path), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	again, _ := onFile(t, crashed, rules...)
	again.settles(g.used("7", "success")) // C-84 the reservation is on disk before it is confirmed
	again.alice.call("echo", `{}`).refused(-32029)
	if _, err := again.Release(t.Context(), "site", strings.Trim(string(j.ID), `"`), "a test"); err != nil {
		t.Errorf("C-84 a call that holds a slot is on disk before it is sent: %v", err)
	}
	again.dialled.refused(reserve, again.job().wants(4), -32029, "limit-exceeded")
}

// filesOf are the files of a ledger, without its lock.
func filesOf(t *testing.T, path string) []string {
	t.Helper()
	list, err := filepath.Glob(path + "*")
	if err != nil || len(list) == 0 {
		t.Fatalf("%v %v", list, err)
	}
	return slices.DeleteFunc(list, func(f string) bool { return strings.HasSuffix(f, ".lock") })
}

// A faulty store is one whose disk does not work for a while.
type faulty struct {
	sluice.Store
	fails atomic.Bool
}

var errDisk = errors.New("no space left on device")

func (s *faulty) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	if s.fails.Load() {
		return errDisk
	}
	return s.Store.Apply(ctx, cmds, res)
}

func TestStorageFault(t *testing.T) {
	store := &faulty{Store: memory.New(memory.Options{})}
	defer store.Close()
	w := worksOn(newRigOn(t, store, []byte("the secret of the keys"), []sluice.Rule{budget("ops", "op", 10, limit.Hour), window("calls", 10, limit.Hour)}, withPolicy(t)))
	j := w.job()
	g := w.reserves(j.wants(5))
	store.fails.Store(true)
	t.Run("C-32 C-87 nothing is admitted, reserved or settled", func(t *testing.T) {
		if got := w.alice.call("echo", `{}`).refused(-32029); got.Reason != "storage-unavailable" {
			t.Errorf("got %+v", got)
		}
		w.dialled.refused(reserve, j.wants(1).with("idempotencyKey", `"2"`), -32029, "storage-unavailable")
		f := w.dialled.refused(settle, g.used("5", "success"), -32029, "storage-unavailable")
		if strings.Contains(string(f.Raw), errDisk.Error()) {
			t.Errorf("C-104 a provider learns of the disk: %s", f.Raw)
		}
	})
	store.fails.Store(false)
	t.Run("C-W4 D16 the broker goes on by itself, and nothing has changed", func(t *testing.T) {
		w.settles(g.used("5", "success"))
		w.dialled.refused(reserve, j.wants(6).with("idempotencyKey", `"3"`), -32029, "limit-exceeded")
		w.reserves(j.wants(5).with("idempotencyKey", `"4"`))
		w.alice.call("echo", `{}`).passed()
	})
}

// TestTwoBrokers has two of them share the books in a Redis server.
func TestTwoBrokers(t *testing.T) {
	server := redistest.Start(t)
	var granted atomic.Int64
	var group sync.WaitGroup
	for n := range 2 {
		store, err := redis.Open(t.Context(), redis.Options{URI: "redis://" + server.Addr, Wait: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		w := worksOn(newRigOn(t, store, []byte("the secret of both brokers"), []sluice.Rule{budget("ops", "op", 30, limit.Hour)}, withPolicy(t)))
		j := w.job()
		group.Go(func() {
			for i := range 40 {
				f := w.ask(reserve, j.wants(1).with("idempotencyKey", fmt.Sprintf(`"%d-%d"`, n, i)).String())
				if f.Error == nil {
					granted.Add(1)
				} else if !strings.Contains(string(f.Error.Data), "limit-exceeded") {
					t.Errorf("got %s", f.Raw)
				}
			}
		})
	}
	group.Wait()
	if n := granted.Load(); n != 30 {
		t.Errorf("C-W13 two brokers granted %d of 30", n)
	}
}

// A lane is one slot's part of a connection that several share.
type lane struct {
	mcptest.Wire
	slot   string
	frames chan []byte
}

func (l *lane) Send(frames ...[]byte) error {
	for _, f := range frames {
		if err := l.Wire.Send(fmt.Appendf(nil, `{"provider":%q,"payload":%s}`, l.slot, f)); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) Next() ([]byte, error) {
	if frame, ok := <-l.frames; ok {
		return frame, nil
	}
	return nil, errors.New("the connection has ended")
}

// dialMany connects a provider to several slots over one WebSocket.
func (r *rig) dialMany(who *policy.Principal, names ...string) (list []*dialled) {
	r.t.Helper()
	door := &socket.Door{Admit: func(*http.Request) (socket.Register, error) {
		return func(slot string, l link.Link) (link.Inbox, error) { return r.Register(slot, who, l) }, nil
	}}
	server := httptest.NewServer(door)
	shared, err := mcptest.Dial(r.t.Context(), "ws"+strings.TrimPrefix(server.URL, "http")+"/providers", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { shared.Close(); door.Close(); server.Close() })
	lanes := map[string]*lane{}
	for _, slot := range names {
		lanes[slot] = &lane{shared, slot, make(chan []byte, 100)}
		d := &dialled{Provider: mcptest.New(mcptest.Options{Versions: []string{"2025-11-25"}}), t: r.t, wire: wire{lanes[slot], make(chan *mcptest.Frame, 10)}}
		r.t.Cleanup(d.Provider.Close)
		list = append(list, d)
		if err := d.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)); err != nil {
			r.t.Fatal(err)
		}
	}
	go func() {
		for frame, err := shared.Next(); err == nil; frame, err = shared.Next() {
			slot, _ := jsonrpc.Lookup(frame, "provider")
			payload, _ := jsonrpc.Lookup(frame, "payload")
			name, _ := jsonrpc.Text(slot)
			lanes[name].frames <- slices.Clone(payload)
		}
		for _, l := range lanes {
			close(l.frames)
		}
	}()
	for _, d := range list {
		go func() { _ = d.Serve(d.wire) }() // until the connection ends
	}
	return list
}

// TestLastUnit has two slots of one connection ask for it at once.
func TestLastUnit(t *testing.T) {
	for round := range 10 {
		r := newRig(t, []sluice.Rule{budget("ops", "op", 1, limit.Hour)}, withPolicy(t))
		both := r.dialMany(r.options.Policy.Principal("scada"), "site", "second")
		var wants []params
		for i, slot := range []string{"site", "second"} {
			both[i].declare(worksDeclaration)
			r.await(func(e audit.Event) bool { return e.Action == audit.Takeover && e.Slot == slot && e.Allowed })
			wants = append(wants, both[i].begin(r.client(slot, "2025-06-18", policy.NewCaller("user:alice")), "a").wants(1))
		}
		var granted atomic.Int64
		var group sync.WaitGroup
		for i, d := range both {
			group.Go(func() {
				f := d.ask(reserve, wants[i].String())
				if f.Error == nil {
					granted.Add(1)
				} else if !strings.Contains(string(f.Error.Data), "limit-exceeded") {
					t.Errorf("got %s", f.Raw)
				}
			})
		}
		group.Wait()
		if n := granted.Load(); n != 1 {
			t.Errorf("C-80 round %d: %d grants of the last unit", round, n)
		}
		r.stop()
	}
}
