package sluice

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/ledger"
)

// A Store keeps the books. It carries out each command as one atomic step, at its own
// time. Implementations are safe for concurrent use.
type Store interface {
	// Apply carries out cmds in order and answers cmds[i] in res[i], whose slices it
	// reuses. Each command is atomic; together they are not. After an error it is unknown
	// which were carried out, and what gives back may be lost: a store that can do better
	// does, because nobody asks it again. In particular it undoes a Take without an ID that
	// was carried out although Apply failed or its ctx has ended. One with an ID stands, and
	// is Replayed when asked for again. Apply may change the keys in cmds[i].Steps; see
	// ledger.Step.
	Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error
	// Scan yields the cells of a group, or all if group is zero, that are not as good as
	// new. It is for people: slow, and not a snapshot.
	Scan(ctx context.Context, group uint64) iter.Seq2[ledger.Entry, error]
	// Close ends the store. Apply fails afterwards.
	Close() error
}

// Options of a Controller. The zero value is usable.
type Options struct {
	// Observe is called once for every decision, in the goroutine that asked, after the
	// answer is known. It must not block and must not keep the Event. Nil is nobody.
	Observe func(*Event)
	// Logger gets what goes wrong when nobody is there to be told. Nil is silence.
	Logger *slog.Logger
	// KeySecret makes the keys of the books the same in every process that has it, as a
	// store that is shared or survives a restart needs. At least 16 random bytes. Nil
	// draws one for this process. Nobody can tell callers from keys without it.
	KeySecret []byte
	// Shares keeps this process's shares, by which rules with OnStoreError [FailLocal] are
	// decided while the store fails: a store that cannot, such as store/memory. Nil
	// refuses then, as [FailClosed] does.
	Shares Store
	// Processes is how many processes use the store. Each one's share of a limit is that
	// part of it. Zero is 1.
	Processes int
	// MaxWaiting bounds how many callers may stand in all lines together; more are
	// refused with ReasonQueueFull. Zero is 100 000.
	MaxWaiting int
}

// A Controller decides about calls by a policy and a store's books. It is safe for
// concurrent use.
type Controller struct {
	store   Store
	local   Store // of shares; nil is none
	parts   int64 // of a limit, of which this process has one
	leases  bool  // the store takes units ahead
	observe func(*Event)
	logger  *slog.Logger
	hash    hasher
	policy  atomic.Pointer[compiled]

	reloading sync.Mutex // serialises SetPolicy
	room      waitingRoom
	held      heldSlots
	closed    atomic.Bool
	deafen    func() // ends listening to the store; nil if it is no Waker
}

// Open returns a Controller for p on s. It reports everything that is wrong with p.
// Closing the Controller does not close s.
func Open(p *Policy, s Store, o Options) (*Controller, error) {
	if s == nil {
		return nil, errors.New("sluice: Open needs a store; store/memory has one")
	}
	c := &Controller{
		store: s, local: o.Shares, parts: max(1, int64(o.Processes)), observe: o.Observe, logger: o.Logger, hash: newHasher(o.KeySecret),
		room: waitingRoom{rules: make(map[string]*lines), most: o.MaxWaiting},
	}
	_, c.leases = s.(Lessor)
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	if n := len(o.KeySecret); o.KeySecret != nil && n < minSecret {
		return nil, fmt.Errorf("sluice: a KeySecret of %d bytes can be guessed; use at least %d random ones", n, minSecret)
	}
	if c.room.most <= 0 {
		c.room.most = 100_000
	}
	if p == nil {
		p = &Policy{}
	}
	compiled, err := c.compile(p)
	if err == nil {
		err = c.tellKeeper(compiled)
	}
	if err != nil {
		return nil, err
	}
	c.policy.Store(compiled)
	c.listen()
	return c, nil
}

const minSecret = 16

// Policy returns the policy in force. It must not be changed.
func (c *Controller) Policy() *Policy { return c.policy.Load().source }

