package hazelcast

import (
	"slices"
	"sync"
	"time"
)

const (
	maxTogether = 256     // requests of one pass
	maxQueued   = 100_000 // requests that wait for a pass
)

// A desk gathers the requests of this process into passes, so that no two passes under
// way have a key in common, and requests that wait for the same keys share the next one.
// A request whose keys nobody works on starts at once.
type desk struct {
	run func(*pass)

	mu     sync.Mutex
	slots  map[string]slot
	queued int
	shut   bool
	idle   sync.WaitGroup // passes under way
}

// A slot says who works on a key, and who will next.
type slot struct{ running, forming *pass }

// submit puts r into a pass. It reports false if there is no room, or the desk is shut.
func (d *desk) submit(r *request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut || d.queued >= maxQueued {
		return false
	}
	d.queued++
	d.place(r)
	return true
}

// place finds the pass for r, with mu held. It returns the pass if it has not begun.
func (d *desk) place(r *request) *pass {
	var into *pass
	for _, k := range r.keys {
		switch f := d.slots[k].forming; {
		case f == nil || f == into:
		case into == nil:
			into = f
		default:
			into = d.merge(into, f)
		}
	}
	switch {
	case into != nil && into.full():
		into.after = append(into.after, r)
		return into
	case into == nil:
		into = &pass{}
	}
	into.requests = append(into.requests, r)
	for _, k := range r.keys {
		if s := d.slots[k]; s.forming != into {
			into.keys = append(into.keys, k)
			if s.running != nil {
				into.blocked++
			}
			d.slots[k] = slot{s.running, into}
		}
	}
	if into.blocked == 0 {
		d.start(into)
		return nil
	}
	return into
}

// full says that p takes no further request: those that come wait behind it, in order.
func (p *pass) full() bool { return len(p.requests) >= maxTogether || len(p.after) > 0 }

// merge makes one of two passes that have not begun.
func (d *desk) merge(a, b *pass) *pass {
	if len(a.keys) < len(b.keys) {
		a, b = b, a
	}
	for _, k := range b.keys {
		d.slots[k] = slot{d.slots[k].running, a}
	}
	a.keys = append(a.keys, b.keys...)
	a.requests = append(a.requests, b.requests...)
	a.after = append(a.after, b.after...)
	a.blocked += b.blocked
	return a
}

// start lets p begin, and forms the next pass of what waited behind it. What does not go
// into that one waits behind it in its turn.
func (d *desk) start(p *pass) {
	for _, k := range p.keys {
		d.slots[k] = slot{running: p}
	}
	d.queued -= len(p.requests)
	after := p.after
	p.after = nil
	d.idle.Add(1)
	go d.run(p)
	for len(after) > 0 {
		n := min(len(after), maxTogether)
		var behind *pass
		for _, r := range after[:n] {
			behind = d.place(r)
		}
		if after = after[n:]; behind != nil {
			behind.after = append(behind.after, after...)
			return
		}
	}
}

// end lets the next passes begin on the keys of p, and puts what could not be done yet
// at the end of the queue.
func (d *desk) end(p *pass, again []*request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ready []*pass
	for _, k := range p.keys {
		s := d.slots[k]
		if s.forming == nil {
			delete(d.slots, k)
			continue
		}
		d.slots[k] = slot{forming: s.forming}
		if s.forming.blocked--; s.forming.blocked == 0 && !slices.Contains(ready, s.forming) {
			ready = append(ready, s.forming)
		}
	}
	for _, next := range ready {
		d.start(next)
	}
	d.queued += len(again)
	for _, r := range again {
		d.place(r)
	}
	d.idle.Done()
}

// close lets no further request in, and waits for passes under way, but no longer than
// wait.
func (d *desk) close(wait time.Duration) {
	d.mu.Lock()
	d.shut = true
	d.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		d.idle.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(wait):
	}
}
