package upstream

import (
	"net/http"
	"time"
)

// RetryAfter returns when an answer's header allows the next attempt. It reads
// retry-after-ms and x-ms-retry-after-ms, which are exact, and Retry-After, which counts if it
// says more than the same in whole seconds; of several values of a field the largest counts.
// It reports false if none can be read.
//
// Instants are compared with the answer's own Date if there is one, so that a wrong clock on
// either side does no harm, and else with received.
func RetryAfter(h http.Header, received time.Time) (time.Duration, bool) {
	now := sent(h, received)
	whole, found := largest(h.Values("Retry-After"), func(text string) (time.Duration, bool) { return ParseDelay(text, now) })
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if d, ok := largest(h.Values(name), func(text string) (time.Duration, bool) {
			if !isDecimal(text) {
				return 0, false
			}
			return clamp(number(text, time.Millisecond)), true
		}); ok {
			if whole > d+time.Second {
				return whole, true
			}
			return d, true
		}
	}
	return whole, found
}

func largest(values []string, parse func(string) (time.Duration, bool)) (longest time.Duration, found bool) {
	for _, v := range values {
		if d, ok := parse(v); ok {
			longest, found = max(longest, d), true
		}
	}
	return longest, found
}

// sent returns when an answer was sent by the sender's own clock.
func sent(h http.Header, received time.Time) time.Time {
	if t, err := http.ParseTime(h.Get("Date")); err == nil {
		return t
	}
	return received
}
