package limit_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/limit"
)

// poll takes one unit every interval from 0 until the end, and returns how many passed.
// The interval may be finer than the clock.
func poll(l limit.Limit, every, end time.Duration) (passed int) {
	var c limit.Cell
	for now := time.Duration(0); now < end; now += every {
		if l.Take(&c, limit.Micros(now/time.Microsecond), 1).OK {
			passed++
		}
	}
	return passed
}

func TestLongRunRate(t *testing.T) {
	for _, c := range []struct {
		name       string
		limit      limit.Limit
		every, end time.Duration
		min, max   int
	}{
		{"P-012 300000/s is 300000/s in ticks of a microsecond", limit.Bucket(300_000, limit.Second, 1), time.Microsecond, time.Second, 299_999, 300_001},
		{"P-013 5/s polled each millisecond refills", limit.Bucket(5, limit.Second, 5), time.Millisecond, time.Second + 1, 10, 10},
		{"P-014 1/s polled each 100 ms", limit.Bucket(1, limit.Second, 1), 100 * time.Millisecond, time.Second + 1, 2, 2},
		{"P-016 3/s burst 3 polled each 100 ms for 10 s", limit.Bucket(3, limit.Second, 3), 100 * time.Millisecond, 10*time.Second + 1, 33, 33},
		// With burst 1 a unit that is whole between two polls stops the refill until the
		// next: one in 400 µs passes of 333 µs, whatever remainder is kept. Burst 2 keeps it.
		{"P-018 3000/s burst 2 polled each 100 µs", limit.Bucket(3000, limit.Second, 2), 100 * time.Microsecond, time.Second, 3000, 3002},
		{"P-018 3000/s burst 1 polled each 100 µs is bound by the grid", limit.Bucket(3000, limit.Second, 1), 100 * time.Microsecond, time.Second, 2500, 2500},
		{"P-026 30/s paced by a rounded interval", limit.Bucket(30, limit.Second, 1), 33_333_333, 1000 * 33_333_333, 1000, 1000},
		{"P-026 900/s paced by a rounded interval", limit.Bucket(900, limit.Second, 1), 1_111_111, 1000 * 1_111_111, 1000, 1000},
		{"P-026 7/s paced by a rounded interval", limit.Bucket(7, limit.Second, 1), 142_857_142, 1000 * 142_857_142, 997, 1000},
		{"P-026 and still exact in the long run: one in 33 ms is too many", limit.Bucket(30, limit.Second, 1), 33 * time.Millisecond, 33 * time.Second, 495, 992},
		{"P-028 a million a second, one each microsecond", limit.Bucket(1_000_000, limit.Second, 1), time.Microsecond, time.Second, 1_000_000, 1_000_000},
		{"P-050 5 in any 60 s under steady load, ten minutes", limit.Window(5, limit.Minute), time.Second, 10 * time.Minute, 50, 50},
		{"P-048 100 in any minute, one each 10 s for an hour", limit.Window(100, limit.Minute), 10 * time.Second, time.Hour, 360, 360},
		{"P-046 a window of one", limit.Window(1, 10*limit.Second), time.Second, time.Minute, 6, 6},
		{"P-024 a pace polled each millisecond", limit.Pace(100 * limit.Millisecond), time.Millisecond, time.Second, 10, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := poll(c.limit, c.every, c.end); got < c.min || got > c.max {
				t.Errorf("%d passed, want %d to %d", got, c.min, c.max)
			}
		})
	}
}

func TestBillionASecond(t *testing.T) {
	l, c, passed := limit.Bucket(1_000_000_000, limit.Second, 1), limit.Cell{}, 0
	for now := range limit.Micros(100) {
		for l.Take(&c, now, 1).OK {
			passed++
		}
	}
	if passed < 99_000 || passed > 101_000 {
		t.Errorf("%d passed in 100 µs, want 100000 and one microsecond's", passed)
	}
}

func TestEqualClocks(t *testing.T) {
	t.Run("P-001 alternating stamps for long", func(t *testing.T) {
		l, c, passed := limit.Bucket(1, limit.Second, 10), limit.Cell{}, 0
		for range 1000 {
			for _, now := range []limit.Micros{10 * limit.Second, 5 * limit.Second} {
				if l.Take(&c, now, 1).OK {
					passed++
				}
			}
		}
		if passed != 10 {
			t.Errorf("%d of 2000 passed, want 10", passed)
		}
	})
	t.Run("P-045 fifty at once, one passes", func(t *testing.T) {
		l, c, passed := limit.Window(1, limit.Second), limit.Cell{}, 0
		for range 50 {
			if l.Take(&c, 0, 1).OK {
				passed++
			}
		}
		if passed != 1 {
			t.Errorf("%d passed, want 1", passed)
		}
	})
}

// Eight tasks ask for ten units at a time, as soon as they are told that ten are there.
func TestWaitingForManyUnits(t *testing.T) {
	t.Run("P-021 1200 a minute, ten at a time", func(t *testing.T) {
		l, c := limit.Bucket(1200, limit.Minute, 1200), limit.Cell{}
		var minutes [2]int64
		for now := limit.Micros(0); now < 2*limit.Minute; {
			v := l.Take(&c, now, 10)
			if v.OK {
				minutes[now/limit.Minute] += 10
			}
			now += v.Wait
		}
		if minutes[0] > 2400 || minutes[0] < 2390 {
			t.Errorf("%d in the first minute, want 2400", minutes[0])
		}
		if minutes[1] > 1210 || minutes[1] < 1190 {
			t.Errorf("%d in the second minute, want 1200", minutes[1])
		}
	})
}

func TestMixedVersions(t *testing.T) {
	t.Run("P-089 nodes with limits of 100 and 50 on one key", func(t *testing.T) {
		limits := [2]limit.Limit{limit.Window(100, limit.Minute), limit.Window(50, limit.Minute)}
		var m machine
		passed := 0
		for i := range 200 {
			if m.Take(limits[i%2], limit.Micros(i), 1).OK {
				passed++
			}
		}
		if passed != 100 {
			t.Errorf("%d passed, want 100", passed)
		}
	})
	t.Run("P-089 a bucket that changes to and fro keeps its debt", func(t *testing.T) {
		limits := [2]limit.Limit{limit.Bucket(100, limit.Hour, 100), limit.Bucket(7, limit.Minute, 50)}
		var m machine
		passed := 0
		for i := range 2000 {
			if m.Take(limits[i%2], limit.Micros(i), 1).OK {
				passed++
			}
		}
		if passed > 100 {
			t.Errorf("%d passed, want at most 100", passed)
		}
	})
}
