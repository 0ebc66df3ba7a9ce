package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/limit"
)

// A Rate is a count and the span in which it comes back, with or without what may come
// at once: "100/min", "5/10s", "30/s burst 20".
type Rate struct {
	// Max is the count; zero denies everything.
	Max int64
	// Per is the span, at least a millisecond.
	Per limit.Micros
	// Burst is nil if the text names none.
	Burst *int64
}

const rateForm = `write a count, a slash and a time, such as "100/min", "5/10s" or "30/s burst 20"`

func (r *Rate) parse(text string) error {
	rate, burst, hasBurst := strings.Cut(strings.TrimSpace(text), " ")
	count, span, ok := strings.Cut(rate, "/")
	if !ok {
		return fmt.Errorf("%q has no time; %s", text, rateForm)
	}
	var err error
	if r.Max, err = parseCount(count); err != nil {
		return fmt.Errorf("%q: %w; %s", text, err, rateForm)
	}
	if r.Per, err = parseSpan(span); err != nil {
		return fmt.Errorf("%q: %w; %s", text, err, rateForm)
	}
	if r.Per < limit.Millisecond {
		return fmt.Errorf("%q: a time below a millisecond cannot be kept; use 1ms or more", text)
	}
	if !hasBurst {
		return nil
	}
	word, number, _ := strings.Cut(strings.TrimSpace(burst), " ")
	n, err := parseCount(strings.TrimSpace(number))
	if word != "burst" || err != nil {
		return fmt.Errorf(`%q: what follows the rate must be "burst" and a whole number; %s`, text, rateForm)
	}
	r.Burst = &n
	return nil
}

func (*Rate) pattern() string {
	return `^\s*[0-9]+/([0-9]+(\.[0-9]+)?)?(ms|s|sec|second|m|min|minute|h|hour|d|day|w|week)(\s+burst\s+[0-9]+)?\s*$`
}

// bucket returns the rate as a limit. Without a burst of its own, the rate's count may
// come at once.
func (r *Rate) bucket() limit.Limit {
	burst := r.Max
	if r.Burst != nil {
		burst = *r.Burst
	}
	return limit.Bucket(r.Max, r.Per, burst)
}

func parseCount(s string) (int64, error) {
	switch n, err := strconv.ParseInt(s, 10, 64); {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is too large", s)
	case err != nil || s[0] == '+' || len(s) > 1 && s[0] == '0' || strings.HasPrefix(s, "-0"):
		return 0, fmt.Errorf("%q is no whole number", s)
	case n < 0:
		return 0, fmt.Errorf("%s is negative", s)
	default:
		return n, nil
	}
}

// spans are the units of time. A duration spells them as Go does; the others are for
// rates, and d and day are everywhere a day of 24 hours.
var spans = map[string]limit.Micros{
	"ms": limit.Millisecond,
	"s":  limit.Second, "sec": limit.Second, "second": limit.Second,
	"m": limit.Minute, "min": limit.Minute, "minute": limit.Minute,
	"h": limit.Hour, "hour": limit.Hour,
	"d": limit.Day, "day": limit.Day,
	"w": 7 * limit.Day, "week": 7 * limit.Day,
}

// calendar are units that people write and that no span is: not all months are alike.
var calendar = []string{"mo", "month", "months", "y", "yr", "year", "years"}

// parseSpan reads "min", "10s", "1.5h" or "1d".
func parseSpan(s string) (limit.Micros, error) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789."))
	unit, ok := spans[s[digits:]]
	switch {
	case s == "":
		return 0, errors.New("the time is missing")
	case s[digits:] == "":
		return 0, fmt.Errorf("%s has no unit", s)
	case slices.Contains(calendar, s[digits:]):
		return 0, fmt.Errorf("%q has no one length; use days, such as 30d", s[digits:])
	case !ok:
		return 0, fmt.Errorf("%q is no unit of time%s", s[digits:], suggestion(s[digits:], []string{"min", "ms", "s", "second", "minute", "h", "hour", "day", "week"}))
	case digits == 0:
		return unit, nil
	}
	n, err := strconv.ParseFloat(s[:digits], 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", s[:digits])
	}
	if n > float64(math.MaxInt64/int64(unit)) {
		return 0, fmt.Errorf("%s is too long", s)
	}
	return limit.Micros(math.Round(n * float64(unit))), nil
}

// parseDuration reads "5s", "200ms", "1m30s" or "1d".
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := parseCount(days)
		if err == nil && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no time; write a number and a unit, such as 5s, 200ms or 1m30s", s)
	case d < 0:
		return 0, fmt.Errorf("%s is negative", s)
	}
	return d, nil
}

const durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$|^[0-9]+d$`

// A Prefix is a network. A bare address is a network of one.
type Prefix struct{ netip.Prefix }

func (p *Prefix) parse(text string) error {
	if a, err := netip.ParseAddr(text); err == nil {
		if a.Zone() != "" {
			return fmt.Errorf("%q has a zone, which no client has; remove it", text)
		}
		a = a.Unmap()
		p.Prefix = netip.PrefixFrom(a, a.BitLen())
		return nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return fmt.Errorf(`%q is no address or network; write one such as "10.0.0.0/8", "2001:db8::/32" or "192.0.2.1"`, text)
	case prefix != prefix.Masked():
		return fmt.Errorf("%q has bits beyond its length; write %q", text, prefix.Masked())
	case prefix.Addr().Is4In6():
		return fmt.Errorf("%q is an IPv4 network in IPv6 form; write it as IPv4", text)
	}
	p.Prefix = prefix
	return nil
}

func (*Prefix) pattern() string { return `^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$` }

// A Secret is text that must not be printed. Its String and its other forms hide it;
// Reveal returns it.
type Secret struct {
	text  string
	clear bool // it stands in the file itself
}

// Reveal returns the text. It never belongs in a log, a key or an error.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == "" }

// String returns a word that says that there is a secret, or "".
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return "[secret]"
}

// GoString returns the same as String, so that %#v hides the secret too.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns the same as String, so that encoders hide the secret too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Free is a part of the file that is kept and not looked into. Value holds
// map[string]any, []any, string, float64, int64, bool or nil.
type Free struct{ Value any }