// SetPolicy replaces the policy at once. A rule whose ID stays keeps its counters: new
// numbers apply to them from their next call on, what was used stays used, and what time
// has paid back until then is settled at the old rate. On an error the old policy stays.
func (c *Controller) SetPolicy(p *Policy) error {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	if p == nil {
		p = &Policy{}
	}
	next, err := c.compile(p)
	if err == nil {
		err = c.tellKeeper(next)
	}
	if err != nil {
		return err
	}
	c.policy.Store(next)
	c.wakeLines(nil)
	return nil
}

// decisions are those that Admit makes.
var decisions = sync.Pool{New: func() any { return &Decision{pooled: true} }}

// Admit returns when the call may go ahead, or an error that says why it may not: a
// *[Refusal], which also tells of a store that failed, ctx's error, or [ErrClosed]. Nothing
// is taken then, unless the store could not say. It waits its turn as far as the queues of the refusing rules and ctx allow, in order of
// arrival, and not at all if one of them has no queue.
//
// The caller releases the admission when the work has ended. An admission that is never
// released keeps its slots; without slots it is merely collected.
func (c *Controller) Admit(ctx context.Context, call Call) (Admission, error) {
	d := decisions.Get().(*Decision)
	d.WantLevels = true
	d.asked = call // on the heap already, where a line and an observer find it
	ok, err := c.begin(ctx, &d.asked, d)
	if err == nil && !ok {
		if place := c.mayWait(ctx, d, time.Now()); place != nil {
			return c.wait(ctx, &d.asked, d, place)
		}
	}
	return c.finish(&d.asked, d, ok, err)
}

// finish tells the observer and turns a decision into what Admit returns.
func (c *Controller) finish(call *Call, d *Decision, ok bool, err error) (Admission, error) {
	c.report(call, d, ok, err)
	if err == nil && ok {
		return Admission{d, d.generation.Load()}, nil
	}
	if err == nil {
		err = d.Refusal().Clone()
	}
	d.generation.Add(1)
	decisions.Put(d)
	return Admission{}, err
}

// Try decides about call without waiting: whoever would have to wait is refused. It
// fills d, and reports whether the call may go ahead; if so d.Admission is to be
// released when the work has ended, if not d.Refusal says why. The error is ctx's,
// [ErrClosed], or [ErrInUse]; nothing is taken then.
//
// Try allocates nothing once d has been used, and leaves no Refusal behind for the
// collector: it is for whoever refuses much.
func (c *Controller) Try(ctx context.Context, call *Call, d *Decision) (bool, error) {
	ok, err := c.begin(ctx, call, d)
	if err == ErrInUse {
		return false, err
	}
	d.failed = err != nil
	if c.observe != nil {
		c.report(call, d, ok, err)
	}
	return ok, err
}

// ErrInUse is returned by Try for a Decision whose admission still holds slots.
var ErrInUse = errors.New("sluice: the decision's admission still holds slots; release it first")

// begin decides about call without waiting and without telling anybody.
func (c *Controller) begin(ctx context.Context, call *Call, d *Decision) (bool, error) {
	if d.holding {
		return false, ErrInUse
	}
	if d.lent || d.pooled {
		d.generation.Add(1)
		d.lent = false
	}
	if c.closed.Load() || ctx.Err() != nil {
		d.reset(c, c.policy.Load()) // nobody shall be told of the call before
		if c.closed.Load() {
			return false, ErrClosed
		}
		return false, context.Cause(ctx)
	}
	return c.decide(ctx, call, d, c.room.tickets.Load()+1, nil)
}

