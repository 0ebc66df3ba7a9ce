package redis

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// How a command is written for the script, and its answer read. FORMAT.md draws both.
// All numbers are little-endian; a limit's are cut to 7 bytes, beyond which no valid one
// goes.

const (
	flagLevels = 1 << iota // answer with levels
	flagRecord             // the first key is a record's
	flagBrief              // the record is the store's own and soon forgotten
	flagOnce               // the record only marks that the command has arrived
	flagRoot               // the record is a root; the steps bring the names of their cells
	flagPart               // the record is a part; Call is the life of its grant
	flagTerms              // Calls and Expires follow; of a part, when it may be forgotten
	flagWords              // Outcome, WhileHeld and Note follow
)

const (
	opScan   = 9 // beyond the ops of the ledger
	opQuick  = 10
	opCommit = 11 // of a root, and those that follow
	opAbort  = 12
	opForget = 13
	opList   = 14
)

// largest is the largest number of a limit that is written; a double holds it exactly.
const largest = 1 << 53

func append56(b []byte, v int64) []byte {
	u := uint64(min(v, largest))
	return append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24), byte(u>>32), byte(u>>40), byte(u>>48))
}

func read56(b []byte) int64 {
	u := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48
	return int64(u<<8) >> 8
}

func append64(b []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(v)) }

func appendDouble(b []byte, v int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
}

func readDouble(b []byte) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64(b)))
}

func read64(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }

const (
	markLen  = 1 + 3*7
	stepLen  = markLen + 8 + 2 + 8
	levelLen = 3 * 8
)

func appendLimit(b []byte, l limit.Limit) []byte {
	b = append56(append(b, byte(l.Kind)), l.Max)
	return append56(append56(b, int64(l.Per)), l.Burst)
}

func readLimit(b []byte) limit.Limit {
	return limit.Limit{
		Kind: limit.Kind(b[0]), Max: read56(b[1:]), Per: limit.Micros(read56(b[8:])), Burst: read56(b[15:]),
	}
}

func appendStep(b []byte, s *ledger.Step) []byte {
	b = append64(appendLimit(b, s.Limit), s.N)
	keep := byte(0)
	if s.Keep {
		keep |= 1
	}
	if s.Volatile {
		keep |= 2
	}
	return binary.LittleEndian.AppendUint64(append(b, s.Set, keep), s.Pool)
}

func readStep(b []byte) ledger.Step {
	keep := b[markLen+9]
	return ledger.Step{
		Limit: readLimit(b), N: read64(b[markLen:]), Set: b[markLen+8],
		Keep: keep&1 != 0, Volatile: keep&2 != 0, Pool: uint64(read64(b[markLen+10:])),
	}
}

// appendCommand writes cmd with these steps.
func appendCommand(b []byte, cmd *ledger.Command, steps []ledger.Step, flags byte) []byte {
	if flags&flagRecord != 0 && (cmd.Calls != 0 || cmd.Expires > 0) {
		flags |= flagTerms
	}
	if flags&flagRecord != 0 && (cmd.Outcome != 0 || cmd.WhileHeld || len(cmd.Note) > 0) {
		flags |= flagWords
	}
	b = binary.LittleEndian.AppendUint16(append(b, byte(cmd.Op), flags), uint16(len(steps)))
	span := cmd.Delay
	if cmd.Op == ledger.Take {
		span = cmd.Watch
	}
	b = append64(append64(b, int64(cmd.At)), int64(span))
	if flags&flagRecord != 0 {
		b = binary.LittleEndian.AppendUint64(b, cmd.Call)
	}
	if flags&flagTerms != 0 {
		b = append64(append64(b, cmd.Calls), min(int64(cmd.Expires), largest))
	}
	if flags&flagWords != 0 {
		held := byte(0)
		if cmd.WhileHeld {
			held = 1
		}
		b = binary.LittleEndian.AppendUint16(append(b, cmd.Outcome, held), uint16(len(cmd.Note)))
		b = append(b, cmd.Note...)
	}
	for i := range steps {
		if flags&flagRoot != 0 {
			b = appendWord(appendTag(b, steps[i].Key.Group), steps[i].Key.Cell)
		}
		b = appendStep(b, &steps[i])
	}
	if cmd.Op == ledger.Settle {
		for _, n := range cmd.Used {
			b = append64(b, n)
		}
	}
	return b
}

