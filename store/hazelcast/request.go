package hazelcast

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/ledger"
)

// A request is what one caller asks. Its memory is its own: the caller may be gone when
// it is carried out.
type request struct {
	keys []string
	cmds []ledger.Command
	res  []ledger.Result
	err  error
	done chan struct{} // closed when res or err is set, unless the caller has left
	left atomic.Int32  // leftWaiting, leftGone or leftAnswered
	// tried is what cmds have become in the attempt at hand.
	tried []ledger.Command
}

const (
	leftWaiting = iota
	leftGone    // the caller has left
	leftAnswered
)

func newRequest(cmds []ledger.Command) *request {
	r := &request{cmds: cloneCommands(cmds), done: make(chan struct{})}
	for i := range r.cmds {
		if cmd := &r.cmds[i]; hasRecord(cmd) {
			r.want(recordKey(cmd.ID))
		}
		for _, s := range r.cmds[i].Steps {
			r.want(cellKey(s.Key))
		}
	}
	return r
}

// want adds a key to those of r.
func (r *request) want(key string) {
	if !slices.Contains(r.keys, key) {
		r.keys = append(r.keys, key)
	}
}

func cloneCommands(cmds []ledger.Command) []ledger.Command {
	list := slices.Clone(cmds)
	for i := range list {
		cmd := &list[i]
		cmd.Steps, cmd.Used, cmd.Note = slices.Clone(cmd.Steps), slices.Clone(cmd.Used), slices.Clone(cmd.Note)
	}
	return list
}

// hasRecord reports whether cmd is about a record.
func hasRecord(cmd *ledger.Command) bool {
	return !cmd.ID.Zero() && cmd.Op != ledger.Peek && cmd.Op != ledger.Cool && cmd.Op != ledger.Reset
}

// givesBack reports whether cmd is carried out whether or not somebody waits for it.
func givesBack(cmd *ledger.Command) bool {
	return cmd.Op == ledger.Release || cmd.Op == ledger.Free || cmd.Op == ledger.Void
}

// lasts reports whether r is to be carried out although its caller has left.
func (r *request) lasts() bool {
	for i := range r.cmds {
		if givesBack(&r.cmds[i]) {
			return true
		}
	}
	return false
}

// over reports whether nobody waits for r any more and nothing of it lasts.
func (r *request) over() bool { return r.left.Load() == leftGone && !r.lasts() }

// leave ends the wait of the caller. It reports false if the answer has come.
func (r *request) leave() bool { return r.left.CompareAndSwap(leftWaiting, leftGone) }

// answer hands the caller its answer. It reports false if the caller has left.
func (r *request) answer(err error) bool {
	r.err = err
	if !r.left.CompareAndSwap(leftWaiting, leftAnswered) {
		return false
	}
	close(r.done)
	return true
}

// deliver copies the answers to where the caller wants them.
func (r *request) deliver(cmds []ledger.Command, res []ledger.Result) {
	for i := range cmds {
		res[i] = r.res[i]
		for j := range cmds[i].Steps {
			cmds[i].Steps[j].N = r.tried[i].Steps[j].N
		}
	}
}

// await waits for the answer to r for as long as the store's Wait, and ctx, allow.
func (s *Store) await(ctx context.Context, r *request) error {
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	var err error
	select {
	case <-r.done:
		return r.err
	case <-timer.C:
		err = s.late()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if r.leave() {
		return err
	}
	<-r.done // answered in this moment
	return r.err
}

// failed is what the caller of a request is told that was not answered in time: the
// results, if all of it will be carried out, or err.
func failed(cmds []ledger.Command, res []ledger.Result, err error) error {
	for i := range cmds {
		if !givesBack(&cmds[i]) {
			return err
		}
		res[i].Start(0)
	}
	return nil
}

// complainEvery is how often it is said that units stay taken, however many do.
const complainEvery = 10 * time.Second

// orphan gives back what was taken for a caller that had left. A Take with an ID stands.
func (s *Store) orphan(r *request) {
	var gone []ledger.Command
	for i := range r.tried {
		cmd := &r.tried[i]
		if cmd.Op == ledger.Take && cmd.ID.Zero() && r.res[i].Status == ledger.Done && len(cmd.Steps) > 0 {
			gone = append(gone, ledger.Command{Op: ledger.Void, Steps: cmd.Steps, At: r.res[i].At})
		}
	}
	if len(gone) > 0 {
		void := newRequest(gone)
		void.leave()
		if s.desk.submit(void) || s.closed.Load() {
			return
		}
		if kept, ok := s.tooMuch.Again(complainEvery); ok {
			s.log.Error("hazelcast: too much waits to be given back; units stay taken", "bound", maxQueued, "unsaid", kept)
		}
	}
}
