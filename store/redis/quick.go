package redis

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

const (
	maxQuick = 16   // steps of a command; more are compared with one another for too long
	maxSteps = 1024 // of a call; Lua bounds how many values it takes at once
)

// areQuick reports whether the script can carry out cmds without setting up all of
// itself.
func areQuick(cmds []ledger.Command) bool {
	steps := 0
	for i := range cmds {
		if !isQuick(&cmds[i]) {
			return false
		}
		steps += len(cmds[i].Steps)
	}
	return steps <= maxSteps
}

// isQuick reports whether cmd is a Take that leaves no record and whose verdicts depend
// on debts alone.
func isQuick(cmd *ledger.Command) bool {
	if cmd.Op != ledger.Take || !cmd.ID.Zero() || len(cmd.Steps) == 0 || len(cmd.Steps) > maxQuick {
		return false
	}
	for i := range cmd.Steps {
		s := &cmd.Steps[i]
		switch l := s.Limit; l.Kind {
		case limit.KindBucket, limit.KindPace:
			if s.N <= 0 || s.N > l.Capacity() || l.Validate() != nil {
				return false
			}
		case limit.KindCooldown:
		default:
			return false
		}
		for j := range i {
			if cmd.Steps[j].Key == s.Key {
				return false
			}
		}
		if s.Set != 0 {
			return false
		}
	}
	return true
}

// A quickStep is one step of a quick command.
type quickStep struct {
	key  ledger.Key
	take units
	more bool // the next step is of the same command
}

// units is how much a step takes of a limit.
type units struct {
	limit limit.Limit
	n     int64
	watch limit.Micros // how long its caller wants to be told, if it is refused
}

// appendWorked writes u with what the script need not work out.
func (u units) appendWorked(b []byte) []byte {
	rate, ceiling, ahead := u.limit.Terms()
	cost := int64(0)
	if u.limit.Kind != limit.KindCooldown {
		cost = u.n * int64(u.limit.Per)
	}
	b = appendDouble(appendDouble(appendLimit(b, u.limit), rate), cost)
	return appendDouble(appendDouble(appendDouble(b, ceiling), int64(ahead)), int64(u.watch))
}

// writeQuick appends a command that isQuick to r.
func (r *request) writeQuick(cmd *ledger.Command) {
	for i := range cmd.Steps {
		s := &cmd.Steps[i]
		r.steps = append(r.steps, quickStep{s.Key, units{s.Limit, s.N, cmd.Watch}, i+1 < len(cmd.Steps)})
	}
	r.part().size = len(cmd.Steps) * levelLen
}

// A sheet is a call of quick commands as it is written down: each cell and each limit
// once, and the steps by their numbers. FORMAT.md draws it.
type sheet struct {
	cells  map[ledger.Key]uint16
	takes  map[units]uint16
	limits []byte
	steps  []byte
	keys   []string
}

var sheets = sync.Pool{New: func() any { return newSheet() }}

func newSheet() *sheet {
	return &sheet{cells: make(map[ledger.Key]uint16), takes: make(map[units]uint16)}
}

func (w *sheet) clear() {
	clear(w.cells)
	clear(w.takes)
	w.limits, w.steps, w.keys = w.limits[:0], w.steps[:0], w.keys[:0]
}

// add writes the steps of a request down.
func (w *sheet) add(s *Store, r *request) {
	for i := range r.steps {
		q := &r.steps[i]
		cell, ok := w.cells[q.key]
		if !ok {
			cell = uint16(len(w.cells))
			w.cells[q.key] = cell
			w.keys = append(w.keys, s.cellKey(q.key))
		}
		take, ok := w.takes[q.take]
		if !ok {
			take = uint16(len(w.takes))
			w.takes[q.take] = take
			w.limits = q.take.appendWorked(w.limits)
		}
		w.steps = binary.LittleEndian.AppendUint16(w.steps, cell)
		w.steps = binary.LittleEndian.AppendUint16(w.steps, take)
		more := byte(0)
		if q.more {
			more = 1
		}
		w.steps = append(w.steps, more)
	}
}

// text is the argument of the call.
func (w *sheet) text() string {
	b := make([]byte, 0, 3+len(w.limits)+len(w.steps))
	b = binary.LittleEndian.AppendUint16(append(b, opQuick), uint16(len(w.takes)))
	return rueidis.BinaryString(append(append(b, w.limits...), w.steps...))
}

// callQuick sends a call of requests that are quick.
func (s *Store) callQuick(ctx context.Context, batch []*request) (string, error) {
	w := sheets.Get().(*sheet)
	defer sheets.Put(w)
	w.clear()
	for _, r := range batch {
		w.add(s, r)
	}
	return s.eval(ctx, w.keys, []string{w.text()})
}

// readQuick reads what became of cmd, which isQuick.
func (r *reader) readQuick(cmd *ledger.Command, res *ledger.Result) {
	all := r.rest
	for range cmd.Steps {
		if wait := readDouble(r.take(levelLen)); wait != -1 {
			res.Status = ledger.Refused
		}
	}
	if r.bad {
		return
	}
	for i := range cmd.Steps {
		b := all[i*levelLen:]
		if res.Status == ledger.Refused {
			wait := readDouble(b)
			res.Outcomes = append(res.Outcomes, limit.Verdict{OK: wait == -1, Wait: limit.Micros(max(0, wait))})
		}
		if cmd.Levels {
			cell := limit.Cell{At: limit.Micros(readDouble(b[8:])), Used: readDouble(b[16:])}
			res.Levels = append(res.Levels, cmd.Steps[i].Limit.Level(&cell, res.At))
		}
	}
}
