package redis

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A request is the commands of one caller on their way. Its memory is its own: the caller
// may be gone when the answer comes.
type request struct {
	parts []part
	keys  []string
	steps []quickStep   // all of them, if all parts are quick ones; then there are no keys
	done  chan struct{} // receives once, when reply or err is set
	reply [][]byte      // what the script says to each part
	now   limit.Micros  // the time of the script
	err   error
	alone [1]*request      // the batch of itself
	left  atomic.Int32     // leftWaiting, leftGone or leftAnswered
	asked []ledger.Command // what the caller asked that has left
	then  func(*request)   // called when it has arrived from the outbox, if not nil
	// question is what the answer may teach.
	question question
}

// A part is one command of a request.
type part struct {
	blob []byte
	keys int // how many of the request's keys are its own
	// size is how long the answer is, if the command is a quick one; zero if the answer says.
	size int
	// again is true of what is to be given back: it is sent until it arrives.
	again bool
	// brief is the key of the record that the store itself keeps of a Take of slots.
	brief string
}

const (
	leftWaiting = iota
	leftGone    // the caller has left
	leftAnswered
)

var (
	requests = sync.Pool{New: func() any { return &request{done: make(chan struct{}, 1)} }}
	timers   = sync.Pool{New: func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}}
)

// newRequest writes cmds down.
func (s *Store) newRequest(cmds []ledger.Command, q question) *request {
	r := requests.Get().(*request)
	r.parts, r.keys, r.steps = r.parts[:0], r.keys[:0], r.steps[:0]
	r.err, r.question = nil, q
	r.left.Store(leftWaiting)
	quick := areQuick(cmds)
	for i := range cmds {
		cmd := &cmds[i]
		if q.again {
			own := *cmd
			own.Watch, own.Levels = maxRepeat+limit.MicrosOf(s.wait), true // from when the answer is here
			cmd = &own
		}
		if quick {
			r.writeQuick(cmd)
		} else {
			s.write(r, cmd)
		}
	}
	return r
}

// quick reports whether all of r's commands are quick ones.
func (r *request) quick() bool { return len(r.steps) > 0 }

// part returns a new part of r.
func (r *request) part() *part {
	if n := len(r.parts); n < cap(r.parts) {
		r.parts = r.parts[:n+1]
	} else {
		r.parts = append(r.parts, part{})
	}
	p := &r.parts[len(r.parts)-1]
	*p = part{blob: p.blob[:0]}
	return p
}

// write appends one command to r.
func (s *Store) write(r *request, cmd *ledger.Command) {
	p := r.part()
	flags, steps, before := byte(0), cmd.Steps, len(r.keys)
	if cmd.Levels {
		flags |= flagLevels
	}
	switch {
	case hasRecord(cmd):
		flags |= flagRecord
		r.keys = append(r.keys, s.recordKey(cmd.ID))
		p.again = cmd.Op == ledger.Release || cmd.Op == ledger.Free || cmd.Op == ledger.Void
	case cmd.Op == ledger.Take && hold(steps):
		p.brief = s.besideKey(groupOf(steps), anyID())
		own := *cmd
		own.Call = s.owner.id
		cmd = &own
	case cmd.Op == ledger.Release, cmd.Op == ledger.Free, cmd.Op == ledger.Void:
		p.brief = s.held.find(cmd)
		p.again = p.brief != "" || cmd.Op == ledger.Void || hold(steps)
		if p.brief == "" && p.again {
			flags |= flagRecord | flagOnce
			r.keys = append(r.keys, s.besideKey(groupOf(steps), anyID()))
		}
	}
	if p.brief != "" {
		flags |= flagRecord | flagBrief
		r.keys = append(r.keys, p.brief)
	}
	p.blob = appendCommand(p.blob, cmd, steps, flags)
	for i := range steps {
		r.keys = append(r.keys, s.cellKey(steps[i].Key))
	}
	p.keys = len(r.keys) - before
}

// writeAbout appends a command about the record of this key to r, or about none if key is
// empty.
func (s *Store) writeAbout(r *request, cmd *ledger.Command, key string, flags byte, again bool) {
	p := r.part()
	if cmd.Levels {
		flags |= flagLevels
	}
	if p.again = again; key != "" {
		flags |= flagRecord
		r.keys, p.keys = append(r.keys, key), 1
	}
	p.blob = appendCommand(p.blob, cmd, cmd.Steps, flags)
	if flags&flagRoot == 0 {
		for i := range cmd.Steps {
			r.keys = append(r.keys, s.cellKey(cmd.Steps[i].Key))
		}
		p.keys += len(cmd.Steps)
	}
}

// hasRecord reports whether cmd is about a grant with an ID.
func hasRecord(cmd *ledger.Command) bool {
	return !cmd.ID.Zero() && cmd.Op != ledger.Peek && cmd.Op != ledger.Cool
}

// groupOf is the group beside whose cells something about steps is remembered.
func groupOf(steps []ledger.Step) uint64 {
	if len(steps) == 0 {
		return 0
	}
	return steps[0].Key.Group
}

// hold reports whether steps take slots.
func hold(steps []ledger.Step) bool {
	for i := range steps {
		if steps[i].Limit.OnRelease() && steps[i].N > 0 {
			return true
		}
	}
	return false
}

func anyID() ledger.ID { return ledger.ID{Hi: rand.Uint64(), Lo: rand.Uint64() | 1} }

// answer hands the caller its answer. It reports false if the caller has left.
func (r *request) answer(err error) bool {
	r.err = err
	if !r.left.CompareAndSwap(leftWaiting, leftAnswered) {
		return false
	}
	r.done <- struct{}{}
	return true
}

// leave says that the caller does not wait any more, and what it had asked. It reports
// false if the answer has come.
func (r *request) leave(cmds []ledger.Command) bool {
	asked := slices.Clone(cmds)
	for i := range asked {
		asked[i].Steps = slices.Clone(asked[i].Steps)
	}
	r.asked = asked
	return r.left.CompareAndSwap(leftWaiting, leftGone)
}

// read reads the answers to cmds.
func (s *Store) read(r *request, cmds []ledger.Command, res []ledger.Result) error {
	for i := range cmds {
		res[i].Start(r.now)
		in := reader{rest: r.reply[i]}
		p := &r.parts[i]
		if p.size > 0 {
			in.readQuick(&cmds[i], &res[i])
		} else {
			in.readAnswer(&cmds[i], &res[i])
		}
		if in.bad {
			return errAnswer
		}
		s.refusals.note(r, i, &cmds[i], &res[i])
		if cmds[i].ID.Zero() && p.again {
			res[i].Status = ledger.Done // it had arrived before, if it was not done now
		}
		if p.brief != "" && cmds[i].Op == ledger.Take && res[i].Status == ledger.Done {
			s.held.add(&cmds[i], res[i].At, p.brief, false)
		}
	}
	return nil
}

// split gives each request of a batch its share of the script's answer.
func split(batch []*request, text string) error {
	in := reader{rest: []byte(text)}
	now := limit.Micros(read64(in.take(8)))
	for _, r := range batch {
		r.now, r.reply = now, r.reply[:0]
		for i := range r.parts {
			n := r.parts[i].size
			if n == 0 {
				n = int(binary.LittleEndian.Uint32(in.take(4)))
			}
			if n > len(in.rest) {
				return errAnswer
			}
			r.reply = append(r.reply, in.take(n))
		}
	}
	if in.bad || len(in.rest) > 0 {
		return errAnswer
	}
	return nil
}
