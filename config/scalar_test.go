package config

import (
	"regexp"
	"testing"

	"github.com/sluicegate/sluice/limit"
)

func TestUnitsOfRates(t *testing.T) {
	for text, want := range map[string]limit.Micros{
		"2/ms": limit.Millisecond, "2/250ms": 250 * limit.Millisecond,
		"2/s": limit.Second, "2/sec": limit.Second, "2/second": limit.Second, "2/1.5s": 1500 * limit.Millisecond,
		"2/m": 60 * limit.Second, "2/min": 60 * limit.Second, "2/minute": 60 * limit.Second,
		"2/h": 3600 * limit.Second, "2/hour": 3600 * limit.Second,
		"2/d": 86_400 * limit.Second, "2/day": 86_400 * limit.Second, "2/7d": 604_800 * limit.Second,
		"2/w": 604_800 * limit.Second, "2/week": 604_800 * limit.Second,
	} {
		t.Run("P-029 "+text, func(t *testing.T) {
			var r Rate
			if err := r.parse(text); err != nil || r.Max != 2 || r.Per != want {
				t.Errorf("%d in %d µs, %v; want 2 in %d", r.Max, r.Per, err, want)
			}
			if !regexp.MustCompile(r.pattern()).MatchString(text) {
				t.Errorf("the schema refuses it: %s", r.pattern())
			}
		})
	}
}
