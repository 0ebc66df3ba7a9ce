package upstream

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Dimension is what an upstream counts, such as "requests", "tokens", "input-tokens" or
// "output-tokens", as its header names it. Empty is not said.
type Dimension string

// The dimensions that most providers have.
const (
	Requests     Dimension = "requests"
	Tokens       Dimension = "tokens"
	InputTokens  Dimension = "input-tokens"
	OutputTokens Dimension = "output-tokens"
)

// A Standing is how far an upstream says that one of its limits is used.
type Standing struct {
	Dimension Dimension
	// Per is the period of the limit, if the header names it: a minute, a day, a month.
	// Zero is not said.
	Per time.Duration
	// Limit and Remaining are units of the dimension; -1 is not said. Some providers send
	// -1 themselves where they do not know, and some round to a thousand.
	Limit, Remaining int64
	// Reset is how long until the limit is full again, if HasReset.
	Reset    time.Duration
	HasReset bool
}

// Exhausted reports whether nothing is left by the upstream's own word.
func (s *Standing) Exhausted() bool {
	return s.Remaining == 0 && (s.Limit > 0 || s.HasReset)
}

// Standings reads the rate-limit fields of an answer, those of every family that is known:
// x-ratelimit-* (OpenAI, Azure, Groq, Cerebras, Mistral, OpenRouter), anthropic-ratelimit-*,
// x-ratelimitbysize-*, x-endpoint-* (Cohere), and RateLimit with RateLimit-Policy
// (draft-ietf-httpapi-ratelimit-headers). What cannot be read is left out. They are in the
// order of their dimensions. At most maxStandings are read of one answer.
func Standings(h http.Header, received time.Time) []Standing {
	r := reading{now: sent(h, received), byName: map[string]*Standing{}}
	for name, values := range h {
		if len(values) == 0 {
			continue
		}
		name = strings.ToLower(name)
		if part, dimension, ok := fieldOf(name); ok {
			r.set(part, dimension, values[0])
		}
	}
	list := r.list()
	return append(list, drafts(h)...)
}

const maxStandings = 32

// A reading collects the parts of each limit.
type reading struct {
	now    time.Time
	byName map[string]*Standing
}

func (r *reading) set(part, dimension, value string) {
	s := r.byName[dimension]
	if s == nil {
		if len(r.byName) >= maxStandings {
			return
		}
		s = &Standing{Limit: -1, Remaining: -1}
		s.Dimension, s.Per = spanOf(dimension)
		r.byName[dimension] = s
	}
	switch part {
	case "limit":
		s.Limit = count(value)
	case "remaining":
		s.Remaining = count(value)
	case "reset":
		if d, ok := ParseDelay(value, r.now); ok { // two spellings of one field: the later counts
			s.Reset, s.HasReset = max(s.Reset, d), true
		}
	}
}

func (r *reading) list() []Standing {
	var list []Standing
	for _, s := range r.byName {
		if s.Limit >= 0 || s.Remaining >= 0 || s.HasReset {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(a.Dimension, b.Dimension), cmp.Compare(a.Per, b.Per))
	})
	return list
}

// count reads a number of units; -1 is one that cannot be read, or that the provider does
// not know itself.
func count(value string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// odd are fields whose names follow no pattern.
var odd = map[string][2]string{
	"x-rate-limit-reset-tokens":          {"reset", "tokens"}, // Azure
	"x-ratelimitbysize-limit-minute":     {"limit", "tokens-minute"},
	"x-ratelimitbysize-remaining-minute": {"remaining", "tokens-minute"},
	"ratelimitbysize-reset":              {"reset", "tokens-minute"},
	"x-endpoint-monthly-call-limit":      {"limit", "requests-month"},
	"x-trial-endpoint-call-limit":        {"limit", "requests-trial"},
	"x-trial-endpoint-call-remaining":    {"remaining", "requests-trial"},
}

// fieldOf returns which part of which limit a header field tells. The name is in lower case.
func fieldOf(name string) (part, dimension string, ok bool) {
	if f, is := odd[name]; is {
		return f[0], f[1], true
	}
	for _, family := range []string{"x-ratelimit-", "ratelimit-"} { // the latter in older drafts
		if rest, is := strings.CutPrefix(name, family); is {
			part, dimension, _ = strings.Cut(rest, "-")
			return part, cmp.Or(dimension, "requests"), isPart(part)
		}
	}
	for _, family := range []string{"anthropic-ratelimit-", "anthropic-priority-", "anthropic-fast-"} {
		if rest, is := strings.CutPrefix(name, family); is {
			i := strings.LastIndexByte(rest, '-')
			if i < 0 || !isPart(rest[i+1:]) {
				return "", "", false
			}
			dimension = rest[:i]
			if family != "anthropic-ratelimit-" {
				dimension = strings.TrimSuffix(strings.TrimPrefix(family, "anthropic-"), "-") + "-" + dimension
			}
			return rest[i+1:], dimension, true
		}
	}
	return "", "", false
}

func isPart(s string) bool { return s == "limit" || s == "remaining" || s == "reset" }

// spanOf takes the period from a dimension's name: "tokens-minute" counts tokens.
func spanOf(name string) (Dimension, time.Duration) {
	for suffix, per := range map[string]time.Duration{
		"-minute": time.Minute, "-hour": time.Hour, "-day": 24 * time.Hour, "-month": Longest,
	} {
		if rest, ok := strings.CutSuffix(name, suffix); ok {
			return dimensionOf(rest), per
		}
	}
	return dimensionOf(name), 0
}

func dimensionOf(name string) Dimension {
	if name == "req" {
		return Requests // Mistral
	}
	return Dimension(name)
}
