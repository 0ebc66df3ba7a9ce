package redis

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/lately"
	"github.com/sluicegate/sluice/ledger"
)

// maxOutbox bounds what waits to be given back.
const maxOutbox = 100_000

// An outbox holds what has to reach the server: slots to be freed, takes to be undone.
// Each is marked so that the server knows it again, and is sent until it has arrived.
type outbox struct {
	mu      sync.Mutex
	list    []*request
	sending int // of what was in the list
	wake    chan struct{}
	ended   chan struct{}
	quit    context.CancelFunc

	tooMuch, refused lately.Said
}

// complainEvery is how often it is said that slots stay held, however many do.
const complainEvery = 10 * time.Second

func (o *outbox) start(s *Store) {
	ctx, quit := context.WithCancel(context.Background())
	o.wake, o.ended, o.quit = make(chan struct{}, 1), make(chan struct{}), quit
	go o.run(ctx, s)
}

// stop sends what is still in the box, until ctx ends, and reports whether all of it has
// arrived.
func (o *outbox) stop(ctx context.Context, s *Store) bool {
	o.quit()
	<-o.ended
	for ctx.Err() == nil && o.waiting() > 0 {
		if !o.send(ctx, s) {
			o.pause(ctx)
		}
	}
	return o.waiting() == 0
}

// add puts what of r is to be sent again into the box.
func (o *outbox) add(s *Store, r *request) {
	keys := 0
	for i := range r.parts {
		p := &r.parts[i]
		if p.again {
			o.put(s, &request{parts: []part{*p}, keys: r.keys[keys : keys+p.keys], then: r.then})
		}
		keys += p.keys
	}
}

func (o *outbox) put(s *Store, r *request) {
	o.mu.Lock()
	full := len(o.list) >= maxOutbox
	if !full {
		o.list = append(o.list, r)
	}
	o.mu.Unlock()
	if full {
		if kept, ok := o.tooMuch.Again(complainEvery); ok {
			s.log.Error("redis: too much waits to be given back; slots stay held", "bound", maxOutbox, "unsaid", kept)
		}
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run sends what is in the box, until ctx ends.
func (o *outbox) run(ctx context.Context, s *Store) {
	defer close(o.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		for ctx.Err() == nil && o.waiting() > 0 {
			if !o.send(ctx, s) {
				o.pause(ctx)
			}
		}
	}
}

// pause waits until it is worth to try again, or ctx ends.
func (o *outbox) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(probeEvery):
	}
}

// waiting is how much is in the box.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.list) + o.sending
}

// send sends what is in the box once, and reports whether all of it has arrived, or never
// can.
func (o *outbox) send(ctx context.Context, s *Store) bool {
	o.mu.Lock()
	all := o.list
	o.list, o.sending = nil, len(all)
	o.mu.Unlock()
	var left []*request
	for batch := range s.batches(all) {
		if ctx.Err() != nil || !s.deliver(ctx, batch) {
			left = append(left, batch...)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list, o.sending = append(left, o.list...), 0
	return len(left) == 0
}

// batches puts requests that one script call can carry together.
func (s *Store) batches(all []*request) iter.Seq[[]*request] {
	if s.nodes.cluster {
		slices.SortStableFunc(all, func(a, b *request) int { return cmp.Compare(s.slot(a), s.slot(b)) })
	}
	return func(yield func([]*request) bool) {
		for len(all) > 0 {
			n, slot := 1, s.slot(all[0])
			for n < min(len(all), maxParts) && s.slot(all[n]) == slot {
				n++
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// deliver sends a batch and reports whether it has arrived, or never can.
func (s *Store) deliver(ctx context.Context, batch []*request) bool {
	if s.nodes.of(s.slot(batch[0])).breaker.IsOpen() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	text, err := s.call(ctx, batch)
	if isDown(err) || isFull(err) {
		return false
	}
	if err == nil {
		err = split(batch, text)
	}
	if err != nil {
		if kept, ok := s.outbox.refused.Again(complainEvery); ok {
			s.log.Error("redis: the server refuses what is to be given back; slots stay held", "error", err, "commands", len(batch), "unsaid", kept)
		}
		return true
	}
	for _, r := range batch {
		if r.then != nil {
			r.then(r)
		}
	}
	return true
}

// forgotten looks after a request of which nobody knows whether it was carried out.
func (s *Store) forgotten(r *request) {
	s.outbox.add(s, r)
	for i := range r.parts {
		if p := &r.parts[i]; !p.again && p.brief != "" {
			s.undo(p.brief)
		}
	}
}

// undo gives back a Take of slots, whether it has arrived, will yet, or never does.
func (s *Store) undo(record string) {
	r := &request{keys: []string{record}}
	blob := appendCommand(nil, &ledger.Command{Op: ledger.Void}, nil, flagRecord|flagBrief)
	r.parts = []part{{blob: blob, keys: 1, again: true}}
	s.outbox.put(s, r)
}

// orphan looks after a request whose caller has left: what was taken for it is given
// back.
func (s *Store) orphan(r *request) {
	if isDown(r.err) || isFull(r.err) {
		s.forgotten(r)
	}
	if r.err != nil {
		return
	}
	if r.then != nil {
		r.then(r)
	}
	r.question = question{} // how old its refusal is nobody knows
	res := make([]ledger.Result, len(r.asked))
	if err := s.read(r, r.asked, res); err != nil {
		return
	}
	var gone []ledger.Command
	for i := range r.asked {
		cmd := &r.asked[i]
		if cmd.Op == ledger.Take && cmd.ID.Zero() && res[i].Status == ledger.Done && len(cmd.Steps) > 0 {
			gone = append(gone, ledger.Command{Op: ledger.Void, Steps: cmd.Steps, At: res[i].At})
		}
	}
	if len(gone) > 0 {
		s.outbox.add(s, s.newRequest(gone, question{}))
	}
}

// failed is what the caller of a request is told that was not answered: the results, if
// all of it will be sent again, or err.
func (r *request) failed(res []ledger.Result, err error) error {
	for i := range r.parts {
		if !r.parts[i].again {
			return err
		}
		res[i].Start(0)
	}
	return nil
}

// full answers commands that found the server's memory full.
func (s *Store) full(r *request, cmds []ledger.Command, res []ledger.Result, err error) error {
	s.outbox.add(s, r)
	for i := range cmds {
		if cmds[i].Op != ledger.Take && !r.parts[i].again {
			return err
		}
		res[i].Start(0)
		if cmds[i].Op == ledger.Take {
			res[i].Status = ledger.Full
		}
	}
	return nil
}
