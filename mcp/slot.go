package mcp

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// How a provider that has gone is called again.
const (
	defaultConnect = 10 * time.Second
	defaultResult  = 16 << 20
	firstPause     = 200 * time.Millisecond
	longestPause   = 30 * time.Second
	steady         = time.Minute // a connection that lived so long was no failure
)

// A slot is a place for a provider, and what is known of the one that is there.
type slot struct {
	b       *Broker
	name    string
	options atomic.Pointer[Slot]
	builtin *builtin    // the broker's own tools, instead of a provider
	all     bool        // the union of all slots, instead of a provider
	dumb    atomic.Bool // the provider ends the connection when it is asked what it is

	mu        sync.Mutex
	stop      context.CancelFunc // ends the calling of the provider; nil where it dials in
	current   *conn
	holder    *conn // who dialled in and has the slot, also before the handshake is through
	born      int64
	trying    chan struct{} // closed when the attempt under way has ended
	attempted bool          // an attempt has ended
	lastErr   error
	next      time.Time   // of the next attempt
	relisting *time.Timer // runs while the tools are about to be listed again
	tools     atomic.Pointer[catalog]
	interest  map[string]map[*Session]bool // who has subscribed to a resource
}

func (b *Broker) newSlot(o Slot) *slot {
	sl := &slot{b: b, name: o.Name, interest: map[string]map[*Session]bool{}}
	sl.start(&o)
	return sl
}

// start begins to call the provider, if it is one that is called.
func (sl *slot) start(o *Slot) {
	sl.options.Store(o)
	if o.Dialer == nil {
		return
	}
	ctx, stop := context.WithCancel(sl.b.ctx)
	sl.mu.Lock()
	sl.stop, sl.next = stop, time.Time{}
	if sl.trying == nil {
		sl.trying = make(chan struct{})
	}
	sl.mu.Unlock()
	sl.b.running.Go(func() { sl.run(ctx) })
}

// end ends the slot's connection and calls no more. What is being connected can not become
// the slot's connection after that.
func (sl *slot) end() {
	sl.mu.Lock()
	k, stop := cmp.Or(sl.current, sl.holder), sl.stop
	sl.stop = nil
	if stop != nil {
		stop()
	}
	sl.mu.Unlock()
	sl.dumb.Store(false)
	if k != nil {
		k.Down(errEnded)
		_ = k.link.Close()
	}
}

// errEnded ends a connection of a slot that has other options now, or is no more.
var errEnded = errors.New("mcp: the slot's configuration has changed")

// dials reports whether the broker calls the provider.
func (sl *slot) dials() bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.stop != nil
}

func (sl *slot) conf() *Slot { return sl.options.Load() }

func (sl *slot) connectTimeout() time.Duration {
	if t := sl.conf().ConnectTimeout; t > 0 {
		return t
	}
	return defaultConnect
}

func (sl *slot) tooLarge(m *jsonrpc.Message) bool {
	return len(m.Raw) > sl.maxResult()
}

func (sl *slot) maxResult() int { return cmp.Or(sl.conf().MaxResult, defaultResult) }

// run keeps a provider connected that the broker calls.
func (sl *slot) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := sl.dial(ctx)
		if time.Since(began) > steady {
			failures = 0
		}
		if errors.Is(err, errRenew) && time.Since(began) > firstPause {
			continue
		}
		sl.pause(ctx, failures, err)
		failures++
	}
}

// errRenew ends a connection whose session the provider does not know any more.
var errRenew = errors.New("mcp: the provider has forgotten the session")

// dial connects, and returns when the connection has ended.
func (sl *slot) dial(ctx context.Context) error {
	k := newConn(sl, nil)
	within, cancel := context.WithTimeout(ctx, sl.connectTimeout())
	defer cancel()
	l, err := sl.conf().Dialer.Dial(within, k)
	if err == nil {
		k.link = l
		err = sl.welcome(within, k)
	}
	if ctx.Err() == nil {
		sl.tried(err)
	}
	if err != nil {
		if l != nil {
			_ = l.Close()
		}
		return err
	}
	select {
	case <-k.done:
		return k.over
	case <-k.leaving:
		sl.b.running.Go(func() { k.finish(ctx) })
		return errRenew
	case <-ctx.Done():
		_ = l.Close()
		<-k.done
		return ctx.Err()
	}
}

