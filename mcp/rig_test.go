package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/store/memory"
)

// A rig is a broker with a provider behind it, in one process.
type rig struct {
	*mcp.Broker
	t        *testing.T
	ctl      *sluice.Controller
	provider *mcptest.Provider // in slot "p"
	stopped  sync.Once
	options  mcp.Options // the latest

	mu     sync.Mutex
	noted  sync.Cond // on mu
	events []audit.Event
}

// newRig starts a broker with rules and a provider in slot "p". Change may change its
// options.
func newRig(t *testing.T, rules []sluice.Rule, change func(*mcp.Options)) *rig {
	t.Helper()
	store := memory.New(memory.Options{})
	t.Cleanup(func() { store.Close() })
	return newRigOn(t, store, nil, rules, change)
}

// newRigOn starts a broker on a store whose keys are made with a secret. The store is the
// caller's to close.
func newRigOn(t *testing.T, store sluice.Store, secret []byte, rules []sluice.Rule, change func(*mcp.Options)) *rig {
	t.Helper()
	r := &rig{t: t, provider: mcptest.New(mcptest.Options{})}
	r.noted.L = &r.mu
	ctl, err := sluice.Open(&sluice.Policy{Rules: rules}, store, sluice.Options{KeySecret: secret})
	if err != nil {
		t.Fatal(err)
	}
	r.ctl = ctl
	o := mcp.Options{Audit: r.record, Grace: time.Second, Secret: secret, Slots: []mcp.Slot{
		{Name: "p", Dialer: inProcess(r.provider), Protocol: "legacy", RequestTimeout: time.Minute},
	}}
	if change != nil {
		change(&o)
	}
	if r.Broker, err = mcp.New(ctl, o); err != nil {
		t.Fatal(err)
	}
	r.options = o
	t.Cleanup(r.stop)
	return r
}

// stop ends the broker and waits for nobody.
func (r *rig) stop() {
	r.stopped.Do(func() {
		r.provider.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.Close(ctx)
		r.ctl.Close()
	})
}

// inProcess connects a slot to a provider of the test's.
func inProcess(p *mcptest.Provider) *loopback.Dialer {
	return &loopback.Dialer{Name: "mcptest", Serve: func(c *loopback.Conn) error { return p.Serve(c) }}
}

func (r *rig) record(e audit.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	r.noted.Broadcast()
}

// await waits for an event.
func (r *rig) await(which func(audit.Event) bool) {
	r.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	defer time.AfterFunc(20*time.Second, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.noted.Broadcast()
	}).Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !slices.ContainsFunc(r.events, which) {
		if time.Now().After(deadline) {
			r.t.Fatalf("the event has not come; there are %+v", r.events)
		}
		r.noted.Wait()
	}
}

// audited returns the events of an action so far.
func (r *rig) audited(action audit.Action) (list []audit.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Action == action {
			list = append(list, e)
		}
	}
	return list
}

// A client is one at a slot.
type client struct {
	*mcp.Session
	r      *rig
	pushed chan *mcptest.Frame
	n      int
}

