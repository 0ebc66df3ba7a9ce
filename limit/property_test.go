package limit_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/sluicegate/sluice/limit"
)

// seed is printed by a property that fails; SEED=n repeats its run.
func seed(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv("SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return rand.Uint64()
}

// rounds runs f with many sources of randomness, each of which can be had again.
func rounds(t *testing.T, n uint64, f func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	first := seed(t)
	for i := first; i < first+n && !t.Failed(); i++ {
		f(t, rand.New(rand.NewPCG(i, 1)))
		if t.Failed() {
			t.Logf("repeat with SEED=%d", i)
		}
	}
}

// anyLimit returns a valid limit: small ones, which meet their edges often, and huge ones.
func anyLimit(r *rand.Rand) limit.Limit {
	for {
		scale := []int64{5, 50, 10_000, 1 << 40}[r.IntN(4)]
		span := limit.Micros(1 + r.Int64N([]int64{4, 1000, 10_000_000, 1 << 40}[r.IntN(4)]))
		l := []limit.Limit{
			limit.Bucket(r.Int64N(scale), span, r.Int64N(scale)),
			limit.Pace(span),
			limit.Window(r.Int64N(scale), span),
			limit.Slots(r.Int64N(scale)),
			limit.Cooldown(span),
		}[r.IntN(5)]
		if l.Validate() == nil {
			return l
		}
	}
}

// step returns a time after now that matters to l: often none, mostly a part of its span.
func step(r *rand.Rand, l limit.Limit) limit.Micros {
	switch r.IntN(4) {
	case 0:
		return 0
	case 1:
		return limit.Micros(r.Int64N(3))
	}
	return limit.Micros(r.Int64N(1 + 2*int64(l.Per)/int64(1+r.IntN(50))))
}

// units returns a number of units that matters to l.
func units(r *rand.Rand, l limit.Limit) int64 {
	most := min(l.Capacity(), limit.MaxCredits)
	switch r.IntN(8) {
	case 0:
		return r.Int64N(2)
	case 1:
		return most + r.Int64N(3) - 1
	case 2:
		return int64(r.Uint64())
	}
	return r.Int64N(2 + most/int64(1+r.IntN(10)))
}

func clone(c limit.Cell) limit.Cell {
	c.Log = c.Log.Clone()
	return c
}

// picture is all that l can ever tell of c from time now on.
func picture(l limit.Limit, c limit.Cell, now limit.Micros) string {
	c = clone(c)
	if l.Idle(&c, now) {
		return fmt.Sprint(l.Level(&c, now))
	}
	l.Fit(&c, now, 0) // forgets what has left a window
	text := fmt.Sprint(l.Level(&c, now), max(0, c.Used))
	if l.Kind != limit.KindWindow && l.Kind != limit.KindSlots {
		text = fmt.Sprint(l.Level(&c, now)) // credits fall with time
	}
	for i := range c.Log.Len() {
		text += fmt.Sprint(" ", c.Log.At(i))
	}
	return text
}

// take is [limit.Limit.Take] that fails t unless everything holds that must hold of it.
func take(t *testing.T, l limit.Limit, c *limit.Cell, now limit.Micros, n int64) limit.Verdict {
	t.Helper()
	before := clone(*c)
	trial := clone(*c)
	fit := l.Fit(&trial, now, n)
	if got, want := picture(l, trial, now), picture(l, before, now); got != want {
		t.Errorf("%v: Fit changed %s to %s", l, want, got)
	}
	checkLevel(t, l, before, now)
	v := l.Take(c, now, n)
	at := max(now, c.At)
	if fit != v {
		t.Errorf("%v: at %d, Fit %d said %+v, Take %+v", l, now, n, fit, v)
	}
	switch {
	case v.OK:
		checkTaken(t, l, before, *c, now, n)
	case v.Wait < 0 || v.Never && v.Wait != 0:
		t.Errorf("%v: refusal %+v", l, v)
	default:
		if got, want := picture(l, *c, now), picture(l, before, now); got != want {
			t.Errorf("%v: at %d, refused %d, yet %s became %s", l, now, n, want, got)
		}
	}
	if !v.OK && !v.Never && l.Kind != limit.KindSlots {
		if v.Wait == 0 {
			t.Errorf("%v: refused %d without a wait", l, n)
		}
		if later := clone(*c); !l.Take(&later, at+v.Wait, n).OK {
			t.Errorf("%v: at %d, %d was told to wait %d, did, and was refused", l, at, n, v.Wait)
		}
		if later := clone(*c); l.Take(&later, at+v.Wait-1, n).OK {
			t.Errorf("%v: at %d, %d was told to wait %d, which is too long", l, at, n, v.Wait)
		}
	}
	return v
}

// checkTaken fails t if n units were taken that nobody can take, or cannot be given back.
func checkTaken(t *testing.T, l limit.Limit, before, after limit.Cell, now limit.Micros, n int64) {
	t.Helper()
	if n < 0 && l.Kind != limit.KindCooldown {
		t.Errorf("%v: took %d", l, n)
	}
	if l.Kind == limit.KindCooldown || l.Kind == limit.KindWindow && l.Max > limit.WindowEntries {
		return // a merged debit has a younger time
	}
	back := clone(after)
	l.Give(&back, now, max(now, after.At), n)
	if got, want := picture(l, back, max(now, after.At)), picture(l, before, max(now, after.At)); got != want {
		t.Errorf("%v: at %d, %d taken and given made %s of %s", l, now, n, got, want)
	}
}

// checkLevel fails t unless exactly what Level promises can be taken, when it says so.
func checkLevel(t *testing.T, l limit.Limit, c limit.Cell, now limit.Micros) {
	t.Helper()
	now = max(now, c.At)
	level := l.Level(&c, now)
	can := func(at limit.Micros, n int64) bool { c := clone(c); return l.Take(&c, at, n).OK }
	idle := l.Idle(&c, now)
	if l.Kind == limit.KindCooldown {
		level.Max, level.Left = 0, level.Left-1 // passes any number, or none
	}
	switch {
	case level.Left > 0 && !can(now, level.Left):
		t.Errorf("%v: level %+v, and what is left cannot be taken", l, level)
	case l.Kind != limit.KindCooldown && can(now, level.Left+1):
		t.Errorf("%v: level %+v, and one more can be taken", l, level)
	case level.Next > 0 && !can(now+level.Next, level.Left+1):
		t.Errorf("%v: level %+v, and one more does not come when it should", l, level)
	case level.Next > 0 && can(now+level.Next-1, level.Left+1):
		t.Errorf("%v: level %+v, and one more comes earlier", l, level)
	case idle && picture(l, c, now) != picture(l, limit.Cell{}, now):
		t.Errorf("%v: idle, and not as good as new: %s", l, picture(l, c, now))
	case !idle && level.Full > 0 && !l.Idle(&c, now+level.Full):
		t.Errorf("%v: level %+v, and not idle when full", l, level)
	case level.Full > 0 && l.Idle(&c, now+level.Full-1):
		t.Errorf("%v: level %+v, and full earlier", l, level)
	}
}

func TestTakeHoldsItsPromises(t *testing.T) {
	rounds(t, 3000, func(t *testing.T, r *rand.Rand) {
		l, c, now := anyLimit(r), limit.Cell{}, limit.Hour
		for range 30 {
			now += step(r, l)
			switch r.IntN(8) {
			case 0:
				l.Cool(&c, now, step(r, l))
			case 1:
				l.Give(&c, now, now-step(r, l), units(r, l)/int64(1+r.IntN(5)))
			case 2:
				take(t, l, &c, now-step(r, l)/2, units(r, l)) // a stale clock
			default:
				take(t, l, &c, now, units(r, l))
			}
		}
	})
}

// A passed is a number of units that passed at a time.
type passed struct {
	at limit.Micros
	n  int64
}

// checkSpans fails t if more than allowed(span) passed in any span between two passes.
func checkSpans(t *testing.T, l limit.Limit, list []passed, allowed func(span limit.Micros) int64) {
	t.Helper()
	for i := range list {
		sum := int64(0)
		for _, p := range list[i:] {
			sum += p.n
			if most := allowed(p.at - list[i].at); sum > most {
				t.Fatalf("%v: %d passed within %d µs, want at most %d", l, sum, p.at-list[i].at, most)
			}
		}
	}
}

func TestNeverMoreThanTheLimit(t *testing.T) {
	rounds(t, 1500, func(t *testing.T, r *rand.Rand) {
		l, c, now := anyLimit(r), limit.Cell{}, limit.Hour
		var list []passed
		for range 60 {
			now += step(r, l)
			stale := now - min(step(r, l)/4, l.Per/2)
			if l.Kind == limit.KindBucket && l.Max > 0 { // within what is carried forward
				stale = max(stale, now-limit.Micros(l.Burst*int64(l.Per)/l.Max))
			}
			if n := units(r, l); l.Take(&c, stale, n).OK && n > 0 {
				list = append(list, passed{max(stale, c.At), n})
			}
		}
		switch l.Kind {
		case limit.KindWindow:
			checkSpans(t, l, list, func(span limit.Micros) int64 {
				if span < l.Per {
					return l.Max
				}
				return limit.MaxCredits
			})
		case limit.KindBucket:
			checkSpans(t, l, list, func(span limit.Micros) int64 {
				return l.Burst + int64(float64(span+1)*float64(l.Max)/float64(l.Per)*(1+1e-12))
			})
		case limit.KindPace:
			checkSpans(t, l, list, func(span limit.Micros) int64 { return 1 + int64(span/l.Per) })
		case limit.KindSlots:
			checkSpans(t, l, list, func(limit.Micros) int64 { return l.Max })
		}
	})
}

func TestCoarseWindowIsLateByAStepAndNeverEarly(t *testing.T) {
	rounds(t, 20, func(t *testing.T, r *rand.Rand) {
		l := limit.Window(limit.WindowEntries+1+r.Int64N(20_000), limit.Second+limit.Micros(r.Int64N(10_000_000)))
		exact := l
		var c limit.Cell
		var list []passed
		now := limit.Hour
		for range 40_000 {
			now += limit.Micros(r.Int64N(2 * int64(l.Per) / l.Max))
			n := r.Int64N(3)
			v := l.Take(&c, now, n)
			if v.OK && n > 0 {
				list = append(list, passed{now, n})
			}
			if v.OK || n == 0 {
				continue
			}
			// What an exact window would have left a step ago is what may be missing.
			used := int64(0)
			for _, p := range slices.Backward(list) {
				if p.at+exact.Per <= now-l.Per/limit.WindowEntries {
					break
				}
				used += p.n
			}
			if used+n <= l.Max {
				t.Fatalf("%v: refused %d with %d used a step ago", l, n, used)
			}
		}
		if c.Log.Len() > 2*limit.WindowEntries {
			t.Errorf("%v: remembers %d debits", l, c.Log.Len())
		}
		for i, j, sum := 0, 0, int64(0); i < len(list); i++ {
			for sum += list[i].n; list[j].at+l.Per <= list[i].at; j++ {
				sum -= list[j].n
			}
			if sum > l.Max {
				t.Fatalf("%v: %d in one window", l, sum)
			}
		}
	})
}

func TestWindowRemembersNoMoreThanItMust(t *testing.T) {
	l, c := limit.Window(10, limit.Hour), limit.Cell{}
	for now := limit.Micros(0); now < limit.Minute; now += limit.Millisecond {
		if !l.Take(&c, now, 1).OK {
			t.Fatal("refused although every unit comes back")
		}
		l.Give(&c, now, now, 1)
	}
	if n := c.Log.Len(); n > 0 {
		t.Errorf("%d debits of nothing are remembered", n)
	}
	for now := limit.Minute; now < 2*limit.Minute; now += limit.Millisecond {
		l.Give(&c, now, now, -1)
	}
	if n := c.Log.Len(); n > limit.WindowEntries+limit.WindowEntries/10 {
		t.Errorf("%d overdrafts are remembered one by one", n)
	}
	if c.Used != 60_000 {
		t.Errorf("%d units are used, want 60000", c.Used)
	}
}

func TestConvertForgivesNothing(t *testing.T) {
	rounds(t, 3000, func(t *testing.T, r *rand.Rand) {
		from, to := anyLimit(r), anyLimit(r)
		for r.IntN(2) == 0 && to.Kind != from.Kind {
			to = anyLimit(r)
		}
		var c limit.Cell
		now := limit.Hour
		for range 10 {
			now += step(r, from)
			from.Take(&c, now, units(r, from))
		}
		used := from.Level(&c, now).Max - from.Level(&c, now).Left
		if from.Kind == limit.KindWindow && to.Kind == limit.KindWindow {
			used = usedWithin(c.Log, now, min(from.Per, to.Per))
		}
		got := to.Convert(from, clone(c), now)
		checkLevel(t, to, got, now)
		if to.Kind == limit.KindCooldown || from.Kind == limit.KindCooldown || to.Kind == limit.KindPace {
			return
		}
		if to.OnRelease() && !from.OnRelease() {
			if got != (limit.Cell{}) {
				t.Errorf("%v became %v with %+v: nobody will release it", from, to, got)
			}
			return
		}
		if to.Kind == limit.KindBucket {
			used -= to.Max / int64(to.Per) // a bucket is early by what passes in a microsecond
			used--
		}
		if left := to.Level(&got, now).Left; left > max(0, to.Capacity()-max(0, used)) {
			t.Errorf("%v with %d used became %v with %d left", from, used, to, left)
		}
	})
}

// usedWithin is the sum of the debits of the last span.
func usedWithin(g *limit.Log, now, span limit.Micros) (sum int64) {
	for i := range g.Len() {
		if d := g.At(i); d.At > now-span {
			sum += d.N
		}
	}
	return sum
}

func TestPackRoundTrip(t *testing.T) {
	rounds(t, 3000, func(t *testing.T, r *rand.Rand) {
		l, c, now := anyLimit(r), limit.Cell{}, limit.Hour
		if !l.Narrow() {
			return
		}
		for range 20 {
			now += step(r, l)
			l.Take(&c, now, units(r, l))
			l.Cool(&c, now, step(r, l))
			if r.IntN(4) == 0 {
				l.Give(&c, now, now, units(r, l))
			}
			word := l.Pack(c)
			if word >= 1<<60 || word < 0 {
				t.Fatalf("%v: %+v does not fit 61 bits: %d", l, c, word)
			}
			later := now + step(r, l)
			got := l.Unpack(word, later)
			if got, want := picture(l, got, later), picture(l, c, later); got != want {
				t.Fatalf("%v: packed %s, unpacked %s", l, want, got)
			}
		}
	})
}
