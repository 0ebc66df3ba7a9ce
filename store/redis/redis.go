// Package redis keeps the books of many processes in one Redis, or Valkey: a single
// server, one that a Sentinel names, or a Cluster.
//
// A decision is one round trip, whatever its number of limits: a script evaluates all of
// them at the server's own time and takes all or none. Decisions that are asked for at
// the same time share a script call, which is what makes a server carry more of them
// than scripts of their own would. Nothing is asked of a replica.
//
// # In a Cluster
//
// All cells of one caller are in one slot, and those that are shared by all in another. A
// decision that is about both takes in one slot after the other, what is shared last, and
// voids what it has taken if a later slot refuses: a round trip for each, and never more
// than the limits in any slot. What it may cost is a refusal: between a take and its void
// another call finds those units gone. A decision with an ID takes two round trips more,
// for a record of the whole in the slot of the ID.
//
// Each master has a breaker of its own: while one does not answer, what the others serve
// goes on, and a decision that needs both fails. The Store follows slots that move. While
// the keys of one are on their way, a decision about some that have left and some that
// have not waits for them.
//
// # When the server does not answer
//
// A command waits no longer than [Options.Wait]. After three failures in a row, none of
// them answered by the server, further commands fail at once with [ErrUnavailable], until
// a probe in the background is answered. One log line tells of either change.
//
// A command that failed may have been carried out or may be yet. The Store never sends one
// again, with two exceptions that a mark in the server makes safe: what is to be given back
// is sent until it has arrived, which is why a Release does not fail, and a Take of slots
// that was given up is undone, even if it arrives after that. So no slot is lost and none
// is freed twice, unless this process ends first. Units of a rate that were taken for a
// caller that gave up stay taken if the answer got lost; they come back with time.
//
// # What is lost
//
// What the server loses. A failover forgets what the old master had not told its replica
// yet: as many units as were taken in that moment may be taken again. The server must not
// evict: set its maxmemory-policy to noeviction. When its memory is full a Take is answered
// Full.
//
// Slots that a process holds without an ID when it dies are given back by the others, or
// by the next that starts, after [Options.Silence]. What has an ID stays held: any process
// can resume and release it.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/ledger"
)

// Options of a Store. URI alone is needed.
type Options struct {
	// URI is where the server is:
	//
	//	redis://[user:password@]host[:port][/database]
	//	rediss://…                            the same over TLS
	//	unix:///path/to/socket[?db=0]
	//	redis://…?master_set=NAME             the master that a Sentinel at the host names
	//
	// A node of a Cluster says that it is one and leads to the others; any of them will do.
	// Further addresses are added as &addr=host:port.
	URI string
	// TLS is used with rediss, for certificates that the system does not know. Nil is the
	// system's.
	TLS *tls.Config
	// Prefix begins every key, so that several books fit in one database: at most 64
	// letters, digits and any of -_.: in ASCII. Empty is "sluice:".
	Prefix string
	// Wait is how long a command waits for its answer. Zero is 20 ms. Up to 50 ms it may
	// do so even if its context ends before.
	Wait time.Duration
	// Retention is how long an admission with an ID is remembered after its release.
	// Zero is an hour.
	Retention time.Duration
	// Silence is how long nothing may be heard of a process in the server until it is
	// taken for dead, and the slots that it holds without an ID are given back. Zero is
	// 30 s; they are back within a third more. All who share the books should say the same.
	Silence time.Duration
	// AskAlways sends every Take to the server. Otherwise one that the server has refused
	// twice within a second is refused without asking it while nothing is heard of that
	// might change it, for a quarter of a second at most.
	AskAlways bool
	// Logger is told when the server stops answering and when it answers again, and of
	// processes that have died. Nil is silence.
	Logger *slog.Logger
}

// Errors of a Store.
var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("redis: the store is closed")
	// ErrUnavailable is returned while the server is known not to answer. Nothing was
	// sent.
	ErrUnavailable = errors.New("redis: the server does not answer")
	// ErrWait is wrapped by the error of a command that was not answered in time. It may
	// have been carried out.
	ErrWait = errors.New("redis: no answer in time")
)

// A Store is a sluice.Store in a Redis server. It is safe for concurrent use.
type Store struct {
	prefix  string
	wait    time.Duration
	log     *slog.Logger
	nodes   nodes
	script  script
	lanes   [][2]lane // for each slot, of requests that are quick, and of all others
	outbox  outbox
	held    held[string]      // the keys of the records of slots
	times   held[[]pieceTime] // of grants in several slots of a Cluster
	channel channel
	// refusals are nil if the server is asked always.
	refusals *refusals
	owner    owner
	figures  atomic.Pointer[Figures]
	closed   atomic.Bool

	looking sync.WaitGroup // the rounds
	quit    context.CancelFunc
}

