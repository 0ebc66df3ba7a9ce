package hazelcast

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// errValue says that the map holds something else.
var errValue = errors.New("hazelcast: a value of the map cannot be read; was it written by another program? Give the store a map of its own")

// A stamp names one pass of one process.
type stamp struct{ process, pass uint64 }

// A writer is the last pass of a process that wrote a value or an ancestor of it.
type writer struct {
	stamp
	at limit.Micros
}

const (
	maxWriters  = 16
	writerSpan  = 10 * limit.Minute // a pass whose outcome is unknown asks within this
	valueFormat = 1
)

// A value is what the map holds under one key. FORMAT.md draws it.
type value struct {
	// writers are the processes that wrote it lately, the last one first. No two writes
	// have the same first writer and the same rest, so a value never comes back.
	writers []writer
	state   state
	intent  *intent
	mark    *mark
}

// A state is that of a cell or of a record. A value that was made to hold an intent has
// neither.
type state struct {
	cell   *account
	record *ledger.Record
}

type account struct {
	limit limit.Limit
	cell  limit.Cell
}

// An intent is what a pass over several keys will make of this one, if it commits. It has
// committed if the value of its primary key bears its mark.
type intent struct {
	stamp
	primary string
	next    []byte // the value then
}

// A mark says that a pass has committed, and under which keys its intents are.
type mark struct {
	stamp
	keys []string
}

// last returns the last pass of a process that wrote v or an ancestor of it.
func (v *value) last(process uint64) uint64 {
	for _, w := range v.writers {
		if w.process == process {
			return w.pass
		}
	}
	return 0
}

// stamped returns the writers of a value that s makes of v at time now.
func (v *value) stamped(s stamp, now limit.Micros) []writer {
	list := append(make([]writer, 0, len(v.writers)+1), writer{s, now})
	for _, w := range v.writers {
		if w.process != s.process && len(list) < maxWriters && now-w.at < writerSpan {
			list = append(list, w)
		}
	}
	return list
}

func (v *value) encode() []byte {
	b := append(make([]byte, 0, 96), valueFormat)
	b = binary.AppendUvarint(b, uint64(len(v.writers)))
	for _, w := range v.writers {
		b = binary.LittleEndian.AppendUint64(b, w.process)
		b = binary.AppendUvarint(b, w.pass)
		b = binary.AppendVarint(b, int64(w.at))
	}
	switch {
	case v.state.cell != nil:
		b = appendCell(append(b, 1), v.state.cell)
	case v.state.record != nil:
		b = appendRecord(append(b, 2), v.state.record)
	default:
		b = append(b, 0)
	}
	if v.intent == nil {
		b = append(b, 0)
	} else {
		b = appendStamp(append(b, 1), v.intent.stamp)
		b = appendText(b, v.intent.primary)
		b = appendText(b, v.intent.next)
	}
	if v.mark == nil {
		return append(b, 0)
	}
	b = appendStamp(append(b, 1), v.mark.stamp)
	b = binary.AppendUvarint(b, uint64(len(v.mark.keys)))
	for _, k := range v.mark.keys {
		b = appendText(b, k)
	}
	return b
}

func decodeValue(raw []byte) (*value, error) {
	r := reader{rest: raw}
	v := &value{}
	if r.byte() != valueFormat {
		return nil, errValue
	}
	for range r.count() {
		w := writer{stamp: stamp{process: r.word()}}
		w.pass, w.at = r.uvarint(), limit.Micros(r.varint())
		v.writers = append(v.writers, w)
	}
	switch r.byte() {
	case 1:
		v.state.cell = r.cell()
	case 2:
		v.state.record = r.record()
	}
	if r.byte() == 1 {
		v.intent = &intent{stamp: r.stamp()}
		v.intent.primary, v.intent.next = string(r.text()), r.text()
	}
	if r.byte() == 1 {
		v.mark = &mark{stamp: r.stamp()}
		for range r.count() {
			v.mark.keys = append(v.mark.keys, string(r.text()))
		}
	}
	if r.bad || len(r.rest) > 0 {
		return nil, errValue
	}
	return v, nil
}

