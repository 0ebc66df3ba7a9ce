package file

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A frame's payload is a row of records, each with a tag; FORMAT.md draws them.
const (
	tagCell   = 1 // a cell's whole state
	tagWindow = 2 // a Window's debits from a time on
	tagGone   = 3 // a cell is as good as new
	tagGrant  = 4 // a grant's whole record, as version 1 wrote it
	tagForget = 5 // there is no such grant
	tagOwners = 6 // the rules that cells belong to
	tagTimed  = 7 // a grant's whole record, as version 2 wrote it
	tagRecord = 8 // a grant's whole record, since version 3
)

const (
	flagSettled, flagReleased, flagWhileHeld = 1, 2, 4
	flagKeep, flagVolatile                   = 1, 2
)

// A writer appends the parts of records.
type writer []byte

func (w *writer) byte(b byte)      { *w = append(*w, b) }
func (w *writer) fixed(v uint64)   { *w = binary.LittleEndian.AppendUint64(*w, v) }
func (w *writer) number(v int64)   { *w = binary.AppendVarint(*w, v) }
func (w *writer) key(k ledger.Key) { w.fixed(k.Group); w.fixed(k.Cell) }
func (w *writer) id(id ledger.ID)  { w.fixed(id.Hi); w.fixed(id.Lo) }

func (w *writer) text(s string) {
	w.number(int64(len(s)))
	*w = append(*w, s...)
}

func (w *writer) limit(l limit.Limit) { *w = appendLimit(*w, l) }

func appendLimit(b []byte, l limit.Limit) []byte {
	b = append(b, byte(l.Kind))
	b = binary.AppendVarint(b, l.Max)
	b = binary.AppendVarint(b, int64(l.Per))
	return binary.AppendVarint(b, l.Burst)
}

// appendPlace appends where the units of a step are, in one go: it is done for every limit
// of every reservation.
func appendPlace(b []byte, key ledger.Key, pool uint64, l limit.Limit) []byte {
	b = binary.LittleEndian.AppendUint64(b, key.Group)
	b = binary.LittleEndian.AppendUint64(b, key.Cell)
	b = binary.LittleEndian.AppendUint64(b, pool)
	return appendLimit(b, l)
}

// cell appends the state of a cell. Of a Window it appends the debits that are not
// older than from: those before are on the disk as they are.
func (w *writer) cell(key ledger.Key, pool uint64, l limit.Limit, c *limit.Cell, from limit.Micros) {
	if l.Kind != limit.KindWindow {
		b := appendPlace(append(*w, tagCell), key, pool, l)
		b = binary.AppendVarint(b, int64(c.At))
		*w = binary.AppendVarint(b, c.Used)
		return
	}
	*w = appendPlace(append(*w, tagWindow), key, pool, l)
	w.number(int64(c.At))
	w.number(int64(from))
	n := c.Log.Len()
	first := n
	for first > 0 && c.Log.At(first-1).At >= from {
		first--
	}
	w.number(int64(n - first))
	for i := first; i < n; i++ {
		d := c.Log.At(i)
		w.number(int64(d.At - from))
		w.number(d.N)
		from = d.At
	}
}

func (w *writer) gone(key ledger.Key) {
	w.byte(tagGone)
	w.key(key)
}

func (w *writer) forget(id ledger.ID) {
	w.byte(tagForget)
	w.id(id)
}

func (w *writer) grant(id ledger.ID, r *ledger.Record) {
	w.byte(tagRecord)
	w.id(id)
	w.byte(bit(r.Settled, flagSettled) | bit(r.Released, flagReleased) | bit(r.WhileHeld, flagWhileHeld))
	w.number(int64(r.At))
	w.number(int64(r.Ended))
	w.number(int64(r.Expires))
	w.fixed(r.Call)
	w.number(r.Calls)
	w.number(int64(len(r.Steps)))
	for i := range r.Steps {
		s := &r.Steps[i]
		b := appendPlace(*w, s.Key, s.Pool, s.Limit)
		b = binary.AppendVarint(b, s.N)
		*w = append(b, s.Set, bit(s.Keep, flagKeep)|bit(s.Volatile, flagVolatile))
	}
	w.number(int64(len(r.Used)))
	for _, n := range r.Used {
		w.number(n)
	}
	w.byte(r.Outcome)
	w.number(int64(len(r.Note)))
	*w = append(*w, r.Note...)
}

func (w *writer) ownersOf(list []ledger.Owner) {
	w.byte(tagOwners)
	w.number(int64(len(list)))
	for i := range list {
		o := &list[i]
		w.fixed(o.Pool)
		w.text(o.Rule)
		w.text(o.Name)
		w.text(o.Group)
		w.limit(o.Limit)
	}
}

func bit(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

var errRecord = errors.New("a record does not have the form that its tag says")

// A reader takes the parts of records off a payload. After the first that is not there
// it is bad and everything is zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) fixed() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) number() int64 {
	v, n := binary.Varint(r.rest)
	if r.take(max(n, -1)) == nil || n <= 0 {
		r.bad = true
		return 0
	}
	return v
}

// count is a number of things of which each takes a byte at least.
func (r *reader) count() int {
	n := r.number()
	if n < 0 || n > int64(len(r.rest)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) text() string         { return string(r.take(r.count())) }
func (r *reader) micros() limit.Micros { return limit.Micros(r.number()) }
func (r *reader) key() ledger.Key      { return ledger.Key{Group: r.fixed(), Cell: r.fixed()} }
func (r *reader) id() ledger.ID        { return ledger.ID{Hi: r.fixed(), Lo: r.fixed()} }

func (r *reader) limit() limit.Limit {
	l := limit.Limit{Kind: limit.Kind(r.byte()), Max: r.number(), Per: r.micros(), Burst: r.number()}
	r.bad = r.bad || l.Kind == limit.KindNone || l.Kind > limit.KindCooldown
	return l
}

// grant reads the record of a grant. Version 1 knew neither what it stands for nor when
// it expires, version 2 no note, no outcome, and none that is forgotten at its release.
func (r *reader) grant(tag byte) ledger.Record {
	flags := r.byte()
	g := ledger.Record{
		Settled: flags&flagSettled != 0, Released: flags&flagReleased != 0, WhileHeld: flags&flagWhileHeld != 0,
		At: r.micros(), Ended: r.micros(),
	}
	if tag == tagGrant {
		g.Call = r.fixed()
	} else {
		g.Expires, g.Call, g.Calls = r.micros(), r.fixed(), r.number()
	}
	for range r.count() {
		s := ledger.Step{Key: r.key(), Pool: r.fixed(), Limit: r.limit(), N: r.number(), Set: r.byte()}
		flags := r.byte()
		s.Keep, s.Volatile = flags&flagKeep != 0, flags&flagVolatile != 0
		g.Steps = append(g.Steps, s)
	}
	for range r.count() {
		g.Used = append(g.Used, r.number())
	}
	if tag == tagRecord {
		g.Outcome, g.Note = r.byte(), slices.Clone(r.take(r.count()))
	}
	return g
}

func (r *reader) ownersOf() []ledger.Owner {
	list := []ledger.Owner{}
	for range r.count() {
		list = append(list, ledger.Owner{
			Pool: r.fixed(), Rule: r.text(), Name: r.text(), Group: r.text(), Limit: r.limit(),
		})
	}
	return list
}

// never is later than every debit.
const never = limit.Micros(math.MaxInt64)
