package redis

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// What is here repeats refusals. Most of what a busy server is asked it has just been
// asked, by callers who do not wait; they are told again what the server said, by the
// same arithmetic on the same cells, at the time that it is by now.
//
// A refusal is repeated only as long as nothing is known that could change it:
//
//   - The server tells when something comes back to a cell that refuses: with the second
//     Take of the same cells that it refuses this process has them watched. While the
//     subscription is down nothing is repeated.
//   - What this process itself gives back, takes or resets is known at once, and also
//     while that is under way.
//   - A step that would be refused by a cell which let it pass before is asked for.
//   - After maxRepeat the server is asked in any case, because messages can get lost.
//
// What is taken meanwhile makes no refusal wrong, and a wait at most too short, as it
// does for whoever was told to wait by the server. Takes of other processes are not known
// here, and of a cell that let the Take pass is told what it was then.

const (
	// maxRepeat is how long a refusal is repeated at most.
	maxRepeat = 250 * limit.Millisecond
	// recent is how long a refusal is remembered, to have the cells watched if it happens
	// again. A caller who is refused but once costs the server nothing.
	recent = limit.Second

	maxRefusals   = 4096 // that are remembered; one takes the place of another by chance
	maxRemembered = 8    // steps of one
	cellEpochs    = 4096 // that cells share
)

// refusals are those that may be repeated. None are if it is nil.
type refusals struct {
	table  [maxRefusals]atomic.Pointer[refusal]
	epochs [cellEpochs]epoch // of cells
	all    epoch             // of all cells
	heard  atomic.Bool       // the server tells
	latest atomic.Int64      // the latest time that anybody was told
}

// A refusal is what the server said to a Take.
type refusal struct {
	sum   uint64       // of the cells that the Take was about
	at    time.Time    // when the answer was here
	now   limit.Micros // the server's time
	all   uint64       // the epoch of all cells before it was asked
	steps []refusedStep
}

// A refusedStep is one step of a Take that was refused, be it by this cell or by others.
type refusedStep struct {
	step    ledger.Step
	verdict limit.Verdict
	epoch   uint64      // of the cell, before the server was asked
	cell    limit.Cell  // if it is none of a window
	level   limit.Level // if it is one of a window, whose log stays in the server
}

// A question is a Take that is sent, and whose refusal may be repeated.
type question struct {
	asked  bool // there is one
	again  bool // and it was refused lately
	sum    uint64
	all    uint64
	epochs [maxRemembered]uint64
}

// An epoch counts what may have changed the verdict of some cells: in its low bits what is under
// way, above them what has ended.
type epoch struct{ atomic.Uint64 }

const oneEnded = 1 << 24

func (e *epoch) begin() { e.Add(1) }
func (e *epoch) end()   { e.Add(oneEnded - 1) }
func (e *epoch) pass()  { e.Add(oneEnded) }

// quiet reports whether nothing was under way at v.
func quiet(v uint64) bool { return v%oneEnded == 0 }

func (f *refusals) epoch(k ledger.Key) *epoch { return &f.epochs[(k.Cell^k.Group)%cellEpochs] }

// listen lets s tell f what other processes give back.
func (f *refusals) listen(s *Store) {
	s.Watch(func(k ledger.Key) { f.epoch(k).pass() }, func(works bool) {
		f.heard.Store(works)
		f.all.pass()
	})
}

// steady returns now, or the latest time that anybody was told if that is later.
func (f *refusals) steady(now limit.Micros) limit.Micros {
	for {
		v := f.latest.Load()
		if int64(now) <= v {
			return limit.Micros(v)
		}
		if f.latest.CompareAndSwap(v, int64(now)) {
			return now
		}
	}
}

// saw notes a time that the server has said.
func (f *refusals) saw(now limit.Micros) {
	if f != nil {
		f.steady(now)
	}
}

// begin notes that cmds are sent.
func (f *refusals) begin(cmds []ledger.Command) { f.count(cmds, (*epoch).begin) }

// end notes that they have been carried out, or that nobody knows.
func (f *refusals) end(cmds []ledger.Command) { f.count(cmds, (*epoch).end) }

// count counts those of cmds by which something may come back, or more be refused.
func (f *refusals) count(cmds []ledger.Command, by func(*epoch)) {
	if f == nil {
		return
	}
	for i := range cmds {
		switch cmd := &cmds[i]; {
		case cmd.Op == ledger.Take, cmd.Op == ledger.Peek, cmd.Op == ledger.Find:
		case cmd.Op == ledger.Reset, cmd.Op == ledger.Cool, len(cmd.Steps) == 0:
			by(&f.all)
		default:
			for j := range cmd.Steps {
				by(f.epoch(cmd.Steps[j].Key))
			}
		}
	}
}

// recall answers cmds by a refusal that may be repeated. If there is none it reports
// false, and q is to be asked.
func (f *refusals) recall(cmds []ledger.Command, res []ledger.Result, q *question) bool {
	if f == nil || !f.heard.Load() || len(cmds) != 1 || !mayRepeat(&cmds[0]) {
		return false
	}
	cmd := &cmds[0]
	q.asked, q.sum = true, sumOf(cmd.Steps)
	if last := f.table[q.sum%maxRefusals].Load(); last != nil && last.sum == q.sum {
		passed := aged(last.at)
		if passed < maxRepeat && f.repeat(last, passed, cmd, &res[0]) {
			return true
		}
		q.again = passed < recent
	}
	q.all = f.all.Load()
	for i := range cmd.Steps {
		q.epochs[i] = f.epoch(cmd.Steps[i].Key).Load()
	}
	return false
}

