package limit_test

import (
	"encoding/binary"
	"testing"

	"github.com/sluicegate/sluice/limit"
)

// script reads numbers off a fuzzer's bytes: zeros when they are used up.
type script []byte

func (s *script) next(bytes int) uint64 {
	var word [8]byte
	n := copy(word[:bytes], *s)
	*s = (*s)[n:]
	return binary.LittleEndian.Uint64(word[:])
}

// number returns a number whose size the script chooses too.
func (s *script) number() int64 {
	scale := s.next(1) % 8
	return int64(s.next(int(scale) + 1))
}

func fuzzLimit(kind uint8, max, per, burst int64) (limit.Limit, bool) {
	kind %= 5
	l := []limit.Limit{
		limit.Bucket(max, limit.Micros(per), burst), limit.Pace(limit.Micros(per)),
		limit.Window(max, limit.Micros(per)), limit.Slots(max), limit.Cooldown(limit.Micros(per)),
	}[kind]
	return l, l.Validate() == nil
}

func seedFuzz(f *testing.F) {
	for kind := range uint8(5) {
		f.Add(kind, int64(10), int64(limit.Second), int64(20), []byte("\x01\x02\x03\x04\x05\x06\x07\x08\x09"))
		f.Add(kind, int64(3), int64(7), int64(1<<40), []byte("\x07\xff\xff\xff\xff\xff\xff\xff\xff\x07\xff\xff\xff\xff\xff\xff\xff\x7f"))
	}
}

// FuzzTake checks every promise of Take on histories of takes.
func FuzzTake(f *testing.F) {
	seedFuzz(f)
	f.Fuzz(func(t *testing.T, kind uint8, max, per, burst int64, ops []byte) {
		l, ok := fuzzLimit(kind, max, per, burst)
		if !ok {
			return
		}
		var c limit.Cell
		now, s := limit.Hour, script(ops)
		for i := 0; i < 100 && len(s) > 0 && !t.Failed(); i++ {
			now += limit.Micros(uint64(s.number()) % (1 << 45))
			take(t, l, &c, now, s.number())
		}
	})
}

// FuzzAnything shows that no number, sense or nonsense, brings an algorithm out of its
// bounds: it neither panics nor wraps.
func FuzzAnything(f *testing.F) {
	seedFuzz(f)
	f.Fuzz(func(t *testing.T, kind uint8, max, per, burst int64, ops []byte) {
		l, ok := fuzzLimit(kind, max, per, burst)
		if !ok {
			return
		}
		var c limit.Cell
		s := script(ops)
		for i := 0; i < 500 && len(s) > 0; i++ {
			op, now, at, n := s.next(1), limit.Micros(s.number()), limit.Micros(s.number()), s.number()
			switch op % 6 {
			case 0:
				l.Take(&c, now, n)
			case 1:
				l.Give(&c, now, at, n)
			case 2:
				l.Cool(&c, now, at)
			case 3:
				l.Fit(&c, now, n)
			case 4:
				if next, ok := fuzzLimit(kind+uint8(at), n, per, burst); ok {
					c = next.Convert(l, c, now)
					l = next
				}
			case 5:
				l.Idle(&c, now)
			}
			sum := int64(0)
			for i := range c.Log.Len() {
				sum += c.Log.At(i).N
			}
			if c.Used < 0 || c.Used > 2*limit.MaxCredits || l.Kind == limit.KindWindow && sum != c.Used {
				t.Fatalf("%v: the cell is %+v, its log holds %d", l, c, sum)
			}
			v := l.Level(&c, now)
			if v.Left < 0 || v.Left > v.Max || v.Next < 0 || v.Full < 0 {
				t.Fatalf("%v: level %+v", l, v)
			}
		}
	})
}
