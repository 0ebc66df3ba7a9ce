// Package talkers finds the busiest callers among any number of them, in fixed memory.
//
// It is the Space-Saving algorithm (Metwally, Agrawal, El Abbadi: "Efficient
// Computation of Frequent and Top-k Elements in Data Streams", 2005) over small sets
// chosen by hash: a caller without a seat takes the seat of its set's quietest, and
// inherits that one's weight as possible error. What is shown is weight minus error,
// which is never more than what the caller really did. Weights fade, so that the list
// speaks of about the last minute.
package talkers

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	sets = 256 // times ways is how many callers have a seat
	ways = 8
	// unit is the weight of one call. It is large so that fading by whole numbers loses
	// nothing that matters.
	unit = 1 << 16
	// fade is the share of a weight that goes each second, 1/64. A steady rate r then
	// has a weight of 64r.
	fade = 64
	// NameMax is how many bytes of a name are kept.
	NameMax = 128
)

// Talkers counts callers. Use [New]. All methods are safe for concurrent use.
type Talkers struct {
	seed maphash.Seed
	sets [sets]set
}

// A set is the callers whose hashes share their low bits. Hits touch only the atomics;
// mu is held to give a seat to somebody else and to read names.
type set struct {
	hash  [ways]atomic.Uint64 // of the name in the seat; 0 is free
	mu    sync.Mutex
	seats [ways]seat
}

type seat struct {
	weight  atomic.Uint64
	refused atomic.Uint64
	rule    atomic.Pointer[string] // the last rule that refused
	err     uint64                 // weight inherited; under mu
	age     int64                  // seconds since it was taken; under mu
	full    int                    // the name's length before it was cut; under mu
	name    [NameMax]byte
}

// New returns Talkers with every seat free.
func New() *Talkers { return &Talkers{seed: maphash.MakeSeed()} }

// Count notes one call of name. If it was refused, rule points to the ID of the rule
// that did it; the pointer is kept. Count neither waits nor allocates: in the rare case
// that a seat is changing hands, a newcomer's call is left out.
func (t *Talkers) Count(name string, rule *string) {
	if name == "" {
		return
	}
	h := maphash.String(t.seed, name) | 1<<63 // never 0
	s := &t.sets[h%sets]
	for i := range s.hash {
		if s.hash[i].Load() == h {
			s.seats[i].count(rule)
			return
		}
	}
	if s.mu.TryLock() {
		s.seat(h, name).count(rule)
		s.mu.Unlock()
	}
}

func (s *seat) count(rule *string) {
	s.weight.Add(unit)
	if rule != nil {
		s.refused.Add(unit)
		if s.rule.Load() != rule {
			s.rule.Store(rule)
		}
	}
}

// seat gives name the seat of the quietest in the set. The caller holds s.mu.
func (s *set) seat(h uint64, name string) *seat {
	quiet := 0
	for i := range s.seats {
		if s.hash[i].Load() == h {
			return &s.seats[i] // it came in meanwhile
		}
		if s.seats[i].weight.Load() < s.seats[quiet].weight.Load() {
			quiet = i
		}
	}
	p := &s.seats[quiet]
	s.hash[quiet].Store(h)
	p.err = p.weight.Load()
	p.refused.Store(0)
	p.rule.Store(nil)
	p.age, p.full = 0, len(name)
	copy(p.name[:], name)
	return p
}

// Tick ends a second: weights fade. Call it once a second.
func (t *Talkers) Tick() {
	for i := range t.sets {
		s := &t.sets[i]
		s.mu.Lock()
		for j := range s.seats {
			p := &s.seats[j]
			// Taken off rather than stored, so that a hit in between is not lost.
			w, r := p.weight.Load(), p.refused.Load()
			p.weight.Add(-(w / fade))
			p.refused.Add(-(r / fade))
			p.err -= p.err / fade
			p.age++
		}
		s.mu.Unlock()
	}
}

// A Talker is one of the busiest callers.
type Talker struct {
	Name      string
	Truncated bool    // the name is longer than NameMax and its end is missing
	Rate      float64 // calls a second, averaged over about a minute
	Refused   float64 // of these, refused
	Rule      string  // the last rule that refused, if one did
}

// Top returns the k busiest callers, busiest first. Callers below one call in about two
// minutes are left out.
func (t *Talkers) Top(k int) []Talker {
	var all []Talker
	for i := range t.sets {
		s := &t.sets[i]
		s.mu.Lock()
		for j := range s.seats {
			if s.hash[j].Load() == 0 {
				continue
			}
			if v := s.seats[j].talker(); v.Rate >= 1.0/128 {
				all = append(all, v)
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Talker) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(k, len(all))]
}

// talker reads a seat. The caller holds its set's mu.
func (s *seat) talker() Talker {
	age := float64(max(s.age, 1))
	// A young seat has not had time to reach 64 times its rate; correct for that.
	scale := 1 / (unit * fade * (1 - math.Pow(1-1.0/fade, age)))
	v := Talker{
		Name:      string(s.name[:min(s.full, NameMax)]),
		Truncated: s.full > NameMax,
		Rate:      float64(s.weight.Load()-min(s.err, s.weight.Load())) * scale,
		Refused:   float64(s.refused.Load()) * scale,
	}
	v.Refused = min(v.Refused, v.Rate)
	if rule := s.rule.Load(); rule != nil {
		v.Rule = *rule
	}
	return v
}