// sumOf tells the cells of steps from others.
func sumOf(steps []ledger.Step) (sum uint64) {
	for i := range steps {
		hi, lo := bits.Mul64(sum^steps[i].Key.Cell^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
		sum = hi ^ lo
	}
	return sum
}

// aged is how much older a refusal is by the server's clock, which may be slower than
// ours by a thousandth: nobody is told too short a wait.
func aged(at time.Time) limit.Micros {
	passed := limit.Micros(time.Since(at) / time.Microsecond)
	return passed - passed/1000
}

// mayRepeat reports whether the refusal of cmd may be repeated. Of a command with an ID
// the server may have a record, and who wants to be told must reach it.
func mayRepeat(cmd *ledger.Command) bool {
	n := len(cmd.Steps)
	return cmd.Op == ledger.Take && cmd.ID.Zero() && cmd.Watch == 0 && n > 0 && n <= maxRemembered
}

// repeat answers cmd by what was refused some time ago, if that is still so.
func (f *refusals) repeat(last *refusal, passed limit.Micros, cmd *ledger.Command, res *ledger.Result) bool {
	if len(last.steps) != len(cmd.Steps) || last.all != f.all.Load() {
		return false
	}
	now := last.now + passed
	res.Start(f.steady(now))
	for i := range last.steps {
		k, s := &last.steps[i], &cmd.Steps[i]
		v, ok := k.verdictAt(now, passed, s)
		if !ok || !v.OK && k.epoch != f.epoch(s.Key).Load() {
			return false
		}
		if !v.OK && s.Set == 0 {
			res.Status = ledger.Refused
		}
		res.Outcomes = append(res.Outcomes, v)
		if cmd.Levels {
			res.Levels = append(res.Levels, k.levelAt(now, passed))
		}
	}
	return res.Status == ledger.Refused
}

// verdictAt is what the cell says to s by now, if that is known.
func (k *refusedStep) verdictAt(now, passed limit.Micros, s *ledger.Step) (v limit.Verdict, ok bool) {
	if s.Key != k.step.Key || s.Limit != k.step.Limit || s.Set != k.step.Set {
		return v, false
	}
	if s.Limit.Kind == limit.KindWindow {
		v = k.verdict
		if s.N != k.step.N || k.level.Next > 0 && passed >= k.level.Next {
			return v, false
		}
		if v.Wait > 0 {
			v.Wait -= passed
		}
		return v, v.OK || v.Never || v.Wait > 0
	}
	v = s.Limit.Fit(&k.cell, now, s.N)
	return v, v.OK || !k.verdict.OK
}

// levelAt is where the cell stands by now, if nobody has taken from it.
func (k *refusedStep) levelAt(now, passed limit.Micros) limit.Level {
	if k.step.Limit.Kind != limit.KindWindow {
		return k.step.Limit.Level(&k.cell, now)
	}
	v := k.level
	v.Next, v.Full = max(0, v.Next-passed), max(0, v.Full-passed)
	return v
}

// note notes what became of cmd, the i-th that r has asked.
func (f *refusals) note(r *request, i int, cmd *ledger.Command, res *ledger.Result) {
	switch q := &r.question; {
	case f == nil || cmd.Op != ledger.Take:
	case res.Status == ledger.Done: // others have to wait longer
		for j := range cmd.Steps {
			f.epoch(cmd.Steps[j].Key).pass()
		}
	case res.Status == ledger.Refused && i == 0 && q.asked:
		last := &refusal{sum: q.sum, at: time.Now(), now: r.now, all: q.all}
		if q.again && quiet(q.all) {
			last.steps = refusedSteps(r, cmd, res)
		}
		f.table[q.sum%maxRefusals].Store(last)
	}
}

// refusedSteps are the steps of cmd, with the state of their cells, which the server says
// at the end of its answer. There are none if they cannot be judged one by one, or
// something was being given back.
func refusedSteps(r *request, cmd *ledger.Command, res *ledger.Result) []refusedStep {
	n := len(cmd.Steps)
	said := reader{rest: r.reply[0][max(0, len(r.reply[0])-n*levelLen):]}
	steps := make([]refusedStep, n)
	for i := range steps {
		k := &steps[i]
		*k = refusedStep{step: cmd.Steps[i], verdict: res.Outcomes[i], epoch: r.question.epochs[i]}
		if !k.verdict.OK && !quiet(k.epoch) {
			return nil
		}
		for j := range i {
			if steps[j].step.Key == k.step.Key {
				return nil
			}
		}
		b := said.take(levelLen)
		switch at, used := readDouble(b), readDouble(b[8:]); {
		case k.step.Limit.Kind == limit.KindWindow:
			k.level = readLevel(b, k.step.Limit, r.now)
		case r.parts[0].size > 0: // the verdict stands before the state
			k.cell = limit.Cell{At: limit.Micros(used), Used: readDouble(b[16:])}
		default:
			k.cell = limit.Cell{At: limit.Micros(at), Used: used}
		}
	}
	return steps
}
