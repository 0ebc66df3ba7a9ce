package limit_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/limit"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		limit limit.Limit
		want  string // part of the error; empty for none
	}{
		{limit.Limit{}, "no kind"},
		{limit.Limit{Kind: 200, Max: 1, Per: 1}, "no kind"},
		{limit.Bucket(10, limit.Second, 20), ""},
		{limit.Bucket(0, limit.Second, 20), ""}, // P-010: explicit deny-all
		{limit.Bucket(10, limit.Second, 0), ""},
		{limit.Bucket(10, 0, 1), "time in which"},
		{limit.Bucket(-1, limit.Second, 1), "negative"},
		{limit.Bucket(1, limit.Second, -1), "negative"},
		{limit.Bucket(1, limit.Second, limit.MaxCredits), "too large"},
		{limit.Bucket(limit.MaxCredits+1, 1, 1), "too large"},
		{limit.Bucket(1_000_000_007, limit.Second, limit.MaxCredits/int64(limit.Second)), ""},
		{limit.Pace(0), "interval"},
		{limit.Pace(-1), "negative"},
		{limit.Pace(limit.MaxCredits + 1), "too long"},
		{limit.Pace(1), ""},
		{limit.Window(0, limit.Second), ""},
		{limit.Window(1, 0), "length"},
		{limit.Window(limit.MaxCredits+1, 1), "too large"},
		{limit.Slots(0), ""},
		{limit.Slots(limit.MaxCredits + 1), "too many"},
		{limit.Cooldown(0), ""},
		{limit.Cooldown(-1), "negative"},
	} {
		err := c.limit.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.limit, err, c.want)
		}
		_ = c.limit.String() // says something even of what it refuses
	}
}

func TestString(t *testing.T) {
	for _, c := range []struct {
		limit limit.Limit
		want  string
	}{
		{limit.Limit{}, "none"},
		{limit.Bucket(60, limit.Minute, 20), "1/s burst 20"},
		{limit.Bucket(10, limit.Second, 20), "10/s burst 20"},
		{limit.Bucket(2, limit.Minute, 2), "2/min burst 2"}, // P-029: every unit by its own name
		{limit.Bucket(5, limit.Hour, 2), "5/h burst 2"},
		{limit.Bucket(5, limit.Day, 2), "5/day burst 2"},
		{limit.Bucket(3, 7*limit.Day, 2), "1 per 56h0m0s burst 2"},
		{limit.Pace(3 * limit.Second), "one every 3s"},
		{limit.Window(30, limit.Minute), "30 in any 1m0s"},
		{limit.Slots(5), "5 at once"},
		{limit.Cooldown(0), "cooldown"},
	} {
		if got := c.limit.String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.limit, got, c.want)
		}
	}
}

func TestEqualRatesAreOneLimit(t *testing.T) {
	if limit.Bucket(60, limit.Minute, 5) != limit.Bucket(1, limit.Second, 5) {
		t.Error("60 a minute and 1 a second are two limits")
	}
}

func TestDurations(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want limit.Micros
	}{
		{0, 0}, {1, 1}, {999, 1}, {1000, 1}, {1001, 2},
		{time.Second, limit.Second},
		{-1, 0}, {-1500, -1},
		{math.MaxInt64, math.MaxInt64/1000 + 1},
	} {
		if got := limit.MicrosOf(c.d); got != c.want {
			t.Errorf("MicrosOf(%d) is %d, want %d", c.d, got, c.want)
		}
	}
	if limit.Micros(math.MaxInt64).Duration() != math.MaxInt64 || limit.Micros(math.MinInt64).Duration() != math.MinInt64 {
		t.Error("Duration does not saturate")
	}
}

func TestZeroLimitRefuses(t *testing.T) {
	var l limit.Limit
	var c limit.Cell
	for _, n := range []int64{-1, 0, 1} {
		if v := l.Take(&c, 0, n); v != (limit.Verdict{Never: true}) {
			t.Errorf("the zero limit said %+v to %d", v, n)
		}
	}
	if l.Capacity() != 0 || l.OnRelease() || l.Narrow() {
		t.Error("the zero limit has a capacity")
	}
}

// A log is restored from its debits, in their order.
func TestLogClone(t *testing.T) {
	l, c := limit.Window(100, limit.Second), limit.Cell{}
	for now := limit.Micros(0); now < 3*limit.Second; now += 77 * limit.Millisecond {
		l.Take(&c, now, 1)
	}
	restored := limit.Cell{At: c.At, Used: c.Used, Log: new(limit.Log)}
	for i := range c.Log.Len() {
		restored.Log.Append(c.Log.At(i))
	}
	copied := c
	copied.Log = c.Log.Clone()
	l.Take(&c, c.At, 50) // what happens to one is nothing to the others
	for _, other := range []limit.Cell{restored, copied} {
		if left := l.Level(&other, other.At).Left; left != 87 {
			t.Errorf("%d left, want 87", left)
		}
	}
	if (*limit.Log)(nil).Clone() != nil {
		t.Error("the clone of nothing is something")
	}
}

// Deciding allocates nothing; a window's log grows while it is new.
func TestTakeAllocatesNothing(t *testing.T) {
	for _, l := range []limit.Limit{
		limit.Bucket(1, limit.Second, 10), limit.Pace(limit.Second), limit.Window(10, limit.Second),
		limit.Slots(10), limit.Cooldown(0),
	} {
		var c limit.Cell
		now := limit.Micros(0)
		for range 100 {
			now += 50 * limit.Millisecond
			l.Take(&c, now, 1)
		}
		if n := testing.AllocsPerRun(1000, func() {
			now += 50 * limit.Millisecond
			l.Take(&c, now, 1)
			l.Fit(&c, now, 1)
			l.Level(&c, now)
		}); n != 0 {
			t.Errorf("%v: %v allocations", l, n)
		}
	}
}

// The ends of int64 are corrections like any other: they saturate and do not wrap.
func TestGiveSaturates(t *testing.T) {
	for _, l := range []limit.Limit{
		limit.Bucket(1, limit.Second, 10), limit.Pace(limit.Second), limit.Window(10, limit.Second), limit.Slots(10),
	} {
		for _, debit := range []int64{math.MinInt64, -math.MaxInt64, -limit.MaxCredits} {
			var c limit.Cell
			l.Give(&c, 0, 0, debit)
			l.Give(&c, 0, 0, debit)
			if left := l.Level(&c, 0).Left; left != 0 {
				t.Errorf("%v: %d left after a debit of %d", l, left, debit)
			}
			l.Give(&c, 0, 0, math.MaxInt64)
			if left := l.Level(&c, 0).Left; left != l.Capacity() {
				t.Errorf("%v: %d left after everything came back", l, left)
			}
		}
	}
}

// However small a debt, a change of limits does not forgive it.
func TestConvertRoundsUp(t *testing.T) {
	from, to := limit.Bucket(1, 7, 5), limit.Bucket(1, 3, 5)
	c := limit.Cell{At: 100, Used: 1}
	for range 10 {
		c = to.Convert(from, c, 100)
		if to.Idle(&c, 100) {
			t.Fatal("a credit was forgiven")
		}
		from, to = to, from
	}
}