// pause waits before the next attempt, the longer the more have failed.
func (sl *slot) pause(ctx context.Context, failures int, err error) {
	if ctx.Err() != nil {
		return
	}
	most := min(firstPause<<min(failures, 10), longestPause)
	wait := most/2 + rand.N(most/2)
	sl.mu.Lock()
	if ctx.Err() == nil {
		sl.next = time.Now().Add(wait)
	}
	sl.mu.Unlock()
	sl.b.log.Warn("mcp: a provider is not connected", "slot", sl.name, "error", err, "next", wait.Round(time.Millisecond))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	sl.mu.Lock()
	if sl.trying == nil && ctx.Err() == nil {
		sl.trying = make(chan struct{})
	}
	sl.mu.Unlock()
}

// tried ends an attempt for those who wait for it.
func (sl *slot) tried(err error) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.lastErr, sl.attempted = err, true
	if sl.trying != nil {
		close(sl.trying)
		sl.trying = nil
	}
}

// welcome makes k the slot's connection once the handshake is through and its tools are
// known.
func (sl *slot) welcome(ctx context.Context, k *conn) error {
	if err := k.handshake(ctx); err != nil {
		return err
	}
	list := k.list(ctx)
	sl.mu.Lock()
	if ctx.Err() != nil {
		sl.mu.Unlock()
		return ctx.Err()
	}
	sl.born++
	k.born = sl.born
	old := sl.current
	sl.current = k
	sl.mu.Unlock()
	if k.isOver() { // before it was there to be dropped
		sl.dropped(k, k.over)
		return k.over
	}
	sl.show(list)
	sl.b.unionMayHaveChanged()
	if old != nil && old != k {
		_ = old.link.Close()
	}
	sl.b.log.Info("mcp: a provider is connected", "slot", sl.name, "protocol", k.hello.version, "tools", list.count())
	k.greet()
	return nil
}

// dropped takes k from the slot if it is still the one there.
func (sl *slot) dropped(k *conn, err error) {
	sl.mu.Lock()
	if sl.holder == k {
		sl.holder = nil
	}
	gone := sl.current == k
	if gone {
		sl.current = nil
		sl.lastErr = err
		if sl.stop != nil && sl.trying == nil {
			sl.trying = make(chan struct{})
		}
	}
	sl.mu.Unlock()
	if gone {
		if sl.conf().Dialer == nil && sl.b.ctx.Err() == nil { // of one that is called, pause says it
			sl.b.log.Warn("mcp: a provider that dials in has gone", "slot", sl.name, "provider", k.providerName(), "error", err)
		}
		sl.b.cache.Drop(sl.name)
		sl.b.unionMayHaveChanged()
	}
}

// connection returns the provider's connection, or nil.
func (sl *slot) connection() *conn {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.current
}

// taken returns the connection that has the slot, also before its handshake is through.
func (sl *slot) taken() *conn {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return cmp.Or(sl.current, sl.holder)
}

// await returns the connection, waiting for an attempt that is under way.
func (sl *slot) await(ctx context.Context) *conn {
	sl.mu.Lock()
	k, trying := sl.current, sl.trying
	waits := k == nil && trying != nil && !time.Now().Before(sl.next)
	sl.mu.Unlock()
	if !waits {
		return k
	}
	ctx, cancel := context.WithTimeout(ctx, sl.connectTimeout())
	defer cancel()
	select {
	case <-trying:
	case <-ctx.Done():
	}
	return sl.connection()
}

// awaitFirst waits for the first attempt to connect.
func (sl *slot) awaitFirst(ctx context.Context) {
	sl.mu.Lock()
	trying := sl.trying
	waits := !sl.attempted && trying != nil
	sl.mu.Unlock()
	if !waits {
		return
	}
	select {
	case <-trying:
	case <-ctx.Done():
	}
}

func sortSlots(list []*slot) {
	slices.SortFunc(list, func(a, b *slot) int { return strings.Compare(a.name, b.name) })
}
