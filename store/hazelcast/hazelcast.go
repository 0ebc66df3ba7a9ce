// Package hazelcast keeps the books of many processes in a map of a Hazelcast cluster.
//
// A cluster carries out no code of ours, so a decision is made here: the values of its
// cells are read, the limits are asked, and the new values are written if nobody has
// written since. One cell is one compare-and-set. Several are committed together by one of
// them, and what a process leaves half done when it dies is carried out, or taken back, by
// whoever meets it next; nothing is ever locked. Decisions of this process about the
// same cells share one such pass, so a busy cell costs one pass at a time, not one a call.
//
// # Time
//
// The time is the cluster's, the master member's clock, asked for twice a second and told
// on from there by this process's own. It is never ahead of the cluster's, and behind it
// by less than a round trip and a millisecond. Two processes may differ by as much, and a
// cell goes by the later one: in a real span a limit may let pass what comes back in its
// length and that difference. A cell that a decision reads and does not change, as a cooldown
// that has ended, is not looked at again when the others are written: a cooldown that begins
// in this moment is met by the next call. If the cluster's clock is set, limits follow it, as they
// heal from a stamp that lies ahead.
//
// # When the cluster does not answer
//
// A command waits no longer than [Options.Wait]. After three failures in a row further
// commands fail at once with [ErrUnavailable], until a probe in the background is
// answered. One log line tells of either change.
//
// Every write bears the number of its pass. So a pass whose answer was lost finds out
// whether it was carried out, nothing is carried out twice, and a slot is neither lost nor
// freed twice as long as this process lives. What is to be given back is carried out
// when the cluster answers, which is why a Release does not fail; what was taken for a
// caller that gave up is given back.
//
// # What is lost
//
// What the cluster loses: with a backup, as is its default, nothing that was confirmed
// when one member dies. A cluster that falls apart in two decides in both halves. Slots
// that a process holds when it dies stay held; give calls that hold slots an ID, so that
// another process can resume and release them. The map must not evict and has to keep its
// values in binary form, which both is the default.
package hazelcast

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	hazelcast "github.com/hazelcast/hazelcast-go-client"

	"github.com/sluicegate/sluice/internal/breaker"
	"github.com/sluicegate/sluice/internal/lately"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// Options of a Store. Addresses alone is needed.
type Options struct {
	// Addresses are members of the cluster, as host:port; the others are found by
	// themselves. Without a port it is 5701.
	Addresses []string
	// Cluster is the cluster's name. Empty is "dev", as a member is called by default.
	Cluster string
	// User and Password are for a cluster that asks for them.
	User, Password string
	// TLS is how to speak TLS. Nil is not to. Its ServerName is what the certificate of
	// every member is for; empty is the host of the first address.
	TLS *tls.Config
	// Map is the map that keeps the books: at most 64 letters, digits and any of -_.: in
	// ASCII. Empty is "sluice".
	Map string
	// Wait is how long a command waits for its answer. Zero is 50 ms.
	Wait time.Duration
	// Retention is how long an admission with an ID is remembered after its release.
	// Zero is an hour.
	Retention time.Duration
	// Logger is told when the cluster stops answering and when it answers again. Nil is
	// silence.
	Logger *slog.Logger
}

// Errors of a Store.
var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("hazelcast: the store is closed")
	// ErrUnavailable is returned while the cluster is known not to answer. Nothing was
	// sent.
	ErrUnavailable = errors.New("hazelcast: the cluster does not answer")
	// ErrBusy is returned while more commands wait than the store has room for.
	ErrBusy = errors.New("hazelcast: too many commands wait")
	// ErrWait is wrapped by the error of a command that was not answered in time. It may
	// have been carried out.
	ErrWait = errors.New("hazelcast: no answer in time")
)

// A Store is a sluice.Store in a Hazelcast map. It is safe for concurrent use.
type Store struct {
	wait      time.Duration
	retention limit.Micros
	log       *slog.Logger
	client    *hazelcast.Client
	books     *hazelcast.Map
	process   uint64        // tells this Store from all others
	passes    atomic.Uint64 // the number of the last pass
	clock     clock
	desk      desk
	cache     cache
	broom     broom
	breaker   breaker.Breaker
	ctx       context.Context // ends with the store
	quit      context.CancelFunc
	closed    atomic.Bool
	tooMuch   lately.Said
}

// Open connects to the cluster, in ten seconds at most. Its errors are one line that says
// what is wrong and what to do.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Store{wait: o.Wait, retention: limit.MicrosOf(o.Retention), log: o.Logger, process: rand.Uint64()}
	s.clock.start = time.Now()
	s.ctx, s.quit = context.WithCancel(context.Background())
	s.desk.run, s.desk.slots = s.run, make(map[string]slot)
	s.cache.entries, s.broom.left = make(map[string]*entry), make(map[string]leftover)
	s.startBreaker()
	start, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if err := s.connect(start, o); err != nil {
		return nil, errors.Join(explain(err, o), s.Close())
	}
	return s, nil
}

// Close ends the store. It waits as long as a command does for what is to be given back;
// what cannot be given back stays held.
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.breaker.Stop()
	s.desk.close(s.wait)
	s.quit()
	if s.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.client.Shutdown(ctx); err != nil {
		return fmt.Errorf("hazelcast: leaving the cluster: %w", err)
	}
	return nil
}

// Apply implements sluice.Store. The commands of one call are carried out in one pass, if
// none of them is a Reset.
func (s *Store) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	for len(cmds) > 0 {
		n := 1
		if cmds[0].Op == ledger.Reset {
			if err := s.reset(ctx, &cmds[0], &res[0]); err != nil {
				return err
			}
		} else {
			for n < len(cmds) && cmds[n].Op != ledger.Reset {
				n++
			}
			if err := s.apply(ctx, cmds[:n], res[:n]); err != nil {
				return err
			}
		}
		cmds, res = cmds[n:], res[n:]
	}
	return nil
}

// apply carries out commands of which none is a Reset.
func (s *Store) apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	r := newRequest(cmds)
	err := s.send(ctx, r)
	if err == nil {
		r.deliver(cmds, res)
		return nil
	}
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrBusy) {
		return err
	}
	return failed(cmds, res, err)
}

// send brings r to the desk and waits for the answer.
func (s *Store) send(ctx context.Context, r *request) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if s.breaker.IsOpen() {
		r.leave()
		if r.lasts() && !s.desk.submit(r) {
			return ErrBusy
		}
		return ErrUnavailable
	}
	if !s.desk.submit(r) {
		return ErrBusy
	}
	return s.await(ctx, r)
}

// late is the error of a command that was not answered in time.
func (s *Store) late() error { return fmt.Errorf("%w: waited %v", ErrWait, s.wait) }