// errAnswer is returned when a server answers what no script of ours does.
var errAnswer = errors.New("redis: the server gave an answer that cannot be read; does another program use the prefix of our keys?")

// A reader takes an answer apart. After the first error it yields zeros.
type reader struct {
	rest []byte
	bad  bool
}

var zeros [64]byte

func (r *reader) take(n int) []byte {
	if r.bad || len(r.rest) < n {
		r.bad = true
		return zeros[:]
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) err() error {
	if r.bad {
		return errAnswer
	}
	return nil
}

// readAnswer reads what became of cmd into res, which was started at the time of the
// script.
func (r *reader) readAnswer(cmd *ledger.Command, res *ledger.Result) {
	head := r.take(2)
	res.Status = ledger.Status(head[0])
	refusals, record := head[1]&1 != 0, head[1]&2 != 0
	if record {
		at := limit.Micros(read64(r.take(8)))
		r.readRecord(res)
		if cmd.Op == ledger.Take {
			res.At = at
		}
	}
	if cmd.Op > ledger.Peek || res.Status > ledger.Refused {
		return
	}
	if refusals {
		r.readOutcomes(cmd, res)
	}
	if cmd.Levels {
		for i := range cmd.Steps {
			res.Levels = append(res.Levels, readLevel(r.take(levelLen), cmd.Steps[i].Limit, res.At))
		}
	}
}

// readRecord reads what a record says of a grant, into an answer at the time of the script.
func (r *reader) readRecord(res *ledger.Result) {
	res.Calls = read64(r.take(8))
	if expires := limit.Micros(read64(r.take(8))); expires > 0 {
		res.Left = expires - res.At
	}
	head := r.take(4)
	res.Settled, res.Released = head[0] != 0, head[1] != 0
	n := int(binary.LittleEndian.Uint16(head[2:]))
	for range n {
		key, err := parseName(string(r.take(nameLen)[:nameLen]))
		step := readStep(r.take(stepLen))
		if r.bad = r.bad || err != nil; r.bad {
			return
		}
		step.Key = key
		res.Steps = append(res.Steps, step)
	}
	for i := 0; i < n && res.Settled && head[1] <= rootReleased; i++ {
		res.Used = append(res.Used, read64(r.take(8)))
	}
	words := r.take(4)
	res.Outcome, res.WhileHeld = words[0], words[1] != 0
	if note := r.take(int(binary.LittleEndian.Uint16(words[2:]))); !r.bad {
		res.Note = append(res.Note, note...)
	}
}

// readOutcomes reads the verdicts, and takes from a Take what its shadow sets did not
// take.
func (r *reader) readOutcomes(cmd *ledger.Command, res *ledger.Result) {
	for range cmd.Steps {
		wait := readDouble(r.take(8))
		v := limit.Verdict{OK: wait == -1, Never: wait == -2, Wait: limit.Micros(max(0, wait))}
		res.Outcomes = append(res.Outcomes, v)
	}
	if cmd.Op != ledger.Take || res.Status != ledger.Done {
		return
	}
	for i := range res.Outcomes {
		if set := cmd.Steps[i].Set; set != 0 && !res.Outcomes[i].OK {
			for j := range cmd.Steps {
				if cmd.Steps[j].Set == set {
					cmd.Steps[j].N = 0
				}
			}
		}
	}
}

// readLevel computes where a cell stands from its state; of a window, whose state may be
// long, the script sends what is in use and the times.
func readLevel(b []byte, l limit.Limit, now limit.Micros) limit.Level {
	at, used := readDouble(b), readDouble(b[8:])
	if l.Kind != limit.KindWindow {
		return l.Level(&limit.Cell{At: limit.Micros(at), Used: used}, now)
	}
	if l.Max <= 0 {
		return limit.Level{}
	}
	v := limit.Level{Max: l.Max, Left: max(0, l.Max-at), Next: limit.Micros(used), Full: limit.Micros(readDouble(b[16:]))}
	return v
}
