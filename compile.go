package sluice

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/resource"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A compiled is a Policy made ready for matching.
type compiled struct {
	source *Policy
	rules  []*rule
	// kinds and byKind hold, for each kind that some rule selects, the rules that a call
	// of that kind can match; anyKind those without a kind selector.
	kinds   []string
	byKind  [][]*rule
	anyKind []*rule
	// pools finds the limit that a step of a remembered grant belongs to.
	pools map[uint64]place
	// waits is true if some rule has a queue.
	waits bool
	// shares is true if some rule is decided by this process's share when the store fails.
	shares bool
	// holds is true if some rule has slots.
	holds bool
	// maxHold is true if some rule frees slots by itself.
	maxHold bool
	// calendars is true if some rule counts by the calendar.
	calendars bool
}

// A place is one limit of one rule.
type place struct {
	rule  *rule
	limit *ruleLimit
}

type rule struct {
	*Rule
	order  int // in the policy
	is     []selector
	not    []selector
	group  []Dimension
	limits []ruleLimit
	set    uint8 // of a shadow rule, from 1
	salt   uint64
	holds  bool          // some limit comes back at the release
	pace   limit.Micros  // longest pace interval, for cooldowns of unknown length
	line   *lines        // nil without a queue
	held   *atomic.Int64 // slots held by calls of this controller
}

type ruleLimit struct {
	limit.Limit
	// share is this process's part of it, for rules that fail local.
	share limit.Limit
	lease string // how units of it are taken ahead, in words; empty if they are not
	name  string
	unit  Unit
	salt  uint64
	// single is true if a call without a Cost takes one unit.
	single bool
	// window is the span in which the whole capacity comes back.
	window time.Duration
	step   ledger.Step // all but the key and the number of units
}

// A selector is one dimension of a Match.
type selector struct {
	dim      Dimension
	values   []string
	patterns []resource.Pattern
}

const (
	maxGroupBy    = 4
	maxShadowSets = 255
)

