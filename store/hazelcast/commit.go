package hazelcast

import (
	"errors"
	"sync"
	"time"
)

// errBeaten says that another process wrote first.
var errBeaten = errors.New("hazelcast: beaten")

// commit writes the changes of pass x, all of them or none. It reports false if another
// process was faster. A single change is one compare-and-set. Several are committed by
// the one of the first key, the primary:
//
//  1. Every other key gets an intent, beside the value it has.
//  2. The primary gets its new value, and a mark. With it all changes have happened.
//  3. Every intent is carried out: finish does so, after the callers have their answers.
//
// Whoever meets an intent before that asks the primary what became of it. See settle.
func (s *Store) commit(x stamp, changes []change) (won bool, finish func(), err error) {
	if len(changes) == 0 {
		return true, nil, nil
	}
	if len(changes) == 1 {
		c := &changes[0]
		won, err = s.set(c.key, c.from, c.next)
		return won, nil, err
	}
	primary, others := changes[0], changes[1:]
	held := make([]*entry, len(others))
	lost := s.prepare(x, primary.key, others, held)
	if lost == nil {
		marked := *primary.next
		marked.mark = &mark{stamp: x}
		for i := range others {
			marked.mark.keys = append(marked.mark.keys, others[i].key)
		}
		if won, err = s.set(primary.key, primary.from, &marked); won {
			return true, func() { s.finish(x, primary, others, held) }, nil
		}
	} else if lost != errBeaten {
		err = lost
	}
	s.each(others, func(i int, c *change) {
		if held[i] != nil {
			s.undo(c.key, held[i], x)
		}
	})
	return false, nil, err
}

// each calls f for every change at the same time, at most width at once.
func (s *Store) each(changes []change, f func(i int, c *change)) {
	const width = 32
	var wg sync.WaitGroup
	turns := make(chan struct{}, width)
	for i := range changes {
		turns <- struct{}{}
		wg.Go(func() {
			f(i, &changes[i])
			<-turns
		})
	}
	wg.Wait()
}

// prepare writes the intents, and what the map has then into held.
func (s *Store) prepare(x stamp, primary string, others []change, held []*entry) error {
	errs := make([]error, len(others))
	s.each(others, func(i int, c *change) {
		with := *c.from.value
		with.intent = &intent{stamp: x, primary: primary, next: c.next.encode()}
		switch won, err := s.set(c.key, c.from, &with); {
		case err != nil:
			errs[i] = err
		case !won:
			errs[i] = errBeaten
		default:
			held[i] = c.from
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// finish carries out the intents of x, which has committed. The next pass takes the mark
// away.
func (s *Store) finish(x stamp, primary change, others []change, held []*entry) {
	s.each(others, func(i int, c *change) {
		_ = s.forward(c.key, held[i], x) // fails if the store is closed: then another process does it
	})
	if s.ctx.Err() != nil {
		return
	}
	primary.from.value.mark = nil // whoever writes next leaves it out
	s.keepFor(primary.key, primary.from)
}

// forward carries out the intent of x in e, which is the value of key if nobody has
// touched it.
func (s *Store) forward(key string, e *entry, x stamp) error {
	for e.value.intent != nil && e.value.intent.stamp == x {
		next, err := decodeValue(e.value.intent.next)
		if err != nil {
			return err
		}
		if won, err := s.set(key, e, next); won || err != nil {
			return err
		}
		if err := s.reread(key, e); err != nil {
			return err
		}
	}
	return nil
}

// undo takes the intent of x in e back. The value is a newer one then: what was read
// before the intent shall not fit again.
func (s *Store) undo(key string, e *entry, x stamp) {
	for e.value.intent != nil && e.value.intent.stamp == x {
		bare := s.renewed(e.value)
		bare.intent = nil
		if won, err := s.set(key, e, bare); won || err != nil {
			return
		}
		if err := s.reread(key, e); err != nil {
			return
		}
	}
}

// renewed returns v as a new pass writes it.
func (s *Store) renewed(v *value) *value {
	c := *v
	c.writers = v.stamped(stamp{s.process, s.passes.Add(1)}, s.clock.now())
	return &c
}

// patience is how long another process's pass may be under way, seen from outside.
const patience = 20 * time.Millisecond

// settle frees e, the value of key, of an intent: it waits a moment for the process whose
// intent it is, and then carries it out if its pass has committed, or keeps the pass from
// ever doing so and takes the intent away.
func (s *Store) settle(key string, e *entry) error {
	for began := time.Now(); e.value.intent != nil; {
		primary := entry{value: &value{}}
		in := e.value.intent
		err := s.reread(in.primary, &primary)
		switch m := primary.value.mark; {
		case err != nil:
		case m != nil && m.stamp == in.stamp:
			err = s.forward(key, e, in.stamp)
		case time.Since(began) < patience:
			time.Sleep(patience / 40)
		default:
			err = s.fence(key, e, &primary)
		}
		if err == nil {
			err = s.reread(key, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fence makes a new value of the primary of the intent in e, so that its pass cannot
// commit any more, and then takes the intent away.
func (s *Store) fence(key string, e, primary *entry) error {
	in := e.value.intent
	if won, err := s.set(in.primary, primary, s.renewed(primary.value)); !won || err != nil {
		return err
	}
	s.undo(key, e, in.stamp)
	return nil
}

// clean carries out the intents that m is about.
func (s *Store) clean(m *mark) error {
	found, err := s.readAll(m.keys)
	for key, e := range found {
		if err == nil {
			err = s.forward(key, e, m.stamp)
		}
	}
	return err
}
