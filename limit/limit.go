// Package limit holds the algorithms: how much a capacity has left and when its
// units come back. Every limit here is a capacity whose units return by some
// rule; a [Limit] says the rule and a [Cell] is the state of one key under it.
//
// The package is pure. Time is an argument in whole microseconds, arithmetic is
// integer, nothing locks, waits, logs or reads a clock, and nothing is defaulted.
// A caller that shares a Cell between goroutines serialises the calls itself.
//
// Five kinds exist:
//
//	Bucket    units come back evenly with time, up to a burst
//	Pace      starts are at least an interval apart, idling earns nothing
//	Window    at most max units in any window, each back exactly one window later
//	Slots     units come back when their holder says so
//	Cooldown  nothing passes until a time
//
// A refusal changes nothing. It is either "later", with the least wait after which
// the same call alone would pass, or "never". Waiting exactly that long passes and
// waiting one microsecond less does not.
package limit

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Micros is a time or a span in whole microseconds. As a time it counts from an
// origin that the store chooses; it never goes back within one store.
type Micros int64

// Spans that appear in policies.
const (
	Millisecond Micros = 1_000
	Second      Micros = 1_000_000
	Minute             = 60 * Second
	Hour               = 60 * Minute
	Day                = 24 * Hour
)

// Duration converts m to a [time.Duration], saturating at its bounds.
func (m Micros) Duration() time.Duration {
	if m > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	if m < math.MinInt64/1000 {
		return math.MinInt64
	}
	return time.Duration(m) * time.Microsecond
}

// MicrosOf converts d to microseconds, rounding up, so that a positive duration
// never becomes zero.
func MicrosOf(d time.Duration) Micros {
	if d <= 0 {
		return Micros(d / time.Microsecond)
	}
	return Micros((d-1)/time.Microsecond) + 1
}

// Kind tells the algorithms apart. The zero Kind is no limit at all and refuses
// everything it is asked, so that a forgotten field fails closed.
type Kind uint8

// The kinds, in the order they are documented in the package comment.
const (
	KindNone Kind = iota
	KindBucket
	KindPace
	KindWindow
	KindSlots
	KindCooldown
)

// String returns the kind's name as policies spell it.
func (k Kind) String() string {
	switch k {
	case KindBucket:
		return "bucket"
	case KindPace:
		return "pace"
	case KindWindow:
		return "window"
	case KindSlots:
		return "slots"
	case KindCooldown:
		return "cooldown"
	}
	return "none"
}

// A Limit is a capacity and how its units come back. It is plain, comparable data:
// stores compare two Limits with == to see whether a rule has changed, and write
// the four fields as they are. Use the constructors; they reduce and validate.
//
// The zero Limit refuses everything.
type Limit struct {
	Kind Kind
	// Max is units: paid back every Per (Bucket), in any window (Window), held at
	// once (Slots). Zero denies everything. Unused by Pace (always 1) and Cooldown.
	Max int64
	// Per is the span in which Max units come back (Bucket), the least distance of
	// two starts (Pace), the window's length (Window), or the longest cooldown that
	// is believed, zero being any (Cooldown). Unused by Slots.
	Per Micros
	// Burst is the most units a Bucket can hold. Unused by the others.
	Burst int64
}

// Bucket returns a limit of burst units that refills evenly at max units every per.
// max and per are reduced to lowest terms, so 60/min and 1/s are the same Limit.
// A max or burst of zero denies everything.
func Bucket(max int64, per Micros, burst int64) Limit {
	if max <= 0 || burst <= 0 || per <= 0 {
		return Limit{Kind: KindBucket, Max: max, Per: per, Burst: burst}
	}
	g := gcd(max, int64(per))
	return Limit{Kind: KindBucket, Max: max / g, Per: per / Micros(g), Burst: burst}
}

// Pace returns a limit that lets one call start every interval. Idling earns no
// credit: after any pause the next two starts are still an interval apart.
func Pace(interval Micros) Limit {
	return Limit{Kind: KindPace, Max: 1, Per: interval, Burst: 1}
}

// Window returns a limit of max units in any window of length per. It is exact up
// to [WindowEntries] live debits; above that a debit may come back up to
// per/WindowEntries late and never early. A max of zero denies everything.
func Window(max int64, per Micros) Limit {
	return Limit{Kind: KindWindow, Max: max, Per: per}
}

