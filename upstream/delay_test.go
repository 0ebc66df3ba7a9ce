package upstream_test

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/upstream"
)

var now = time.Date(2026, 8, 22, 10, 0, 0, 0, time.UTC)

func TestParseDelay(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		name, text string
		want       time.Duration
	}{
		{"L-044 digits are seconds before they are a date", "10", 10 * time.Second},
		{"L-045 junk behind digits", "120junk", none},
		{"L-045 an exponent", "1e3", none},
		{"L-045 hexadecimal", "0x10", none},
		{"L-045 below zero", "-5", none},
		{"L-045 space around", " 7 ", 7 * time.Second},
		{"L-045 decimal seconds", "3.5", 3500 * time.Millisecond},
		{"L-045 25 digits", "1234567890123456789012345", upstream.Longest},
		{"L-046 zero is said", "0", 0},
		{"L-047 a day", "86400", 24 * time.Hour},
		{"OpenAI s", "1s", time.Second},
		{"OpenAI m and s", "6m0s", 6 * time.Minute},
		{"OpenAI ms", "17ms", 17 * time.Millisecond},
		{"OpenAI decimal", "8.64s", 8640 * time.Millisecond},
		{"OpenAI m and decimal", "1m26.4s", 86400 * time.Millisecond},
		{"Groq", "2m59.56s", 179560 * time.Millisecond},
		{"all units", "1d2h3m4s5ms", 26*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond},
		{"L-054 nanoseconds", "45.837906927s", 45837906927},
		{"L-054 part of a millisecond", "373.801628ms", 373801628},
		{"L-054 zero with a unit", "0s", 0},
		{"rounded up below a nanosecond", "0.0000000001s", 1},
		{"Cerebras", "33011.382867097855", 33011382867098},
		{"Anthropic, RFC 3339", "2026-08-22T10:00:05Z", 5 * time.Second},
		{"RFC 3339 with a zone", "2026-08-22T12:00:05.5+02:00", 5500 * time.Millisecond},
		{"IMF-fixdate", "Sat, 22 Aug 2026 10:01:00 GMT", time.Minute},
		{"RFC 850", "Saturday, 22-Aug-26 10:01:00 GMT", time.Minute},
		{"asctime", "Sat Aug 22 10:01:00 2026", time.Minute},
		{"an instant that has passed", "Sat, 22 Aug 2020 10:01:00 GMT", 0},
		{"epoch seconds", "1787392805", 5 * time.Second},
		{"epoch milliseconds", "1787392805250", 5250 * time.Millisecond},
		{"far away", "9999d", upstream.Longest},
		{"units out of order", "5s1m", none},
		{"a unit twice", "1m1m", none},
		{"no figure", "s", none},
		{"a fraction that is not last", "1.5m3s", none},
		{"no digits behind the point", "3.", none},
		{"another unit", "3us", none},
		{"a number behind units", "5m30", none},
		{"empty", "", none},
		{"not a number", "NaN", none},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := upstream.ParseDelay(c.text, now)
			if !ok {
				got = none
			}
			if got != c.want {
				t.Errorf("ParseDelay(%q) = %v, want %v", c.text, got, c.want)
			}
		})
	}
}

func FuzzParseDelay(f *testing.F) {
	for _, s := range []string{"7", "1m26.4s", "2026-08-22T10:00:05Z", "Sat, 22 Aug 2026 10:01:00 GMT", "1.5m3s", "99999999999999999999d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := upstream.ParseDelay(text, now); d < 0 || d > upstream.Longest || !ok && d != 0 {
			t.Errorf("ParseDelay(%q) = %v, %v", text, d, ok)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		name   string
		header http.Header
		want   time.Duration
	}{
		{"nothing", http.Header{}, none},
		{"milliseconds are exact", http.Header{"Retry-After-Ms": {"1250"}, "Retry-After": {"2"}}, 1250 * time.Millisecond},
		{"L-061 unless the seconds say more than the same", http.Header{"Retry-After-Ms": {"0"}, "Retry-After": {"30"}}, 30 * time.Second},
		{"Azure", http.Header{"X-Ms-Retry-After-Ms": {"7000"}}, 7 * time.Second},
		{"milliseconds that cannot be read", http.Header{"Retry-After-Ms": {"soon"}, "Retry-After": {"2"}}, 2 * time.Second},
		{"L-045 what cannot be read is not at once", http.Header{"Retry-After": {"120junk"}}, none},
		{"L-046 zero milliseconds", http.Header{"Retry-After-Ms": {"0"}}, 0},
		{"of two values the longer", http.Header{"Retry-After": {"3", "9"}}, 9 * time.Second},
		{"L-145 by the sender's clock", http.Header{
			"Date": {"Sat, 22 Aug 2020 10:00:00 GMT"}, "Retry-After": {"Sat, 22 Aug 2020 10:00:30 GMT"}}, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := upstream.RetryAfter(c.header, now)
			if !ok {
				got = none
			}
			if got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	t.Run("A-71 B-32 D18 a hint is never shortened", func(t *testing.T) {
		for attempt := range 100 {
			hint := time.Duration(rand.Int64N(int64(time.Hour)))
			if d := (upstream.Backoff{}).Delay(attempt, hint); d < hint || d > hint+8*time.Second+50*time.Millisecond {
				t.Fatalf("attempt %d, told %v: waits %v", attempt, hint, d)
			}
		}
	})
	t.Run("A-72 doubles up to a bound", func(t *testing.T) {
		b := upstream.Backoff{Base: 500 * time.Millisecond, Max: 4 * time.Second, Rand: func(n int64) int64 { return n - 1 }}
		for attempt, want := range []time.Duration{500, 1000, 2000, 4000, 4000, 4000} {
			if got := b.Delay(attempt, 0) - 50*time.Millisecond; got != want*time.Millisecond {
				t.Errorf("attempt %d: at most %v, want %v", attempt, got, want*time.Millisecond)
			}
		}
		if d := b.Delay(1<<40, 0); d > 5*time.Second {
			t.Errorf("a huge number of attempts waits %v", d)
		}
	})
	t.Run("L-046 at once is not at once", func(t *testing.T) {
		b := upstream.Backoff{Rand: func(int64) int64 { return 0 }}
		if d := b.Delay(0, 0); d <= 0 {
			t.Errorf("waits %v", d)
		}
	})
	t.Run("L-060 callers refused together come back apart", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		b := upstream.Backoff{Rand: r.Int64N}
		buckets := map[time.Duration]int{}
		for range 1000 {
			buckets[b.Delay(0, time.Second)/(100*time.Millisecond)]++
		}
		for at, n := range buckets {
			if n > 150 {
				t.Errorf("%d of 1000 come back within 100 ms of %v", n, at*100*time.Millisecond)
			}
		}
	})
}
