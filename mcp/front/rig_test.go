package front_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/front"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/store/memory"
)

// A rig is a front on a socket, a broker behind it, and a provider in slot "p" behind that.
type rig struct {
	t        *testing.T
	front    *front.Front
	broker   *mcp.Broker
	provider *mcptest.Provider
	url      string

	mu     sync.Mutex
	events []audit.Event
}

// A setting changes what a rig is made of.
type setting struct {
	broker   mcp.Options
	front    front.Options
	provider mcptest.Options
}

func newRig(t *testing.T, changes ...func(*setting)) *rig {
	t.Helper()
	r := &rig{t: t}
	s := &setting{broker: mcp.Options{Audit: r.record}, front: front.Options{Identify: identify}}
	for _, change := range changes {
		change(s)
	}
	r.provider = mcptest.New(s.provider)
	s.broker.Slots = append(s.broker.Slots, mcp.Slot{
		Name: "p", Protocol: "legacy", RequestTimeout: time.Minute,
		Dialer: &loopback.Dialer{Name: "mcptest", Serve: func(c *loopback.Conn) error { return r.provider.Serve(c) }},
	})
	store := memory.New(memory.Options{})
	ctl, err := sluice.Open(&sluice.Policy{}, store, sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.broker, err = mcp.New(ctl, s.broker); err != nil {
		t.Fatal(err)
	}
	s.front.Broker = r.broker
	if r.front, err = front.New(s.front); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r.front)
	r.url = server.URL
	t.Cleanup(func() {
		r.provider.Close()
		at, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.front.Close(at) // calls that nobody answers are part of some tests
		server.Close()
		r.broker.Close(at)
		ctl.Close()
		store.Close()
	})
	return r
}

// identify believes whoever calls itself something.
func identify(r *http.Request) (*policy.Caller, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	name, _, _ := strings.Cut(token, ".") // what follows changes when a token is renewed
	switch {
	case !ok:
		return nil, nil
	case name == "bad":
		return nil, errors.New("the token is not valid")
	case name == "guess":
		return nil, &front.Failure{Status: http.StatusTooManyRequests, Message: "too many bad tokens", RetryAfter: 90 * time.Second}
	}
	return policy.NewCaller("user:" + name), nil
}

func (r *rig) record(e audit.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *rig) audited(reason string) (list []audit.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Reason == reason {
			list = append(list, e)
		}
	}
	return list
}

// within is the time that a test's waits have together.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// ask sends a request and fails the test if there is no response.
func (r *rig) ask(path string, a mcptest.Ask) *mcptest.Reply {
	r.t.Helper()
	reply, err := a.Send(within(r.t), r.url+path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(reply.Close)
	return reply
}

// session starts a session and returns the header that names it.
func (r *rig) session(version string, header ...string) string {
	r.t.Helper()
	reply := r.ask("/p/mcp", mcptest.Ask{Header: header, Body: string(initialize(version))})
	if f, err := reply.Next(); err != nil || f.Result == nil {
		r.t.Fatalf("initialize: %s, %v, %v", reply.Status, f, err)
	}
	id := reply.Header.Get("Mcp-Session-Id")
	if id == "" {
		r.t.Fatal("initialize gave no session")
	}
	return "Mcp-Session-Id: " + id
}

func initialize(version string) []byte {
	return mcptest.Request("0", "initialize", map[string]any{"protocolVersion": version,
		"capabilities": map[string]any{"sampling": map[string]any{}}, "clientInfo": map[string]string{"name": "test", "version": "1"}})
}

// call is a tools/call of a legacy session.
func call(id, tool, arguments string, header ...string) mcptest.Ask {
	return mcptest.Ask{Header: header, Body: string(mcptest.CallTool(id, tool, arguments, "_meta", `{"progressToken":`+id+`}`))}
}

// modern is a tools/call of the modern era.
func modern(id, tool, arguments string, header ...string) mcptest.Ask {
	meta := strings.TrimSuffix(mcptest.Meta, "}") + `,"progressToken":` + id + `}`
	return mcptest.Ask{Header: header, Body: string(mcptest.CallTool(id, tool, arguments, "_meta", meta))}.Modern("tools/call", tool)
}

// A failure is how a request was refused.
type failure struct {
	status int
	code   int64
	id     string
	text   string
	data   string
}

// refused returns how a request was refused: by a status and a JSON-RPC error, or the test
// fails (M-073).
func refused(t *testing.T, reply *mcptest.Reply) failure {
	t.Helper()
	_, data, err := reply.NextEvent()
	f, bad := mcptest.ReadFrame([]byte(data))
	if err != nil || bad != nil || f.Error == nil || reply.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("M-073: %s with %q, %v, %v", reply.Status, data, err, bad)
	}
	return failure{reply.StatusCode, f.Error.Code, string(f.ID), f.Error.Message, string(f.Error.Data)}
}

// answered returns the answer to a request and how many frames came before it.
func answered(t *testing.T, reply *mcptest.Reply) (*mcptest.Frame, int) {
	t.Helper()
	f, before, err := reply.Answer()
	if err != nil {
		t.Fatalf("%s: %v", reply.Status, err)
	}
	return f, before
}

// lines are the lines of an event stream, with what a parser of events would not tell.
type lines struct {
	t  *testing.T
	in *bufio.Scanner
}

func linesOf(t *testing.T, reply *mcptest.Reply) *lines {
	return &lines{t, bufio.NewScanner(reply.Body)}
}

// next returns the next block of lines, joined by "|", and false at the end.
func (l *lines) next() (string, bool) {
	var block []string
	for l.in.Scan() {
		if l.in.Text() == "" {
			return strings.Join(block, "|"), true
		}
		block = append(block, l.in.Text())
	}
	return strings.Join(block, "|"), false
}

// want fails the test unless the next block is a pattern: "*" stands for anything.
func (l *lines) want(pattern string) string {
	l.t.Helper()
	got, _ := l.next()
	like := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
	if !like.MatchString(got) {
		l.t.Fatalf("got %q, want %q", got, pattern)
	}
	return got
}

// held waits for a call of "hold" to be under way at the provider.
func (r *rig) held(key string) *mcptest.Call {
	r.t.Helper()
	c, err := r.provider.Held(within(r.t), key)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// until waits for something that no channel tells.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("in vain: ", what)
		}
	}
}