// Slots returns a limit of max units held at once. They come back by [Limit.Give],
// never by time. A max of zero denies everything.
func Slots(max int64) Limit {
	return Limit{Kind: KindSlots, Max: max}
}

// Cooldown returns a limit that refuses until the time given to [Limit.Cool] and
// admits everything otherwise. longest bounds one cooldown; zero is no bound.
func Cooldown(longest Micros) Limit {
	return Limit{Kind: KindCooldown, Max: 1, Per: longest}
}

// MaxCredits bounds burst × per of a Bucket in lowest terms, in unit-microseconds.
// Below it every sum of the algorithms is exact both in an int64 and in the 53-bit
// integers of a double, which is what a Redis script computes with.
const MaxCredits = 1 << 51

// Validate reports why l cannot be used: an unknown kind, a negative number, a
// missing span, or a product too large to compute exactly. A zero Max is valid; it
// denies everything.
func (l Limit) Validate() error {
	if l.Max < 0 || l.Burst < 0 || l.Per < 0 {
		return errors.New("limit: a negative number is no limit; leave the limit out for unlimited, or use 0 to deny everything")
	}
	switch l.Kind {
	case KindBucket:
		if l.Per == 0 {
			return errors.New("limit: a bucket needs the time in which its units come back")
		}
		if l.Burst > MaxCredits/int64(l.Per) || l.Max > MaxCredits {
			return fmt.Errorf("limit: a burst of %d at %d per %v is too large to count exactly; use a smaller burst or a shorter time", l.Burst, l.Max, l.Per.Duration())
		}
	case KindPace:
		if l.Per == 0 {
			return errors.New("limit: a pace needs an interval above zero")
		}
		if int64(l.Per) > MaxCredits {
			return fmt.Errorf("limit: an interval of %v is too long", l.Per.Duration())
		}
	case KindWindow:
		if l.Per == 0 {
			return errors.New("limit: a window needs a length above zero")
		}
		if int64(l.Per) > MaxCredits || l.Max > MaxCredits {
			return fmt.Errorf("limit: a window of %d in %v is too large to count exactly", l.Max, l.Per.Duration())
		}
	case KindSlots:
		if l.Max > MaxCredits {
			return fmt.Errorf("limit: %d slots are too many to count exactly", l.Max)
		}
	case KindCooldown:
	default:
		return errors.New("limit: no kind; use bucket, pace, window, slots or cooldown")
	}
	return nil
}

// OnRelease reports whether units come back by Give at the end of the work (Slots)
// and not by time.
func (l Limit) OnRelease() bool { return l.Kind == KindSlots }

// Capacity returns the most units one call can ever take: a larger call is refused
// for good.
func (l Limit) Capacity() int64 {
	switch l.Kind {
	case KindBucket:
		if l.Max <= 0 {
			return 0
		}
		return l.Burst
	case KindPace:
		return 1
	case KindWindow, KindSlots:
		return l.Max
	case KindCooldown:
		return math.MaxInt64
	}
	return 0
}

// String returns l as a person writes it, such as "10/s burst 20".
func (l Limit) String() string {
	switch l.Kind {
	case KindBucket:
		return fmt.Sprintf("%s burst %d", rateString(l.Max, l.Per), l.Burst)
	case KindPace:
		return "one every " + l.Per.Duration().String()
	case KindWindow:
		return fmt.Sprintf("%d in any %v", l.Max, l.Per.Duration())
	case KindSlots:
		return fmt.Sprintf("%d at once", l.Max)
	case KindCooldown:
		return "cooldown"
	}
	return "none"
}

// rateString writes max/per in the largest named span that keeps it whole.
func rateString(max int64, per Micros) string {
	for _, u := range []struct {
		span Micros
		name string
	}{{Second, "s"}, {Minute, "min"}, {Hour, "h"}, {Day, "day"}} {
		if per > 0 && u.span%per == 0 && max <= math.MaxInt64/int64(u.span/per) {
			return fmt.Sprintf("%d/%s", max*int64(u.span/per), u.name)
		}
	}
	return fmt.Sprintf("%d per %v", max, per.Duration())
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
