package wire

import (
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	algorithm "github.com/sluicegate/sluice/limit"
)

const (
	cooldown = algorithm.KindCooldown
	slots    = algorithm.KindSlots
	bucket   = algorithm.KindBucket
)

// Annotate sets the fields of an admitted call's levels, as of now, in place of what h
// had of those names. It does nothing if there is no level to tell about.
func (w *Writer) Annotate(h http.Header, levels []sluice.Level, now time.Time) {
	if w.when == Refused || w.when == Near && !near(levels) {
		return
	}
	w.setFields(h, report{levels: levels, now: now})
}

// degraded is the field of answers to calls that were decided without the store.
const degraded = "X-Ratelimit-Degraded"

var isTrue = []string{"true"}

// MarkDegraded says in h that the store did not answer, and that the call was decided by
// its rules' OnStoreError. It does nothing if the Writer writes no fields at all.
func (w *Writer) MarkDegraded(h http.Header) {
	if len(w.families) > 0 {
		h[degraded] = isTrue
	}
}

// A report is what fields tell.
type report struct {
	levels  []sluice.Level
	tight   *sluice.Level // what fields tell that have room for one; nil if none is shown
	now     time.Time
	refused bool
	wait    time.Duration // of a refusal; zero if no time helps
}

// marks say where in a text the values of header fields end. All values of an answer
// share one text and so cost two allocations, however many there are. Marks do not hold
// the text itself, or it could not stay on the stack.
type marks struct {
	keys [maxValues]field
	ends [maxValues]int
	n    int
}

const maxValues = 8 // the most that families without a field in common send, and Retry-After

// end ends a value at the end of the text so far.
func (m *marks) end(key field, text []byte) {
	m.keys[m.n], m.ends[m.n] = key, len(text)
	m.n++
}

// set moves the values into h. The keys are canonical, so that h needs no help.
func (m *marks) set(h http.Header, b []byte) {
	if m.n == 0 {
		return
	}
	text, all, start := string(b), make([]string, m.n), 0
	for i, end := range m.ends[:m.n] {
		all[i] = text[start:end]
		h[names[m.keys[i]]] = all[i : i+1 : i+1]
		start = end
	}
}

// setFields sets the fields of all families, and Retry-After.
func (w *Writer) setFields(h http.Header, r report) {
	var room [512]byte
	var m marks
	b := room[:0]
	if r.tight = tightest(r.levels); r.tight != nil {
		for _, f := range w.families {
			b = r.appendFamily(b, &m, f)
		}
	}
	if r.wait > 0 {
		b = strconv.AppendInt(b, ceil(r.wait, time.Second), 10)
		m.end(retryAfter, b)
	}
	m.set(h, b)
}

func (r *report) appendFamily(b []byte, m *marks, f Family) []byte {
	switch f {
	case LegacyEpoch, LegacyDelta:
		b = r.appendThree(b, m, [...]field{xLimit, xRemaining, xReset}, f)
	case Draft6:
		b = r.appendThree(b, m, [...]field{limit, remaining, reset}, f)
		b = r.appendOldPolicies(b)
		m.end(policy, b)
	case Draft7:
		b = r.appendDraft7(b)
		m.end(rateLimit, b)
		b = r.appendOldPolicies(b)
		m.end(policy, b)
	case Draft10:
		b = r.appendLimits(b)
		m.end(rateLimit, b)
		b = r.appendPolicies(b)
		m.end(policy, b)
	}
	return b
}

// appendThree appends limit, remaining and reset.
func (r *report) appendThree(b []byte, m *marks, keys [3]field, f Family) []byte {
	b = strconv.AppendInt(b, r.tight.Limit, 10)
	m.end(keys[0], b)
	b = strconv.AppendInt(b, r.tight.Remaining, 10)
	m.end(keys[1], b)
	wait, known := r.reset()
	if !known {
		return b
	}
	seconds := ceil(wait, time.Second)
	if f == LegacyEpoch {
		at := r.now.Add(wait)
		seconds = at.Unix()
		if at.Nanosecond() > 0 {
			seconds++
		}
	}
	b = strconv.AppendInt(b, seconds, 10)
	m.end(keys[2], b)
	return b
}

// reset returns the time until the tightest limit is whole again, or until a refused call
// would pass, and whether there is such a time: only a release brings slots back.
func (r *report) reset() (time.Duration, bool) {
	if r.refused {
		return r.wait, r.wait > 0
	}
	return r.tight.Full, r.tight.Kind != slots
}

// tightest returns the level that single-limit fields tell: a refusing one before
// others, the one that takes longest; otherwise limits on calls before those in other
// units and before slots, and of these the one with the least left. Nil if none is shown.
func tightest(levels []sluice.Level) (best *sluice.Level) {
	for i := range levels {
		if l := &levels[i]; shown(l) && (best == nil || tighter(l, best)) {
			best = l
		}
	}
	return best
}

func tighter(a, b *sluice.Level) bool {
	switch ra, rb := vagueness(a), vagueness(b); {
	case ra != rb:
		return ra < rb
	case a.Refused && a.Next != b.Next:
		return a.Next > b.Next
	case a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	}
	return a.Full > b.Full
}

func vagueness(l *sluice.Level) int {
	switch {
	case l.Refused:
		return 0
	case l.Kind == slots:
		return 3
	case l.Unit != "" && l.Unit != sluice.Calls:
		return 2
	}
	return 1
}