// Open connects to the server. Its errors are one line that says what is wrong and what
// to do.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = "sluice:"
	}
	if o.Wait <= 0 {
		o.Wait = 20 * time.Millisecond
	}
	if o.Retention <= 0 {
		o.Retention = time.Hour
	}
	if o.Silence <= 0 {
		o.Silence = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := checkPrefix(o.Prefix); err != nil {
		return nil, err
	}
	s := &Store{
		prefix: o.Prefix, wait: o.Wait, log: o.Logger,
		script: newScript(scriptText(serverTime, o.Prefix, o.Retention)),
		owner:  newOwner(),
	}
	if err := s.connect(ctx, o); err != nil {
		return nil, err
	}
	s.outbox.start(s)
	s.channel.start(s)
	if !o.AskAlways {
		s.refusals = new(refusals)
		s.refusals.listen(s)
	}
	err := s.probeAll(ctx)
	if err == nil {
		err = s.round(ctx) // before anything is taken, so that the others know of it
	}
	if err != nil {
		return nil, errors.Join(explain(err, o), s.Close())
	}
	s.lookAround(ctx)
	s.startRounds(o.Silence / still)
	return s, nil
}

// connect finds the servers.
func (s *Store) connect(ctx context.Context, o Options) error {
	d, err := newDialer(o)
	if err != nil {
		return err
	}
	client, addr, cluster, err := d.first(ctx)
	if err != nil {
		return err
	}
	n := &s.nodes
	n.open = func(addr string) *node {
		one := &node{addr: addr, dialing: make(chan struct{}, 1)}
		one.dial = func(ctx context.Context) (rueidis.Client, error) {
			client, _, err := d.to(ctx, addr)
			return client, err
		}
		s.startBreaker(one)
		return one
	}
	count := 1
	if cluster {
		n.cluster, n.seeds, count = true, d.seeds, slots
	} else if addr != "" {
		d.client.InitAddress, addr = []string{addr}, ""
	}
	only := n.open(addr)
	only.client.Store(&client)
	n.byAddr, n.slots = map[string]*node{addr: only}, make([]atomic.Pointer[node], count)
	s.lanes = make([][2]lane, count)
	for slot := range count {
		n.slots[slot].Store(only)
		s.lanes[slot][0].fly, s.lanes[slot][1].fly = s.fly, s.fly
	}
	if !cluster {
		return nil
	}
	if err := n.refresh(ctx); err != nil {
		n.close()
		return explain(err, o)
	}
	return nil
}

// closeWait bounds how long Close tries to bring what is to be given back.
const closeWait = 2 * time.Second

// Close ends the store. It tries to bring what is to be given back to the server first, for
// two seconds. What is held then is given back by other processes, as if this one
// had died.
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.channel.stop()
	s.stopRounds()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if s.outbox.stop(ctx, s) && s.held.none() {
		s.leave(ctx)
	}
	s.nodes.close()
	return nil
}

// Apply implements sluice.Store. The commands of one call are carried out in one script
// call, if none of them is a Reset and all are about one slot of a Cluster.
func (s *Store) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	s.refusals.begin(cmds)
	defer s.refusals.end(cmds)
	for len(cmds) > 0 {
		n, err := s.applyFirst(ctx, cmds, res)
		if err != nil {
			return err
		}
		cmds, res = cmds[n:], res[n:]
	}
	return nil
}

// applyFirst carries out the first of cmds that one script call can carry, and returns how
// many.
func (s *Store) applyFirst(ctx context.Context, cmds []ledger.Command, res []ledger.Result) (int, error) {
	if cmds[0].Op == ledger.Reset {
		return 1, s.reset(ctx, &cmds[0], &res[0])
	}
	slot, one := s.place(&cmds[0])
	if !one {
		return 1, s.across(ctx, &cmds[0], &res[0])
	}
	n := 1
	for n < len(cmds) && cmds[n].Op != ledger.Reset {
		if next, one := s.place(&cmds[n]); !one || next != slot {
			break
		}
		n++
	}
	return n, s.apply(ctx, cmds[:n], res[:n])
}

// apply carries out commands of which none is a Reset.
func (s *Store) apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	if s.closed.Load() {
		return ErrClosed
	}
	at := s.nodes.of(s.slotOfCommands(cmds))
	var q question
	if s.refusals.recall(cmds, res, &q) && !at.breaker.IsOpen() {
		return nil
	}
	r := s.newRequest(cmds, q)
	if at.breaker.IsOpen() {
		s.outbox.add(s, r)
		return r.failed(res, ErrUnavailable)
	}
	s.laneOf(r).send(r, ctx.Done() == nil || s.wait <= patience)
	err := s.await(ctx, r, cmds)
	switch {
	case err == nil:
		err = s.read(r, cmds, res)
		requests.Put(r)
		return err
	case r.left.Load() == leftGone: // who brings the answer looks after it
	case isDown(err):
		s.forgotten(r)
	case isFull(err):
		return s.full(r, cmds, res, err)
	default:
		return err
	}
	return r.failed(res, err)
}

// await waits for the answer to r, for a bounded time.
func (s *Store) await(ctx context.Context, r *request, cmds []ledger.Command) error {
	select {
	case <-r.done:
		return r.err
	default:
	}
	timer := timers.Get().(*time.Timer)
	timer.Reset(s.wait)
	defer func() {
		timer.Stop()
		timers.Put(timer)
	}()
	var err error
	select {
	case <-r.done:
		return r.err
	case <-timer.C:
		err = s.late()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if r.leave(cmds) {
		return err
	}
	<-r.done // answered in this moment
	return r.err
}

// late is the error of a command that was not answered in time.
func (s *Store) late() error { return fmt.Errorf("%w: waited %v", ErrWait, s.wait) }
