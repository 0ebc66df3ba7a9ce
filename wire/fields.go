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
	w.setFields(h, levels, now, refusal{})
}

// refusal is what fields need to know of one. The zero refusal is an admission.
type refusal struct {
	is   bool
	wait time.Duration
}

// values collects header values in one piece of text, so that all of them cost two
// allocations however many there are.
type values struct {
	text []byte
	keys [maxValues]string
	ends [maxValues]int
	n    int
}

const maxValues = 8 // the most that families without a field in common send, and Retry-After

// add ends a value whose text has been appended.
func (v *values) add(key string) {
	v.keys[v.n], v.ends[v.n] = key, len(v.text)
	v.n++
}

func (v *values) addInt(key string, n int64) {
	v.text = strconv.AppendInt(v.text, n, 10)
	v.add(key)
}

// set moves the values into h. The keys are canonical, so that h needs no help.
func (v *values) set(h http.Header) {
	if v.n == 0 {
		return
	}
	text, all, start := string(v.text), make([]string, v.n), 0
	for i, end := range v.ends[:v.n] {
		all[i] = text[start:end]
		h[v.keys[i]] = all[i : i+1 : i+1]
		start = end
	}
}

// setFields sets the fields of all families, and Retry-After.
func (w *Writer) setFields(h http.Header, levels []sluice.Level, now time.Time, ref refusal) {
	var room [512]byte
	v := values{text: room[:0]}
	if tight := tightest(levels); tight != nil {
		for _, f := range w.families {
			switch f {
			case LegacyEpoch, LegacyDelta, Draft6:
				v.addThree(f, tight, now, ref)
			case Draft7:
				v.text = appendDraft7(v.text, tight, ref)
				v.add(rateLimit)
			case Draft10:
				v.text = appendLimits(v.text, levels, ref)
				v.add(rateLimit)
				v.text = appendPolicies(v.text, levels)
				v.add(policy)
			}
			if f == Draft6 || f == Draft7 {
				v.text = appendOldPolicies(v.text, levels)
				v.add(policy)
			}
		}
	}
	if ref.wait > 0 {
		v.addInt(retryAfter, ceil(ref.wait, time.Second))
	}
	v.set(h)
}

// addThree adds limit, remaining and reset. Slots have no reset unless they refused,
// because no time brings them back.
func (v *values) addThree(f Family, l *sluice.Level, now time.Time, ref refusal) {
	names := [3]string{xLimit, xRemaining, xReset}
	if f == Draft6 {
		names = [3]string{limit, remaining, reset}
	}
	v.addInt(names[0], l.Limit)
	v.addInt(names[1], l.Remaining)
	wait, known := resetOf(l, ref)
	switch {
	case !known:
	case f == LegacyEpoch:
		at := now.Add(wait)
		seconds := at.Unix()
		if at.Nanosecond() > 0 {
			seconds++
		}
		v.addInt(names[2], seconds)
	default:
		v.addInt(names[2], ceil(wait, time.Second))
	}
}

// resetOf returns the time until a limit is whole again, or until a refused call would
// pass, and whether there is such a time.
func resetOf(l *sluice.Level, ref refusal) (time.Duration, bool) {
	if ref.is {
		return ref.wait, ref.wait > 0
	}
	return l.Full, l.Kind != slots
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
