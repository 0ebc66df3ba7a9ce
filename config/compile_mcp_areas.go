package config

import (
	"regexp"
	"slices"
	"strings"
)

// segmentName is a segment {name} of an area's pattern.
var segmentName = regexp.MustCompile(`\{([^{}/]+)\}`)

// resourceLimits checks the operator's engineering limits.
func (k *compiler) resourceLimits(list []ResourceLimit) {
	ids := map[string]*string{}
	for i := range list {
		l := &list[i]
		k.onceID(ids, &l.ID)
		if code, err := checkResource(segmentName.ReplaceAllString(l.Pattern, "*")); err != nil {
			k.problem(&l.Pattern, code, "%v", err)
		}
		var names []string
		for _, m := range segmentName.FindAllStringSubmatch(l.Pattern, -1) {
			names = append(names, m[1])
		}
		for j := range l.Where {
			w := &l.Where[j]
			if !slices.Contains(names, w.Segment) {
				k.problem(w, CodeReference, "the pattern has no segment {%s}%s", w.Segment, suggestion(w.Segment, names))
			}
			if _, err := regexp.Compile(w.Expression); err != nil {
				k.problem(&w.Expression, CodeValue, "is no expression of Go's, which has no backreferences and no lookaround: %v", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
			}
		}
		k.engineering(&l.Limits)
	}
}

func (k *compiler) engineering(e *EngineeringLimits) {
	if e.MinValue == nil && e.MaxValue == nil && e.AllowedValues == nil && len(e.Destinations) == 0 {
		k.problem(e, CodeRequired, "limits nothing; give minValue, maxValue, allowedValues or destinations")
	}
	low, hasLow := k.number(&e.MinValue)
	high, hasHigh := k.number(&e.MaxValue)
	if hasLow && hasHigh && low > high {
		k.problem(&e.MinValue, CodeConflict, "is above maxValue, so that nothing could be written")
	}
	if e.AllowedValues == nil {
		return
	}
	values, ok := e.AllowedValues.Value.([]any)
	if !ok || len(values) == 0 || slices.ContainsFunc(values, compound) {
		k.problem(&e.AllowedValues, CodeType, "must be a list of texts, numbers, true, false and null, with one at least")
	}
}

// compound reports whether a value has parts.
func compound(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return true
	}
	return false
}

// number returns a free value as a number, and reports what is none.
func (k *compiler) number(field **Free) (n float64, ok bool) {
	if *field == nil {
		return 0, false
	}
	switch v := (*field).Value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	k.problem(field, CodeType, "must be a number")
	return 0, false
}
