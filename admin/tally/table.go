package tally

import (
	"math"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// A table holds the counters of one policy's names. It is never changed: a new policy
// gets a new table, which takes over the counters of the names that stay.
type table struct {
	policy    *sluice.Policy
	rules     map[string]*Rule
	order     []*Rule // as in the policy, without Other
	tiers     map[string]*Tier
	tierOrder []*Tier // in order of appearance, Other and None last
	providers map[string]bool
	otherRule *Rule
	otherTier *Tier
}

func newTable(p *sluice.Policy, old *table) *table {
	t := &table{
		policy: p, rules: map[string]*Rule{}, tiers: map[string]*Tier{}, providers: map[string]bool{},
		otherRule: &Rule{ID: Other}, otherTier: &Tier{Name: Other},
	}
	if old != nil {
		t.otherRule, t.otherTier = old.otherRule, old.otherTier
	}
	if p != nil {
		for i := range p.Rules {
			t.add(&p.Rules[i], old)
		}
	}
	t.addTier(None, "", old)
	t.tierOrder = append(t.tierOrder, t.otherTier)
	return t
}

func (t *table) add(r *sluice.Rule, old *table) {
	if len(t.order) < maxNames {
		kept := &Rule{ID: r.ID}
		if old != nil && old.rules[r.ID] != nil {
			kept = old.rules[r.ID]
		}
		t.rules[r.ID] = kept
		t.order = append(t.order, kept)
	}
	for _, name := range r.Match.Is[sluice.Tier] {
		if len(t.tierOrder) < maxNames {
			t.addTier(name, name, old)
		}
	}
	for _, name := range r.Match.Is[sluice.Provider] {
		if len(t.providers) < maxNames {
			t.providers[name] = true
		}
	}
}

// addTier adds the tier that calls spell value and metrics spell name.
func (t *table) addTier(name, value string, old *table) {
	if t.tiers[value] != nil {
		return
	}
	kept := &Tier{Name: name}
	if old != nil && old.tiers[value] != nil {
		kept = old.tiers[value]
	}
	t.tiers[value] = kept
	t.tierOrder = append(t.tierOrder, kept)
}

func (t *table) rule(id string) *Rule {
	if r := t.rules[id]; r != nil {
		return r
	}
	return t.otherRule
}

func (t *table) tier(name string) *Tier {
	if r := t.tiers[name]; r != nil {
		return r
	}
	return t.otherTier
}

// A Rule is the counters of one rule.
type Rule struct {
	ID     string
	cells  [shards]ruleCell
	series ruleSeries // guarded by Tally.mu
}

// UsedBounds are the upper bounds of the histogram of used ÷ limit.
var UsedBounds = [...]float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1}

// ruleCell is two cache lines: outcomes, and how full the rule's limits were.
type ruleCell struct {
	outcome [8]atomic.Uint64 // by Outcome
	used    [7]atomic.Uint64 // by UsedBounds
	permill atomic.Uint64    // sum of all ratios, in thousandths
}

// use notes how much of a limit was in use when a call was decided.
func (c *ruleCell) use(l *sluice.Level) {
	if l.Kind == limit.KindCooldown || l.Limit <= 0 {
		return // a cooldown has no capacity, and of nothing no share is used
	}
	ratio := 1 - float64(l.Remaining)/float64(l.Limit)
	if l.Refused || ratio > 1 {
		ratio = 1
	}
	i := 0
	for i < len(UsedBounds)-1 && ratio > UsedBounds[i] {
		i++
	}
	c.used[i].Add(1)
	c.permill.Add(uint64(ratio*1000 + 0.5))
}

// Counts returns how many calls had each outcome under the rule.
func (r *Rule) Counts() Counts {
	var c Counts
	for s := range r.cells {
		for o := range c {
			c[o] += r.cells[s].outcome[o].Load()
		}
	}
	return c
}

// Used returns the histogram of used ÷ limit at the time of each decision: how many
// fell to each of [UsedBounds] (not cumulative), and the sum of all ratios.
func (r *Rule) Used() (counts [len(UsedBounds)]uint64, sum float64) {
	var permill uint64
	for s := range r.cells {
		for i := range counts {
			counts[i] += r.cells[s].used[i].Load()
		}
		permill += r.cells[s].permill.Load()
	}
	return counts, float64(permill) / 1000
}

// A Tier is the counters of one tier.
type Tier struct {
	Name  string
	cells [shards]tierCell
}

type tierCell struct {
	requests [len(KeyTypes)][Statuses]atomic.Uint64
	// last is what this shard's last request had left, below the number of the second
	// that it came in, from 1. Each shard has its own, because one for all would be
	// fought for by all cores.
	last atomic.Uint64
	_    [40]byte // keeps shards on cache lines of their own
}

func (t *Tier) count(shard, second uint32, e *sluice.Event, s Status) {
	cell := &t.cells[shard]
	cell.requests[keyType(e.Call.Subject)][s].Add(1)
	if n, ok := leastRemaining(e.Levels); ok {
		cell.last.Store(uint64(second+1)<<32 | uint64(min(n, math.MaxUint32)))
	}
}

// leastRemaining returns the fewest calls that any enforced rate has left.
func leastRemaining(levels []sluice.Level) (least int64, ok bool) {
	for i := range levels {
		l := &levels[i]
		if l.Shadow || l.Window == 0 || l.Unit != sluice.Calls && l.Unit != "" {
			continue
		}
		if !ok || l.Remaining < least {
			least, ok = l.Remaining, true
		}
	}
	return least, ok
}

// Requests returns how many requests had that kind of key, an index of [KeyTypes], and status.
func (t *Tier) Requests(key int, s Status) uint64 {
	var n uint64
	for i := range t.cells {
		n += t.cells[i].requests[key][s].Load()
	}
	return n
}

// Remaining returns the least that the latest requests of the tier had left, each under
// its tightest enforced rate: of the newest second that saw any, the last of each shard.
// Every key has a state of its own, so this is a sample, not a sum. It is false if no
// request of the tier has been seen.
func (t *Tier) Remaining() (int64, bool) {
	var second, least uint64
	for i := range t.cells {
		last := t.cells[i].last.Load()
		at, n := last>>32, last&math.MaxUint32
		if at > second || at == second && n < least {
			second, least = at, n
		}
	}
	return int64(least), second > 0
}

// Rules returns the policy's rules in its order.
func (t *Tally) Rules() []*Rule { return t.Refresh().order }

// OtherRule returns what was counted for rules that the policy does not know.
func (t *Tally) OtherRule() *Rule { return t.table.Load().otherRule }

// Tiers returns the policy's tiers, then None and Other.
func (t *Tally) Tiers() []*Tier { return t.Refresh().tierOrder }

// RuleName returns id if the policy knows it, and Other if not. The string stays where
// it is, so that its address may be kept.
func (t *Tally) RuleName(id string) *string { return &t.table.Load().rule(id).ID }

// ProviderName returns name if a rule of the policy selects it, and Other if not.
func (t *Tally) ProviderName(name string) string {
	if t.table.Load().providers[name] {
		return name
	}
	return Other
}
