package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/policy"
)

// A conn is one connection to a provider, from the handshake on. It is the [link.Inbox] of
// its link. A slot whose provider comes back gets a new one: what was pending on the old
// has failed by then, and nothing it sends late can be taken for an answer.
type conn struct {
	slot     *slot
	link     link.Link
	provider *policy.Principal // who dialled in; nil for a provider that the broker calls
	hello    hello             // written under mu, and not any more once the conn is handed out
	born     int64             // generation in the slot

	declared  atomic.Pointer[policy.Declaration]
	following jsonrpc.ID    // the request by which a provider tells of changes
	bad       atomic.Int64  // frames that were none
	asking    chan struct{} // has one for each request of the provider's that is being answered

	mu       sync.Mutex
	pending  map[jsonrpc.ID]waiter
	unproven []*call // lost before the provider's process has ended, which will prove that it has stopped
	over     error
	done     chan struct{}
	leaving  chan struct{} // closed when the provider is called again instead
	idle     chan struct{} // closed when it is, and nothing is pending
}

// A waiter waits for the answer to one request.
type waiter interface {
	reply(*jsonrpc.Message)
	lost(link.Failure)
	step(*jsonrpc.Message) // notification of progress
	tell(*jsonrpc.Message) bool
}

func newConn(sl *slot, provider *policy.Principal) *conn {
	return &conn{slot: sl, provider: provider, pending: map[jsonrpc.ID]waiter{}, asking: make(chan struct{}, maxAsked),
		done: make(chan struct{}), leaving: make(chan struct{}), idle: make(chan struct{})}
}

// providerName is who dialled in, for audit and logs.
func (k *conn) providerName() string {
	if k.provider == nil {
		return "provider"
	}
	return "provider:" + k.provider.ID
}

// errGone says that nothing is sent over the connection any more. There may be another by now.
var errGone = fmt.Errorf("mcp: the connection was given up: %w", link.ErrNotSent)

// send sends a request on behalf of w.
func (k *conn) send(ctx context.Context, m link.Outgoing, w waiter) error {
	k.mu.Lock()
	if k.over != nil || isClosed(k.leaving) {
		k.mu.Unlock()
		return errGone
	}
	k.pending[m.ID] = w
	m.Version = k.hello.version
	k.mu.Unlock()
	err := k.link.Send(ctx, m)
	if err != nil {
		k.take(m.ID)
	}
	return err
}

// notifyTime is how long a message that has no answer may wait for room.
const notifyTime = time.Second

// notify sends a notification, or an answer to the provider. A provider that has gone
// does not need it, and one that reads nothing does without it.
func (k *conn) notify(m *jsonrpc.Message) {
	ctx, cancel := context.WithTimeout(k.slot.b.ctx, notifyTime)
	defer cancel()
	_ = k.link.Send(ctx, link.Outgoing{Message: m, Version: k.version()})
}

// respond answers the provider, and does not keep whoever hears it waiting: a provider that
// writes and does not read would stop both sides.
func (k *conn) respond(m *jsonrpc.Message) { go k.notify(m) }

// version is the revision that is spoken, also while it is being agreed on: a provider that has
// dialled in may ask before that.
func (k *conn) version() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hello.version
}

// agreed is the revision that the provider has agreed to, empty until it has.
func (k *conn) agreed() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hello.capabilities == nil {
		return ""
	}
	return k.hello.version
}

func (k *conn) speak(h hello) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hello = h
}

func (k *conn) take(id jsonrpc.ID) waiter {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.pending[id]
	delete(k.pending, id)
	k.rest()
	return w
}

// renew gives up a connection whose session the provider has forgotten, and calls it again.
// Each request that is still under way has an answer of its own to come: that it was not
// run, if it met the provider that has forgotten.
func (k *conn) renew() {
	k.mu.Lock()
	defer k.slot.dropped(k, errRenew)
	defer k.mu.Unlock()
	if isClosed(k.leaving) {
		return
	}
	close(k.leaving)
	k.rest()
}

// rest notes that nothing keeps a connection that was given up. The caller holds k.mu.
func (k *conn) rest() {
	if len(k.pending) == 0 && isClosed(k.leaving) && !isClosed(k.idle) {
		close(k.idle)
	}
}

