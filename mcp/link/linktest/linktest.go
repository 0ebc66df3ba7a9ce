// Package linktest holds what the tests of all kinds of links share: an [Inbox] that hands on
// what it is told, and what any link has to do.
package linktest

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

// A Told is a message, and on whose stream it came.
type Told struct {
	*jsonrpc.Message
	Of jsonrpc.ID
}

// A Loss is a request that is lost.
type Loss struct {
	ID jsonrpc.ID
	link.Failure
}

// An Inbox hands on what it is told. It waits for nobody while there are not more than a
// thousand of each.
type Inbox struct {
	Messages chan Told
	Losses   chan Loss
	Faults   chan error // of Bad
	Ends     chan error // of Down
}

var _ link.Inbox = (*Inbox)(nil)

// NewInbox returns an empty Inbox.
func NewInbox() *Inbox {
	return &Inbox{make(chan Told, 1000), make(chan Loss, 1000), make(chan error, 1000), make(chan error, 2)}
}

// Message implements [link.Inbox].
func (in *Inbox) Message(m *jsonrpc.Message, of jsonrpc.ID) { in.Messages <- Told{m, of} }

// Lost implements [link.Inbox].
func (in *Inbox) Lost(id jsonrpc.ID, f link.Failure) { in.Losses <- Loss{id, f} }

// Bad implements [link.Inbox].
func (in *Inbox) Bad(err error) { in.Faults <- err }

// Down implements [link.Inbox].
func (in *Inbox) Down(err error) { in.Ends <- err }

// Dial connects, until the test ends.
func Dial(t *testing.T, d link.Dialer) (link.Link, *Inbox) {
	t.Helper()
	in := NewInbox()
	l, err := d.Dial(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, in
}

// Get takes the next of something that has to come.
func Get[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("no %T within 20 s", *new(T))
		panic("unreachable")
	}
}

// Send sends a message of a revision, which may be empty.
func Send(t *testing.T, l link.Link, version string, m *jsonrpc.Message) {
	t.Helper()
	if err := l.Send(t.Context(), link.Outgoing{Message: m, Version: version}); err != nil {
		t.Fatal(err)
	}
}

// Ask is a call of a tool.
func Ask(id string, params any) *jsonrpc.Message {
	return jsonrpc.NewRequest(jsonrpc.StringID(id), "tools/call", params)
}

// AtOnce has 200 calls under way at once, of a provider that answers each with its params.
func AtOnce(t *testing.T, l link.Link, in *Inbox) {
	t.Helper()
	var calls sync.WaitGroup
	for i := range 200 {
		calls.Go(func() { Send(t, l, "", Ask(strconv.Itoa(i), map[string]string{"t": "größe 漢字 😀"})) })
	}
	calls.Wait()
	seen := map[jsonrpc.ID]bool{}
	for range 200 {
		m := Get(t, in.Messages)
		seen[m.ID] = true
		if string(m.Result) != `{"t":"größe 漢字 😀"}` {
			t.Fatalf("got %s", m.Result)
		}
	}
	if len(seen) != 200 {
		t.Errorf("%d different answers", len(seen))
	}
}

// Settles waits until there are no more goroutines than before.
func Settles(t *testing.T, before int) {
	t.Helper()
	for began := time.Now(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Since(began) > 10*time.Second {
			stacks := make([]byte, 1<<20)
			t.Fatalf("M-054 %d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
