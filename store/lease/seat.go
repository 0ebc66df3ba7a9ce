package lease

import (
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A seat is one key and what is ahead of it.
type seat struct {
	key   ledger.Key
	limit limit.Limit
	part  int64        // zero is an empty seat
	span  limit.Micros // how long units may be spent

	heat  [2]int64 // units that were spent in the last full span, and in this one
	began instant  // of this span

	lots   [2]lot // the older first
	asking uint64 // ticket of who asks for more; zero is nobody
	// short is true if the books had no units to spare when they were asked last. Then
	// what is here is spent to the end before they are asked again.
	short bool

	level limit.Level // in the books, at the last answer
	seen  instant
}

// A lot is units that were taken in one command.
type lot struct {
	left, size int64
	at         limit.Micros // the books' time of the command
	until      instant
}

func newSeat(s *ledger.Step, now instant) seat {
	return seat{key: s.Key, limit: s.Limit, part: int64(s.Part), span: s.Lease, began: now}
}

// serves reports whether t is about the cell and the limit of s.
func (t *seat) serves(s *ledger.Step) bool {
	return t.key == s.Key && t.limit == s.Limit && t.part == int64(s.Part) && t.span == s.Lease
}

// turn brings t to time now.
func (t *seat) turn(now instant) {
	switch age := now.since(t.began); {
	case age >= 2*t.span:
		t.heat, t.began = [2]int64{}, now
	case age >= t.span:
		t.heat, t.began = [2]int64{t.heat[1], 0}, t.began.plus(t.span)
	}
	for i := range t.lots {
		if l := &t.lots[i]; l.left > 0 && !now.before(l.until) {
			t.lose(l)
		}
	}
}

// lose gives up what is left of a lot. What it was earned by earns nothing more.
func (t *seat) lose(l *lot) {
	t.cool(t.part * l.left)
	*l = lot{}
}

// cool takes n off the heat, the older first.
func (t *seat) cool(n int64) {
	old := min(n, t.heat[0])
	t.heat[0] -= old
	t.heat[1] = max(0, t.heat[1]-(n-old))
}

// use notes that n units were spent.
func (t *seat) use(n int64) { t.heat[1] = min(t.heat[1]+n, limit.MaxCredits) }

func (t *seat) left() int64 { return t.lots[0].left + t.lots[1].left }

// find returns the lot that n units can be spent from, nil if there is none.
func (t *seat) find(n int64) *lot {
	for i := range t.lots {
		if l := &t.lots[i]; l.left >= max(1, n) {
			return l
		}
	}
	return nil
}

// due reports whether it is time for a call of n units to ask for more: half of the only
// lot is spent.
func (t *seat) due(n int64) bool {
	if t.short || t.lots[0].left > 0 && t.lots[1].left > 0 {
		return false
	}
	last := &t.lots[0]
	if last.left == 0 {
		last = &t.lots[1]
	}
	return 2*last.left <= last.size && t.wish(n) > 0
}

// wish is how many units are to be asked for beside the n of a call: none if somebody
// asks already, if there is no place for them, or if they are too few for more calls like
// it.
func (t *seat) wish(n int64) int64 {
	if t.asking != 0 || t.lots[0].left > 0 && t.lots[1].left > 0 && t.find(n) != nil {
		return 0
	}
	wish := (t.heat[0]+t.heat[1])/t.part - t.left()
	if wish/limit.LeastLease < max(1, n) {
		return 0
	}
	return wish
}

// put adds a lot. Of two that are not empty the smaller makes place for it.
func (t *seat) put(l lot) {
	older, newer := &t.lots[0], &t.lots[1]
	switch {
	case newer.left == 0:
	case older.left == 0:
		*older = *newer
	case older.left <= newer.left:
		t.lose(older)
		*older = *newer
	default:
		t.lose(newer)
	}
	*newer = l
}

// levelAt is where the limit stands as far as this process knows: the books as they were,
// and what is ahead.
func (t *seat) levelAt(now instant) limit.Level {
	age := now.since(t.seen)
	v := t.level
	v.Left = min(v.Max, v.Left+t.left())
	if v.Left == v.Max {
		return limit.Level{Max: v.Max, Left: v.Max}
	}
	v.Next, v.Full = max(1, v.Next-age), max(1, v.Full-age)
	return v
}