// decide makes one attempt at the store, unless somebody with a smaller ticket stands in
// a line that call would have to stand in, other than those in which it is its turn.
func (c *Controller) decide(ctx context.Context, call *Call, d *Decision, ticket uint64, turns []*waitLine) (bool, error) {
	p := c.policy.Load()
	d.reset(c, p)
	if (call.ID != "" || call.Expires != 0 || d.named) && !d.name(call) {
		return false, nil
	}
	if !d.plan(p, call) || d.named && !d.record(call) {
		return false, nil
	}
	if p.waits {
		if m := c.ahead(d, ticket, turns); m != nil && !d.remembered(ctx) {
			return c.standBehind(ctx, d, m)
		}
	}
	if len(d.steps) == 0 && d.id.Zero() { // nothing to take and nothing to remember
		d.grant(0)
		return true, nil
	}
	if n := len(turns); n > 0 {
		d.watch = c.room.watch(turns[n-1], d)
	}
	ok, err := d.apply(ctx, ledger.Take)
	if ok && p.maxHold {
		d.startMaxHold()
	}
	return ok, err
}

// Cool starts the cooldown limits that call would have to pass, as [Admission.Cool] does
// for an admission. It is for reports about calls that were admitted elsewhere or before
// a restart.
func (c *Controller) Cool(ctx context.Context, call Call, delay time.Duration) error {
	d := new(Decision)
	d.reset(c, c.policy.Load())
	if !d.plan(d.policy, &call) {
		return d.refusal.Clone()
	}
	return c.cool(ctx, d.steps, d.places, delay)
}

// Resume returns the admission with the given ID, so that it can be settled and released
// by another goroutine, or after a restart on a store that survives one. A rule's MaxHold
// is counted from here. It returns [ErrUnknown] if the store does not remember the ID.
func (c *Controller) Resume(ctx context.Context, id string) (Admission, error) {
	if id == "" {
		return Admission{}, ErrUnknown
	}
	d, p := new(Decision), c.policy.Load()
	d.reset(c, p)
	d.id, d.named, d.memo.sent = c.hash.id(id), true, time.Now()
	d.cmd[0] = ledger.Command{Op: ledger.Find, ID: d.id}
	if err := c.store.Apply(ctx, d.cmd[:], d.res[:]); err != nil {
		return Admission{}, err
	}
	if d.res[0].Status != ledger.Done {
		return Admission{}, ErrUnknown
	}
	d.adopt(&d.res[0])
	if p.maxHold {
		d.startMaxHold()
	}
	return Admission{d, d.generation.Load()}, nil
}

// Reset makes every limit full that is kept for identity, which is a value that rules
// group by first, such as "ip:203.0.113.9" or "apikey:…". Slots stay held. It returns
// how many limits were not full.
func (c *Controller) Reset(ctx context.Context, identity string) (int, error) {
	return c.reset(ctx, ledger.Command{Op: ledger.Reset, Group: c.hash.sum(identity).hi})
}

// ResetAll makes every limit full. Slots stay held.
func (c *Controller) ResetAll(ctx context.Context) (int, error) {
	return c.reset(ctx, ledger.Command{Op: ledger.Reset, All: true})
}

func (c *Controller) reset(ctx context.Context, cmd ledger.Command) (int, error) {
	cmds, res := []ledger.Command{cmd}, make([]ledger.Result, 1)
	if err := c.store.Apply(ctx, cmds, res); err != nil {
		return 0, err
	}
	c.wakeLines(nil)
	return res[0].Count, nil
}

// Usage returns the levels of everything that is kept for identity and is not full. The
// levels have no rule names if their rules have gone.
func (c *Controller) Usage(ctx context.Context, identity string) ([]Level, error) {
	var levels []Level
	group := c.hash.sum(identity).hi
	for e, err := range c.store.Scan(ctx, group) {
		if err != nil {
			return levels, err
		}
		levels = append(levels, Level{
			Kind: e.Limit.Kind, Limit: e.Level.Max, Remaining: e.Level.Left,
			Next: e.Level.Next.Duration(), Full: e.Level.Full.Duration(),
		})
	}
	return levels, nil
}

// Close refuses further calls with [ErrClosed] and sends everybody in line away.
// Admissions can still be settled and released. It does not close the store.
func (c *Controller) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		if c.deafen != nil {
			c.deafen()
		}
		c.wakeLines(nil)
	}
	return nil
}