func appendStamp(b []byte, s stamp) []byte {
	return binary.AppendUvarint(binary.LittleEndian.AppendUint64(b, s.process), s.pass)
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendLimit(b []byte, l limit.Limit) []byte {
	b = append(b, byte(l.Kind))
	for _, n := range []int64{l.Max, int64(l.Per), l.Burst} {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// appendCell writes the debits of a window as differences: most take two to four bytes.
func appendCell(b []byte, a *account) []byte {
	b = appendLimit(b, a.limit)
	b = binary.AppendVarint(b, int64(a.cell.At))
	b = binary.AppendVarint(b, a.cell.Used)
	b = binary.AppendUvarint(b, uint64(a.cell.Log.Len()))
	at := a.cell.At
	for i := range a.cell.Log.Len() {
		d := a.cell.Log.At(i)
		b = binary.AppendVarint(b, int64(d.At-at))
		b = binary.AppendVarint(b, d.N)
		at = d.At
	}
	return b
}

func appendRecord(b []byte, r *ledger.Record) []byte {
	b = binary.AppendVarint(b, int64(r.At))
	b = binary.AppendVarint(b, int64(r.Ended))
	b = binary.AppendVarint(b, int64(r.Expires))
	b = binary.LittleEndian.AppendUint64(b, r.Call)
	b = binary.AppendVarint(b, r.Calls)
	words := r.Outcome != 0 || len(r.Note) > 0
	b = append(b, flag(r.Settled, 1)|flag(r.Released, 2)|flag(r.WhileHeld, 4)|flag(words, 8))
	b = binary.AppendUvarint(b, uint64(len(r.Steps)))
	for i := range r.Steps {
		s := &r.Steps[i]
		b = binary.LittleEndian.AppendUint64(b, s.Key.Group)
		b = binary.LittleEndian.AppendUint64(b, s.Key.Cell)
		b = binary.LittleEndian.AppendUint64(b, s.Pool)
		b = binary.AppendVarint(appendLimit(b, s.Limit), s.N)
		b = append(b, s.Set, flag(s.Keep, 1)|flag(s.Volatile, 2))
	}
	if r.Settled {
		for _, n := range r.Used {
			b = binary.AppendVarint(b, n)
		}
	}
	if words {
		b = appendText(append(b, r.Outcome), r.Note)
	}
	return b
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// A reader reads a value. Once something is missing it is bad and returns zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte   { return r.take(1)[0] }
func (r *reader) word() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

// skip goes on behind a number of n bytes, of which there is none if n is not positive.
func (r *reader) skip(n int) {
	if n <= 0 {
		r.bad, r.rest = true, nil
		return
	}
	r.rest = r.rest[n:]
}

// count reads the number of things that follow, each of which takes a byte at least.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) text() []byte { return slices.Clone(r.take(r.count())) }

func (r *reader) stamp() stamp { return stamp{process: r.word(), pass: r.uvarint()} }

func (r *reader) limit() limit.Limit {
	l := limit.Limit{Kind: limit.Kind(r.byte())}
	l.Max, l.Per, l.Burst = r.varint(), limit.Micros(r.varint()), r.varint()
	return l
}

func (r *reader) cell() *account {
	a := &account{limit: r.limit()}
	a.cell.At, a.cell.Used = limit.Micros(r.varint()), r.varint()
	at := a.cell.At
	for range r.count() {
		if a.cell.Log == nil {
			a.cell.Log = &limit.Log{}
		}
		at += limit.Micros(r.varint())
		a.cell.Log.Append(limit.Debit{At: at, N: r.varint()})
	}
	return a
}

func (r *reader) record() *ledger.Record {
	g := &ledger.Record{At: limit.Micros(r.varint()), Ended: limit.Micros(r.varint()), Expires: limit.Micros(r.varint())}
	g.Call, g.Calls = r.word(), r.varint()
	bits := r.byte()
	g.Settled, g.Released, g.WhileHeld = bits&1 != 0, bits&2 != 0, bits&4 != 0
	words := bits&8 != 0
	for range r.count() {
		s := ledger.Step{Key: ledger.Key{Group: r.word(), Cell: r.word()}, Pool: r.word()}
		s.Limit, s.N, s.Set = r.limit(), r.varint(), r.byte()
		bits := r.byte()
		s.Keep, s.Volatile = bits&1 != 0, bits&2 != 0
		g.Steps = append(g.Steps, s)
	}
	if g.Settled {
		for range g.Steps {
			g.Used = append(g.Used, r.varint())
		}
	}
	if words {
		g.Outcome, g.Note = r.byte(), r.text()
	}
	return g
}