// client connects one, initialized unless version is empty or the newest.
func (r *rig) client(slot, version string, who *policy.Caller) *client {
	r.t.Helper()
	c := &client{r: r, pushed: make(chan *mcptest.Frame, 100)}
	s, err := r.Connect(slot, who, mcp.ConnectOptions{Transport: "websocket", OneStream: true, Push: func(frame []byte) bool {
		f, err := mcptest.ReadFrame(frame)
		if err != nil {
			r.t.Error(err)
		}
		c.pushed <- f
		return true
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	c.Session = s
	r.t.Cleanup(s.Close)
	if version == "" || version == "2026-07-28" {
		return c
	}
	answer := c.ask("initialize", map[string]any{"protocolVersion": version, "capabilities": map[string]any{"sampling": map[string]any{}}, "clientInfo": map[string]string{"name": "test", "version": "1"}}).answer()
	if answer.Error != nil {
		r.t.Fatal(answer.Error)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// An exchange is what came back for one message.
type exchange struct {
	t      *testing.T
	frames chan *mcptest.Frame // before the answer
	done   chan struct{}
	mu     sync.Mutex
	last   *mcptest.Frame // nil: no answer
	status int
	after  int // frames that came after the answer
	cancel func()
}

func (x *exchange) Notify(frame []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.done:
		x.after++
		return
	default:
	}
	f, err := mcptest.ReadFrame(frame)
	if err != nil {
		x.t.Errorf("%v in %s", err, frame)
	}
	x.frames <- f
}

func (x *exchange) Answer(frame []byte, status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.done:
		x.after++
		return
	default:
	}
	x.status = status
	if frame != nil {
		f, err := mcptest.ReadFrame(frame)
		if err != nil {
			x.t.Errorf("%v in %s", err, frame)
		}
		x.last = f
	}
	close(x.done)
}

// answer waits for the answer.
func (x *exchange) answer() *mcptest.Frame {
	x.t.Helper()
	select {
	case <-x.done:
	case <-time.After(5 * time.Minute):
		x.t.Fatal("no answer")
	}
	if x.last == nil {
		x.t.Fatalf("the exchange ended without an answer, status %d", x.status)
	}
	return x.last
}

// answered reports whether the exchange has ended.
func (x *exchange) answered() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// send sends a frame as it is.
func (c *client) send(frame string) *exchange {
	c.r.t.Helper()
	m, e := jsonrpc.Parse([]byte(frame), jsonrpc.Bounds{})
	if e != nil {
		c.r.t.Fatalf("%v in %s", e, frame)
	}
	x := &exchange{t: c.r.t, frames: make(chan *mcptest.Frame, 100), done: make(chan struct{})}
	x.cancel = c.Receive(m, x)
	return x
}

// ask sends a request under the next id.
func (c *client) ask(method string, params any) *exchange {
	c.n++
	return c.send(string(mcptest.Request(fmt.Sprint(c.n), method, params)))
}

// call calls a tool. Arguments are JSON, more are pairs of further members of params.
func (c *client) call(tool, arguments string, more ...string) *exchange {
	c.n++
	return c.send(string(mcptest.CallTool(fmt.Sprint(c.n), tool, arguments, more...)))
}

// refusal is what a refusal says to programs.
type refusal struct {
	Reason       string `json:"reason"`
	RuleID       string `json:"ruleId"`
	RetryAfterMs *int64 `json:"retryAfterMs"`
}

// refused waits for an answer that must be an error with a code, and returns its data.
func (x *exchange) refused(code int64) refusal {
	x.t.Helper()
	f := x.answer()
	if f.Error == nil || f.Error.Code != code {
		x.t.Fatalf("got %s, want error %d", f.Raw, code)
	}
	var r refusal
	if f.Error.Data != nil {
		if err := json.Unmarshal(f.Error.Data, &r); err != nil {
			x.t.Fatal(err)
		}
	}
	return r
}

// passed waits for an answer that must be a result.
func (x *exchange) passed() *mcptest.Frame {
	x.t.Helper()
	f := x.answer()
	if f.Error != nil {
		x.t.Fatalf("refused: %s", f.Raw)
	}
	return f
}

// A listening conn notes what the broker sends.
type listening struct {
	*loopback.Conn
	note func([]byte)
}

func (l listening) Next() ([]byte, error) {
	frame, err := l.Conn.Next()
	if err == nil {
		l.note(frame)
	}
	return frame, err
}

// spy adds a slot with a provider of which every frame that it gets is noted. It returns
// those of a method.
func spy(r *rig, slot string) (frames func(method string) []string) {
	r.t.Helper()
	p := mcptest.New(mcptest.Options{})
	r.t.Cleanup(p.Close)
	var mu sync.Mutex
	var all []string
	r.addSlot(mcp.Slot{Name: slot, Protocol: "legacy", RequestTimeout: time.Minute, Dialer: &loopback.Dialer{Name: slot, Serve: func(c *loopback.Conn) error {
		return p.Serve(listening{c, func(frame []byte) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, string(frame))
		}})
	}}})
	return func(method string) (list []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range all {
			if frame, err := mcptest.ReadFrame([]byte(f)); err == nil && frame.Method == method {
				list = append(list, f)
			}
		}
		return list
	}
}

// serves gives the broker one slot more, with a provider in it.
func (r *rig) serves(slot mcp.Slot, is mcptest.Options) *mcptest.Provider {
	r.t.Helper()
	p := mcptest.New(is)
	r.t.Cleanup(p.Close)
	slot.Dialer = inProcess(p)
	if slot.RequestTimeout == 0 {
		slot.RequestTimeout = time.Minute
	}
	r.addSlot(slot)
	return p
}

// addSlot gives the broker one slot more.
func (r *rig) addSlot(s mcp.Slot) {
	r.t.Helper()
	o := r.options
	o.Slots = append(slices.Clone(o.Slots), s)
	r.reload(o)
}

func (r *rig) reload(o mcp.Options) {
	r.t.Helper()
	if err := r.Reload(o); err != nil {
		r.t.Fatal(err)
	}
	r.options = o
}

// answering is a provider whose answer to one method the test gives.
func answering(p *mcptest.Provider, method, result string) *loopback.Dialer {
	return &loopback.Dialer{Name: "answering", Serve: func(c *loopback.Conn) error { return p.Serve(answers{c, method, result}) }}
}

type answers struct {
	*loopback.Conn
	method, result string
}

func (a answers) Next() ([]byte, error) {
	for {
		frame, err := a.Conn.Next()
		if err != nil {
			return nil, err
		}
		f, err := mcptest.ReadFrame(frame)
		if err != nil || f.Method != a.method {
			return frame, nil
		}
		if err := a.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, f.ID, a.result)); err != nil {
			return nil, err
		}
	}
}
