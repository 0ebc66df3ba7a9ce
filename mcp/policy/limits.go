package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Limits are the engineering limits of a resource: what may be written to it, whoever
// writes. They describe equipment and permit nothing. The broker does not see the value;
// it hands the limits out with every decision that allows, and the provider applies them.
// The zero Limits limit nothing.
type Limits struct {
	// MinValue and MaxValue are numbers as JSON writes them; empty is no bound.
	MinValue json.Number `json:"minValue,omitempty"`
	MaxValue json.Number `json:"maxValue,omitempty"`
	// AllowedValues are strings, numbers, booleans and null, of which the value has to be
	// one; nil is any.
	AllowedValues []json.RawMessage `json:"allowedValues,omitempty"`
	// Destinations are the levels that an operation may write to; nil is any.
	Destinations []string `json:"destinations,omitempty"`
}

// Bounds of a list of limits.
const (
	maxListed      = 256
	maxDestination = 64
)

// empty reports whether l limits nothing.
func (l *Limits) empty() bool {
	return l.MinValue == "" && l.MaxValue == "" && l.AllowedValues == nil && l.Destinations == nil
}

// check tells report everything that is wrong with l.
func (l *Limits) check(report func(format string, args ...any)) {
	low, lowOK := finite(l.MinValue, math.Inf(-1))
	high, highOK := finite(l.MaxValue, math.Inf(1))
	switch {
	case !lowOK:
		report("minValue must be a finite number")
	case !highOK:
		report("maxValue must be a finite number")
	case low > high:
		report("minValue %s is greater than maxValue %s", l.MinValue, l.MaxValue)
	}
	if n := len(l.AllowedValues); l.AllowedValues != nil && (n == 0 || n > maxListed) {
		report("allowedValues must have 1 to %d values", maxListed)
	}
	for _, v := range l.AllowedValues {
		if _, ok := scalar(v); !ok {
			report("allowedValues may only have strings, finite numbers, booleans and null")
			break
		}
	}
	if n := len(l.Destinations); l.Destinations != nil && (n == 0 || n > maxListed) {
		report("destinations must have 1 to %d names", maxListed)
	}
	for _, d := range l.Destinations {
		if d == "" || len(d) > maxDestination {
			report("destinations must be names of 1 to %d bytes", maxDestination)
			break
		}
	}
}

// finite reads a number; absent is what no number stands for.
func finite(n json.Number, absent float64) (float64, bool) {
	if n == "" {
		return absent, true
	}
	f, err := strconv.ParseFloat(string(n), 64)
	return f, err == nil && json.Valid([]byte(n)) // Go reads 0x10 and Inf too
}

// scalar returns a spelling that equal values have in common: 1 and 1.0 are one number.
func scalar(raw json.RawMessage) (key string, ok bool) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", false
	}
	switch v := v.(type) {
	case nil, bool, float64, string:
		return fmt.Sprintf("%T %v", v, v), true
	}
	return "", false
}

// intersect narrows l by m, and reports whether any value is left.
func (l *Limits) intersect(m *Limits) bool {
	low, _ := finite(l.MinValue, math.Inf(-1))
	high, _ := finite(l.MaxValue, math.Inf(1))
	if other, _ := finite(m.MinValue, math.Inf(-1)); other > low {
		low, l.MinValue = other, m.MinValue
	}
	if other, _ := finite(m.MaxValue, math.Inf(1)); other < high {
		high, l.MaxValue = other, m.MaxValue
	}
	l.AllowedValues = common(l.AllowedValues, m.AllowedValues, func(v json.RawMessage) string { key, _ := scalar(v); return key })
	l.Destinations = common(l.Destinations, m.Destinations, func(s string) string { return s })
	return low <= high && (l.AllowedValues == nil || len(l.AllowedValues) > 0) && (l.Destinations == nil || len(l.Destinations) > 0)
}

// common returns the elements of x that y has too, as a list of its own; a nil list has
// everything.
func common[E any](x, y []E, key func(E) string) []E {
	if x == nil {
		return slices.Clone(y)
	}
	if y == nil {
		return x
	}
	has := map[string]bool{}
	for _, e := range y {
		has[key(e)] = true
	}
	both := []E{}
	for _, e := range x {
		if has[key(e)] {
			both = append(both, e)
		}
	}
	return both
}
