package hazelcast

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A pass carries out requests together: it reads the values of their keys, decides, and
// writes what has changed, all of it or nothing. If another process was faster it starts
// again.
type pass struct {
	keys     []string
	requests []*request
	after    []*request // what came when the pass was full
	blocked  int        // how many of its keys another pass works on
}

// An entry is a value of the map as this process knows it.
type entry struct {
	raw    []byte // as the map has it; nil if it has none
	value  *value
	cached bool      // it was not read, but remembered or guessed, and may not be so
	asked  time.Time // when it was read, or guessed that there is none
}

// A change is what a pass makes of one key.
type change struct {
	key  string
	from *entry
	next *value
}

// outcome is how an attempt ended.
type outcome uint8

const (
	committed outcome = iota
	beaten            // another process wrote first
	stale             // what was remembered does not do for these answers
	broken            // the store is closed, or the map holds what cannot be read
)

// run carries out a pass, and lets the desk know.
func (s *Store) run(p *pass) {
	var again []*request
	entries := make(map[string]*entry, len(p.keys))
	for attempt := 0; ; attempt++ {
		if attempt > 1 {
			time.Sleep(rand.N(time.Duration(min(attempt, 20)) * 100 * time.Microsecond))
		}
		if err := s.load(p, entries, attempt == 0); err != nil {
			s.answer(p.requests, err)
			break
		}
		p.requests = slices.DeleteFunc(p.requests, (*request).over)
		if len(p.requests) == 0 {
			break
		}
		var left []*request
		x := stamp{s.process, s.passes.Add(1)}
		end, err := s.attempt(p, x, entries, &left)
		if end == broken {
			s.answer(p.requests, err)
		}
		if end == committed || end == broken {
			again = left
			break
		}
		if end == stale || len(p.keys) > 1 {
			clear(entries) // else it is what the map has now
		}
	}
	s.cache.keep(entries)
	s.desk.end(p, again)
}

// attempt decides about the requests of p and writes what has changed. Those in again
// are about more keys than were read.
func (s *Store) attempt(p *pass, x stamp, entries map[string]*entry, again *[]*request) (outcome, error) {
	b := newBooks(s.timeAfter(entries), s.retention, entries)
	var decided []*request
	for _, r := range p.requests {
		if b.decide(r) {
			decided = append(decided, r)
		} else {
			*again = append(*again, r)
		}
	}
	if remembered(entries) && slices.ContainsFunc(decided, (*request).refused) {
		return stale, nil
	}
	changes := s.changes(b, x, entries)
	won, finish, err := s.commit(x, changes)
	if err != nil {
		return broken, err
	}
	if !won {
		return beaten, nil
	}
	s.answer(decided, nil)
	if finish != nil {
		finish()
	}
	return committed, nil
}

// timeAfter returns a time that is not before any of the writing of entries.
func (s *Store) timeAfter(entries map[string]*entry) limit.Micros {
	var last limit.Micros
	for _, e := range entries {
		if w := e.value.writers; len(w) > 0 {
			last = max(last, w[0].at)
		}
	}
	return s.clock.after(last)
}

// decide carries out the commands of r in b. It reports false, and has done nothing, if
// they are about keys that were not read.
func (b *books) decide(r *request) bool {
	for i := range r.cmds {
		if cmd := &r.cmds[i]; hasRecord(cmd) && !b.knows(r, cmd.ID) {
			return false
		}
	}
	r.tried, r.res = cloneCommands(r.cmds), make([]ledger.Result, len(r.cmds))
	for i := range r.tried {
		b.apply(r, &r.tried[i], &r.res[i])
	}
	return true
}

// refused reports whether an answer to r is more than that it was done: that has to be
// true now, and nothing is written that would tell.
func (r *request) refused() bool {
	for i := range r.res {
		if op := r.cmds[i].Op; r.res[i].Status != ledger.Done || op == ledger.Peek || op == ledger.Find || op == ledger.Reset {
			return true
		}
	}
	return false
}

// remembered reports whether an entry was not read from the map.
func remembered(entries map[string]*entry) bool {
	for _, e := range entries {
		if e.cached {
			return true
		}
	}
	return false
}

// changes are what the books say must be written.
func (s *Store) changes(b *books, x stamp, entries map[string]*entry) []change {
	var list []change
	for key := range b.changed {
		e := entries[key]
		list = append(list, change{key, e, &value{writers: e.value.stamped(x, b.now), state: b.state(key)}})
	}
	slices.SortFunc(list, func(a, b change) int { return slices.Compare([]byte(a.key), []byte(b.key)) })
	return list
}

// answer hands out the answers, and gives back what was taken for those that have left.
func (s *Store) answer(requests []*request, err error) {
	for _, r := range requests {
		if !r.answer(err) && err == nil {
			s.orphan(r)
		}
	}
}

// load sees to it that entries has all keys of p: it remembers them, guesses, or reads
// them. Nothing that another process has left half done is left in what was read.
func (s *Store) load(p *pass, entries map[string]*entry, guess bool) error {
	var ask []string
	for _, key := range p.keys {
		if _, known := entries[key]; known {
			continue
		}
		e := s.cache.get(key)
		if e == nil && (len(p.keys) == 1 || isRecord(key)) {
			// Most likely there is nothing. If there is, writing tells as fast as reading.
			e = &entry{value: &value{}, cached: true, asked: time.Now()}
		}
		if e != nil && guess {
			entries[key] = e
		} else {
			ask = append(ask, key)
		}
	}
	found, err := s.readAll(ask)
	if err != nil {
		return err
	}
	maps.Copy(entries, found)
	for key, e := range entries {
		if e.cached {
			continue
		}
		if err := s.settle(key, e); err != nil {
			return err
		}
		if m := e.value.mark; m != nil && m.process != s.process {
			if err := s.clean(m); err != nil {
				return err
			}
		}
		e.value.mark = nil // nothing is left of it
	}
	return nil
}