// compile checks p and makes it ready. All problems are reported together.
func (c *Controller) compile(p *Policy) (*compiled, error) {
	out := &compiled{source: p, pools: make(map[uint64]place)}
	var problems []error
	seen := make(map[string]bool)
	sets := 0
	for i := range p.Rules {
		r, err := c.compileRule(&p.Rules[i], i)
		if err == nil && seen[r.ID] {
			err = errors.New("another rule has the same id")
		}
		if err == nil && r.Shadow {
			if sets++; sets > maxShadowSets {
				err = fmt.Errorf("more than %d shadow rules", maxShadowSets)
			}
			r.set = uint8(sets)
		}
		if err != nil {
			problems = append(problems, ruleError(&p.Rules[i], i, err))
			continue
		}
		seen[r.ID] = true
		out.add(r)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	out.index()
	return out, nil
}

func ruleError(r *Rule, i int, err error) error {
	at := r.Source
	if at == "" {
		at = fmt.Sprintf("rule %d", i+1)
	}
	return fmt.Errorf("sluice: %s: rule %q: %w", at, r.ID, err)
}

func (c *Controller) compileRule(src *Rule, order int) (*rule, error) {
	if err := checkID(src.ID); err != nil {
		return nil, err
	}
	if len(src.Limits) == 0 {
		return nil, errors.New("no limits; a rule without one would do nothing")
	}
	if src.Lease < 0 || src.Lease > limit.MaxLease {
		return nil, fmt.Errorf("a lease of %d%% is none; at most %d%% of a limit can be given up", src.Lease, limit.MaxLease)
	}
	if len(src.GroupBy) > maxGroupBy {
		return nil, fmt.Errorf("groups by %d dimensions; at most %d", len(src.GroupBy), maxGroupBy)
	}
	r := &rule{Rule: src, order: order, salt: c.hash.sum("rule\x00" + src.ID).lo}
	r.held = c.heldOf(src.ID)
	var err error
	if r.is, err = selectors(src.Match.Is); err != nil {
		return nil, err
	}
	if r.not, err = selectors(src.Match.Not); err != nil {
		return nil, err
	}
	if r.group, err = groupOf(src.GroupBy); err != nil {
		return nil, err
	}
	if err := errors.Join(r.compileLimits(c), r.compileCalendar()); err != nil {
		return nil, err
	}
	if q := src.Queue; q != nil {
		if q.Depth != nil && *q.Depth < 0 || q.Timeout < 0 {
			return nil, errors.New("a queue's depth and time-out cannot be negative")
		}
		if q.FairBy != nil && q.FairBy.String() == "" {
			return nil, errors.New("the queue is fair by an unknown dimension")
		}
		r.line = c.room.linesOf(src.ID)
	}
	return r, nil
}

func (r *rule) compileLimits(c *Controller) error {
	names := make(map[string]bool)
	var leases []limit.Lease
	if c.leases {
		leases = r.Leases()
	}
	for i, l := range r.Limits {
		if err := l.Validate(); err != nil {
			return err
		}
		n := ruleLimit{Limit: l.Limit, name: l.Name, unit: l.Unit.named(), window: windowOf(l.Limit), share: l.Limit.Share(c.parts)}
		if n.name == "" {
			n.name = l.Kind.String()
		}
		if names[n.name] {
			return fmt.Errorf("two limits are called %q; give them names", n.name)
		}
		names[n.name] = true
		n.step = ledger.Step{Limit: l.Limit, Keep: r.Settle == Keep, Volatile: r.Volatile}
		if leases != nil {
			n.takeAhead(leases[i])
		}
		n.salt = c.hash.sum("limit\x00" + r.ID + "\x00" + n.name).lo
		if l.Kind == limit.KindPace {
			r.pace = max(r.pace, l.Per)
		}
		n.single = n.unit == Calls && r.Weights == nil
		r.holds = r.holds || l.OnRelease()
		r.limits = append(r.limits, n)
	}
	for capability, w := range r.Weights {
		if w < 0 {
			return fmt.Errorf("the weight of %q is negative", capability)
		}
	}
	return nil
}

// checkID reports why id cannot name a rule.
func checkID(id string) error {
	if id == "" || len(id) > 128 {
		return errors.New("an id has 1 to 128 characters")
	}
	for _, r := range id {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/*-", r)) {
			return fmt.Errorf("the character %q cannot stand in an id; use ASCII letters, digits and ._:/*-", r)
		}
	}
	return nil
}

// windowOf is the span in which the whole capacity of l comes back.
func windowOf(l limit.Limit) time.Duration {
	switch {
	case l.Kind == limit.KindSlots:
		return 0
	case l.Kind == limit.KindBucket && l.Max > 0:
		return limit.Micros((l.Burst*int64(l.Per) + l.Max - 1) / l.Max).Duration()
	}
	return l.Per.Duration()
}

func groupOf(dims []Dimension) ([]Dimension, error) {
	group := slices.Clone(dims)
	slices.Sort(group)
	for i, d := range group {
		if d.String() == "" {
			return nil, fmt.Errorf("groups by an unknown dimension %d", d)
		}
		if i > 0 && group[i-1] == d {
			return nil, fmt.Errorf("groups by %s twice", d)
		}
	}
	return group, nil
}

func selectors(m map[Dimension][]string) ([]selector, error) {
	var out []selector
	for d, values := range m {
		if d.String() == "" {
			return nil, fmt.Errorf("matches on an unknown dimension %d", d)
		}
		if len(values) == 0 {
			return nil, fmt.Errorf("the selector for %s has no values and can never match; leave it out to match everything", d)
		}
		s := selector{dim: d, values: values}
		if d == Resource {
			for _, v := range values {
				p, err := resource.Parse(v)
				if err != nil {
					return nil, err
				}
				s.patterns = append(s.patterns, p)
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b selector) int { return int(a.dim) - int(b.dim) })
	return out, nil
}

// match reports whether one of the selector's values is the call's.
func (s *selector) match(call *Call) bool {
	v := call.Get(s.dim)
	if s.dim == Resource {
		for i := range s.patterns {
			if s.patterns[i].Match(v) {
				return true
			}
		}
		return false
	}
	for _, want := range s.values {
		if want == v {
			return true
		}
		if s.dim == Subject && slices.Contains(call.Subjects, want) {
			return true
		}
	}
	return false
}

// match reports whether r is about call.
func (r *rule) match(call *Call) bool {
	for i := range r.is {
		if !r.is[i].match(call) {
			return false
		}
	}
	for i := range r.not {
		if r.not[i].match(call) {
			return false
		}
	}
	return true
}

func (p *compiled) add(r *rule) {
	p.rules = append(p.rules, r)
	p.shares = p.shares || r.OnStoreError == FailLocal
	p.waits = p.waits || r.line != nil
	p.holds = p.holds || r.holds
	p.maxHold = p.maxHold || r.MaxHold > 0
	p.calendars = p.calendars || r.Calendar != nil
	for i := range r.limits {
		l := &r.limits[i]
		l.step.Set, l.step.Pool = r.set, l.salt
		p.pools[l.salt] = place{r, l}
	}
}

// index sorts the rules by the kind of call they can match.
func (p *compiled) index() {
	for _, r := range p.rules {
		if k := r.kinds(); k != nil {
			for _, kind := range k {
				if !slices.Contains(p.kinds, kind) {
					p.kinds = append(p.kinds, kind)
				}
			}
		} else {
			p.anyKind = append(p.anyKind, r)
		}
	}
	p.byKind = make([][]*rule, len(p.kinds))
	for i, kind := range p.kinds {
		for _, r := range p.rules {
			if k := r.kinds(); k == nil || slices.Contains(k, kind) {
				p.byKind[i] = append(p.byKind[i], r)
			}
		}
	}
}

// kinds are the kinds that r selects, nil if it does not look at them.
func (r *rule) kinds() []string {
	for i := range r.is {
		if r.is[i].dim == Kind {
			return r.is[i].values
		}
	}
	return nil
}

// candidates are the rules that a call of this kind can match, in configuration order.
func (p *compiled) candidates(kind string) []*rule {
	for i, k := range p.kinds {
		if k == kind {
			return p.byKind[i]
		}
	}
	return p.anyKind
}

// cost is how many units call takes of l.
func (r *rule) cost(l *ruleLimit, call *Call) int64 {
	n := call.Cost.Of(l.unit)
	if l.unit == Calls && r.Weights != nil {
		if w, ok := r.Weights[call.Capability]; ok {
			return satMul(n, w)
		}
	}
	return n
}

// satMul multiplies what is not negative, without overflow.
func satMul(n, w int64) int64 {
	if w > 0 && n > limit.MaxCredits/w {
		return limit.MaxCredits
	}
	return n * w
}
