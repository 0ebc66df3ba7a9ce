package wire

import (
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
)

// The fields of draft-ietf-httpapi-ratelimit-headers are structured fields (RFC 9651).

// maxInteger is the largest integer of a structured field.
const maxInteger = 999_999_999_999_999

func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}

// appendBare appends what stands between the quotes of a string. Bytes that a string
// cannot hold become "_": a name is for telling limits apart, and no reason to send no field at all.
func appendBare[S ~string](b []byte, s S) []byte {
	done := 0
	for i := range len(s) {
		c := s[i]
		if ' ' <= c && c <= '~' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[done:i]...)
		done = i // a quote or backslash goes out behind its backslash
		if c == '"' || c == '\\' {
			b = append(b, '\\')
		} else {
			b = append(b, '_')
			done++
		}
	}
	return append(b, s[done:]...)
}

// appendLimits appends a RateLimit list of revision 10: `"burst";r=0;t=7, "slots";r=2`.
// t is when more quota comes back. A refusal leaves it out for limits that have some
// left, because no t may be later than Retry-After.
func (r *report) appendLimits(b []byte) []byte {
	start := len(b)
	for i := range r.levels {
		l := &r.levels[i]
		if !shown(l) {
			continue
		}
		if len(b) > start {
			b = append(b, ", "...)
		}
		b = appendName(b, r.levels, i)
		b = append(b, ";r="...)
		b = appendInteger(b, l.Remaining)
		if l.Next > 0 && l.Kind != slots && (!r.refused || l.Refused || l.Remaining == 0) {
			b = append(b, ";t="...)
			b = appendInteger(b, ceil(l.Next, time.Second))
		}
	}
	return b
}

// appendPolicies appends a RateLimit-Policy list of revision 10:
// `"burst";q=100;w=60, "slots";q=5;qu="concurrent-requests"`.
func (r *report) appendPolicies(b []byte) []byte {
	start := len(b)
	for i := range r.levels {
		l := &r.levels[i]
		if !shown(l) {
			continue
		}
		if len(b) > start {
			b = append(b, ", "...)
		}
		b = appendName(b, r.levels, i)
		b = append(b, ";q="...)
		b = appendInteger(b, l.Limit)
		switch {
		case l.Kind == slots:
			b = append(b, `;qu="concurrent-requests"`...)
		case l.Unit == sluice.Bytes:
			b = append(b, `;qu="content-bytes"`...)
		case l.Unit != "" && l.Unit != sluice.Calls:
			b = append(b, `;qu="`...)
			b = appendBare(b, l.Unit)
			b = append(b, '"')
		}
		b = appendWindow(b, l)
	}
	return b
}

// appendWindow appends w, whole seconds and at least one. A bucket's is rounded up; an
// exact window below a second has none that would be true.
func appendWindow(b []byte, l *sluice.Level) []byte {
	if l.Window <= 0 || l.Window < time.Second && l.Kind != bucket {
		return b
	}
	b = append(b, ";w="...)
	return appendInteger(b, ceil(l.Window, time.Second))
}

// appendName appends the name of a policy.
func appendName(b []byte, levels []sluice.Level, i int) []byte {
	rule, name := policyName(levels, i)
	b = append(b, '"')
	b = appendBare(b, rule)
	if name != "" {
		b = append(b, ':')
		b = appendBare(b, name)
	}
	return append(b, '"')
}

// policyName returns the two parts of a policy's name: its rule's, and its limit's if the
// rule has several. The levels of one rule stand together.
func policyName(levels []sluice.Level, i int) (rule, name string) {
	l := &levels[i]
	if i > 0 && levels[i-1].Rule == l.Rule || i+1 < len(levels) && levels[i+1].Rule == l.Rule {
		return l.Rule, l.Name
	}
	return l.Rule, ""
}

// appendDraft7 appends the RateLimit dictionary of revision 07.
func (r *report) appendDraft7(b []byte) []byte {
	b = append(b, "limit="...)
	b = appendInteger(b, r.tight.Limit)
	b = append(b, ", remaining="...)
	b = appendInteger(b, r.tight.Remaining)
	if wait, known := r.reset(); known {
		b = append(b, ", reset="...)
		b = appendInteger(b, ceil(wait, time.Second))
	}
	return b
}

// appendOldPolicies appends the RateLimit-Policy list of revisions 04 to 07, in which
// policies have no names: `100;w=60, 1000;w=86400`.
func (r *report) appendOldPolicies(b []byte) []byte {
	start := len(b)
	for i := range r.levels {
		l := &r.levels[i]
		if !shown(l) {
			continue
		}
		if len(b) > start {
			b = append(b, ", "...)
		}
		b = appendInteger(b, l.Limit)
		b = appendWindow(b, l)
	}
	return b
}
