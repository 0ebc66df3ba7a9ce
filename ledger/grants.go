package ledger

import "github.com/sluicegate/sluice/limit"

// A grant is the record of a Take that has an ID.
//
//	open ──settle──▶ settled ──release──▶ released ──retention──▶ forgotten
//	  └──────────────release─────────────────┘
type grant struct {
	at       limit.Micros
	ended    limit.Micros
	call     uint64
	steps    []Step
	used     []int64
	settled  bool
	released bool
}

// Grants are the records of one set of books. Settled and released grants are forgotten
// after a retention; open ones never. Grants is not safe for concurrent use.
type Grants struct {
	max       int
	retention limit.Micros
	byID      map[ID]*grant
	// ended holds released grants in the order in which they may be forgotten.
	ended []ended
}

type ended struct {
	id ID
	at limit.Micros
}

// NewGrants returns records for at most max grants, each remembered for retention after
// its release. max of zero keeps none: every Take with an ID is answered Full.
func NewGrants(max int, retention limit.Micros) *Grants {
	return &Grants{max: max, retention: retention, byID: make(map[ID]*grant)}
}

// Len returns how many grants are remembered.
func (g *Grants) Len() int { return len(g.byID) }

// Begin looks up the record of cmd, which has an ID. If that answers the command it
// fills res and returns done. If not it returns the steps whose cells [Run] is to
// change, for which the caller then calls [Grants.End].
func (g *Grants) Begin(cmd *Command, res *Result) (steps []Step, done bool) {
	g.forget(res.At)
	r := g.byID[cmd.ID]
	if cmd.Op == Take {
		return g.beginTake(cmd, r, res)
	}
	if r == nil {
		res.Status = Unknown
		return nil, true
	}
	switch {
	case cmd.Op == Find:
		r.describe(res)
		res.Status = Done
		return nil, true
	case cmd.Op == Settle && r.settled:
		res.Status = Replayed
		if !equal(r.used, cmd.Used) {
			res.Status = Conflict
		}
		return nil, true
	case cmd.Op == Settle && len(cmd.Used) != len(r.steps),
		cmd.Op == Void && r.settled && !r.released:
		res.Status = Conflict
		return nil, true
	case (cmd.Op == Release || cmd.Op == Void) && r.released:
		res.Status = Replayed
		return nil, true
	}
	cmd.At = r.at
	res.Status = Done
	return r.steps, false
}

func (g *Grants) beginTake(cmd *Command, r *grant, res *Result) ([]Step, bool) {
	switch {
	case r == nil && len(g.byID) >= g.max:
		res.Status = Full
		return nil, true
	case r == nil:
		return cmd.Steps, false
	case r.call != cmd.Call:
		res.Status = Conflict
	default:
		r.describe(res)
		res.Status = Replayed
		res.At = r.at
	}
	return nil, true
}

// End records what Run has done for cmd.
func (g *Grants) End(cmd *Command, res *Result) {
	if res.Status != Done {
		return
	}
	switch cmd.Op {
	case Take:
		g.byID[cmd.ID] = &grant{at: res.At, call: cmd.Call, steps: append([]Step(nil), cmd.Steps...)}
	case Settle:
		r := g.byID[cmd.ID]
		r.settled, r.used = true, append([]int64(nil), cmd.Used...)
	case Void:
		delete(g.byID, cmd.ID)
	case Release:
		r := g.byID[cmd.ID]
		r.released, r.ended = true, res.At
		g.ended = append(g.ended, ended{cmd.ID, res.At})
	}
}

// forget drops released grants whose retention is over.
func (g *Grants) forget(now limit.Micros) {
	for len(g.ended) > 0 && g.ended[0].at+g.retention <= now {
		delete(g.byID, g.ended[0].id)
		g.ended = g.ended[1:]
	}
}

func (r *grant) describe(res *Result) {
	res.Steps = append(res.Steps[:0], r.steps...)
	res.Settled, res.Released = r.settled, r.released
}

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
