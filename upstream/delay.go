package upstream

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Longest is the longest delay that an answer can ask for; a longer one is cut to it, and
// so is a number with too many digits. No provider's period is longer than a month.
const Longest = 31 * 24 * time.Hour

// ParseDelay reads how long to wait from text, in any form that providers use:
//
//	7  3.5                          seconds
//	17ms  8.64s  6m0s  1d2h         a duration, from days to milliseconds
//	2026-08-22T10:00:05Z            an instant: RFC 3339
//	Sat, 22 Aug 2026 10:00:05 GMT   an instant: the three forms of RFC 9110, section 5.6.7
//	1787392805  1787392805123       an instant: seconds or milliseconds since 1970
//
// An instant is compared with now, and one that has passed is a delay of zero. Space
// around the text is ignored. Everything else, such as "-5", "1e3" or "120junk", is no
// delay: it reports false, because what cannot be read must not be taken for "at once".
func ParseDelay(text string, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 64 {
		return 0, false
	}
	if allDigits(text) {
		switch len(text) {
		case 10:
			return until(epoch(text, time.Second), now), true
		case 13:
			return until(epoch(text, time.Millisecond), now), true
		}
		return clamp(number(text, time.Second)), true
	}
	if d, ok := parseDuration(text); ok {
		return d, true
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return until(t, now), true
	}
	if t, err := http.ParseTime(text); err == nil {
		return until(t, now), true
	}
	return 0, false
}

// parseDuration reads a decimal number of seconds, or numbers with the units d, h, m, s
// and ms in this order. Only the last number may have a fraction.
func parseDuration(text string) (time.Duration, bool) {
	units := []struct {
		name string
		unit time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}
	var total time.Duration
	next := 0
	for rest := text; rest != ""; {
		n := strings.IndexFunc(rest, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
		if n < 0 { // a bare decimal is seconds, and stands alone
			return clamp(number(rest, time.Second)), rest == text && isDecimal(rest)
		}
		figure := rest[:n]
		end := n + len(rest[n:]) - len(strings.TrimLeft(rest[n:], "dhms"))
		name := rest[n:end]
		rest = rest[end:]
		for next < len(units) && units[next].name != name {
			next++
		}
		if next == len(units) || !isDecimal(figure) || strings.Contains(figure, ".") && rest != "" {
			return 0, false
		}
		total = clamp(total + number(figure, units[next].unit))
		next++
	}
	return total, true
}

// number returns a decimal number of units, cut to Longest. A part of a nanosecond counts
// as a whole one, so that nobody comes back too early.
func number(figure string, unit time.Duration) time.Duration {
	whole, part, _ := strings.Cut(figure, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > int64(Longest/unit) {
		return Longest
	}
	d := time.Duration(n) * unit
	scale := unit
	for _, digit := range part {
		if scale /= 10; scale == 0 {
			if digit != '0' {
				d++
				break
			}
			continue
		}
		d += time.Duration(digit-'0') * scale
	}
	return d
}

func epoch(digits string, unit time.Duration) time.Time {
	n, _ := strconv.ParseInt(digits, 10, 64) // at most 13 digits
	if unit == time.Millisecond {
		return time.UnixMilli(n)
	}
	return time.Unix(n, 0)
}

func until(t, now time.Time) time.Duration { return clamp(t.Sub(now)) }

func clamp(d time.Duration) time.Duration { return min(max(d, 0), Longest) }

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isDecimal reports whether s is digits, with at most one point between them.
func isDecimal(s string) bool {
	whole, part, point := strings.Cut(s, ".")
	return allDigits(whole) && (!point || allDigits(part))
}