// finish ends a connection that was given up, once nothing is pending.
func (k *conn) finish(ctx context.Context) {
	select {
	case <-k.done:
	case <-k.idle:
	case <-ctx.Done():
	}
	_ = k.link.Close()
	<-k.done
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (k *conn) waiting(id jsonrpc.ID) waiter {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pending[id]
}

// only returns the one client's call that is under way, if there is exactly one: on a
// connection that all calls share nothing else says what a provider's question is about.
func (k *conn) only() *call {
	k.mu.Lock()
	pending := slices.Collect(maps.Values(k.pending))
	k.mu.Unlock() // a call's lock may be held where this one is wanted
	var found *call
	for _, w := range pending {
		c, ok := w.(*call)
		if !ok || c.isAnswered() {
			continue
		}
		if found != nil {
			return nil
		}
		found = c
	}
	return found
}

// Message takes what the provider sends.
func (k *conn) Message(m *jsonrpc.Message, of jsonrpc.ID) {
	switch m.Kind {
	case jsonrpc.Response:
		if w := k.take(m.ID); w != nil {
			// The ledger is asked before the client is answered, and others' answers shall
			// not wait for that.
			go w.reply(m)
		}
	case jsonrpc.Notification:
		k.notification(m, of)
	case jsonrpc.Request:
		k.asked(m, of)
	default:
		k.Bad(errors.New("a batch, which the broker never asks for"))
	}
}

// Lost fails the request with the given id. Without one the session has gone.
func (k *conn) Lost(id jsonrpc.ID, f link.Failure) {
	if id.IsZero() {
		go k.doubt()
		return
	}
	w := k.take(id)
	if w == nil {
		return
	}
	if c, is := w.(*call); is && !f.NotRun && !f.Stopped && k.exitProvesStop() {
		k.mu.Lock()
		k.unproven = append(k.unproven, c)
		k.mu.Unlock()
	}
	w.lost(f)
}

// exitProvesStop reports whether the end of the connection is that of the provider's process,
// which proves that it works on nothing any more.
func (k *conn) exitProvesStop() bool { return k.slot.conf().ExitProvesStop && k.provider == nil }

// doubt asks a provider that seems to have forgotten the session. A server without a stream
// for what belongs to no request may say so with the same status.
func (k *conn) doubt() {
	ctx, cancel := context.WithTimeout(k.slot.b.ctx, listTime)
	defer cancel()
	_, err := k.ask(ctx, "ping", nil)
	if f, ok := errors.AsType[link.Failure](err); ok && f.SessionGone {
		k.renew()
	}
}

// Bad counts a frame that is none. The connection lives.
func (k *conn) Bad(error) { k.bad.Add(1) }

// Down fails everything that is pending, and lets the slot go on without the connection.
func (k *conn) Down(err error) {
	k.mu.Lock()
	if k.over != nil {
		k.mu.Unlock()
		return
	}
	k.over = err
	if err == nil {
		k.over = errClosed
	}
	pending, unproven := k.pending, k.unproven
	k.pending, k.unproven = nil, nil
	close(k.done)
	k.mu.Unlock()
	k.slot.dropped(k, k.over)
	f := link.Failure{Err: k.over, Stopped: k.exitProvesStop()}
	var telling sync.WaitGroup // together: each may ask the ledger before its client is told
	for _, w := range pending {
		telling.Go(func() { w.lost(f) })
	}
	for _, c := range unproven {
		telling.Go(func() { c.lost(f) })
	}
	telling.Wait()
}

// ask asks the provider something on the broker's own behalf.
func (k *conn) ask(ctx context.Context, method string, params any) (*jsonrpc.Message, error) {
	q := &question{answer: make(chan answered, 1)}
	id := k.slot.b.nextID()
	if err := k.send(ctx, link.Outgoing{Message: jsonrpc.NewRequest(id, method, params)}, q); err != nil {
		return nil, err
	}
	select {
	case a := <-q.answer:
		return a.message, a.err
	case <-ctx.Done():
		k.take(id)
		k.link.Cancel(id, "no answer in time")
		return nil, ctx.Err()
	}
}

// A question is a request of the broker's own.
type question struct{ answer chan answered }

type answered struct {
	message *jsonrpc.Message
	err     error
}

func (q *question) reply(m *jsonrpc.Message)   { q.answer <- answered{message: m} }
func (q *question) lost(f link.Failure)        { q.answer <- answered{err: f} }
func (q *question) step(*jsonrpc.Message)      {}
func (q *question) tell(*jsonrpc.Message) bool { return false }
