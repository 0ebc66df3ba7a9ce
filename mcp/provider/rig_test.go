package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/socket"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/provider"
	"github.com/sluicegate/sluice/store/memory"
)

const secret = "the secret of a provider in a test"

// A rig is a broker that providers dial into. Its door can be closed and opened again at
// the same address.
type rig struct {
	*mcp.Broker
	t       *testing.T
	policy  *policy.Policy
	address string

	mu     sync.Mutex
	noted  sync.Cond // on mu
	events []audit.Event
	door   *socket.Door
	listen net.Listener
	server *http.Server
}

// budget is a rule of n units "op" in any per.
func budget(id string, n int64, per limit.Micros) sluice.Rule {
	return sluice.Rule{ID: id, Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {"operation"}}}, Settle: sluice.Keep,
		Limits: []sluice.Limit{{Limit: limit.Window(n, per), Unit: "op"}}}
}

// newRig starts a broker with rules. Its door is not open yet.
func newRig(t *testing.T, rules ...sluice.Rule) *rig {
	t.Helper()
	p, err := policy.New(policy.Config{
		Roles:         []policy.Role{{Name: "all", Capabilities: []string{"*"}}},
		SlotResources: map[string]string{"old": "/site/old"},
		Assignments: []policy.Assignment{{Subject: "user:alice", Role: "all", Resource: "/site/**"},
			{Subject: "service:plant", Role: "all", Resource: "/site"}, {Subject: "service:plant", Role: "all", Resource: "/site/tank/1"}},
		Providers: []policy.Provider{
			{ID: "plant", Secret: policy.Secret(secret), Subjects: []string{"service:plant"}, AllowedResources: []string{"/site/**"}},
			{ID: "other", Secret: policy.Secret("another secret of another provider"), AllowedResources: []string{"/site/**"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{})
	ctl, err := sluice.Open(&sluice.Policy{Rules: rules}, store, sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, policy: p, address: "127.0.0.1:0"}
	r.noted.L = &r.mu
	r.Broker, err = mcp.New(ctl, mcp.Options{Policy: p, Audit: r.record, DialledTimeout: time.Minute, Slots: []mcp.Slot{
		{Name: "site", RequestTimeout: time.Minute}, {Name: "old", Protocol: "legacy"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.Close(ctx)
		ctl.Close()
		store.Close()
	})
	return r
}

// open opens the door, at the address of the last time.
func (r *rig) open() {
	r.t.Helper()
	l, err := net.Listen("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.address, r.listen = l.Addr().String(), l
	r.door = &socket.Door{Admit: func(q *http.Request) (socket.Register, error) {
		who, err := r.policy.Authenticate(q.Header)
		if err != nil {
			return nil, err
		}
		return func(slot string, l link.Link) (link.Inbox, error) { return r.Register(slot, who, l) }, nil
	}}
	r.server = &http.Server{Handler: r.door, ReadHeaderTimeout: time.Second}
	go func(s *http.Server) { _ = s.Serve(l) }(r.server)
	r.t.Cleanup(r.shut)
}

// shut ends all connections.
func (r *rig) shut() {
	_ = r.listen.Close()
	_ = r.server.Close()
	_ = r.door.Close()
}

func (r *rig) record(e audit.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	r.noted.Broadcast()
}

// await waits until n events are such.
func (r *rig) await(n int, which func(audit.Event) bool) {
	r.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	defer time.AfterFunc(20*time.Second, r.noted.Broadcast).Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if len(slices.DeleteFunc(slices.Clone(r.events), func(e audit.Event) bool { return !which(e) })) >= n {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("the event has not come; there are %+v", r.events)
		}
		r.noted.Wait()
	}
}

// connected waits until providers have taken slots n times in all.
func (r *rig) connected(n int) {
	r.t.Helper()
	r.await(n, func(e audit.Event) bool { return e.Action == audit.Takeover && e.Allowed })
}

// last returns the last event of an action.
func (r *rig) last(a audit.Action) (found audit.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Action == a {
			found = e
		}
	}
	return found
}

// options are those of a provider in slot "site" that declares units "op" and pumps.
func (r *rig) options(h provider.Handler) provider.Options {
	return provider.Options{URL: "ws://" + r.address, Slot: "site", Secret: secret, Handler: h, FirstPause: time.Millisecond, LongestPause: 20 * time.Millisecond,
		Declaration: &provider.Declaration{Version: "1", Domain: "plant", Namespace: "/site", Capabilities: []string{"plant.run"}, BudgetUnits: []string{"op"}, ResultsRequired: []string{"plant.run"},
			Resources: []provider.Resource{{Name: "pump:1", Path: "/site/pump/1", Limits: &provider.Constraints{MinValue: "0", MaxValue: "1500"}}}}}
}

// dial connects a provider.
func (r *rig) dial(o provider.Options) *provider.Provider {
	r.t.Helper()
	p, err := provider.Dial(r.t.Context(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Close)
	return p
}

// An exchange is what a client got for one message.
type exchange struct {
	t      *testing.T
	frames chan []byte
	answer chan []byte
	cancel func()
}

func (x *exchange) Notify(frame []byte)        { x.frames <- frame }
func (x *exchange) Answer(frame []byte, _ int) { x.answer <- frame }

// ask sends a request of alice's to a slot, in the newest revision.
func (r *rig) ask(slot, method, params string) *exchange {
	r.t.Helper()
	s, err := r.Connect(slot, policy.NewCaller("user:alice"), mcp.ConnectOptions{Transport: "http"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Close)
	meta := `"_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	m, e := jsonrpc.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, params, meta), jsonrpc.Bounds{})
	if e != nil {
		r.t.Fatal(e)
	}
	x := &exchange{t: r.t, frames: make(chan []byte, 100), answer: make(chan []byte, 1)}
	x.cancel = s.Receive(m, x)
	return x
}

// call calls a tool.
func (r *rig) call(slot, tool, arguments string) *exchange {
	r.t.Helper()
	return r.ask(slot, "tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments))
}

// An answer is what a client reads of one.
type answer struct {
	Result struct {
		Content []struct{ Text string }
		Tools   json.RawMessage
		IsError bool
		Type    string `json:"resultType"`
	}
	Error *struct {
		Code    int64
		Message string
	}
}

// wait waits for the answer.
func (x *exchange) wait() (a answer) {
	x.t.Helper()
	select {
	case frame := <-x.answer:
		if err := json.Unmarshal(frame, &a); err != nil {
			x.t.Fatalf("%v in %s", err, frame)
		}
	case <-time.After(20 * time.Second):
		x.t.Fatal("no answer")
	}
	return a
}

// text waits for a result, and returns its first text.
func (x *exchange) text() string {
	x.t.Helper()
	a := x.wait()
	if a.Error != nil || len(a.Result.Content) == 0 {
		x.t.Fatalf("got %+v", a)
	}
	return a.Result.Content[0].Text
}
